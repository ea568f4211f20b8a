/* Randomness for jitter, as an argument: a seed repeats it. Not for secrets. */
#ifndef RELAY_BASE_RNG_H
#define RELAY_BASE_RNG_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). Any seed will do. */
struct rng {
	uint64_t state;
};

uint64_t rng_next(struct rng *r);

/* Uniform in [0, limit]; limit >= 0. */
int64_t rng_upto(struct rng *r, int64_t limit);

#endif
