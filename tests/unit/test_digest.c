#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/digest.h"

static void assert_written(const struct park *p, const char *expected)
{
	struct buf text = {0};
	digest_write(p, &text);
	assert_string_equal(text.p, expected);
	buf_free(&text);
}

static void refuse(struct park *p, int64_t id, const char *reason)
{
	park_refuse(p, id, 1000);
	if (reason != NULL)
		park_explain(p, id, str_of(reason));
}

static void nothing(void **state)
{
	struct park p = {0};
	(void)state;
	park_explain(&p, 5, STR("it is not parked"));
	assert_written(&p, "{\"refused\":0,\"reasons\":[],\"held\":0,\"behind\":[]}");
}

static void by_reason_the_most_frequent_first(void **state)
{
	struct park p = {0};
	(void)state;
	for (int64_t id = 30; id > 20; id--)
		refuse(&p, id, "b \"quoted\"");
	refuse(&p, 7, "a");
	refuse(&p, 8, NULL);
	refuse(&p, 9, NULL);
	park_hold(&p, 12, 7);
	park_hold(&p, 11, 7);
	park_hold(&p, 41, 40);
	assert_written(
	    &p, "{\"refused\":13,\"reasons\":["
	        "{\"reason\":\"b \\\"quoted\\\"\",\"rows\":10,\"ids\":[21,22,23,24,25]},"
	        "{\"reason\":null,\"rows\":2,\"ids\":[8,9]},{\"reason\":\"a\",\"rows\":1,\"ids\":[7]}],"
	        "\"held\":3,\"behind\":[{\"id\":7,\"rows\":2,\"ids\":[11,12]},{\"id\":40,\"rows\":1,\"ids\":[41]}]}");
	park_free(&p);
}

static void what_is_finished_or_refused_anew_counts_where_it_is(void **state)
{
	struct park p = {0};
	(void)state;
	refuse(&p, 1, "a");
	refuse(&p, 2, "a");
	refuse(&p, 2, "b");
	park_finish(&p, 1, 0);
	assert_written(
	    &p, "{\"refused\":1,\"reasons\":[{\"reason\":\"b\",\"rows\":1,\"ids\":[2]}],\"held\":0,\"behind\":[]}");
	/* A refused row that is held besides is still a refused one, with its reason. */
	park_hold(&p, 2, 1);
	assert_written(
	    &p, "{\"refused\":1,\"reasons\":[{\"reason\":\"b\",\"rows\":1,\"ids\":[2]}],\"held\":0,\"behind\":[]}");
	park_free(&p);
}

static void the_lowest_of_many_that_are_waited_for(void **state)
{
	struct park p = {0};
	struct digest d;
	(void)state;
	for (int64_t id = 100; id > 0; id--) {
		park_hold(&p, 1000 + 2 * id, id);
		park_hold(&p, 1001 + 2 * id, id);
	}
	digest_read(&p, &d);
	assert_int_equal(d.held, 200);
	assert_int_equal(d.n_behind, DIGEST_BEHIND);
	for (int64_t i = 0; i < DIGEST_BEHIND; i++) {
		assert_int_equal(d.behind[i].id, i + 1);
		assert_int_equal(d.behind[i].held.rows, 2);
		assert_int_equal(d.behind[i].held.ids[0], 1002 + 2 * i);
		assert_int_equal(d.behind[i].held.ids[1], 1003 + 2 * i);
	}
	park_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing),
	    cmocka_unit_test(by_reason_the_most_frequent_first),
	    cmocka_unit_test(what_is_finished_or_refused_anew_counts_where_it_is),
	    cmocka_unit_test(the_lowest_of_many_that_are_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
