#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"

static void assert_buf(struct buf *b, const char *text)
{
	assert_string_equal(b->p, text);
	assert_int_equal(b->n, strlen(text));
	buf_free(b);
	assert_null(b->p);
	assert_int_equal(b->capacity, 0);
}

static void compares(void **state)
{
	(void)state;
	assert_true(str_cmp(STR("a"), STR("b")) < 0);
	assert_true(str_cmp(STR("b"), STR("ab")) > 0);
	assert_true(str_cmp(STR("a"), STR("ab")) < 0);
	assert_true(str_cmp(STR("ab"), STR("a")) > 0);
	assert_int_equal(str_cmp(STR("ab"), STR("ab")), 0);
	assert_int_equal(str_cmp((struct str){0}, STR("")), 0);
	assert_true(str_cmp(STR("\x7f"), STR("\x80")) < 0); /* bytes are unsigned */
	assert_true(str_eq(STR("a\0b"), STR("a\0b")));
	assert_false(str_eq(STR("a\0b"), STR("a\0c")));
	assert_false(str_eq(STR("a"), STR("ab")));
	assert_true(str_eq((struct str){0}, STR("")));
}

static void searches(void **state)
{
	(void)state;
	assert_true(str_has(STR("hello"), STR("ell")));
	assert_true(str_has(STR("hello"), STR("hello")));
	assert_true(str_has(STR("hello"), STR("")));
	assert_true(str_has((struct str){0}, (struct str){0}));
	assert_false(str_has(STR("hell"), STR("hello")));
	assert_false(str_has((struct str){0}, STR("x")));
	assert_true(str_has(STR("a\0b"), STR("\0b")));
}

