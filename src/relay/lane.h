/* A lane: one connection, one transaction, one batch at a time.
 *
 *   OFFLINE   no connection
 *   IDLE      connected, nothing to do
 *   CLAIMING  BEGIN and the claim are on their way
 *   WRITING   the transaction holds the rows while their requests are in flight
 *   ORPHANED  the connection was lost while WRITING: the rows are free, and the requests in flight come to their end
 *   ACKING    the marks and COMMIT are on their way, and often the next claim with them
 */
#ifndef RELAY_RELAY_LANE_H
#define RELAY_RELAY_LANE_H

#include "relay/engine.h"

struct lane;

struct lane_callbacks {
	void (*lost)(void *arg, const struct err *e); /* its connection failed; it connects anew by itself */
	void (*refused)(void *arg, int64_t id, struct str reason); /* a row was refused and is marked so; may be NULL */
};

/* Makes a lane and begins to connect. number: from 1 on, for the log. */
struct lane *lane_new(struct engine *e, unsigned number, const struct lane_callbacks *callbacks, void *arg);

/* Ends it at once, whatever is in flight. Postgres rolls back. NULL is nothing. Only after the engine's fga was freed.
 */
void lane_free(struct lane *l);

/* Does whatever can be done now: claims, sends, acks. */
void lane_go(struct lane *l, int64_t now_ms);

/* When lane_go is due again though nothing happened; INT64_MAX: not by time. */
int64_t lane_due_ms(const struct lane *l, int64_t now_ms);

bool lane_is_connected(const struct lane *l);

/* Whether it holds no rows and has nothing under way. */
bool lane_is_done(const struct lane *l);

/* The number of the claim that is under way (engine.claims when it was sent); UINT64_MAX when none is. */
uint64_t lane_claim(const struct lane *l);

#endif
