/* What is shown to OpenFGA so that it lets relay in: nothing, a preshared key, or tokens that a client gets from an
 * issuer. It fetches, and reads files; when, is core/token's to decide. */
#ifndef RELAY_IO_CREDENTIALS_H
#define RELAY_IO_CREDENTIALS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/token.h"
#include "core/verdict.h"
#include "io/http.h"

struct credentials;

struct credentials_config {
	const char *key;            /* preshared; NULL: none */
	const char *key_file;       /* where it was read from; NULL: not from a file */
	struct token_client client; /* its id NULL: none */
	const char *secret_file;    /* where the client's secret was read from, or NULL */
};

/* A fetch that requests may wait for has ended: failure says why there is no token; NULL: there is one. */
typedef void credentials_fn(void *arg, const struct judgement *failure);

/* The configuration's strings, and http, have to live as long as it. */
struct credentials *credentials_new(struct event_base *base, struct http *http, const struct credentials_config *config,
                                    credentials_fn *fn, void *arg);

/* NULL is nothing. Only after http was freed, which ends a fetch. */
void credentials_free(struct credentials *c);

struct credential {
	const char *token; /* NULL: none is needed. It lives until the next turn of the loop */
	uint64_t generation;
};

/* What to send now. False: a token is being fetched, and fn is called once that has ended, never from within. */
bool credentials_get(struct credentials *c, struct credential *out);

/* What OpenFGA answered to a request that was sent with a token of this generation. True: that token was refused, and
 * credentials_get has, or will have, a fresh one. */
bool credentials_answered(struct credentials *c, uint64_t generation, const struct answer *a);

/* Somebody may have mended them: the files are read again, and a fetched token is fetched anew. */
void credentials_renew(struct credentials *c);

#endif
