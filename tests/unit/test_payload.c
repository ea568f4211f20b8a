#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/payload.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define ANNE "{\"user\": \"user:anne\", \"relation\": \"member\", \"object\": \"organization:acme\"}"
#define BOB "{\"user\": \"user:bob\", \"relation\": \"member\", \"object\": \"organization:acme\"}"
#define WITH(condition) \
	"{\"user\": \"user:anne\", \"relation\": \"viewer\", \"object\": \"archive:1\", \"condition\": " condition "}"

static void parse(const char *text, struct arena *arena, struct payload *p)
{
	struct err e = {0};
	if (!payload_parse(str_of(text), arena, p, &e))
		fail_msg("%s: %s", text, e.text);
}

static void assert_text(struct str s, const char *expected)
{
	if (!str_eq(s, str_of(expected)))
		fail_msg("%.*s, expected %s", (int)s.n, s.p, expected);
}

static void reads_the_ledgers_row(void **state)
{
	(void)state;
	struct arena arena = {0};
	struct payload p;
	parse(
	    "{\"writes\":  [{\"user\": \"capture_job:7f17\", \"relation\": \"parent\", \"object\": \"archive:3a4c\"},\n"
	    "             {\"user\": \"organization:acme\", \"relation\": \"parent\", \"object\": "
	    "\"capture_job:7f17\"}],\n"
	    " \"deletes\": [" ANNE "]}",
	    &arena, &p);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.n_deletes, 1);
	assert_false(p.rewrites);
	assert_int_equal(p.ops[0].kind, OP_DELETE);
	assert_text(p.ops[0].tuple.user, "user:anne");
	assert_text(p.ops[0].tuple.relation, "member");
	assert_text(p.ops[0].tuple.object, "organization:acme");
	assert_int_equal(p.ops[1].kind, OP_WRITE);
	assert_text(p.ops[1].tuple.user, "capture_job:7f17");
	assert_text(p.ops[1].tuple.relation, "parent");
	assert_text(p.ops[1].tuple.object, "archive:3a4c");
	assert_int_equal(p.ops[1].tuple.condition.n, 0);
	assert_int_equal(p.ops[1].tuple.context.n, 0);
	assert_int_equal(p.ops[2].kind, OP_WRITE);
	assert_text(p.ops[2].tuple.object, "capture_job:7f17");
	struct tuple same = p.ops[2].tuple;
	tuple_hash(&same);
	assert_true(same.hash == p.ops[2].tuple.hash && same.hash != p.ops[1].tuple.hash);
	arena_free(&arena);
}

static void reads_nothing_to_do(void **state)
{
	(void)state;
	static const char *const texts[] = {
	    "{}",
	    " { } ",
	    "{\"writes\": []}",
	    "{\"writes\": null}",
	    "{\"deletes\": [], \"writes\": null}",
	    "{\"writes\": [], \"deletes\": []}",
	};
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct arena arena = {0};
		struct payload p;
		parse(texts[i], &arena, &p);
		assert_int_equal(p.n, 0);
		assert_int_equal(p.n_deletes, 0);
		assert_false(p.rewrites);
		arena_free(&arena);
	}
}

