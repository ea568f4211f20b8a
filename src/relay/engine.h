/* What all lanes share: the parts they work with, and what is known of rows and destination. The daemon owns it. */
#ifndef RELAY_RELAY_ENGINE_H
#define RELAY_RELAY_ENGINE_H

#include <event2/event.h>

#include "base/metrics.h"
#include "base/options.h"
#include "base/rng.h"
#include "core/canary.h"
#include "core/crowd.h"
#include "core/horizon.h"
#include "core/kinds.h"
#include "core/limit.h"
#include "core/order.h"
#include "core/park.h"
#include "core/probe.h"
#include "core/suspect.h"
#include "core/target.h"
#include "core/theirs.h"
#include "core/trust.h"
#include "core/wait.h"
#include "core/wake.h"
#include "io/fga.h"
#include "io/outbox.h"

struct turn;

struct engine {
	const struct options *options;
	struct event_base *base;
	struct outbox outbox;
	struct fga *fga;
	char *write_path; /* of the store; NULL before it is known */
	char *read_path;  /* likewise */
	enum server_age server_age;
	struct order order;
	struct theirs theirs;
	struct park park;
	struct horizon horizon;
	struct wake wake;
	struct target target;
	struct trust trust; /* in Postgres */
	struct waits waits;
	struct metrics metrics;
	struct rng rng;
	struct limit limit;
	struct crowd crowd;
	unsigned lanes_busy;
	size_t in_flight;            /* requests, of all lanes */
	unsigned max_tuples;         /* a request: the option, or less where the server said so */
	uint64_t claims;             /* sent so far: order's turns */
	bool from_head;              /* the next claim starts at the head: a sweep */
	bool work;                   /* rows may be pending that no claim sent since has seen */
	bool backlog;                /* the last claim of pending rows left some behind */
	const struct turn *outcasts; /* the lane's that tries refused rows; NULL: none does */
	int64_t outcasts_ms;         /* when a claim last took some of them */
	struct suspect suspect;      /* whether that is the model */
	struct kinds kinds;          /* that the model was seen not to have */
	bool is_pooled;              /* see pg_config */
	struct canary canary;
	bool is_listening;  /* a canary would be heard */
	bool wants_backlog; /* the next lane to act asks how much is pending, and sends the canary */
	int64_t counted_ms; /* when the pending rows were counted last, since 1970; 0: not yet */
	bool sweep_claims;  /* the count of this sweep found rows, or something has to be proved: a claim follows */
	bool stopping;      /* nothing is claimed any more */
	struct event *turn; /* activated after anything that may let a lane go on */
};

/* Has the daemon look at every lane, soon. */
static inline void engine_turn(struct engine *e)
{
	event_active(e->turn, EV_TIMEOUT, 0);
}

#endif
