#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/reasons.h"

#define SPACESHIP(n) \
	"openfga answered 400 validation_error: Invalid tuple 'archive:a" #n "#parent@spaceship:s" #n \
	"'. Reason: type 'spaceship' not found"

static void tuples_make_no_difference(void **state)
{
	struct reasons r = {0};
	(void)state;
	reasons_add(&r, 4, STR(SPACESHIP(1)));
	reasons_add(&r, 7, STR("something else"));
	reasons_add(&r, 9, STR(SPACESHIP(2)));
	assert_int_equal(r.n, 2);
	assert_string_equal(r.list[0].text, "type 'spaceship' not found");
	assert_int_equal(r.list[0].rows, 2);
	assert_int_equal(r.list[0].ids[0], 4);
	assert_int_equal(r.list[0].ids[1], 9);
	assert_string_equal(r.list[1].text, "something else");
	assert_int_equal(r.others, 0);
}

static void a_text_of_any_kind_is_one_short_line(void **state)
{
	struct reasons r = {0};
	char text[1000];
	(void)state;
	memset(text, 'x', sizeof text);
	text[3] = '\n';
	text[4] = '\xff';
	reasons_add(&r, 1, (struct str){text, sizeof text});
	assert_in_range(strlen(r.list[0].text), 100, FAULT_REASON_BYTES - 1);
	assert_null(strchr(r.list[0].text, '\n'));
	assert_true(str_is_utf8(str_of(r.list[0].text)));
	reasons_add(&r, 2, STR(""));
	assert_string_equal(r.list[1].text, "no reason is given");
}

static void the_most_frequent_comes_first(void **state)
{
	static const char *const texts[] = {"b", "a", "c", "a", "a", "c"};
	struct reasons r = {0};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reasons_add(&r, (int64_t)i, str_of(texts[i]));
	reasons_sort(&r);
	assert_string_equal(r.list[0].text, "a");
	assert_string_equal(r.list[1].text, "c");
	assert_string_equal(r.list[2].text, "b");
}

static void more_than_there_is_room_for_is_counted(void **state)
{
	struct reasons r = {0};
	char text[16];
	(void)state;
	for (int i = 0; i < REASONS_MAX + 3; i++) {
		snprintf(text, sizeof text, "reason %d", i);
		reasons_add(&r, i, str_of(text));
	}
	assert_int_equal(r.n, REASONS_MAX);
	assert_int_equal(r.others, 3);
	for (int i = 0; i < 100; i++)
		reasons_add(&r, 1000 + i, STR("reason 0"));
	assert_int_equal(r.list[0].rows, 101);
	assert_int_equal(r.list[0].ids[REASONS_IDS - 1], 1000 + REASONS_IDS - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tuples_make_no_difference),
	    cmocka_unit_test(a_text_of_any_kind_is_one_short_line),
	    cmocka_unit_test(the_most_frequent_comes_first),
	    cmocka_unit_test(more_than_there_is_room_for_is_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
