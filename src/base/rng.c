#include "base/rng.h"

uint64_t rng_next(struct rng *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15U);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return z ^ (z >> 31);
}

int64_t rng_upto(struct rng *r, int64_t limit)
{
	if (limit <= 0)
		return 0;
	return (int64_t)(rng_next(r) % ((uint64_t)limit + 1));
}
