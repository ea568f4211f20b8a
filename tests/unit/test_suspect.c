#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/suspect.h"

static struct suspect s;
static struct suspect_counts counts;

static int begin(void **state)
{
	(void)state;
	s = (struct suspect){0};
	return 0;
}

static const struct str A = {"type 'a' not found", 18};
static const struct str B = {"type 'b' not found", 18};

static void deliver(int n)
{
	for (int i = 0; i < n; i++)
		suspect_delivered(&s);
}

/* Refuses n rows; returns how often the model was accused. */
static int refuse(int n, struct str reason)
{
	int accused = 0;
	for (int i = 0; i < n; i++) {
		suspect_refused(&s, reason);
		accused += suspect_accuse(&s, reason, &counts);
	}
	return accused;
}

static void nearly_all_of_enough(void **state)
{
	(void)state;
	deliver(2);
	assert_int_equal(refuse(SUSPECT_MIN_REFUSED - 1, A), 0);
	assert_int_equal(refuse(1, A), 1);
	assert_int_equal(counts.refused, SUSPECT_MIN_REFUSED);
	assert_int_equal(counts.delivered, 2);
}

static void some_among_many_good_ones(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		assert_int_equal(refuse(8, A), 0);
		deliver(2);
	}
}

static void for_various_reasons(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++)
		assert_int_equal(refuse(1, i % 2 == 0 ? A : B), 0);
}

static void what_the_model_has_no_part_in(void **state)
{
	(void)state;
	assert_int_equal(refuse(200, (struct str){0}), 0);
}

static void only_once_until_it_heals(void **state)
{
	(void)state;
	assert_int_equal(refuse(1000, A), 1);
	deliver(SUSPECT_WINDOW * (100 - SUSPECT_HEALED_PERCENT) / 100);
	assert_int_equal(refuse(1000, A), 0);
	deliver(SUSPECT_WINDOW * (100 - SUSPECT_HEALED_PERCENT) / 100 + 1);
	assert_int_equal(refuse(1000, A), 1);
}

static void another_reason_is_another_story(void **state)
{
	(void)state;
	assert_int_equal(refuse(1000, A), 1);
	assert_int_equal(refuse(1000, B), 1);
	assert_int_equal(refuse(1000, A), 1);
}

static void what_is_long_ago_does_not_count(void **state)
{
	(void)state;
	deliver(100000);
	assert_int_equal(refuse(SUSPECT_WINDOW * SUSPECT_PERCENT / 100 - 1, A), 0);
	assert_int_equal(refuse(1, A), 1);
	assert_int_equal(counts.delivered, SUSPECT_WINDOW * (100 - SUSPECT_PERCENT) / 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(nearly_all_of_enough, begin),
	    cmocka_unit_test_setup(some_among_many_good_ones, begin),
	    cmocka_unit_test_setup(for_various_reasons, begin),
	    cmocka_unit_test_setup(what_the_model_has_no_part_in, begin),
	    cmocka_unit_test_setup(only_once_until_it_heals, begin),
	    cmocka_unit_test_setup(another_reason_is_another_story, begin),
	    cmocka_unit_test_setup(what_is_long_ago_does_not_count, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
