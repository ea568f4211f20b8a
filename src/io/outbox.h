/* All SQL that delivering needs, on one table. */
#ifndef RELAY_IO_OUTBOX_H
#define RELAY_IO_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "io/pg.h"

enum outbox_statement {
	OUTBOX_CLAIM,       /* pending rows that are not known here, in id order */
	OUTBOX_CLAIM_THESE, /* parked rows that are due, by id */
	OUTBOX_DELIVERED,   /* the ack */
	OUTBOX_REJECTED,    /* an attempt and its reason */
	OUTBOX_BACKLOG,     /* how much is pending */
	OUTBOX_WRITERS,     /* who may still bring rows */
	OUTBOX_AWAITED,     /* what has become of rows that somebody waits for */
	OUTBOX_STATEMENTS,
};

/* Lanes need those before it. */
enum { OUTBOX_OF_LANES = OUTBOX_AWAITED };

/* The SQL for one table. */
struct outbox {
	struct pg_statement statements[OUTBOX_STATEMENTS];
	char *sql[OUTBOX_STATEMENTS]; /* the statements' texts */
	char *listen;                 /* LISTEN on the channel */
	char *hush;                   /* tries advisory lock K: while it is held the trigger does not notify */
	char *unhush;                 /* lets it go */
	char *share;                  /* notifies on the channel */
};

/* What a notification on the channel carries that asks to try refused rows now; the trigger's carry nothing. */
#define OUTBOX_REQUEUE "requeue"

/* The most that a row's payload may have, as text; a larger one is refused without being read. */
enum { OUTBOX_MAX_PAYLOAD = 8 * 1024 * 1024 };
#define OUTBOX_TOO_LARGE "the payload is larger than the 8388608 bytes that relay takes: split the row"

/* The most that a row in flight somewhere else may have for its tuples to be looked at: above a larger one everything
 * waits. */
enum { OUTBOX_MAX_THEIRS = 16 * 1024 };

/* The most that the backlog is counted up to, so that asking stays cheap. */
enum { OUTBOX_MAX_COUNT = 100000 };

/* ERR_CONFIG when a channel cannot have that name. */
bool outbox_check_channel(const char *channel, struct err *e) MUST_CHECK;

/* ERR_CONFIG when the table's or the channel's name is not one. */
bool outbox_init(struct outbox *o, const char *table, const char *channel, struct err *e) MUST_CHECK;
void outbox_fini(struct outbox *o);

/* What a claim takes. */
struct outbox_bounds {
	unsigned max_rows;
	size_t max_bytes; /* of payload; a single larger row is still taken */
	int64_t above;    /* only rows above this id, and `theirs` as well: all that are not are known */
	int64_t upto;     /* `theirs` reach to this id at least; INT64_MIN: to the claimed ones */
	const char
	    *known; /* array literal of ids above `above`: the rows that are unfinished here, parked or in flight */
	const char *these; /* array literal of parked ids: just these rows; NULL: pending rows that are not known, in id
	                      order */
	const char *seen_ids;      /* array literals of the same length: `theirs` whose payload is known, */
	const char *seen_versions; /* and the version that is */
};

/* BEGIN and a claim, in one round trip with whatever else is sent before the next pg_sync; one statement, one snapshot.
 * fn gets the claim's result, for outbox_read. */
void outbox_claim(const struct outbox *o, struct pg *pg, const struct outbox_bounds *bounds, pg_result_fn *fn,
                  void *arg);

enum outbox_whose {
	OUTBOX_MINE,   /* claimed: locked by this transaction */
	OUTBOX_THEIRS, /* pending below a claimed row, and in flight somewhere else: only its tuples matter */
	OUTBOX_SEEN,   /* the same, without its payload: the claim was told that it is known */
	OUTBOX_TAKEN,  /* one of `these` that somebody else has locked; one that does not come at all is no longer
	                  pending */
};

/* A row of a claim's result, in ascending order of ids. The payload points into the result and lives as long as it. */
struct outbox_row {
	int64_t id;
	enum outbox_whose whose;
	unsigned attempts;
	int64_t age_ms;    /* MINE: since created_at, by the server's clock, when it was claimed */
	int64_t version;   /* THEIRS, SEEN: the transaction that wrote it */
	bool is_too_large; /* more than OUTBOX_MAX_PAYLOAD, or of THEIRS OUTBOX_MAX_THEIRS: without its payload */
	struct str payload;
};

