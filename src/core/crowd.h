/* How many lanes may work at once where other drainers have whole batches in flight.
 *
 * A claim has to be told of every row that others have in flight below its own, and OpenFGA takes no more from many
 * relays than from one: whatever they claim beyond what it takes is read again and again, and only waits. So a relay
 * leaves out a lane for every batch that others have, down to one, or more where the server takes many requests at
 * once. Rows that are not a whole batch are a trickle: whoever wakes first may take them. */
#ifndef RELAY_CORE_CROWD_H
#define RELAY_CORE_CROWD_H

#include <stddef.h>
#include <stdint.h>

/* What was seen of others is forgotten after this: whoever holds it up, no lane waits longer for it. */
enum { CROWD_MS = 200 };

/* {0} is nobody else. */
struct crowd {
	size_t batches;
	int64_t until_ms;
};

/* A claim came upon this many rows that others have in flight; batch_rows >= 1: the most a claim takes. */
void crowd_seen(struct crowd *c, size_t rows, size_t batch_rows, int64_t now_ms);

/* How many of the lanes may work, 1 to lanes. in_flight: how many requests may be in flight at once. */
unsigned crowd_lanes(const struct crowd *c, unsigned lanes, unsigned in_flight, int64_t now_ms);

/* When all may again: INT64_MAX while they may. */
int64_t crowd_due_ms(const struct crowd *c, int64_t now_ms);

#endif
