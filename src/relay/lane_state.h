/* What the parts of a lane share: lane.c (states, marks, the connection), lane_claim.c and lane_write.c. */
#ifndef RELAY_RELAY_LANE_STATE_H
#define RELAY_RELAY_LANE_STATE_H

#include "base/log.h"
#include "core/batch.h"
#include "core/trust.h"
#include "relay/lane.h"
#include "relay/turns.h"

/* See lane.h. */
#define LANE_STATES(X) \
	X(OFFLINE, "offline") \
	X(IDLE, "idle") \
	X(CLAIMING, "claiming") \
	X(WRITING, "writing") \
	X(ORPHANED, "orphaned") \
	X(ACKING, "acking")

enum lane_state {
#define X(name, text) LANE_##name,
	LANE_STATES(X)
#undef X
};

struct lane {
	struct engine *engine;
	struct lane_callbacks callbacks;
	void *arg;
	char label[24];
	enum lane_state state;
	struct pg *pg;
	struct batch batch;
	int64_t *these; /* the parked rows that the claim asks for; n_these == 0: a claim of pending rows */
	size_t n_these;
	struct turn turn;
	uint64_t claim; /* the number of the one that is under way; 0: none is */
	struct horizon_claim from;
	uint64_t asked; /* for the horizon: who writes */
	bool asking;
	bool counting;    /* how much is pending is on its way */
	bool claims_next; /* the ack has a claim behind it */
	bool left_locked; /* the claim locked more than it brought: nobody finds that before this transaction has ended
	                   */
	bool marks;       /* the ack marks a row */
	bool probing;
	struct log_gate refused_again;
};

void lane_set_state(struct lane *l, enum lane_state to);

/* Something went well. Once nothing is in doubt, a loss of the connection is taken for an accident again. */
void lane_prove(struct lane *l, enum proof what);

/* lane_claim.c */

/* Whether others have so much in flight that this lane would be one too many. */
bool lane_is_left_out(const struct lane *l, int64_t now_ms);

/* Whether there is anything to claim, and it may be. */
bool lane_wants_claim(const struct lane *l, int64_t now_ms);

/* Sends the claim, without the end of the round trip. Parked rows that are due and pending rows take turns. Its result
 * begins the batch: WRITING. */
void lane_send_claim(struct lane *l, int64_t now_ms);

/* Asks how much is pending, where that is wanted: also while nothing can be claimed, for that is when it matters. */
void lane_ask_backlog(struct lane *l);

/* Asks who writes, where the horizon wants to know. */
void lane_ask_writers(struct lane *l, int64_t now_ms);

/* lane_write.c */

/* Sends what may be sent of the batch by now. */
void lane_write_on(struct lane *l, int64_t now_ms);

#endif
