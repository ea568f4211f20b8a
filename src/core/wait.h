/* Who waits for which rows to be delivered, until when, and what Postgres is to be asked meanwhile.
 *
 * What this relay marks ends a wait at once. What others mark is found by asking: one question at a time, for the rows
 * of all waits that are due for it; a wait is due a short while after its beginning, since the relay's own mark comes
 * sooner, and then less and less often. Without waits nothing is asked and nothing falls due. */
#ifndef RELAY_CORE_WAIT_H
#define RELAY_CORE_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/str.h"
#include "core/wait_query.h"

enum {
	WAIT_MOST = 500,         /* at a time: each keeps a connection, of the 1,024 descriptors that a process has */
	WAIT_MOST_IDS = 10000,   /* of all of them */
	WAIT_MOST_ASKED = 1000,  /* ids in one question */
	WAIT_FIRST_MS = 20,      /* from the beginning to the first question */
	WAIT_LONGEST_MS = 250,   /* from an answer to the next question: doubled up to it */
	WAIT_STEP_MS = 10,       /* questions fall due at multiples of it, so that one has many waits' rows */
	WAIT_SILENCE_MS = 1000,  /* what is not answered by then is taken for no answer */
	WAIT_RECENT = 1024,      /* ids that were marked last */
	WAIT_REASON_BYTES = 1024 /* as last_error */
};

/* How a wait ends: name, HTTP's code, "status" in the answer. */
#define WAIT_ENDS(X) \
	X(DELIVERED, 200, "delivered") \
	X(MISSING, 404, "missing")   /* there is no such row, or its transaction is not committed */ \
	X(REFUSED, 409, "refused")   /* now or before, and it is still pending */ \
	X(SILENT, 503, "unknown")    /* the time is over, and Postgres did not answer */ \
	X(STOPPED, 503, "unknown")   /* the relay ends */ \
	X(TIME_OVER, 504, "pending") /* as far as is known */

enum wait_end {
#define X(name, code, status) WAIT_##name,
	WAIT_ENDS(X)
#undef X
};

struct wait;
struct awaited;
LIST_HEAD(wait_list, wait);

/* All waits; {0} is empty and valid. Times: milliseconds of a monotonic clock. */
struct waits {
	struct awaited *rows; /* by id */
	struct wait_list open;
	struct wait_list ended; /* for wait_next */
	size_t n;               /* of both lists */
	size_t n_ids;           /* that are waited for: of each wait */
	int64_t over_ms;        /* no wait's time is over before it; may be too early */
	int64_t ask_ms;         /* likewise: none is due for a question */
	uint64_t question;      /* the last one's number */
	bool asking;            /* it is under way */
	int64_t wanted_ms;      /* since when an answer is wanted; 0: none is */
	/* Marked last, by id modulo their number: who asks for one comes after its mark, and need not wait for the
	 * first question. Only a hint, since a table can be emptied, and its ids begin again. */
	int64_t recent[WAIT_RECENT];
};

/* A wait, which its holder knows by a number of its own. False: there are too many, and nothing has changed. */
bool wait_begin(struct waits *w, uint64_t number, const struct wait_query *query, int64_t now_ms) MUST_CHECK;

/* Nobody wants to know any more. Nothing when there is no such wait. */
void wait_forget(struct waits *w, uint64_t number);

/* The row was marked as delivered, and that is committed. */
void wait_delivered(struct waits *w, int64_t id);

/* The row was refused, and that is committed. */
void wait_refused(struct waits *w, int64_t id, struct str reason);

/* Whether there is a question to ask; while one is under way, there is none. */
bool wait_wants_question(struct waits *w, int64_t now_ms);

/* Begins a question: ids becomes an array literal of the rows that it is about. */
void wait_ask(struct waits *w, int64_t now_ms, struct buf *ids);

/* A row as the question found it. */
struct wait_found {
	int64_t id;
	bool is_delivered;
	bool was_refused; /* it is pending, with attempts and a reason */
	struct str reason;
};
void wait_found(struct waits *w, const struct wait_found *found);

/* The question is answered: wait_found was told of every row that there is. A wait that began after it was asked takes
 * only deliveries from it. */
void wait_answered(struct waits *w, int64_t now_ms);

/* The question comes to no answer. Nothing when there is none. */
void wait_unanswered(struct waits *w);

/* Ends every wait: the relay stops. */
void wait_stop(struct waits *w);

/* What to answer a wait that has come to its end. */
struct wait_answer {
	uint64_t number;
	int code;        /* HTTP's */
	struct buf body; /* {"status":…,"ids":[those it is about], "reason":… where there is one}, and a newline */
};

/* Takes the next wait that has come to its end, and forgets it; the caller frees the body. False: there is none. */
bool wait_next(struct waits *w, int64_t now_ms, struct wait_answer *answer) MUST_CHECK;

/* When wait_next, or where something can be asked, wait_wants_question, will have something by time alone; INT64_MAX:
 * not by time. */
int64_t wait_due_ms(const struct waits *w, bool can_ask);

/* Adds the body for a request that begins no wait. */
void wait_write_error(const char *status, const char *why, struct buf *body);

void wait_free(struct waits *w);

#endif
