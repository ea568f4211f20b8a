/* A batch: the rows of one claim on their way to OpenFGA.
 *
 * It decides what to send, when, and what each answer means for the rows; it sends nothing itself. Its holder asks for
 * the next request, sends it, hands the judgement back, and goes on until batch_over. Then every row has its end:
 *
 *   DELIVERED  every request with a part of it was accepted: mark it processed
 *   REJECTED   it is at fault: count an attempt, with its error
 *   APART      it may be at fault: try it by itself, out of the others' way
 *   HELD       a row before it on one of its tuples is not finished: leave it pending until that is
 *   RELEASED   nothing can be said of it: leave it pending
 *
 * Order: what must come after something else goes into a later wave, and a wave begins when the one before is done: the
 * pieces of a row that is cut, and a row that changes a tuple otherwise than a lower row of the batch (which its holder
 * may hold instead: see others.h). If that lower row was not delivered, the later one is held. Within a wave no tuple
 * is in two requests.
 *
 * Refusals: a request that is refused for a tuple that it names goes again without the rows that have this tuple, or
 * one that the model will refuse likewise; these are APART. So good rows stay together, and a bad one costs them one
 * request more. Where no tuple is named, or one after the other is, it is halved, down to single rows.
 *
 * Unknown outcomes: while OpenFGA may still carry out a request that was lost (settle_ms after it was sent), the same
 * request is tried again, no later wave begins and the batch is not over, so that its rows are neither acked nor
 * released. After the deadline, or when it was lost BATCH_MAX_LOST times, it is not tried again, only waited for. */
#ifndef RELAY_CORE_BATCH_H
#define RELAY_CORE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/rng.h"
#include "core/order.h"
#include "core/payload.h"
#include "core/verdict.h"

enum row_state { ROW_PENDING, ROW_DELIVERED, ROW_REJECTED, ROW_APART, ROW_HELD, ROW_RELEASED };

/* A row that another one comes after, on some tuple. */
struct batch_dependency {
	struct batch_dependency *next;
	uint32_t row; /* its index */
};

struct batch_row {
	int64_t id;
	unsigned attempts; /* before this try */
	int64_t born_ms;   /* created_at, on the holder's monotonic clock */
	bool alone;        /* shares no request with other rows */
	enum row_state state;
	int64_t behind;   /* HELD: the row that it waits for */
	struct str error; /* REJECTED: why */
	struct str fault; /* REJECTED: the same without ids; empty where the model has no part in it */
	struct payload payload;
	struct mark *marks;  /* payload.n of them */
	unsigned open_parts; /* parts of it that no accepted request has carried yet */
	struct batch_dependency *after;
};

/* Operations [first, first + n) of row `row`. */
struct part {
	uint32_t row;
	uint32_t first;
	uint32_t n;
};

enum request_state { REQUEST_QUEUED, REQUEST_IN_FLIGHT, REQUEST_PROBING, REQUEST_DONE };

struct request {
	struct request *next;
	enum request_state state;
	unsigned wave;
	bool shares;                 /* some tuple stands in several of its parts */
	const struct request *whole; /* a piece of a request that shares: that request. Its pieces go one by one */
	struct part *parts;
	size_t n;
	unsigned picked; /* how often in a row it was refused for a tuple that was named, and not halved */
	size_t tuples;   /* operations, repetitions counted */
	size_t bytes;    /* an upper bound of its body */
	int64_t due_ms;  /* not before */
	int64_t sent_ms;
	int64_t unsettled_until_ms; /* until then an earlier try of it may still be carried out */
	unsigned tries;             /* how often it was sent */
	unsigned lost;              /* of these, with an outcome that is unknown */
	unsigned dubious;           /* answers that ask for a probe, in a row */
	bool blamed;                /* a probe after them went well: if that comes again, it is at fault */
	struct str reason;          /* of the last one */
};

/* A request's body, in bytes: well below OpenFGA's 616,448 of protobuf. */
enum { BATCH_MAX_BODY = 400 * 1000 };

struct batch_limits {
	size_t max_tuples; /* a request */
	size_t max_bytes;  /* a request's body */
	int64_t settle_ms;
	int64_t deadline_ms; /* at this moment of the monotonic clock nothing new is begun any more */
};

