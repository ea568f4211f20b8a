#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "base/json.h"
#include "base/rng.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool accepts(struct str text)
{
	struct json j = json_start(text);
	bool skipped = json_skip(&j, NULL);
	bool ended = json_end(&j);
	assert_true(!ended || skipped);
	assert_true(ended == (j.wrong == NULL));
	assert_true(j.at <= text.n);
	return ended;
}

static cJSON *parse_other(const char *text)
{
	return cJSON_ParseWithOpts(text, NULL, true);
}

/* Fails unless the value at hand is what cJSON made of it. */
static void assert_same(struct json *j, struct arena *arena, const cJSON *other)
{
	struct str s;
	const cJSON *child = other->child;
	switch (json_kind(j)) {
	case JSON_WRONG:
		fail_msg("%s at byte %zu", j->wrong, j->at);
		break;
	case JSON_NULL:
		assert_true(cJSON_IsNull(other));
		assert_true(json_skip(j, NULL));
		break;
	case JSON_BOOLEAN:
		assert_true(cJSON_IsBool(other));
		assert_true(json_skip(j, &s));
		assert_true(str_eq(s, cJSON_IsTrue(other) ? STR("true") : STR("false")));
		break;
	case JSON_NUMBER: {
		assert_true(cJSON_IsNumber(other));
		assert_true(json_skip(j, &s));
		char *text = strndup(s.p, s.n);
		assert_true(strtod(text, NULL) == other->valuedouble);
		free(text);
		break;
	}
	case JSON_STRING:
		assert_true(cJSON_IsString(other));
		assert_true(json_string(j, arena, &s));
		assert_true(str_eq(s, str_of(other->valuestring)));
		break;
	case JSON_ARRAY:
		assert_true(cJSON_IsArray(other));
		assert_true(json_array(j));
		for (; json_item(j); child = child->next) {
			assert_non_null(child);
			assert_same(j, arena, child);
		}
		assert_null(child);
		break;
	case JSON_OBJECT:
		assert_true(cJSON_IsObject(other));
		assert_true(json_object(j));
		for (; json_member(j, arena, &s); child = child->next) {
			assert_non_null(child);
			assert_true(str_eq(s, str_of(child->string)));
			assert_same(j, arena, child);
		}
		assert_null(child);
		break;
	}
}

static void assert_same_document(struct str text, const cJSON *other)
{
	struct arena arena = {0};
	struct json j = json_start(text);
	assert_same(&j, &arena, other);
	assert_true(json_end(&j));
	arena_free(&arena);
}

static const char *const good[] = {
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1.5e+10",
    "1E400",
    "0.1",
    "10",
    "12345678901234567890",
    "0e0",
    "2e-3",
    "2E+3",
    "[0]",
    "\"\"",
    "\"plain\"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u0001\\u001f\\u007F\\u0080\\u07ff\\u0800\\uFFFF\\ud7ff\\ue000\"",
    "\"\\ud83d\\ude00 \\uD800\\uDC00 \\udbff\\udfff\"",
    "\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf\"",
    "\"\x7f\"",
    "\"\\u0041\xc3\xa9\\n\xc3\xa9\"",
    "[]",
    "[ ]",
    "[[],[[]],{}]",
    "[1,2 ,3, 4]",
    " \t\r\n[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n] \t\r\n",
    "{}",
    "{ }",
    "{\"\":\"\"}",
    "{\"a\":1,\"b\":[true,false,null],\"c\":{\"d\":\"e\"}}",
    "{\"a\":1,\"a\":2}",
    "{\"\\u0061\\n\":{\"\\ud83d\\ude00\":[]}}",
    "{ \"a\" : 1 , \"b\" : 2 }",
    "{\"writes\": [{\"user\": \"user:anne\", \"relation\": \"viewer\", \"object\": \"archive:1\"}]}",
};

/* Refused by both. */
static const char *const bad[] = {
    "",
    " ",
    "nul",
    "nullx",
    "True",
    "tru",
    "falsey",
    "NaN",
    "Infinity",
    "-",
    "+1",
    ".5",
    "-a",
    "1e",
    "1e+",
    "0x10",
    "1 2",
    "[1]x",
    "{}{}",
    "\"",
    "\"a",
    "'a'",
    "\"\\x41\"",
    "\"\\",
    "\"\\\"",
    "\"\\u12\"",
    "[",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1}",
    "]",
    "{",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,",
    "{\"a\":1,}",
    "{,}",
    "{a:1}",
    "{1:1}",
    "{\"a\" 1}",
    "{\"a\":1]",
    "{\"a\":}",
    "{\"a\":1 2}",
    "}",
    "/**/1",
    "1//",
    "\"a\"b\"",
    "[\"a\"\"b\"]",
    "{\"a\":,}",
    "[1,,2]",
    "\"\\ud800\"",
    "\"\\ud800x\"",
    "\"\\udc00\"",
    "\"\\ud800\\u0041\"",
    "\"\\ud800\\ud800\"",
    "\"\\ud800\\n\"",
    "\"\\udc00\\ud800\"",
    "\"\\ud83d\\ude0\"",
};

