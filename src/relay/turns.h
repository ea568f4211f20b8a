/* Whose turn it is in a lane: the pending rows', or that of parked ones which are due, held or refused.
 *
 * A refused row costs a request of its own, so however many there are they must not slow the others down: one lane at a
 * time tries them, with few in flight, and seldom while there is a backlog of pending rows. */
#ifndef RELAY_RELAY_TURNS_H
#define RELAY_RELAY_TURNS_H

#include "relay/engine.h"

/* Of one lane; {0} is its beginning. */
struct turn {
	bool was_parked;         /* the last claim: parked and pending rows take turns */
	enum park_kind was_kind; /* the last claim of parked rows: the kinds take turns */
};

/* Whether there is anything to claim. */
bool turn_is_due(const struct turn *t, struct engine *e, int64_t now_ms);

/* Begins a turn: adds the ids of the parked rows to claim, at most --batch-rows, to ids. Returns how many; 0: the
 * pending rows' turn. */
size_t turn_choose(struct turn *t, struct engine *e, int64_t now_ms, int64_t *ids);

/* How many requests the lane may have in flight. */
size_t turn_share(const struct turn *t, const struct engine *e);

/* The lane has nothing more to do. */
void turn_end(struct turn *t, struct engine *e);

#endif