static void reads_conditions(void **state)
{
	(void)state;
	static const struct {
		const char *condition;
		const char *name;
		const char *context;
	} cases[] = {
	    {"null", "", ""},
	    {"{\"name\": \"not_expired\"}", "not_expired", "{}"},
	    {"{\"name\": \"not_expired\", \"context\": null}", "not_expired", "{}"},
	    {"{\"name\": \"not_expired\", \"context\": {}}", "not_expired", "{}"},
	    {"{\"context\": { \"n\" : 9007199254740993 , \"s\":\"\\u00e9\" } , \"name\": \"\\u006eot_expired\"}",
	     "not_expired", "{ \"n\" : 9007199254740993 , \"s\":\"\\u00e9\" }"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct arena arena = {0};
		struct buf text = {0};
		struct payload p;
		buf_printf(&text, "{\"writes\": [" WITH("%s") "]}", cases[i].condition);
		parse(text.p, &arena, &p);
		assert_int_equal(p.n, 1);
		assert_text(p.ops[0].tuple.condition, cases[i].name);
		assert_text(p.ops[0].tuple.context, cases[i].context);
		buf_free(&text);
		arena_free(&arena);
	}
}

static void ignores_conditions_of_deletes(void **state)
{
	(void)state;
	static const char *const conditions[] = {
	    "null", "{}", "{\"name\": \"not_expired\", \"context\": {}}", "{\"bogus\": 1}", "5",
	};
	for (size_t i = 0; i < COUNT(conditions); i++) {
		struct arena arena = {0};
		struct buf text = {0};
		struct payload p;
		buf_printf(&text, "{\"deletes\": [" WITH("%s") "]}", conditions[i]);
		parse(text.p, &arena, &p);
		assert_int_equal(p.n, 1);
		assert_int_equal(p.ops[0].tuple.condition.n, 0);
		assert_int_equal(p.ops[0].tuple.context.n, 0);
		buf_free(&text);
		arena_free(&arena);
	}
}

static void decodes_escapes(void **state)
{
	(void)state;
	struct arena arena = {0};
	struct payload p;
	parse(
	    "{\"\\u0077rites\": [{\"\\u0075ser\": \"user:\\ud83d\\ude00\", \"relation\": \"vi\\u0065wer\", \"object\": "
	    "\"archive:a\\/\\\"\"}]}",
	    &arena, &p);
	assert_int_equal(p.n, 1);
	assert_text(p.ops[0].tuple.user, "user:\xf0\x9f\x98\x80");
	assert_text(p.ops[0].tuple.relation, "viewer");
	assert_text(p.ops[0].tuple.object, "archive:a/\"");
	arena_free(&arena);
}

static void counts_repetitions_once(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t n;
		size_t n_deletes;
		bool rewrites;
	} cases[] = {
	    {"{\"writes\": [" ANNE "," BOB "," ANNE "," ANNE "," BOB "]}", 2, 0, false},
	    {"{\"deletes\": [" ANNE "," ANNE "], \"writes\": [" BOB "]}", 2, 1, false},
	    {"{\"deletes\": [" ANNE "," WITH("1") "," WITH("2") "]}", 2, 2, false},
	    {"{\"writes\": [" WITH("{\"name\":\"ab\"}") "," WITH("{\"context\":{}, \"name\":\"ab\"}") "]}", 1, 0,
	     false},
	    {"{\"deletes\": [" ANNE "], \"writes\": [" ANNE "]}", 2, 1, true},
	    {"{\"writes\": [" BOB "," ANNE "], \"deletes\": [" ANNE "," ANNE "]}", 3, 1, true},
	    {"{\"deletes\": [" WITH("null") "], \"writes\": [" WITH("{\"name\":\"ab\"}") "]}", 2, 1, true},
	    {"{\"deletes\": [" ANNE "," BOB "]}", 2, 2, false},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct arena arena = {0};
		struct payload p;
		parse(cases[i].text, &arena, &p);
		assert_int_equal(p.n, cases[i].n);
		assert_int_equal(p.n_deletes, cases[i].n_deletes);
		assert_int_equal(p.rewrites, cases[i].rewrites);
		for (size_t k = 0; k < p.n; k++)
			assert_int_equal(p.ops[k].kind, k < p.n_deletes ? OP_DELETE : OP_WRITE);
		arena_free(&arena);
	}
}

