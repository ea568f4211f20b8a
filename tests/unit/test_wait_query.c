#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "core/wait_query.h"

static void ids_and_a_time(void **state)
{
	(void)state;
	struct wait_query q;
	struct err e;
	assert_true(wait_query_read(&q, "id=42", &e));
	assert_int_equal(q.n, 1);
	assert_int_equal(q.ids[0], 42);
	assert_int_equal(q.timeout_ms, 5000);
	assert_true(wait_query_read(&q, "id=7&timeout=250ms&id=9223372036854775807&id=007&&", &e));
	assert_int_equal(q.n, 2);
	assert_int_equal(q.ids[0], 7);
	assert_true(q.ids[1] == INT64_MAX);
	assert_int_equal(q.timeout_ms, 250);
	assert_true(wait_query_read(&q, "timeout=30s&id=1", &e));
	assert_int_equal(q.timeout_ms, 30000);
}

static void what_is_wrong_is_said(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *says;
	} wrong[] = {
	    {NULL, "id is missing"},
	    {"", "id is missing"},
	    {"&", "id is missing"},
	    {"timeout=2s", "id is missing"},
	    {"id=", "a positive number is"},
	    {"id=0", "a positive number is"},
	    {"id=-5", "\"-5\" is not the id of a row"},
	    {"id=+5", "a positive number is"},
	    {"id= 5", "a positive number is"},
	    {"id=5x", "a positive number is"},
	    {"id=0x5", "a positive number is"},
	    {"id=5,6", "a positive number is"},
	    {"id=%35", "a positive number is"},
	    {"id=9223372036854775808", "a positive number is"},
	    {"id", "\"id\" is not known: write id=42"},
	    {"ids=5", "\"ids=5\" is not known: write id=42"},
	    {"id=5&timout=2s", "\"timout=2s\" is not known"},
	    {"id=5&timeout=", "timeout: \"\" is not a time"},
	    {"id=5&timeout=2", "timeout: \"2\" has no unit: write 500ms, 10s"},
	    {"id=5&timeout=0s", "timeout: \"0s\" is too short"},
	    {"id=5&timeout=31s", "timeout: \"31s\" is too long: at most 30s"},
	    {"id=5&timeout=1h", "at most 30s"},
	    {"id=5&timeout=1s&timeout=1s", "timeout stands there twice"},
	    {"id=0000000000000000000000000000000000000000000000000000000000000005x", "too long"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct wait_query q;
		struct err e;
		assert_false(wait_query_read(&q, wrong[i].text, &e));
		assert_int_equal(e.kind, ERR_REJECTED);
		if (!str_has(str_of(e.text), str_of(wrong[i].says)))
			fail_msg("%s: %s, not %s", wrong[i].text, e.text, wrong[i].says);
	}
}

static void a_hundred_ids_and_no_more(void **state)
{
	(void)state;
	struct buf text = {0};
	struct wait_query q;
	struct err e;
	for (int i = 1; i <= WAIT_QUERY_IDS; i++)
		buf_printf(&text, "id=%d&", i);
	buf_add_text(&text, "id=1");
	assert_true(wait_query_read(&q, text.p, &e));
	assert_int_equal(q.n, WAIT_QUERY_IDS);
	buf_add_text(&text, "&id=101");
	assert_false(wait_query_read(&q, text.p, &e));
	assert_string_equal(e.text, "more than 100 ids: ask for the others in another request");
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ids_and_a_time),
	    cmocka_unit_test(what_is_wrong_is_said),
	    cmocka_unit_test(a_hundred_ids_and_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
