/* What the probe's page shows: how delivery goes now, and went in the last half hour. */
#ifndef RELAY_RELAY_OVERVIEW_H
#define RELAY_RELAY_OVERVIEW_H

#include "relay/engine.h"

struct overview;

struct overview_callbacks {
	/* Sets the gauges of what is so now. */
	void (*refresh)(void *arg);
	/* Adds what /readyz says. */
	bool (*ready)(void *arg, struct buf *out);
};

/* Begins to take samples (core/history.h). */
struct overview *overview_new(struct engine *e, const struct overview_callbacks *callbacks, void *arg);

/* Adds the JSON for /overview.json: what is so now, `probe` (what /readyz says), `parked` (digest_write), `minute`
 * (history_write_last) and `history` (history_write). Times are milliseconds, since 1970 or long; ages are seconds;
 * counted_ms is when the pending rows were counted, 0 before. It is for the page, which comes with the same program:
 * nothing else may count on its form. */
void overview_write(const struct overview *o, uint64_t since, struct buf *out);

/* NULL is nothing. */
void overview_free(struct overview *o);

#endif
