/* How long to wait before the next try: exponential, with full jitter
 * (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). */
#ifndef RELAY_CORE_BACKOFF_H
#define RELAY_CORE_BACKOFF_H

#include <stdint.h>

#include "base/rng.h"

/* After `failures` failures in a row (from 1 on): uniform in [0, min(max_ms, min_ms * 2^(failures-1))], but at least
 * min_ms / 2, so that a lucky draw is not a busy loop. Never overflows. */
int64_t backoff_ms(unsigned failures, int64_t min_ms, int64_t max_ms, struct rng *rng);

#endif
