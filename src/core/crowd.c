#include "core/crowd.h"

/* The more a server takes at once, the more lanes are worth what they cost. */
enum { REQUESTS_A_LANE = 8 };

void crowd_seen(struct crowd *c, size_t rows, size_t batch_rows, int64_t now_ms)
{
	c->batches = rows / batch_rows;
	c->until_ms = now_ms + CROWD_MS;
}

unsigned crowd_lanes(const struct crowd *c, unsigned lanes, unsigned in_flight, int64_t now_ms)
{
	unsigned least = (in_flight + REQUESTS_A_LANE - 1) / REQUESTS_A_LANE;
	if (now_ms >= c->until_ms || c->batches == 0 || least >= lanes)
		return lanes;
	return c->batches + least < lanes ? lanes - (unsigned)c->batches : least;
}

int64_t crowd_due_ms(const struct crowd *c, int64_t now_ms)
{
	return c->batches > 0 && now_ms < c->until_ms ? c->until_ms : INT64_MAX;
}
