#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/causes.h"

static uint8_t add(struct causes *c, int number)
{
	char text[32];
	snprintf(text, sizeof text, "reason %d", number);
	return causes_add(c, str_of(text));
}

static void equal_reasons_are_one(void **state)
{
	struct causes c = {0};
	(void)state;
	uint8_t first =
	    causes_add(&c, STR("openfga answered 400 validation_error: Invalid tuple 'archive:a1#parent@spaceship:s1'. "
	                       "Reason: type 'spaceship' not found"));
	uint8_t second = add(&c, 1);
	assert_int_not_equal(first, second);
	assert_int_equal(first,
	                 causes_add(&c, STR("openfga answered 400 validation_error: Invalid tuple "
	                                    "'archive:a2#parent@spaceship:s2'. Reason: type 'spaceship' not found")));
	assert_string_equal(c.list[first].text, "type 'spaceship' not found");
	assert_int_equal(c.list[first].rows, 2);
	assert_int_equal(c.list[second].rows, 1);
}

static void what_no_row_has_any_more_gives_room(void **state)
{
	struct causes c = {0};
	uint8_t numbers[CAUSES_MAX];
	(void)state;
	for (int i = 0; i < CAUSES_MAX; i++)
		numbers[i] = add(&c, i);
	assert_int_equal(add(&c, 100), CAUSE_OTHER);
	assert_int_equal(add(&c, 101), CAUSE_OTHER);
	assert_int_equal(c.list[CAUSE_OTHER].rows, 2);
	assert_int_equal(add(&c, 3), numbers[3]);
	causes_remove(&c, numbers[3]);
	assert_string_equal(c.list[numbers[3]].text, "reason 3");
	causes_remove(&c, numbers[7]);
	assert_int_equal(add(&c, 100), numbers[7]);
	assert_string_equal(c.list[numbers[7]].text, "reason 100");
	causes_remove(&c, CAUSE_OTHER);
	assert_int_equal(c.list[CAUSE_OTHER].rows, 1);
	causes_remove(&c, CAUSE_NONE);
	assert_int_equal(c.list[CAUSE_NONE].rows, 0);
}

/* A free place before it is no reason to overlook an equal one behind it. */
static void an_equal_one_is_found_behind_a_gap(void **state)
{
	struct causes c = {0};
	(void)state;
	uint8_t first = add(&c, 1);
	uint8_t second = add(&c, 2);
	causes_remove(&c, first);
	assert_int_equal(add(&c, 2), second);
	assert_int_equal(c.list[second].rows, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_reasons_are_one),
	    cmocka_unit_test(what_no_row_has_any_more_gives_room),
	    cmocka_unit_test(an_equal_one_is_found_behind_a_gap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