static void refuses(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *reason;
	} cases[] = {
	    {"null", "payload: is null, must be an object"},
	    {"\"x\"", "payload: is a string, must be an object"},
	    {"5", "payload: is a number, must be an object"},
	    {"true", "payload: is a boolean, must be an object"},
	    {"[]", "payload: is an array, must be an object"},
	    {"", "payload: is not the JSON it must be at byte 0: the text ends too early"},
	    {"{} x", "payload: is not the JSON it must be at byte 3: something stands behind the value"},
	    {"{\"writes\": [", "payload: is not the JSON it must be at byte 12: the text ends too early"},
	    {"{\"writes\": }", "payload: is not the JSON it must be at byte 11: there is no value where one must be"},
	    {"{\"writes\": [{\"user\": \"user:a\\u0000\"}]}",
	     "payload: is not the JSON it must be at byte 34: \\u0000 cannot be part of a string"},
	    {"{\"wirtes\": []}", "payload: unknown key \"wirtes\": only writes and deletes are known"},
	    {"{\"Writes\": []}", "payload: unknown key \"Writes\": only writes and deletes are known"},
	    {"{\"writes\": [], \"writes\": []}", "payload: the key \"writes\" stands twice"},
	    {"{\"deletes\": null, \"deletes\": []}", "payload: the key \"deletes\" stands twice"},
	    {"{\"writes\": {}}", "writes: is an object, must be an array"},
	    {"{\"deletes\": {}}", "deletes: is an object, must be an array"},
	    {"{\"deletes\": false}", "deletes: is a boolean, must be an array"},
	    {"{\"writes\": [null]}", "writes[0]: is null, must be an object"},
	    {"{\"deletes\": [" ANNE ", \"user:anne\"]}", "deletes[1]: is a string, must be an object"},
	    {"{\"writes\": [{}]}", "writes[0].user: is missing"},
	    {"{\"writes\": [{\"user\": \"user:a\"}]}", "writes[0].relation: is missing"},
	    {"{\"writes\": [{\"relation\": \"member\", \"user\": \"user:a\"}]}", "writes[0].object: is missing"},
	    {"{\"writes\": [{\"user\": 5}]}", "writes[0].user: is a number, must be a string"},
	    {"{\"writes\": [{\"relation\": null}]}", "writes[0].relation: is null, must be a string"},
	    {"{\"writes\": [{\"object\": [\"archive:1\"]}]}", "writes[0].object: is an array, must be a string"},
	    {"{\"writes\": [{\"user\": \"user:a\", \"user\": \"user:a\"}]}",
	     "writes[0]: the key \"user\" stands twice"},
	    {"{\"writes\": [" ANNE "," ANNE ",{\"usr\": \"user:a\"}]}",
	     "writes[2]: unknown key \"usr\": only user, relation, object and condition are known"},
	    {"{\"writes\": [" ANNE "," BOB "," ANNE
	     ",{\"user\": \"user:a\", \"relation\": \"viewer\", \"object\": \"archive:a b\"}]}",
	     "writes[3].object: must have no white space and no control characters"},
	    {"{\"deletes\": [{\"user\": \"anne\", \"relation\": \"viewer\", \"object\": \"archive:1\"}]}",
	     "deletes[0].user: must be type:id, type:id#relation or type:*"},
	    {"{\"writes\": [" WITH("5") "]}", "writes[0].condition: is a number, must be an object"},
	    {"{\"writes\": [" WITH("{}") "]}", "writes[0].condition.name: is missing"},
	    {"{\"writes\": [" WITH("{\"name\": \"\"}") "]}", "writes[0].condition.name: is empty"},
	    {"{\"writes\": [" WITH("{\"name\": null}") "]}", "writes[0].condition.name: is null, must be a string"},
	    {"{\"writes\": [" WITH("{\"name\": \"x\"}") "]}",
	     "writes[0].condition.name: must be at least 2 characters long"},
	    {"{\"writes\": [" WITH("{\"name\": \"ab\", \"context\": []}") "]}",
	     "writes[0].condition.context: is an array, must be an object"},
	    {"{\"writes\": [" WITH("{\"name\": \"ab\", \"context\": {\"n\": 1e999}}") "]}",
	     "writes[0].condition.context: has a number that is too large for a double"},
	    {"{\"writes\": [" WITH("{\"name\": \"ab\", \"contxt\": {}}") "]}",
	     "writes[0].condition: unknown key \"contxt\": only name and context are known"},
	    {"{\"writes\": [" WITH("{\"name\": \"ab\", \"name\": \"ab\"}") "]}",
	     "writes[0].condition: the key \"name\" stands twice"},
	    {"{\"writes\": [" WITH("null") "," WITH("{\"name\": \"ab\"}") "]}",
	     "writes[1]: is written before with another condition"},
	    {"{\"writes\": [" ANNE "," ANNE
	     "," WITH("{\"name\": \"ab\"}") "," WITH("{\"name\": \"ab\", \"context\": {\"x\": 1}}") "]}",
	     "writes[3]: is written before with another condition"},
	    {"{\"\\n\\u007f\xc3\xa9-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789\": 1}",
	     "payload: unknown key \"  "
	     "\xc3\xa9-0123456789-0123456789-0123456789-0123456789-0123456789-0\xe2\x80\xa6\": only "
	     "writes and deletes are known"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct arena arena = {0};
		struct payload p;
		struct err e = {0};
		if (payload_parse(str_of(cases[i].text), &arena, &p, &e))
			fail_msg("%s was accepted", cases[i].text);
		assert_int_equal(e.kind, ERR_REJECTED);
		assert_string_equal(e.text, cases[i].reason);
		assert_true(str_is_utf8(str_of(e.text)));
		arena_free(&arena);
	}
}

