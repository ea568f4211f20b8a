/* HTTP: curl's multi interface on the loop. It sends what it is told and says how that ended. */
#ifndef RELAY_IO_HTTP_H
#define RELAY_IO_HTTP_H

#include <event2/event.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/verdict.h"

struct http;

struct http_config {
	const char *ca_file; /* NULL: the system's */
	int64_t connect_timeout_ms;
	int64_t request_timeout_ms;
	unsigned max_connections;
};

/* The most of an answer's body that is kept: a tuple with a context of 32 KiB, every byte of it escaped, is whole. */
enum { HTTP_MAX_BODY = 256 * 1024 };

struct http_request {
	const char *url;
	const struct str *body;     /* NULL: a GET, else a POST; its bytes have to live until fn is called */
	const char *const *headers; /* "Name: value" each, NULL at the end */
	const char *bearer;         /* sent as "Authorization: Bearer …"; NULL: nothing is */
	const char *secret;         /* what else is sent that nobody may see; NULL: nothing */
};

/* How a request ended; the answer and what it points to live until fn returns. fn may begin new requests. */
typedef void http_answer_fn(void *arg, const struct answer *a);

/* The configuration's strings have to live as long as it. NULL and ERR_CONFIG when curl cannot work with them. */
struct http *http_new(struct event_base *base, const struct http_config *config, struct err *e) MUST_CHECK;

/* Ends every request without calling anything. NULL is nothing. Not to be called from an http_answer_fn. */
void http_free(struct http *h);

/* Begins a request; fn is called once, later. Whoever calls bounds how many are under way. */
void http_send(struct http *h, const struct http_request *r, http_answer_fn *fn, void *arg);

#endif
