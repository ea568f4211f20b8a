#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/tuple.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* `unit` `n` times behind `head`. A few at a time are valid. */
static const char *long_text(const char *head, const char *unit, size_t n)
{
	static char texts[8][64 * 1024];
	static unsigned next;
	char *text = texts[next++ % COUNT(texts)];
	size_t at = strlen(head);
	size_t size = strlen(unit);
	assert_true(at + n * size < sizeof *texts);
	memcpy(text, head, at);
	for (size_t i = 0; i < n; i++, at += size)
		memcpy(text + at, unit, size);
	text[at] = '\0';
	return text;
}

static struct tuple tuple_of(const char *user, const char *relation, const char *object)
{
	struct tuple t = {.user = str_of(user), .relation = str_of(relation), .object = str_of(object)};
	tuple_hash(&t);
	return t;
}

static void assert_accepted(struct tuple t)
{
	struct err e = {0};
	if (!tuple_check(&t, &e))
		fail_msg("%.*s %.*s %.*s: %s", (int)t.user.n, t.user.p, (int)t.relation.n, t.relation.p,
		         (int)t.object.n, t.object.p, e.text);
}

static void assert_refused(struct tuple t, const char *reason)
{
	struct err e = {0};
	if (tuple_check(&t, &e))
		fail_msg("%.*s %.*s %.*s was accepted", (int)t.user.n, t.user.p, (int)t.relation.n, t.relation.p,
		         (int)t.object.n, t.object.p);
	assert_int_equal(e.kind, ERR_REJECTED);
	if (strncmp(e.text, reason, strlen(reason)) != 0)
		fail_msg("%s, expected %s", e.text, reason);
}

/* What OpenFGA 1.22.1 answers 200 to, with a model that allows it. */
static void accepts_users(void **state)
{
	(void)state;
	const char *const users[] = {
	    "user:anne",
	    "user:*",
	    "organization:acme#member",
	    "user:a*b",
	    "user:**",
	    "user:a@b",
	    "user:a|b/c.d-e_f",
	    "user:\xc3\xa9",
	    "user:\xf0\x9f\x98\x80",
	    "user:a\xc2\xa0z",     /* U+00A0, which Unicode calls white space */
	    "user:a\xe3\x80\x80z", /* U+3000, likewise */
	    "user:a\xe2\x80\xa8z", /* U+2028 */
	    "archive:2#viewer",
	    "archive:1#parent",
	    long_text("user:", "a", 507),
	    long_text("user:", "\xc3\xa9", 253),
	};
	for (size_t i = 0; i < COUNT(users); i++)
		assert_accepted(tuple_of(users[i], "viewer", "archive:1"));
}