static void agrees_with_cjson(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		cJSON *other = parse_other(good[i]);
		assert_non_null(other);
		if (!accepts(str_of(good[i])))
			fail_msg("refused: %s", good[i]);
		assert_same_document(str_of(good[i]), other);
		cJSON_Delete(other);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		cJSON *other = parse_other(bad[i]);
		if (other != NULL)
			fail_msg("cJSON accepts: %s", bad[i]);
		if (accepts(str_of(bad[i])))
			fail_msg("accepted: %s", bad[i]);
	}
}

/* What cJSON 1.7.15 accepts, and why this reader does not. */
static void differs_from_cjson_where_it_should(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *why;
	} cases[] = {
	    {"\"a\\u0000b\"", "cJSON cuts the string there, which makes another tuple of it"},
	    {"{\"a\\u0000\":1}", "the same in a key"},
	    {"\"\\u00zz\"", "cJSON takes it for \\u0000"},
	    {"\"a\nb\"", "RFC 8259, section 7: control characters must be escaped"},
	    {"\"a\tb\"", "the same"},
	    {"\"\x01\"", "the same"},
	    {"\"\x80\"", "RFC 8259, section 8.1: must be UTF-8"},
	    {"\"\xc0\x80\"", "overlong"},
	    {"\"\xe2\x82\"", "cut short"},
	    {"\"\xed\xa0\x80\"", "a surrogate in UTF-8"},
	    {"\"\xf4\x90\x80\x80\"", "beyond U+10FFFF"},
	    {"{\"\xff\":1}", "not UTF-8, in a key"},
	    {"01", "RFC 8259, section 6: no leading zeros"},
	    {"-01", "the same"},
	    {"[00]", "the same"},
	    {"1.", "RFC 8259, section 6: a digit must follow"},
	    {"1.e5", "the same"},
	    {"-.5", "RFC 8259, section 6: a digit must come first"},
	    {"\v1", "RFC 8259, section 2: no white space but blank, tab and line ends"},
	    {"[1\x01]", "the same"},
	    {"\xef\xbb\xbf[]", "RFC 8259, section 8.1: no byte order mark"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		cJSON *other = parse_other(cases[i].text);
		if (other == NULL)
			fail_msg("cJSON refuses it too: %s (%s)", cases[i].text, cases[i].why);
		cJSON_Delete(other);
		if (accepts(str_of(cases[i].text)))
			fail_msg("%s (%s)", cases[i].text, cases[i].why);
	}
}

static void every_beginning_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		struct str text = str_of(good[i]);
		if (text.p[0] != '[' && text.p[0] != '{' && text.p[0] != '"')
			continue;
		for (size_t n = 0; n < text.n; n++) {
			/* A copy of just that size, so that a sanitizer sees a step too far. */
			char *beginning = malloc(n + 1);
			memcpy(beginning, text.p, n);
			beginning = realloc(beginning, n > 0 ? n : 1);
			struct json j = json_start((struct str){beginning, n});
			assert_false(json_skip(&j, NULL));
			if (strcmp(j.wrong, "the text ends too early") != 0 &&
			    strcmp(j.wrong, "half of a surrogate pair stands alone") != 0)
				fail_msg("%.*s: %s", (int)n, beginning, j.wrong);
			free(beginning);
		}
	}
}

static void bounds_depth(void **state)
{
	(void)state;
	for (int deep = 0; deep <= 1; deep++) {
		struct buf b = {0};
		for (int i = 0; i < JSON_MAX_DEPTH + deep; i++)
			buf_add_text(&b, i % 2 ? "{\"a\":" : "[");
		buf_add_text(&b, "1");
		for (int i = JSON_MAX_DEPTH + deep - 1; i >= 0; i--)
			buf_add_text(&b, i % 2 ? "}" : "]");
		assert_true(accepts(buf_str(&b)) == !deep);
		buf_free(&b);
	}
	struct buf b = {0};
	for (int i = 0; i < 1000 * 1000; i++)
		buf_add_char(&b, '[');
	assert_false(accepts(buf_str(&b)));
	buf_free(&b);
	b = (struct buf){0};
	buf_add_text(&b, "[[]");
	for (int i = 0; i < 2 * JSON_MAX_DEPTH; i++)
		buf_add_text(&b, ",{},[[]]");
	buf_add_text(&b, "]");
	assert_true(accepts(buf_str(&b))); /* many, but not deep */
	buf_free(&b);
}

