#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/ids.h"

static void assert_read(const char *text, const char *array, size_t count)
{
	struct buf out = {0};
	struct err e;
	size_t n;
	assert_true(ids_parse(text, &out, &n, &e));
	assert_string_equal(out.p, array);
	assert_int_equal(n, count);
	buf_free(&out);
}

static void assert_wrong(const char *text, const char *says)
{
	struct buf out = {0};
	struct err e;
	size_t n;
	assert_false(ids_parse(text, &out, &n, &e));
	assert_int_equal(e.kind, ERR_CONFIG);
	assert_non_null(strstr(e.text, says));
	buf_free(&out);
}

static void lists_and_ranges(void **state)
{
	(void)state;
	assert_read("1", "{1}", 1);
	assert_read("1,2,5-9", "{1,2,5,6,7,8,9}", 7);
	assert_read("7-7", "{7}", 1);
	assert_read("9,1,1", "{9,1,1}", 3);
	assert_read("9223372036854775806-9223372036854775807", "{9223372036854775806,9223372036854775807}", 2);
}

static void what_is_no_list(void **state)
{
	static const char *const wrong[] = {"",
	                                    ",",
	                                    "1,",
	                                    ",1",
	                                    "1,,2",
	                                    "a",
	                                    "1;2",
	                                    "1 ,2",
	                                    "1-",
	                                    "-1",
	                                    "5-1",
	                                    "1-2-3",
	                                    "1.5",
	                                    "0x1",
	                                    "1,2 or 1=1",
	                                    "9223372036854775808",
	                                    "1-9223372036854775808"};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_wrong(wrong[i], "write 1,2,5-9");
}

static void no_more_than_the_most(void **state)
{
	char text[64];
	struct buf out = {0};
	struct err e;
	size_t n;
	(void)state;
	snprintf(text, sizeof text, "1-%d", IDS_MAX);
	assert_true(ids_parse(text, &out, &n, &e));
	assert_int_equal(n, IDS_MAX);
	buf_free(&out);
	snprintf(text, sizeof text, "1-%d,%d", IDS_MAX, IDS_MAX + 1);
	assert_wrong(text, "more than 10000");
	assert_wrong("0-9223372036854775807", "more than 10000");
}

static void one_id(void **state)
{
	(void)state;
	static const char *const wrong[] = {"", "1,2", "1-2", "-1", " 1", "1 ", "x", "9223372036854775808"};
	struct err e;
	int64_t id;
	assert_true(ids_parse_one("42", &id, &e));
	assert_int_equal(id, 42);
	assert_true(ids_parse_one("9223372036854775807", &id, &e));
	assert_true(id == INT64_MAX);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_false(ids_parse_one(wrong[i], &id, &e));
		assert_int_equal(e.kind, ERR_CONFIG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lists_and_ranges),
	    cmocka_unit_test(what_is_no_list),
	    cmocka_unit_test(no_more_than_the_most),
	    cmocka_unit_test(one_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
