#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/page.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct arena arena;

static int reset(void **state)
{
	(void)state;
	arena_free(&arena);
	return 0;
}

static void assert_str(struct str s, const char *text)
{
	assert_int_equal(s.n, strlen(text));
	if (s.n > 0)
		assert_memory_equal(s.p, text, s.n);
}

static struct page read_page(const char *body)
{
	struct page page;
	struct err e = {0};
	if (!page_read(str_of(body), &arena, &page, &e))
		fail_msg("%s: %s", body, e.text);
	return page;
}

static void asks_for_a_page(void **state)
{
	(void)state;
	struct buf out = {0};
	page_body((struct str){0}, 100, &out);
	assert_string_equal(out.p, "{\"page_size\":100,\"consistency\":\"HIGHER_CONSISTENCY\"}");
	buf_clear(&out);
	page_body(STR("a\"b"), 7, &out);
	assert_string_equal(out.p, "{\"page_size\":7,\"continuation_token\":\"a\\\"b\",\"consistency\":"
	                           "\"HIGHER_CONSISTENCY\"}");
	buf_free(&out);
}

static void asks_for_a_tuple_as_it_is_now(void **state)
{
	(void)state;
	struct tuple t = {.user = STR("user:\"x\""), .relation = STR("viewer"), .object = STR("archive:a")};
	struct buf out = {0};
	page_body_of(&t, &out);
	assert_string_equal(out.p, "{\"tuple_key\":{\"user\":\"user:\\\"x\\\"\",\"relation\":\"viewer\",\"object\":"
	                           "\"archive:a\"},\"page_size\":1,\"consistency\":\"HIGHER_CONSISTENCY\"}");
	buf_free(&out);
}

static void reads_tuples_and_where_the_next_ones_are(void **state)
{
	(void)state;
	struct page page = read_page(
	    "{\"tuples\":[{\"key\":{\"user\":\"user:\\u00e9\",\"relation\":\"r\",\"object\":\"a:1\",\"condition\":null}"
	    ","
	    "\"timestamp\":\"2026-01-01T00:00:00Z\"},{\"timestamp\":\"x\",\"key\":{\"object\":\"a:2\",\"relation\":"
	    "\"r\","
	    "\"user\":\"user:*\",\"condition\":{\"name\":\"c\",\"context\":{ \"n\": 9007199254740993 }}}},"
	    "{\"key\":{\"user\":\"u:1\",\"relation\":\"r\",\"object\":\"a:3\",\"condition\":{\"name\":\"c\","
	    "\"context\":"
	    "null}}},{\"key\":{\"user\":\"u:1\",\"relation\":\"r\",\"object\":\"a:4\",\"condition\":{\"name\":\"\"}}}],"
	    "\"continuation_token\":\"abc\"}");
	assert_int_equal(page.n, 4);
	assert_str(page.token, "abc");
	assert_str(page.tuples[0].user, "user:é");
	assert_str(page.tuples[0].relation, "r");
	assert_str(page.tuples[0].object, "a:1");
	assert_str(page.tuples[0].condition, "");
	assert_str(page.tuples[0].context, "");
	assert_str(page.tuples[1].user, "user:*");
	assert_str(page.tuples[1].condition, "c");
	assert_str(page.tuples[1].context, "{ \"n\": 9007199254740993 }");
	assert_str(page.tuples[2].context, "{}");
	assert_str(page.tuples[3].condition, "");
	assert_str(page.tuples[3].context, "");
}

static void the_token_is_told_from_the_end(void **state)
{
	(void)state;
	static const struct {
		const char *body;
		const char *token;
	} cases[] = {
	    {"{\"tuples\":[],\"continuation_token\":\"abc=\"}", "abc="},
	    {"{\"tuples\": [], \"continuation_token\" : \"abc=\" } \n", "abc="},
	    {"{\"tuples\":[],\"continuation_token\":\"\"}", ""},
	    {"{\"continuation_token\":\"abc\",\"tuples\":[]}", ""},
	    {"{\"tuples\":[{\"context\":{\"continuation_token\":\"abc\"}}]}", ""},
	    {"{\"tuples\":\"\\\"continuation_token\\\":\\\"abc\"}", ""},
	    {"{\"tuples\":[],\"continuation_token\":\"a\\\\b\"}", ""},
	    {"{\"tuples\":[],\"token\":\"abc\"}", ""},
	    {"continuation_token\":\"abc\"}", ""},
	    {"\"continuation_token\":\"abc\"}", ""},
	    {"{\"\\\"continuation_token\":\"abc\"}", ""},
	    {"{ \"continuation_token\":\"abc\"}", "abc"},
	    {"\"abc\"}", ""},
	    {"\"}", ""},
	    {"}", ""},
	    {"", ""},
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_str(page_peek(str_of(cases[i].body)), cases[i].token);
}

static void the_last_page(void **state)
{
	(void)state;
	struct page page = read_page("{\"tuples\":[], \"continuation_token\":\"\"}");
	assert_int_equal(page.n, 0);
	assert_int_equal(page.token.n, 0);
	assert_int_equal(read_page("{\"tuples\":[],\"continuation_token\":null}").token.n, 0);
	assert_int_equal(read_page("{\"tuples\":[]}").token.n, 0);
}

static void a_nul_in_a_context(void **state)
{
	(void)state;
	struct page page =
	    read_page("{\"tuples\":[{\"key\":{\"user\":\"u:1\",\"relation\":\"r\",\"object\":\"a:1\","
	              "\"condition\":{\"name\":\"c\",\"context\":{\"a\":\"x\\u0000\\\\u0000\\\\\\u0000\"}}"
	              "}}]}");
	assert_str(page.tuples[0].context, "{\"a\":\"x\\ufffd\\\\u0000\\\\\\ufffd\"}");
}

static void what_is_no_page(void **state)
{
	(void)state;
	static const char *const wrong[] = {
	    "",
	    "[]",
	    "{}",
	    "{\"tuples\":null}",
	    "{\"tuples\":{}}",
	    "{\"continuation_token\":\"\"}",
	    "{\"tuples\":[{}]}",
	    "{\"tuples\":[null]}",
	    "{\"tuples\":[{\"key\":null}]}",
	    "{\"tuples\":[{\"key\":{\"user\":\"u:1\",\"relation\":\"r\"}}]}",
	    "{\"tuples\":[{\"key\":{\"user\":1,\"relation\":\"r\",\"object\":\"a:1\"}}]}",
	    "{\"tuples\":[{\"key\":{\"user\":\"u:1\",\"relation\":\"r\",\"object\":\"a:1\"}}",
	    "{\"tuples\":[{\"key\":{\"user\":\"u:1\",\"relation\":\"r\",\"object\":\"a:1\"}},{\"key\":{\"user\":",
	    "{\"tuples\":[],\"continuation_token\":5}",
	    "{\"tuples\":[]} x",
	};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct page page;
		struct err e = {0};
		if (page_read(str_of(wrong[i]), &arena, &page, &e))
			fail_msg("taken: %s", wrong[i]);
		assert_int_equal(e.kind, ERR_TRANSIENT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(asks_for_a_page, reset),
	    cmocka_unit_test_teardown(asks_for_a_tuple_as_it_is_now, reset),
	    cmocka_unit_test_teardown(reads_tuples_and_where_the_next_ones_are, reset),
	    cmocka_unit_test_teardown(the_token_is_told_from_the_end, reset),
	    cmocka_unit_test_teardown(the_last_page, reset),
	    cmocka_unit_test_teardown(a_nul_in_a_context, reset),
	    cmocka_unit_test_teardown(what_is_no_page, reset),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
