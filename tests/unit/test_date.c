#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/date.h"

static void reads_the_three_forms(void **state)
{
	(void)state;
	static const char *const forms[] = {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
	                                    "Sun Nov  6 08:49:37 1994"};
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		int64_t ms = 0;
		assert_true(date_parse(str_of(forms[i]), &ms));
		assert_true(ms == INT64_C(784111777000));
	}
}

static void reads_nothing_else(void **state)
{
	(void)state;
	int64_t ms = 0;
	assert_false(date_parse((struct str){0}, &ms));
	assert_false(date_parse(STR("soon"), &ms));
	assert_false(date_parse(STR("Sun, 06 Nov 1994 08:49:37 GMT+1"), &ms));
	assert_false(date_parse(STR("Sun, 06 Nov 1994 08:49:37 GMT\0"), &ms));
	assert_false(
	    date_parse(STR("                                                                              "), &ms));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_the_three_forms),
	    cmocka_unit_test(reads_nothing_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
