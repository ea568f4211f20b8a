/* The token that OpenFGA is shown: when one must be fetched or renewed, what the issuer's answer means, and what it
 * means that OpenFGA refuses one. Client credentials: RFC 6749, section 4.4. No token gets into a reason. */
#ifndef RELAY_CORE_TOKEN_H
#define RELAY_CORE_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/str.h"
#include "core/verdict.h"

/* Who fetches tokens, and where. */
struct token_client {
	const char *issuer;
	const char *id;
	const char *secret;
	const char *audience; /* NULL: none */
	const char *scopes;   /* with blanks between them; NULL: none */
};

/* Adds the address of the token endpoint: the issuer's, with https where it names no scheme and /oauth/token where it
 * has no path. */
void token_url(const char *issuer, struct buf *out);

/* Adds the request for a token, as application/x-www-form-urlencoded. */
void token_form(const struct token_client *client, struct buf *out);

enum {
	TOKEN_DEFAULT_LIFETIME_MS = 5 * 60 * 1000, /* where the issuer does not say */
	TOKEN_MAX_MARGIN_MS = 60 * 1000,           /* it is renewed a tenth of its lifetime before its end, or this */
	TOKEN_RETRY_MIN_MS = 100,                  /* between two tries to renew it */
	TOKEN_RETRY_MAX_MS = 5000,
	TOKEN_KEEP_MIN_MS = 1000, /* see token_refused */
	TOKEN_KEEP_MAX_MS = 60 * 1000,
};

/* {0}: there is none. A preshared key is a token that never ends. */
struct token {
	char *value;
	uint64_t generation; /* which one value is, or was before it was dropped: 1, 2, …; 0 before the first */
	bool fetching;
	int64_t asked_ms; /* when the last fetch was begun; a lifetime is counted from there */
	int64_t expires_ms;
	int64_t renew_ms;   /* from then on a new one is fetched, while this one still serves */
	int64_t kept_to_ms; /* until then it is kept though it is refused */
	unsigned failures;  /* to renew it, in a row */
	unsigned refused;   /* tokens in a row that were dropped because they were refused */
};

void token_fini(struct token *t);

/* A preshared key, the first or a new one; it is copied. */
void token_set(struct token *t, const char *key);

/* Whether it may be shown now. Otherwise one must be fetched before anything is sent. */
bool token_is_good(const struct token *t, int64_t now_ms);

/* When to fetch a new one though nobody waits for it; INT64_MAX: not by time. */
int64_t token_due_ms(const struct token *t);

/* A fetch was begun; none is under way. */
void token_asked(struct token *t, int64_t now_ms);

/* How it ended. *out: DELIVERED with a new token, else RETRY or HALT with a reason that says what to check; a token
 * from before then serves to its end. */
void token_answered(struct token *t, const struct answer *a, int64_t now_ms, int64_t wall_ms, struct rng *rng,
                    struct judgement *out);

/* OpenFGA took, or refused (401), a token of this generation. token_refused: whether a fresh one may do better; the
 * refused one is then dropped. A token that was never taken and comes after one that was refused as well is not stale:
 * it is kept for a while, longer each time, so that a wrong setting does not cost a fetch for every try. */
void token_accepted(struct token *t, uint64_t generation);
bool token_refused(struct token *t, uint64_t generation, int64_t now_ms);

/* A fresh one is wanted, whatever is known of this one. */
void token_drop(struct token *t);

#endif
