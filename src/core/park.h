/* The rows that wait in memory: refused ones for their next try, held ones for the row before them.
 *
 * A parked row is left out of ordinary claims, so that it cannot take a healthy batch down with it again, and is
 * claimed by its id when it is due. Nothing here outlives the process: after a restart every pending row is tried
 * afresh. */
#ifndef RELAY_CORE_PARK_H
#define RELAY_CORE_PARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/causes.h"

/* Rows that wait only for others may share requests; those that were refused travel alone. */
enum park_kind { PARK_HELD, PARK_REFUSED };

struct parked;
struct blocker;

/* {0} is empty and valid. Times: milliseconds of a monotonic clock. */
struct park {
	struct parked *rows;      /* by id */
	struct blocker *blockers; /* the rows that others are held behind */
	int64_t next_due_ms[2];   /* by enum park_kind: no row is due before it; may be too early */
	size_t n_waiting;         /* rows that wait for others' */
	size_t n_refused;         /* rows of PARK_REFUSED */
	struct causes causes;     /* of those */
};

/* A row was refused, or may be what a request was refused for: due again at due_ms. */
void park_refuse(struct park *p, int64_t id, int64_t due_ms);

/* Why a refused row was refused last, as it is to stand in last_error. Nothing when it is not parked. */
void park_explain(struct park *p, int64_t id, struct str reason);

/* A row has to wait for `behind`: due at once when that is finished, before it only by park_postpone. Returns how often
 * in a row it was held, without being refused in between. */
unsigned park_hold(struct park *p, int64_t id, int64_t behind);

/* The row is finished, or is no longer pending: it is forgotten, and the rows held behind it are due at now_ms.
 * Right also for a row that is not parked. */
void park_finish(struct park *p, int64_t id, int64_t now_ms);

/* A claim has a parked row, or asks for it: it is not due before it is refused, held or postponed again, whatever
 * happens meanwhile. Nothing when it is not parked. */
void park_claim(struct park *p, int64_t id);

/* A parked row is due at due_ms. Nothing when it is not parked. */
void park_postpone(struct park *p, int64_t id, int64_t due_ms);

/* The same for a row that another session has, or that is held behind one that another session has: it is done with as
 * soon as that is, so whoever wants nothing left waits for it. */
void park_wait(struct park *p, int64_t id, int64_t due_ms);

/* How many rows wait by park_wait; until each is claimed, refused, held or postponed. */
size_t park_waiting(const struct park *p);

/* A transaction of this process's has the row locked until park_release: whatever makes it due before, no other one
 * could claim it. Nothing when it is not parked. */
void park_keep(struct park *p, int64_t id);

/* That transaction has ended. Nothing when the row is not parked. */
void park_release(struct park *p, int64_t id);

bool park_has(const struct park *p, int64_t id);

/* Whether a parked row is of PARK_REFUSED: park_refuse was called for it, by whomever it was refused; also while it is
 * held. */
bool park_was_refused(const struct park *p, int64_t id);

/* Makes every refused row that is not held due now: the model may have changed. */
void park_wake(struct park *p, int64_t now_ms);

size_t park_count(const struct park *p);

/* How many of them are of PARK_REFUSED. */
size_t park_refused(const struct park *p);

/* When the next row of a kind is due: at most now_ms when one is due already, INT64_MAX when none will be. */
int64_t park_due_ms(struct park *p, enum park_kind kind, int64_t now_ms);

/* Adds the ids of at most `max` rows of a kind that are due at now_ms to ids, in their order: those that have
 * been due for longest, so that none is tried again and again before the others' turn. Returns how many. */
size_t park_due(struct park *p, enum park_kind kind, int64_t now_ms, int64_t *ids, size_t max);

/* For people. */
struct park_row {
	int64_t id;
	int64_t behind;   /* the row that it waits for; 0: it is not held */
	uint8_t cause;    /* why it was refused last: a number of park_causes */
	bool was_refused; /* it is of PARK_REFUSED */
};

/* Calls fn for every parked row, in no order. */
void park_each(const struct park *p, void (*fn)(void *arg, const struct park_row *row), void *arg);

const struct causes *park_causes(const struct park *p);

void park_free(struct park *p);

#endif
