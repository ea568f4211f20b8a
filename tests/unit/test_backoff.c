#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/backoff.h"

/* The smallest and the largest of many draws. */
static void draw(unsigned failures, int64_t min_ms, int64_t max_ms, int64_t *least, int64_t *most)
{
	struct rng rng = {7};
	*least = INT64_MAX;
	*most = INT64_MIN;
	for (int i = 0; i < 20000; i++) {
		int64_t ms = backoff_ms(failures, min_ms, max_ms, &rng);
		*least = ms < *least ? ms : *least;
		*most = ms > *most ? ms : *most;
	}
}

static void grows_to_its_cap(void **state)
{
	(void)state;
	static const struct {
		unsigned failures;
		int64_t min_ms, max_ms, least, most;
	} cases[] = {
	    {1, 1000, 300000, 500, 1000},      {2, 1000, 300000, 500, 2000},
	    {4, 1000, 300000, 500, 8000},      {9, 1000, 300000, 500, 256000},
	    {10, 1000, 300000, 500, 300000},   {11, 1000, 300000, 500, 300000},
	    {64, 1000, 300000, 500, 300000},   {UINT32_MAX, 1000, 300000, 500, 300000},
	    {0, 1000, 300000, 500, 1000},      {3, 1, 1, 0, 1},
	    {5, 1000, 1000, 500, 1000},        {1, 1000, 800, 500, 800}, /* never above the cap */
	    {200, 1, INT64_MAX, 0, INT64_MAX},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int64_t least;
		int64_t most;
		draw(cases[i].failures, cases[i].min_ms, cases[i].max_ms, &least, &most);
		assert_true(least >= cases[i].least && most <= cases[i].most);
		/* The whole range is drawn from, to within a hundredth of it. */
		int64_t near = cases[i].most / 100;
		assert_true(least <= cases[i].least + near && most >= cases[i].most - near);
	}
}

static void is_repeated_by_a_seed(void **state)
{
	(void)state;
	struct rng a = {42};
	struct rng b = {42};
	for (unsigned i = 1; i < 50; i++)
		assert_int_equal(backoff_ms(i, 20, 1000, &a), backoff_ms(i, 20, 1000, &b));
}

static void spreads_evenly(void **state)
{
	(void)state;
	enum { DRAWS = 40000 };
	struct rng rng = {3};
	int upper = 0;
	int floor = 0;
	for (int i = 0; i < DRAWS; i++) {
		int64_t ms = backoff_ms(5, 100, 100000, &rng); /* in [0, 1600], at least 50 */
		upper += ms > 800;
		floor += ms == 50;
	}
	assert_in_range(upper, DRAWS * 48 / 100, DRAWS * 52 / 100);
	assert_in_range(floor, DRAWS * 2 / 100, DRAWS * 5 / 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(grows_to_its_cap),
	    cmocka_unit_test(is_repeated_by_a_seed),
	    cmocka_unit_test(spreads_evenly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
