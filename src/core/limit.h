/* How many requests may be in flight: as many as make the server quicker, and no more, because past that they only
 * queue.
 *
 * TCP Vegas's way (Brakmo, Peterson: TCP Vegas, 1995; Netflix's concurrency-limits): a request's duration is compared
 * with the shortest one that a request of about its size has taken lately. What is above it was spent waiting, so of
 * `limit` requests about limit * (1 - shortest / duration) stand in a queue. Fewer than LIMIT_FEW: one more may be in
 * flight; more than LIMIT_MANY: one less. A server that throttles or runs into its deadline halves it. */
#ifndef RELAY_CORE_LIMIT_H
#define RELAY_CORE_LIMIT_H

#include <stddef.h>
#include <stdint.h>

enum {
	LIMIT_START = 4,
	LIMIT_WINDOW_MS = 10 * 1000, /* the shortest duration is forgotten after one or two of them */
	LIMIT_SIZES = 8,             /* of requests: 1, 2 to 3, 4 to 7, … 128 tuples and more */
};
#define LIMIT_FEW 1.5
#define LIMIT_MANY 3.0

struct limit {
	double now;
	unsigned most;
	int64_t window_ends_ms;
	int64_t halved_ms;
	struct {
		int64_t before_us; /* the shortest one of the window before; INT64_MAX: there was none */
		int64_t us;        /* of this window */
	} shortest[LIMIT_SIZES];
};

/* most >= 1: --max-in-flight. */
void limit_init(struct limit *l, unsigned most);

/* 1 to most. */
unsigned limit_get(const struct limit *l);

/* A request with this many tuples was answered after duration_us; in_flight: when it was sent, itself included. What
 * was sent while fewer were in flight than allowed says nothing about more. */
void limit_answered(struct limit *l, size_t tuples, int64_t duration_us, unsigned in_flight, int64_t now_ms);

/* The server said that it is too much. duration_us: of the request that it said it to; what was sent before it said so
 * the first time says nothing new. */
void limit_throttled(struct limit *l, int64_t duration_us, int64_t now_ms);

#endif
