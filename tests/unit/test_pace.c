#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/pace.h"

static void assert_pace(int64_t done, int64_t expected, int64_t elapsed_ms, const char *text)
{
	struct buf out = {0};
	pace_add(&out, "tuples", done, expected, elapsed_ms);
	assert_string_equal(out.p, text);
	buf_free(&out);
}

static void what_is_known(void **state)
{
	(void)state;
	assert_pace(0, 0, 0, "0 tuples");
	assert_pace(0, 1000, 5000, "0 of about 1000 tuples");
	assert_pace(500, 1000, 100, "500 of about 1000 tuples");
	assert_pace(120000, 1000000, 4000, "120000 of about 1000000 tuples, 30000/s, 0:30 left");
	assert_pace(120000, 0, 4000, "120000 tuples, 30000/s");
}

static void more_than_was_expected(void **state)
{
	(void)state;
	assert_pace(1001, 1000, 1000, "1001 tuples, 1001/s");
	assert_pace(1000, 1000, 1000, "1000 tuples, 1000/s");
}

static void long_times(void **state)
{
	(void)state;
	assert_pace(1, 100, 1000, "1 of about 100 tuples, 1/s, 1:40 left");
	assert_pace(1, 3700, 1000, "1 of about 3700 tuples, 1/s, 1:01:40 left");
	assert_pace(1, INT64_MAX, 1000000, "1 of about 9223372036854775807 tuples, 0/s, a long time left");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_known),
	    cmocka_unit_test(more_than_was_expected),
	    cmocka_unit_test(long_times),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