static void hands_out_values(void **state)
{
	(void)state;
	struct arena arena = {0};
	struct str text = STR(
	    "{\"plain\": \"abc\", \"escaped\": \"a\\tb\", \"raw\": { \"n\" : 9007199254740993 } ,\"items\":[1,\"x\"]}");
	struct json j = json_start(text);
	struct str key;
	struct str s;
	assert_int_equal(json_kind(&j), JSON_OBJECT);
	assert_true(json_object(&j));

	assert_true(json_member(&j, &arena, &key));
	assert_true(str_eq(key, STR("plain")));
	assert_true(json_string(&j, &arena, &s));
	assert_true(str_eq(s, STR("abc")));
	assert_true(s.p > text.p && s.p < text.p + text.n);
	assert_null(arena.blocks); /* nothing was allocated */

	assert_true(json_member(&j, &arena, &key));
	struct json bookmark = j;
	assert_true(json_string(&j, &arena, &s));
	assert_true(str_eq(s, STR("a\tb")));
	assert_true(json_skip(&bookmark, &s));
	assert_true(str_eq(s, STR("\"a\\tb\"")));
	assert_int_equal(bookmark.at, j.at);

	assert_true(json_member(&j, &arena, &key));
	assert_true(json_skip(&j, &s));
	assert_true(str_eq(s, STR("{ \"n\" : 9007199254740993 }")));

	assert_true(json_member(&j, &arena, &key));
	assert_true(json_array(&j));
	assert_true(json_item(&j));
	assert_int_equal(json_kind(&j), JSON_NUMBER);
	assert_true(json_skip(&j, &s));
	assert_true(json_item(&j));
	assert_true(json_string(&j, &arena, &s));
	assert_true(str_eq(s, STR("x")));
	assert_false(json_item(&j));
	assert_false(json_member(&j, &arena, &key));
	assert_true(json_end(&j));
	assert_null(j.wrong);
	arena_free(&arena);
}

static void stays_wrong(void **state)
{
	(void)state;
	struct arena arena = {0};
	struct str s = STR("before");
	struct json j = json_start(STR("[1, 2]"));
	assert_false(json_object(&j));
	assert_string_equal(j.wrong, "there is no object where one must be");
	assert_int_equal(j.at, 0);
	assert_int_equal(json_kind(&j), JSON_WRONG);
	assert_false(json_array(&j));
	assert_false(json_item(&j));
	assert_false(json_member(&j, &arena, &s));
	assert_false(json_string(&j, &arena, &s));
	assert_false(json_skip(&j, &s));
	assert_false(json_end(&j));
	assert_int_equal(j.at, 0);
	assert_true(str_eq(s, STR("before")));
	assert_string_equal(json_kind_name(JSON_ARRAY), "an array");
	arena_free(&arena);
}

/* Texts made from good ones by small random changes, always the same ones. */
static void agrees_on_random_texts(void **state)
{
	(void)state;
	static const char alphabet[] = "{}[]\",:\\u0dD8c19-+.eE \n\ttfn/a\x01\x80\xc3\xbc";
	struct rng rng = {1};
	unsigned both = 0;
	for (int i = 0; i < 50000; i++) {
		char text[128];
		struct str from = str_of(good[rng_upto(&rng, COUNT(good) - 1)]);
		assert_true(from.n < sizeof text - 8);
		memcpy(text, from.p, from.n + 1);
		size_t n = from.n;
		for (int64_t changes = rng_upto(&rng, 2); changes >= 0; changes--) {
			size_t at = (size_t)rng_upto(&rng, (int64_t)n);
			char c = alphabet[rng_upto(&rng, sizeof alphabet - 2)];
			switch (rng_upto(&rng, 2)) {
			case 0:
				memmove(text + at + 1, text + at, n - at + 1);
				text[at] = c;
				n++;
				break;
			case 1:
				if (at < n)
					text[at] = c;
				break;
			default:
				if (at < n)
					memmove(text + at, text + at + 1, n-- - at);
				break;
			}
		}
		if (!accepts((struct str){text, n}))
			continue;
		cJSON *other = parse_other(text);
		if (other == NULL)
			fail_msg("cJSON refuses: %s", text);
		assert_same_document((struct str){text, n}, other);
		cJSON_Delete(other);
		both++;
	}
	assert_true(both > 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(agrees_with_cjson),          cmocka_unit_test(differs_from_cjson_where_it_should),
	    cmocka_unit_test(every_beginning_is_refused), cmocka_unit_test(bounds_depth),
	    cmocka_unit_test(hands_out_values),           cmocka_unit_test(stays_wrong),
	    cmocka_unit_test(agrees_on_random_texts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
