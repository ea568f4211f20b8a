/* How a relay learns of rows without making the application pay for it.
 *
 * A commit that notifies takes one lock for the whole cluster, so commits no longer overlap. Hence a relay that is busy
 * hushes the trigger: it holds advisory lock K, the trigger's function tries K and notifies only if it could have it,
 * and until K is let go the relay looks for rows without being told. Whoever met the hush is a writer at that moment
 * (see writers.h), so before it goes to sleep a relay settles: K is let go; then the writers are noted; once they are
 * gone, one more claim sees whatever they left. Sound only in this order (tests/model proves it).
 *
 *   LOUD       the trigger notifies
 *   TAKING     K is being tried
 *   HUSHED     K is held: claims go on, found or not
 *   RELEASING  K is being let go, and the writers noted behind it
 *   SETTLING   the noted ones are waited for; the trigger notifies, and K may be tried again
 *
 * A relay that begins to listen settles as well: it, or whoever was before it, may have died hushing. */
#ifndef RELAY_CORE_WAKE_H
#define RELAY_CORE_WAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/writers.h"

#define WAKE_STATES(X) \
	X(LOUD, "loud") \
	X(TAKING, "taking") \
	X(HUSHED, "hushed") \
	X(RELEASING, "releasing") \
	X(SETTLING, "settling")

enum wake_state {
#define X(name, text) WAKE_##name,
	WAKE_STATES(X)
#undef X
};

enum {
	WAKE_BUSY_CLAIMS = 16, /* that found rows, with no moment of rest between them: busy */
	WAKE_LINGER_MS = 30,   /* without a row, before the hush ends */
	WAKE_POLL_MS = 20,     /* from a claim that left nothing behind to the next one, while hushed: rows gather */
	WAKE_SHARE_MS = 100,   /* from one notification for the other relays to the next, while hushed */
	WAKE_MIN_RETRY_MS = 5, /* after K was not to be had; doubled from try to try */
	WAKE_MAX_RETRY_MS = 500,
	WAKE_MIN_WAIT_MS = 2, /* for writers; doubled from look to look */
	WAKE_MAX_WAIT_MS = 500,
};

struct wake {
	enum wake_state state;
	bool can_hush;          /* the listening session is one of its own, and notifications arrive on it */
	bool needs_help;        /* since the last sharing a claim left rows behind, or none came back */
	unsigned streak;        /* claims that found rows since the last moment of rest */
	int64_t empty_ms;       /* since when claims find nothing; INT64_MAX: the last one found rows */
	int64_t try_ms;         /* K is not tried before */
	int64_t retry_ms;       /* how long it was waited for the last time */
	int64_t share_ms;       /* when the others are told next */
	int64_t poll_ms;        /* when a claim is due that nobody asked for */
	int64_t look_ms;        /* when to look again who writes; INT64_MAX: it was asked */
	int64_t wait_ms;        /* from look to look */
	struct writers writers; /* that are waited for */
};

/* What is to be sent on the listening connection; the state tells that it was. */
enum wake_ask {
	WAKE_NOTHING,
	WAKE_TRY,     /* try K; the answer goes to wake_tried */
	WAKE_RELEASE, /* let K go, then ask for the writers; the answer goes to wake_writers */
	WAKE_LOOK,    /* ask for the writers; the answer goes to wake_writers */
	WAKE_SHARE,   /* notify the other relays */
};

/* {0} is valid: loud, not listening. */
void wake_fini(struct wake *w);

/* LISTEN is in force on a new connection: settling begins. */
void wake_listening(struct wake *w);

/* The listening connection is gone, and K with it, sooner or later. Returns whether K may have been held. */
bool wake_lost(struct wake *w);

/* A claim's result: it found rows; it left some behind. */
void wake_claimed(struct wake *w, size_t found, bool was_full, int64_t now_ms);

/* A moment of rest: nothing is under way, and nothing is known to be pending. */
void wake_idle(struct wake *w);

/* What is to be sent now. may_claim: false while the destination is away: then another relay has to be woken. */
enum wake_ask wake_next(struct wake *w, bool may_claim, int64_t now_ms);

/* The answers. True: a claim has to look once more. */
bool wake_tried(struct wake *w, bool got_it, int64_t now_ms);
bool wake_writers(struct wake *w, const char *list, int64_t now_ms);

/* Whether a claim is due though nobody told of rows; says so once a poll. */
bool wake_polls(struct wake *w, int64_t now_ms);

/* When wake_next or wake_polls will have something; INT64_MAX: not by time. */
int64_t wake_due_ms(const struct wake *w);

#endif
