/* Which unfinished rows touch which tuples: a row waits for every lower one that does something else to one of its
 * tuples.
 *
 * "Unfinished" is whatever the holder puts in: rows in flight in a lane, parked rows, rows held behind those. A tuple
 * is known by a 64-bit hash only: a collision holds a row that need not wait, and never lets one go that must. */
#ifndef RELAY_CORE_ORDER_H
#define RELAY_CORE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "core/payload.h"

/* What a row does to one tuple. */
struct mark {
	uint64_t tuple;
	uint64_t
	    action; /* equal for the same operation with the same condition: such rows need not wait for each other */
};

/* The marks of a payload's operations, one an operation, in the arena. */
struct mark *marks_of(const struct payload *p, struct arena *arena);

/* Whether two rows with these marks have to come one after the other. */
static inline bool mark_conflict(struct mark a, struct mark b)
{
	return a.tuple == b.tuple && a.action != b.action;
}

struct order_row;
struct order_mark;

/* {0} is empty and valid. */
struct order {
	struct order_row *rows;
	struct order_mark *marks; /* by tuple */
	size_t let_go;            /* how many of the rows were let go */
};

/* Notes a row as unfinished, with a copy of its marks; what was noted of it before is replaced, also that it was let
 * go. */
void order_add(struct order *o, int64_t id, const struct mark *marks, size_t n);

/* Forgets a row; nothing when it is not noted. */
void order_remove(struct order *o, int64_t id);

/* A row was let go unfinished: others may take it from now on. It is forgotten by order_forget, and is no longer among
 * order_ids; until then it blocks as before, since a claim that is under way was told to leave it out of what it
 * returns. `turn`: any number that never gets smaller. Nothing when it is not noted, or was let go before: no claim
 * since then was told to leave it out. */
void order_let_go(struct order *o, int64_t id, uint64_t turn);

/* Forgets the rows that were let go before `turn`. */
void order_forget(struct order *o, uint64_t turn);

/* Whether a row is noted, and was not let go. */
bool order_has(const struct order *o, int64_t id);

/* Adds the ids above `above` of the noted rows that were not let go as a Postgres array literal, {1,2,3}. */
void order_ids(const struct order *o, int64_t above, struct buf *out);

/* The lowest noted row below `id` that conflicts with one of the marks; 0 when there is none. */
int64_t order_blocker(const struct order *o, int64_t id, const struct mark *marks, size_t n);

void order_free(struct order *o);

#endif