/* All of a claim's result; outbox_forget gives the memory back. */
struct outbox_rows {
	struct outbox_row *rows;
	size_t n;
	size_t mine;   /* of them */
	size_t locked; /* how many were locked for those: more where max_bytes cut the claim */
};
void outbox_read(const PGresult *result, struct outbox_rows *found);
void outbox_forget(struct outbox_rows *found);

/* Marks what was claimed and ends the transaction: delivered: array literal of ids; rejected: two array literals, of
 * ids and of reasons. Either may be NULL. fn gets COMMIT's result; a COMMIT that rolled back instead is a lost
 * connection. */
struct outbox_ack {
	const char *delivered;
	const char *rejected;
	const char *reasons;
};
void outbox_ack(const struct outbox *o, struct pg *pg, const struct outbox_ack *ack, pg_result_fn *fn, void *arg);

/* The most pending rows, and bytes of their payloads as they are stored, that are searched for one that deletes. */
enum { OUTBOX_MAX_SEARCHED = 1000, OUTBOX_MAX_SEARCHED_BYTES = 8 * 1024 * 1024 };

/* How much is pending, and for how long; 0 when nothing is. */
struct outbox_pending {
	int64_t rows; /* up to OUTBOX_MAX_COUNT */
	double oldest_age_seconds;
	double oldest_delete_age_seconds; /* of the rows that delete; see OUTBOX_MAX_SEARCHED */
};

/* Asks how much is pending, and notifies on a channel with a payload, unless channel is NULL; a transaction of its own.
 * fn gets the result, for outbox_read_backlog. */
void outbox_backlog(const struct outbox *o, struct pg *pg, const char *channel, const char *payload, pg_result_fn *fn,
                    void *arg);
void outbox_read_backlog(const PGresult *result, struct outbox_pending *pending);

/* Asks who may still bring rows; a transaction of its own. fn gets the result, for outbox_read_writers. */
void outbox_writers(const struct outbox *o, struct pg *pg, pg_result_fn *fn, void *arg);

/* list: as writers_note takes it; it lives as long as the result. in_order: the table's ids come one by one from a
 * sequence that goes up, so whoever has a lower one drew it earlier. */
void outbox_read_writers(const PGresult *result, const char **list, bool *in_order);

/* Asks what has become of rows; ids: array literal; a transaction of its own. fn gets the result: a row of it for each
 * one that there is, for outbox_read_awaited. */
void outbox_awaited(const struct outbox *o, struct pg *pg, const char *ids, pg_result_fn *fn, void *arg);

/* Such a row; the reason lives as long as the result. */
struct outbox_awaited {
	int64_t id;
	bool is_delivered;
	bool was_refused; /* it is pending, with attempts and a last_error */
	struct str reason;
};
void outbox_read_awaited(const PGresult *result, int row, struct outbox_awaited *found);

/* Sends one of the texts above, outside of a transaction. */
void outbox_say(struct pg *pg, const char *text, pg_result_fn *fn, void *arg);

/* Asks which session this is, and has the server notice soon when nobody is there any more. fn gets the result, for
 * outbox_read_session. */
void outbox_session(struct pg *pg, pg_result_fn *fn, void *arg);

/* A session, for good: process ids come again. */
struct outbox_session {
	int pid;            /* 0: none */
	int64_t started_us; /* since 1970 */
};
void outbox_read_session(const PGresult *result, struct outbox_session *of);

/* Ends a session that was this relay's own where the server does not know yet that nobody is there, and waits for that
 * for a while: it may hold K, or come to it. Another user's session is left alone. */
void outbox_end_session(struct pg *pg, const struct outbox_session *of, pg_result_fn *fn, void *arg);

/* Whether K was to be had. */
bool outbox_read_hush(const PGresult *result);

/* Adds s as an element of a Postgres array literal. */
void outbox_add_element(struct buf *array, struct str s);

#endif