static void refuses_users(void **state)
{
	(void)state;
	static const char shape[] = "user: must be type:id, type:id#relation or type:*";
	static const char blank[] = "user: must have no white space and no control characters";
	static const char star[] = "user: must have no * in type:id#relation";
	const struct {
		const char *user;
		const char *reason;
	} cases[] = {
	    {"", "user: is empty"},
	    {"*", shape},
	    {"anne", shape},
	    {":a", shape},
	    {"user:", shape},
	    {"user:a:b", shape},
	    {"user:a#b#c", shape},
	    {"organization:acme#", shape},
	    {"organization:acme#member:x", shape},
	    {"#a", shape},
	    {"user#a", shape},
	    {"user:#a", shape},
	    {":a#b", shape},
	    {"user#a:b", shape},
	    {"organization:*#member", star},
	    {"organization:a*#member", star},
	    {"organization:acme#member*", star},
	    {"user:a b", blank},
	    {" user:a", blank},
	    {"user:a\t", blank},
	    {"user:a\nb", blank},
	    {"user:a\x01", blank},
	    {"user:a\x7f", blank},
	    {"user:a\xc2\x80", blank},
	    {"user:a\xc2\x9fz", blank},
	    {"organization:acme#mem ber", blank},
	    {"archive:1#viewer", "user: is the object's own relation"},
	    {long_text("user:", "a", 508), "user: is 513 bytes long, must be at most 512"},
	    {long_text("user:", "\xc3\xa9", 254), "user: is 513 bytes long, must be at most 512"},
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_refused(tuple_of(cases[i].user, "viewer", "archive:1"), cases[i].reason);
	struct tuple t = tuple_of("user:a", "viewer", "archive:1");
	t.user = STR("user:a\0b");
	assert_refused(t, blank);
}

static void checks_objects(void **state)
{
	(void)state;
	static const char shape[] = "object: must be type:id, with one : and no #";
	static const char blank[] = "object: must have no white space and no control characters";
	const char *const good[] = {
	    "archive:1",
	    "a:b",
	    "archive:a*",
	    "archive:**",
	    "archive:a@b",
	    "archive:a\xc2\xa0z",
	    long_text("archive:", "a", 248),
	    long_text("archive:", "\xf0\x9f\x98\x80", 248),
	};
	const struct {
		const char *object;
		const char *reason;
	} bad[] = {
	    {"", "object: is empty"},
	    {"archive", shape},
	    {"archive:", shape},
	    {":1", shape},
	    {":", shape},
	    {"archive:a:b", shape},
	    {"archive:a#b", shape},
	    {"archive#a:b", shape},
	    {"archive:*", "object: must be a single one; type:* can only be a user"},
	    {"archive:a b", blank},
	    {"archive:a\r", blank},
	    {"archive:a\x01", blank},
	    {"archive:a\xc2\x85z", blank},
	    {long_text("archive:", "a", 249), "object: is 257 characters long, must be at most 256"},
	    {long_text("archive:", "\xf0\x9f\x98\x80", 249), "object: is 257 characters long, must be at most 256"},
	};
	for (size_t i = 0; i < COUNT(good); i++)
		assert_accepted(tuple_of("user:anne", "viewer", good[i]));
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_refused(tuple_of("user:anne", "viewer", bad[i].object), bad[i].reason);
	struct tuple t = tuple_of("user:a", "viewer", "archive:1");
	t.object = STR("archive:a\0b"); /* in a delete, OpenFGA answers it with 500 for ever */
	assert_refused(t, blank);
}

static void checks_relations(void **state)
{
	(void)state;
	const char *const good[] = {
	    "viewer", "v", "*", "can_read", long_text("", "v", 50), long_text("", "\xc3\xa9", 50)};
	const struct {
		const char *relation;
		const char *reason;
	} bad[] = {
	    {"", "relation: is empty"},
	    {"view er", "relation: must have no white space"},
	    {"viewer\t", "relation: must have no white space"},
	    {"v\xc2\x85", "relation: must have no white space"},
	    {"viewer:", "relation: must have none of : # @"},
	    {"#viewer", "relation: must have none of : # @"},
	    {"a@b", "relation: must have none of : # @"},
	    {long_text("", "v", 51), "relation: is 51 characters long, must be at most 50"},
	    {long_text("", "\xc3\xa9", 51), "relation: is 51 characters long, must be at most 50"},
	};
	for (size_t i = 0; i < COUNT(good); i++)
		assert_accepted(tuple_of("user:anne", good[i], "archive:1"));
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_refused(tuple_of("user:anne", bad[i].relation, "archive:1"), bad[i].reason);
}

static struct tuple conditioned(const char *name, const char *context)
{
	struct tuple t = tuple_of("user:anne", "viewer", "archive:1");
	t.condition = str_of(name);
	t.context = str_of(context);
	return t;
}

static void checks_conditions(void **state)
{
	(void)state;
	assert_accepted(conditioned("not_expired", "{}"));
	assert_accepted(conditioned("$expression", "{}"));
	assert_accepted(conditioned("ab", "{\"n\": 9007199254740993, \"big\": 1e308, \"small\": 1e-400}"));
	assert_accepted(conditioned(long_text("", "\xc3\xa9", 256), "{}"));
	assert_refused(conditioned("x", "{}"), "condition.name: must be at least 2 characters long");
	assert_refused(conditioned("a b", "{}"), "condition.name: must have no white space");
	assert_refused(conditioned("a\x01z", "{}"), "condition.name: must have no white space");
	assert_refused(conditioned(long_text("", "x", 257), "{}"),
	               "condition.name: is 257 characters long, must be at most 256");
	assert_refused(conditioned("ab", "[]"), "condition.context: must be an object");
	assert_refused(conditioned("ab", "{\"a\":1} "
	                                 "x"),
	               "condition.context: must be an object: something stands behind the value at byte 8");
	assert_refused(conditioned("ab", "{\"a\":[{\"b\":1e400}]}"),
	               "condition.context: has a number that is too large for a double");
	assert_refused(conditioned("ab", "{\"a\":-1e400}"), "condition.context: has a number that is too large");
}

/* The largest context that OpenFGA 1.22.1 takes and the smallest that it refuses, one byte apart. */
static void measures_contexts_as_openfga_does(void **state)
{
	(void)state;
	static const struct {
		const char *head; /* within an object, before the filler */
		size_t bytes;     /* what it and the filler's own key make as protobuf */
	} cases[] = {
	    /* field 1 of the struct, 1 + 3; its key "x", 3; its value, a field of 1 + 3; the string in it, 1 + 3 */
	    {"", 4 + 3 + 4 + 4},
	    /* and "n": 1 + 1; key 3; value 1 + 1 with a double, 1 + 8 */
	    {"\"n\": 12345678901234567890,", 15 + 2 + 3 + 2 + 9},
	    {"\"n\": null,", 15 + 2 + 3 + 2 + 2},
	    {"\"n\": true,", 15 + 2 + 3 + 2 + 2},
	    {"\"\\u00e9\": \"\\ud83d\\ude00\\n\",", 15 + 2 + 4 + 2 + 2 + 5},
	    /* a list: 1 + 1, in it two items of 1 + 1, with a bool (2) and an empty struct (1 + 1) */
	    {"\"n\": [false, {}],", 15 + 2 + 3 + 2 + 2 + 2 * 2 + 2 + 2},
	    {"\"n\": {\"m\": {}},", 15 + 2 + 3 + 2 + 2 + (2 + 3 + 2 + 2)},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		for (size_t over = 0; over <= 1; over++) {
			size_t filler = 32 * 1024 - cases[i].bytes + over;
			struct buf b = {0};
			buf_printf(&b, "{%s\"x\":\"%s\"}", cases[i].head, long_text("", "z", filler));
			if (over)
				assert_refused(
				    conditioned("ab", b.p),
				    "condition.context: is 32769 bytes long as protobuf, must be at most 32768");
			else
				assert_accepted(conditioned("ab", b.p));
			buf_free(&b);
		}
	}
}

static void orders_and_hashes(void **state)
{
	(void)state;
	const struct tuple sorted[] = {
	    tuple_of("user:b", "b", "doc:a"),  tuple_of("user:c", "b", "doc:a"),   tuple_of("user:a", "c", "doc:a"),
	    tuple_of("user:a", "a", "doc:aa"), tuple_of("user:aa", "a", "doc:aa"), tuple_of("user:a", "a", "doc:b"),
	};
	for (size_t i = 0; i < COUNT(sorted); i++) {
		for (size_t j = 0; j < COUNT(sorted); j++) {
			int order = tuple_cmp(&sorted[i], &sorted[j]);
			assert_true(i < j ? order < 0 : i > j ? order > 0 : order == 0);
			assert_true((sorted[i].hash == sorted[j].hash) == (i == j));
		}
	}
	struct tuple a = tuple_of("user:b", "b", "doc:a");
	a.condition = STR("not_expired");
	a.context = STR("{}");
	tuple_hash(&a);
	assert_int_equal(tuple_cmp(&a, &sorted[0]), 0);
	assert_true(a.hash == sorted[0].hash);
	/* The same letters, cut elsewhere. */
	struct tuple b = tuple_of("c", "b", "a");
	struct tuple c = tuple_of("", "cb", "a");
	struct tuple d = tuple_of("c", "", "ab");
	assert_true(b.hash != c.hash && c.hash != d.hash && b.hash != d.hash);
}

static void compares_conditions(void **state)
{
	(void)state;
	struct tuple plain = tuple_of("user:a", "viewer", "doc:1");
	struct tuple a = conditioned("ab", "{}");
	struct tuple b = conditioned("ab", "{}");
	struct tuple other_name = conditioned("abc", "{}");
	struct tuple other_context = conditioned("ab", "{\"x\":1}");
	assert_true(tuple_same_condition(&plain, &plain));
	assert_true(tuple_same_condition(&a, &b));
	assert_false(tuple_same_condition(&a, &plain));
	assert_false(tuple_same_condition(&a, &other_name));
	assert_false(tuple_same_condition(&a, &other_context));
}

static void splits(const char *user, const char *type, const char *relation, bool is_everybody)
{
	struct tuple t = {.user = str_of(user), .relation = STR("viewer"), .object = STR("archive:a")};
	struct tuple_parts parts;
	tuple_split(&t, &parts);
	assert_true(str_eq(parts.object_type, STR("archive")));
	assert_true(str_eq(parts.user_type, str_of(type)));
	assert_true(str_eq(parts.user_relation, str_of(relation)));
	assert_int_equal(parts.is_everybody, is_everybody);
}

static void the_parts_of_a_tuple(void **state)
{
	(void)state;
	splits("user:anne", "user", "", false);
	splits("user:*", "user", "", true);
	splits("organization:acme#member", "organization", "member", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(accepts_users),        cmocka_unit_test(refuses_users),
	    cmocka_unit_test(checks_objects),       cmocka_unit_test(checks_relations),
	    cmocka_unit_test(checks_conditions),    cmocka_unit_test(measures_contexts_as_openfga_does),
	    cmocka_unit_test(orders_and_hashes),    cmocka_unit_test(compares_conditions),
	    cmocka_unit_test(the_parts_of_a_tuple),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