/* The bounds of every row of RFC 3629's table in section 4. */
static void knows_utf8(void **state)
{
	static const struct {
		struct str s;
		bool right;
	} cases[] = {
	    {STR(""), true},
	    {STR("a\0b"), true},
	    {STR("\x7f"), true},
	    {STR("\x80"), false},
	    {STR("\xbf"), false},
	    {STR("\xc0\x80"), false},
	    {STR("\xc1\xbf"), false},
	    {STR("\xc2\x80"), true},
	    {STR("\xdf\xbf"), true},
	    {STR("\xdf"), false},
	    {STR("\xdf\xc0"), false},
	    {STR("\xe0\x9f\xbf"), false},
	    {STR("\xe0\xa0\x80"), true},
	    {STR("\xed\x9f\xbf"), true},
	    {STR("\xed\xa0\x80"), false},
	    {STR("\xed\xbf\xbf"), false},
	    {STR("\xee\x80\x80"), true},
	    {STR("\xef\xbf\xbf"), true},
	    {STR("\xef\xbf"), false},
	    {STR("\xef\xbf\x7f"), false},
	    {STR("\xf0\x8f\xbf\xbf"), false},
	    {STR("\xf0\x90\x80\x80"), true},
	    {STR("\xf4\x8f\xbf\xbf"), true},
	    {STR("\xf4\x90\x80\x80"), false},
	    {STR("\xf4\x8f\xbf\xc0"), false},
	    {STR("\xf5\x80\x80\x80"), false},
	    {STR("\xff"), false},
	    {STR("ok\xf0\x9f\x9a\x80ok"), true},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (str_is_utf8(cases[i].s) != cases[i].right)
			fail_msg("case %zu", i);
}

static void grows(void **state)
{
	struct buf b = {0};
	(void)state;
	for (int i = 0; i < 1000; i++) {
		buf_add_char(&b, (char)('a' + i % 26));
		assert_int_equal(b.p[b.n], '\0');
	}
	assert_int_equal(b.n, 1000);
	assert_int_equal(b.p[999], 'a' + 999 % 26);
	assert_true(b.capacity > 1000 && b.capacity <= 2048);
	buf_free(&b);
	buf_add(&b, NULL, 0);
	assert_buf(&b, "");
	buf_add_text(&b, "one ");
	buf_add_str(&b, STR("two "));
	buf_printf(&b, "%d %s", 3, "four");
	assert_buf(&b, "one two 3 four");
}

static void is_terminated_after_clear(void **state)
{
	struct buf b = {0};
	(void)state;
	buf_clear(&b);
	assert_null(b.p);
	buf_add_text(&b, "gone");
	size_t capacity = b.capacity;
	buf_clear(&b);
	assert_int_equal(b.n, 0);
	assert_int_equal(b.capacity, capacity);
	assert_string_equal(b.p, "");
	assert_int_equal(buf_str(&b).n, 0);
	buf_free(&b);
}

static void writes_json_strings(void **state)
{
	static const struct {
		struct str in;
		const char *out;
	} cases[] = {
	    {{0}, "\"\""},
	    {STR("plain"), "\"plain\""},
	    {STR("a\"b\\c"), "\"a\\\"b\\\\c\""},
	    {STR("\n\t\x01\x1f"), "\"\\u000a\\u0009\\u0001\\u001f\""},
	    {STR("a\0b"), "\"a\\u0000b\""},
	    {STR("\xc3\xa4\xf0\x9f\x9a\x80"), "\"\xc3\xa4\xf0\x9f\x9a\x80\""},
	    {STR("x\xffy"), "\"x\xef\xbf\xbdy\""},
	    {STR("\xe2\x82"), "\"\xef\xbf\xbd\xef\xbf\xbd\""},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf b = {0};
		buf_add_json(&b, cases[i].in);
		assert_buf(&b, cases[i].out);
	}
}

static void cleans(void **state)
{
	static const struct {
		struct str in;
		size_t most;
		const char *out;
	} cases[] = {
	    {{0}, 10, ""},
	    {STR("short"), 5, "short"},
	    {STR("too long"), 7, "too \xe2\x80\xa6"},
	    {STR("too long"), 3, "\xe2\x80\xa6"},
	    {STR("too long"), 2, ""},
	    {STR("too long"), 0, ""},
	    {STR("a\nb\rc\x7f"
	         "d\0e"),
	     20, "a b c d e"},
	    {STR("\xc2\x9b"
	         "31m\xc2\xa0"),
	     20, " 31m\xc2\xa0"}, /* U+009B goes, U+00A0 stays */
	    {STR("x\xff\xfey"), 20, "x\xef\xbf\xbd\xef\xbf\xbdy"},
	    {STR("\xff\xff"), 5, "\xe2\x80\xa6"},
	    {STR("aa\xc3\xa4\xc3\xa4"), 6, "aa\xc3\xa4\xc3\xa4"},
	    {STR("aa\xc3\xa4\xc3\xa4z"), 6, "aa\xe2\x80\xa6"}, /* no half of a character */
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf b = {0};
		buf_add_clean(&b, cases[i].in, cases[i].most);
		assert_true(b.n <= cases[i].most);
		assert_buf(&b, cases[i].out);
	}
}

static void cleans_behind_what_is_there(void **state)
{
	struct buf b = {0};
	(void)state;
	buf_add_text(&b, "reason: ");
	buf_add_clean(&b, STR("abcdefgh"), 2);
	assert_string_equal(b.p, "reason: ");
	buf_add_clean(&b, STR("abcdefgh"), 5);
	assert_buf(&b, "reason: ab\xe2\x80\xa6");
}

static void numbers(void **state)
{
	(void)state;
	const int64_t values[] = {0, 7, -7, 1234567890123456789, INT64_MAX, INT64_MIN};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		char expected[24];
		struct buf b = {0};
		snprintf(expected, sizeof expected, "%lld", (long long)values[i]);
		buf_add_number(&b, values[i]);
		assert_string_equal(b.p, expected);
		buf_free(&b);
	}
}

/* Every byte at every place, and behind bytes that begin a word or end one. */
static void finds_what_is_not_plain(void **state)
{
	char text[40];
	(void)state;
	for (int c = 0; c < 256; c++) {
		bool is_special = c <= ' ' || c >= 0x7f || c == '"' || c == '\\';
		for (size_t at = 0; at < sizeof text; at++) {
			memset(text, '~', sizeof text);
			memset(text, '!', at);
			text[at] = (char)c;
			for (size_t from = 0; from <= at; from++) {
				struct str s = {text + from, sizeof text - from};
				assert_int_equal(str_plain(s), is_special ? at - from : s.n);
				assert_int_equal(str_plain((struct str){s.p, at - from}), at - from);
			}
		}
	}
	assert_int_equal(str_plain((struct str){0}), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers),
	    cmocka_unit_test(compares),
	    cmocka_unit_test(searches),
	    cmocka_unit_test(finds_what_is_not_plain),
	    cmocka_unit_test(knows_utf8),
	    cmocka_unit_test(grows),
	    cmocka_unit_test(is_terminated_after_clear),
	    cmocka_unit_test(writes_json_strings),
	    cmocka_unit_test(cleans),
	    cmocka_unit_test(cleans_behind_what_is_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