/* A row of a hundred thousand tuples, half of them repetitions; a quadratic search would take minutes. */
static void reads_a_large_row(void **state)
{
	(void)state;
	enum { TUPLES = 100 * 1000 };
	struct arena arena = {0};
	struct buf text = {0};
	struct payload p;
	buf_add_text(&text, "{\"writes\": [");
	for (int i = 0; i < TUPLES; i++)
		buf_printf(&text, "%s{\"user\": \"user:%d\", \"relation\": \"viewer\", \"object\": \"archive:1\"}",
		           i ? "," : "", i % (TUPLES / 2));
	buf_add_text(&text, "]}");
	parse(text.p, &arena, &p);
	assert_int_equal(p.n, TUPLES / 2);
	assert_text(p.ops[TUPLES / 2 - 1].tuple.user, "user:49999");
	buf_free(&text);
	arena_free(&arena);
}

/* Random damage, always the same: whatever is accepted passes tuple_check, whatever is refused says where. */
static void survives_damage(void **state)
{
	(void)state;
	static const char whole[] =
	    "{\"writes\": [" ANNE
	    "," WITH("{\"name\": \"ab\", \"context\": {\"a\": [1, \"\\n\"]}}") "], "
	                                                                       "\"deletes\": [" BOB "]}";
	static const char alphabet[] = "{}[]\",:\\un0a1 #*\x01\xc3\xa9";
	struct rng rng = {5};
	int accepted = 0;
	for (int i = 0; i < 20000; i++) {
		struct arena arena = {0};
		struct payload p;
		struct err e = {0};
		char *text = malloc(sizeof whole - 1);
		memcpy(text, whole, sizeof whole - 1);
		size_t n = sizeof whole - 1;
		for (int64_t changes = rng_upto(&rng, 2); changes >= 0; changes--)
			text[rng_upto(&rng, (int64_t)n - 1)] = alphabet[rng_upto(&rng, sizeof alphabet - 2)];
		if (rng_upto(&rng, 9) == 0)
			n = (size_t)rng_upto(&rng, (int64_t)n - 1);
		if (payload_parse((struct str){text, n}, &arena, &p, &e)) {
			accepted++;
			for (size_t k = 0; k < p.n; k++)
				assert_true(tuple_check(&p.ops[k].tuple, &e));
		} else {
			assert_int_equal(e.kind, ERR_REJECTED);
			assert_true(strncmp(e.text, "payload: ", 9) == 0 || strncmp(e.text, "writes", 6) == 0 ||
			            strncmp(e.text, "deletes", 7) == 0);
		}
		free(text);
		arena_free(&arena);
	}
	assert_true(accepted > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_the_ledgers_row),
	    cmocka_unit_test(reads_nothing_to_do),
	    cmocka_unit_test(reads_conditions),
	    cmocka_unit_test(ignores_conditions_of_deletes),
	    cmocka_unit_test(decodes_escapes),
	    cmocka_unit_test(counts_repetitions_once),
	    cmocka_unit_test(refuses),
	    cmocka_unit_test(reads_a_large_row),
	    cmocka_unit_test(survives_damage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