/* How far apart the tries of one request are. */
enum {
	BATCH_RETRY_MIN_MS = 20,
	BATCH_RETRY_MAX_MS = 1000,
	BATCH_MAX_RACES = 20,
	BATCH_MAX_LOST = 4,
	BATCH_MAX_PICKED = 3
};

struct batch {
	struct arena arena;
	struct batch_limits limits;
	struct batch_row *rows;
	size_t n;
	size_t capacity;
	struct request *requests; /* in the order in which they are begun */
	struct request *last;
	unsigned wave; /* the one that is under way */
	unsigned waves;
	size_t in_flight;
	int64_t settle_until_ms;
	bool stopped; /* nothing new is begun */
};

/* Begins a batch of at most `capacity` rows; *b was {0}, or a batch that is over. */
void batch_init(struct batch *b, size_t capacity, const struct batch_limits *limits);
void batch_fini(struct batch *b);

/* Adds a row, in ascending order of ids, and reads a copy of its payload: a bad one is REJECTED at once, an empty one
 * DELIVERED. Returns the row, for the holder to set `alone` or to hold it with batch_hold before batch_plan. */
struct batch_row *batch_add(struct batch *b, int64_t id, unsigned attempts, int64_t born_ms, struct str payload);

/* Adds a row that is REJECTED whatever it holds: its payload is too large to be taken, say. */
struct batch_row *batch_add_rejected(struct batch *b, int64_t id, unsigned attempts, const char *error);

/* The row waits for row `behind` and is not sent. */
void batch_hold(struct batch_row *row, int64_t behind);

/* The row is APART, and is not sent. */
void batch_set_apart(struct batch_row *row);

/* Makes waves and requests of the rows. */
void batch_plan(struct batch *b);

/* The next request to send now, already counted as in flight; NULL when there is none at this moment. */
struct request *batch_next(struct batch *b, int64_t now_ms);

/* The body of a request (see "Write" in OpenFGA's API): tuples sorted, repetitions left out, the options that make
 * redelivery harmless. model: empty for the store's latest. Returns the number of tuples in it. */
size_t batch_body(const struct batch *b, const struct request *r, struct str model, struct buf *out);

/* The tuple of a request that carries one only (batch_body returned 1). */
const struct tuple *batch_tuple(const struct batch *b, const struct request *r);

/* Adds the ids of the request's rows, at most `max` of them, as 1,2,3. */
void batch_request_ids(const struct batch *b, const struct request *r, size_t max, struct buf *out);

/* When a request in flight was really sent, as its answer tells: OpenFGA's deadline for it begins then. Before
 * batch_answer, which else takes the moment of batch_next for it. */
void batch_sent(struct batch *b, struct request *r, const struct answer *a);

/* What the answer to a request in flight means. Returns the verdict as it was carried out: a SPLIT of what cannot be
 * smaller is REJECTED, a HALT that asks for a probe is RETRY. */
enum verdict batch_answer(struct batch *b, struct request *r, const struct judgement *j, int64_t now_ms,
                          struct rng *rng);

/* Whether requests wait for a probe: an answer with HINT_PROBE came twice in a row, and either they or OpenFGA are at
 * fault. The holder then finds out whether OpenFGA can write at all, and tells it with batch_probed: if so they are
 * split, else the batch is stopped for the reason in *j. */
bool batch_wants_probe(const struct batch *b);
void batch_probed(struct batch *b, bool can_write, const struct judgement *j, int64_t now_ms, struct rng *rng);

/* Begins nothing new: what is not in flight and not unsettled is released. */
void batch_stop(struct batch *b);

/* The rows are no longer the holder's: nothing is tried again either, only waited for. */
void batch_give_up(struct batch *b);

/* Whether every row has its end. Rows that were not sent become RELEASED when it returns true. */
bool batch_over(struct batch *b, int64_t now_ms);

/* When to call batch_next or batch_over again though no answer came; INT64_MAX: only an answer changes anything. */
int64_t batch_due_ms(const struct batch *b, int64_t now_ms);

#endif
