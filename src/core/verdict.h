/* What an answer of OpenFGA, or of who issues tokens for it, means. HTTP's own classes mislead: an unknown store
 * answers 400, an over-long body 500. */
#ifndef RELAY_CORE_VERDICT_H
#define RELAY_CORE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/fault.h"

#define VERDICTS(X) \
	X(DELIVERED, "delivered") /* accepted */ \
	X(RETRY, "retry")         /* the destination's fault: no row is charged */ \
	X(SPLIT, "split")         /* something in this request is bad: try smaller ones */ \
	X(REJECTED, "rejected")   /* what SPLIT becomes for a request that cannot be smaller */ \
	X(HALT, "halt")           /* configuration: somebody must mend it; no row is charged */

enum verdict {
#define X(name, text) VERDICT_##name,
	VERDICTS(X)
#undef X
};

#define VERDICT_COUNT 5

const char *verdict_name(enum verdict v);

/* What else the caller should know of an answer. */
enum hint {
	HINT_NONE,
	HINT_RACE,   /* RETRY: two writers of one tuple; this request alone, at once, with jitter */
	HINT_PROBE,  /* RETRY: an internal error; HALT: a message that a condition's context can counterfeit. When it
	              * lasts although a probe succeeds, treat as SPLIT */
	HINT_SLOWER, /* RETRY: the server is overloaded; with less in flight */
	HINT_SIZE,   /* SPLIT: too large; a single row is cut into several requests before it is refused */
	HINT_OLD,    /* SPLIT: a server before 1.10, which does not know the options: down to single tuples */
	HINT_EXISTS, /* DELIVERED, says such a server, if the tuple has the condition that it should: see existing.h */
	HINT_AUTH,   /* HALT: the credentials; the same request with fresh ones may do better */
	HINT_BUG,    /* SPLIT: relay sent something that it never should; log it as a bug */
};

/* How a request ended. */
enum transport {
	TRANSPORT_ANSWERED, /* an HTTP status and the whole body are there */
	TRANSPORT_NOT_SENT, /* no connection: certainly not carried out */
	TRANSPORT_LOST,     /* sent, at least in part, and no whole answer: carried out or not */
	TRANSPORT_NO_TOKEN, /* there is no token to send it with: certainly not carried out */
};

struct judgement;

struct answer {
	enum transport transport;
	int status;                    /* HTTP; 0 unless answered */
	struct str body;               /* its beginning, where it was longer than the reader's bound */
	bool truncated;                /* the body was longer */
	struct str location;           /* of a redirect, else empty */
	struct str retry_after;        /* the header's value, else empty */
	struct str date;               /* the same */
	const char *error;             /* what the transport said; NULL when answered */
	int64_t sent_ms;               /* of the monotonic clock: when it was sent, the last time; 0: it was not */
	bool resent;                   /* and it had been sent before, on a connection that ended without an answer */
	const struct judgement *token; /* NO_TOKEN: what became of it, RETRY or HALT */
	const char *secrets[2];        /* what was sent that may come back and must not be shown; NULL: nothing */
};

struct judgement {
	enum verdict verdict;
	enum hint hint;
	bool unknown;           /* it may have been carried out, or may still be */
	int64_t retry_after_ms; /* RETRY: not before; 0 where nothing was said; at most VERDICT_MAX_RETRY_AFTER_MS */
	unsigned tuple_limit;   /* HINT_SIZE: the server's limit of tuples a request where it named one; else 0 */
	struct fault fault;     /* SPLIT, REJECTED: what it names as the reason */
	char reason[512];       /* one line of valid UTF-8; no secret */
};

enum { VERDICT_MAX_RETRY_AFTER_MS = 5 * 60 * 1000 };

/* The answer to POST /stores/{store}/write with `tuples` tuples (1: a single one, where "already exists" and "does not
 * exist" of a server before 1.10 are DELIVERED, the former with HINT_EXISTS). wall_ms: the time since 1970, for dates
 * in Retry-After. Pure. */
void verdict_write(const struct answer *a, unsigned tuples, int64_t wall_ms, struct judgement *out);

/* The answer to a question about the configuration: GET /stores/{id}, GET /stores/{id}/authorization-models/{id}, or a
 * list of either. DELIVERED: it is in order (a 200 with a JSON object); else RETRY or HALT. `what` names it in the
 * reason: "store 01J…". */
void verdict_check(const struct answer *a, const char *what, int64_t wall_ms, struct judgement *out);

/* A token endpoint's answer (RFC 6749, section 5). DELIVERED: a 200 with a JSON object, in which a token should be;
 * else RETRY or HALT. */
void verdict_token(const struct answer *a, int64_t wall_ms, struct judgement *out);

#endif
