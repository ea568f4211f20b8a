#include "core/canary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The next one is told from those before it. */
static void next(struct canary *c)
{
	c->is_under_way = false;
	snprintf(c->payload, sizeof c->payload, "%" PRIu64, ++c->number);
}

void canary_init(struct canary *c, uint64_t random)
{
	*c = (struct canary){0};
	snprintf(c->channel, sizeof c->channel, "relay_canary_%016" PRIx64, random);
	next(c);
}

void canary_sent(struct canary *c)
{
	if (!c->is_under_way)
		c->due_ms = INT64_MAX;
	c->is_under_way = true;
}

void canary_committed(struct canary *c, int64_t now_ms)
{
	if (c->is_under_way && c->due_ms == INT64_MAX)
		c->due_ms = now_ms + CANARY_TIMEOUT_MS;
}

bool canary_seen(struct canary *c, const char *payload)
{
	if (strcmp(payload, c->payload) != 0)
		return false;
	next(c);
	c->was_lost = false;
	return true;
}

void canary_forget(struct canary *c)
{
	next(c);
}

bool canary_is_lost(struct canary *c, int64_t now_ms)
{
	if (!c->is_under_way || c->due_ms > now_ms)
		return false;
	next(c);
	c->was_lost = true;
	return true;
}

int64_t canary_due_ms(const struct canary *c)
{
	return c->is_under_way ? c->due_ms : INT64_MAX;
}
