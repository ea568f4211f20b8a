#include "core/limit.h"

static double clamp(const struct limit *l, double value)
{
	if (value < 1)
		return 1;
	return value < l->most ? value : l->most;
}

void limit_init(struct limit *l, unsigned most)
{
	*l = (struct limit){.most = most, .halved_ms = INT64_MIN};
	l->now = clamp(l, LIMIT_START);
	for (size_t i = 0; i < LIMIT_SIZES; i++)
		l->shortest[i].before_us = l->shortest[i].us = INT64_MAX;
}

unsigned limit_get(const struct limit *l)
{
	return (unsigned)l->now;
}

static size_t size_of(size_t tuples)
{
	size_t size = 0;
	while (tuples > 1 && size < LIMIT_SIZES - 1) {
		tuples /= 2;
		size++;
	}
	return size;
}

/* A server that has become slower would look like one whose requests queue, and a queue that never empties like a slow
 * server: the shortest durations are measured anew, with half as much in flight. */
static void turn_window(struct limit *l, int64_t now_ms)
{
	if (now_ms < l->window_ends_ms)
		return;
	l->window_ends_ms = now_ms + LIMIT_WINDOW_MS;
	l->now = clamp(l, l->now / 2);
	for (size_t i = 0; i < LIMIT_SIZES; i++) {
		l->shortest[i].before_us = l->shortest[i].us;
		l->shortest[i].us = INT64_MAX;
	}
}

void limit_answered(struct limit *l, size_t tuples, int64_t duration_us, unsigned in_flight, int64_t now_ms)
{
	size_t size = size_of(tuples);
	if (l->window_ends_ms == 0)
		l->window_ends_ms = now_ms + LIMIT_WINDOW_MS;
	turn_window(l, now_ms);
	if (duration_us < 1)
		duration_us = 1;
	if (duration_us < l->shortest[size].us)
		l->shortest[size].us = duration_us;
	if (in_flight < limit_get(l))
		return;
	int64_t shortest =
	    l->shortest[size].us < l->shortest[size].before_us ? l->shortest[size].us : l->shortest[size].before_us;
	double queued = l->now * (1 - (double)shortest / (double)duration_us);
	if (queued < LIMIT_FEW)
		l->now = clamp(l, l->now + 1 / l->now);
	else if (queued > LIMIT_MANY)
		l->now = clamp(l, l->now - 1 / l->now);
}

void limit_throttled(struct limit *l, int64_t duration_us, int64_t now_ms)
{
	if (l->halved_ms != INT64_MIN && now_ms - duration_us / 1000 < l->halved_ms)
		return;
	l->halved_ms = now_ms;
	l->now = clamp(l, l->now / 2);
}
