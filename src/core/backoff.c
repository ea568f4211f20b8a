#include "core/backoff.h"

int64_t backoff_ms(unsigned failures, int64_t min_ms, int64_t max_ms, struct rng *rng)
{
	int64_t ceiling = min_ms;
	for (unsigned i = 1; i < failures && ceiling < max_ms; i++)
		ceiling = ceiling > max_ms / 2 ? max_ms : ceiling * 2;
	if (ceiling > max_ms)
		ceiling = max_ms;
	int64_t floor = min_ms / 2;
	int64_t wait = rng_upto(rng, ceiling);
	return wait < floor ? floor : wait;
}
