/* OpenFGA over HTTP, with the token that it wants to see. It sends what it is told and says how that ended; what it
 * means is core/verdict's. */
#ifndef RELAY_IO_FGA_H
#define RELAY_IO_FGA_H

#include <event2/event.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"
#include "base/str.h"
#include "core/verdict.h"
#include "io/credentials.h"
#include "io/http.h"

struct fga;

struct fga_config {
	const char *api_url;
	struct credentials_config credentials;
	struct http_config http;
};

/* What the options say, for so many requests at a time; it lives as long as they do. */
void fga_configure(struct fga_config *config, const struct options *o, unsigned max_requests);

/* How a request ended; the answer and what it points to live until fn returns. fn may begin new requests. */
typedef void fga_answer_fn(void *arg, const struct answer *a);

/* The configuration's strings have to live as long as it. NULL and ERR_CONFIG when curl cannot work with them. */
struct fga *fga_new(struct event_base *base, const struct fga_config *config, struct err *e) MUST_CHECK;

/* Ends every request without calling anything. NULL is nothing. Not to be called from an fga_answer_fn. */
void fga_free(struct fga *f);

/* Begins a request to the API's address followed by `path` ("/stores/01J…/write"); fn is called once, later. The body
 * is copied; fga_post sends it as JSON. Whoever calls bounds how many are under way. A request waits for a token where
 * one has to be fetched; one that is refused for its token is sent once more when there is a fresh one. */
void fga_post(struct fga *f, const char *path, struct str body, fga_answer_fn *fn, void *arg);
void fga_get(struct fga *f, const char *path, fga_answer_fn *fn, void *arg);

/* Adds text to a path and, behind it, a value with everything escaped that a URL does not take (RFC 3986, section 2.1).
 */
void fga_add_escaped(struct buf *path, const char *text, const char *value);

/* The credentials may have been mended: reads their files again, and does without the token of before. */
void fga_renew(struct fga *f);

#endif
