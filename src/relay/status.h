/* What /readyz says: whether all is in order, and if not, why. */
#ifndef RELAY_RELAY_STATUS_H
#define RELAY_RELAY_STATUS_H

#include "base/err.h"
#include "relay/engine.h"

/* What is wrong with a server before 1.10, and what helps. */
#define STATUS_OLD \
	"openfga is older than 1.10: upgrade it; until then rows that are sent again go tuple by tuple, not as a " \
	"whole"

/* What is remembered; {0} at the start. */
struct status {
	struct err postgres; /* the last connection's failure */
};

/* What only the daemon can tell. */
struct status_now {
	bool is_connected; /* some lane is */
	bool is_well;      /* and what it asks for is not refused, as far as is known */
	bool is_listening; /* or need not */
};

/* A connection to Postgres failed or was lost. */
void status_postgres(struct status *s, const struct err *e);

/* Adds {"ready":…,"reasons":[…],"warnings":[…],"postgres":…,"listening":…,"openfga":…} and returns whether it is ready:
 * warnings do not keep it from that. */
bool status_write(const struct status *s, const struct engine *e, const struct status_now *now, struct buf *out);

/* Adds a line for people: "ready", or the reasons why not; how many rows were delivered since the start, and how many
 * wait refused. */
void status_line(const struct status *s, const struct engine *e, const struct status_now *now, struct buf *out);

/* Sets the gauges that hold what is so now, readiness among them: for whoever reads the metrics next. */
void status_gauges(const struct status *s, struct engine *e, const struct status_now *now);

#endif
