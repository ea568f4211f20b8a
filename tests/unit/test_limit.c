#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/limit.h"

/* A server that carries out `width` requests at a time, each in work_us; more wait in a queue. The relay keeps as much
 * in flight as it may, for `requests` requests; returns the time at the end. */
static int64_t serve(struct limit *l, unsigned width, int64_t work_us, unsigned requests, int64_t now_us)
{
	for (unsigned i = 0; i < requests; i++) {
		unsigned n = limit_get(l);
		int64_t duration = n > width ? work_us * n / width : work_us;
		now_us += duration / n;
		limit_answered(l, 100, duration, n, now_us / 1000);
	}
	return now_us;
}

static void a_narrow_server_gets_little(void **state)
{
	(void)state;
	struct limit l;
	limit_init(&l, 64);
	serve(&l, 2, 12800, 2000, 0);
	assert_in_range(limit_get(&l), 2, 6);
	limit_init(&l, 64);
	serve(&l, 1, 12800, 2000, 0);
	assert_in_range(limit_get(&l), 1, 4);
}

static void a_wide_one_gets_much(void **state)
{
	(void)state;
	struct limit l;
	limit_init(&l, 64);
	serve(&l, 20, 12800, 4000, 0);
	assert_in_range(limit_get(&l), 20, 24);
	limit_init(&l, 8);
	serve(&l, 20, 12800, 4000, 0);
	assert_int_equal(limit_get(&l), 8);
}

static void one_that_becomes_slower_is_measured_anew(void **state)
{
	(void)state;
	struct limit l;
	limit_init(&l, 64);
	int64_t now_us = serve(&l, 8, 5000, 10000, 0);
	assert_in_range(limit_get(&l), 8, 12);
	now_us = serve(&l, 8, 20000, 1000, now_us);
	assert_in_range(limit_get(&l), 1, 4); /* it looks as if they queued */
	serve(&l, 8, 20000, 20000, now_us);
	assert_in_range(limit_get(&l), 7, 12);
}

static void throttling_halves_it_once_for_what_was_under_way(void **state)
{
	(void)state;
	struct limit l;
	limit_init(&l, 64);
	serve(&l, 32, 10000, 4000, 0);
	unsigned before = limit_get(&l);
	assert_true(before >= 32);
	limit_throttled(&l, 10000, 100000);
	limit_throttled(&l, 10000, 100005);
	limit_throttled(&l, 20000, 100010);
	assert_in_range(limit_get(&l), before / 2, before / 2 + 1);
	limit_throttled(&l, 10000, 100020);
	assert_in_range(limit_get(&l), before / 4, before / 4 + 1);
	for (int64_t ms = 200000; ms < 201000; ms += 20)
		limit_throttled(&l, 10000, ms);
	assert_int_equal(limit_get(&l), 1);
}

static void what_did_not_fill_it_says_nothing_about_more(void **state)
{
	(void)state;
	struct limit l;
	limit_init(&l, 64);
	for (int i = 0; i < 1000; i++)
		limit_answered(&l, 100, 10000, LIMIT_START - 1, i);
	assert_int_equal(limit_get(&l), LIMIT_START);
}

static void sizes_are_compared_with_their_like(void **state)
{
	(void)state;
	struct limit l;
	limit_init(&l, 64);
	for (int i = 0; i < 1000; i++) {
		limit_answered(&l, 2, 2500, limit_get(&l), i); /* a short one does not make a long one slow */
		limit_answered(&l, 100, 12800, limit_get(&l), i);
	}
	assert_in_range(limit_get(&l), 63, 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_narrow_server_gets_little),
	    cmocka_unit_test(a_wide_one_gets_much),
	    cmocka_unit_test(one_that_becomes_slower_is_measured_anew),
	    cmocka_unit_test(throttling_halves_it_once_for_what_was_under_way),
	    cmocka_unit_test(what_did_not_fill_it_says_nothing_about_more),
	    cmocka_unit_test(sizes_are_compared_with_their_like),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
