#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"

/* SplitMix64 from the seed 1234567, as Vigna's reference code gives it (https://prng.di.unimi.it/splitmix64.c). */
static void follows_the_reference(void **state)
{
	static const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
	                                    UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
	                                    UINT64_C(16408922859458223821)};
	struct rng r = {1234567};
	(void)state;
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
		assert_true(rng_next(&r) == expected[i]);
}

static void stays_in_range(void **state)
{
	static const int64_t limits[] = {0, 1, 2, 999, INT64_MAX};
	struct rng r = {7};
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		for (int j = 0; j < 10000; j++) {
			int64_t n = rng_upto(&r, limits[i]);
			assert_true(n >= 0 && n <= limits[i]);
		}
	}
}

static void is_even(void **state)
{
	enum { LIMIT = 9, DRAWS = 100000 };
	int seen[LIMIT + 1] = {0};
	struct rng r = {42};
	(void)state;
	for (int i = 0; i < DRAWS; i++)
		seen[rng_upto(&r, LIMIT)]++;
	for (int i = 0; i <= LIMIT; i++) /* five standard deviations of 95 */
		assert_in_range(seen[i], DRAWS / (LIMIT + 1) - 475, DRAWS / (LIMIT + 1) + 475);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(follows_the_reference),
	    cmocka_unit_test(stays_in_range),
	    cmocka_unit_test(is_even),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
