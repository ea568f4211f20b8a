#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/fault.h"
#include "core/tuple.h"

static uint64_t hash_of(const char *object, const char *relation, const char *user)
{
	struct tuple t = {.user = str_of(user), .relation = str_of(relation), .object = str_of(object)};
	tuple_hash(&t);
	return t.hash;
}

static const uint64_t any_tuple = 1;

/* tuple: any_tuple for archive:a#parent@user:u, 0 for none. */
static void reads(const char *message, uint64_t tuple, bool is_kind, const char *reason)
{
	struct fault f;
	fault_read(str_of(message), &f);
	if (tuple == any_tuple)
		tuple = hash_of("archive:a", "parent", "user:u");
	assert_true(f.tuple == tuple);
	assert_int_equal(f.kind != 0, is_kind);
	assert_string_equal(f.reason, reason);
}

#define NAMED "Invalid tuple 'archive:a#parent@user:u'. Reason: "
#define CONDITIONAL "Invalid tuple 'archive:a#parent@user:u (condition c)'. Reason: "

static void what_the_model_does_not_have(void **state)
{
	(void)state;
	reads(NAMED "type 'archive' not found", any_tuple, true, "type 'archive' not found");
	reads(NAMED "relation 'archive#parent' not found", any_tuple, true, "relation 'archive#parent' not found");
	reads(NAMED "relation 'archive#parent' not found for tuple 'archive:a#parent@user:u'", any_tuple, true,
	      "relation 'archive#parent' not found");
	reads(NAMED "type 'user' is not an allowed type restriction for 'archive#parent'", any_tuple, true,
	      "type 'user' is not an allowed type restriction for 'archive#parent'");
	reads(NAMED "'group#member' is not an allowed type restriction for 'archive#parent'", any_tuple, true,
	      "'group#member' is not an allowed type restriction for 'archive#parent'");
	reads(NAMED "the typed wildcard 'user:*' is not an allowed type restriction for 'archive#parent'", any_tuple,
	      true, "the typed wildcard 'user:*' is not an allowed type restriction for 'archive#parent'");
	reads(NAMED "unexpected user 'user:u' with tupleset relation 'archive#parent'", any_tuple, true,
	      "unexpected user");
	reads(NAMED "condition is missing", any_tuple, true, "condition is missing");
	reads(CONDITIONAL "undefined condition", any_tuple, true, "undefined condition");
	reads(CONDITIONAL "invalid condition for type restriction", any_tuple, true,
	      "invalid condition for type restriction");
}

static void what_is_one_tuples_fault(void **state)
{
	(void)state;
	reads(CONDITIONAL "found invalid context parameter: user:u", any_tuple, false,
	      "found invalid context parameter");
	reads(NAMED "cannot write a tuple that is implicit", any_tuple, false, "cannot write a tuple that is implicit");
	reads("transactional write failed due to conflict: attempted to write a tuple which already exists with a "
	      "different condition: user: 'user:u', relation: 'parent', object: 'archive:a'",
	      any_tuple, false, "");
}

static void ids_of_all_kinds(void **state)
{
	(void)state;
	reads("Invalid tuple 'archive:a@b'c#viewer@group:x#member'. Reason: type 'archive' not found",
	      hash_of("archive:a@b'c", "viewer", "group:x#member"), true, "type 'archive' not found");
	reads("Invalid tuple 'archive:a#viewer@user:a'b@c'. Reason: type 'archive' not found",
	      hash_of("archive:a", "viewer", "user:a'b@c"), true, "type 'archive' not found");
}

/* Two tuples of one kind have the kind in common. */
static void the_kind(void **state)
{
	(void)state;
	static const char *const messages[] = {
	    "Invalid tuple 'archive:a#viewer@user:u (condition c)'. Reason: undefined condition",
	    "Invalid tuple 'archive:b#viewer@user:v (condition c)'. Reason: undefined condition",
	    "Invalid tuple 'archive:b#viewer@user:v (condition d)'. Reason: undefined condition",
	    "Invalid tuple 'archive:b#viewer@user:v'. Reason: condition is missing",
	    "Invalid tuple 'archive:b#viewer@user:v#member (condition c)'. Reason: undefined condition",
	    "Invalid tuple 'archive:b#viewer@user:* (condition c)'. Reason: undefined condition",
	    "Invalid tuple 'archive:b#viewer@group:v (condition c)'. Reason: undefined condition",
	    "Invalid tuple 'archive:b#editor@user:v (condition c)'. Reason: undefined condition",
	    "Invalid tuple 'job:b#viewer@user:v (condition c)'. Reason: undefined condition",
	};
	struct fault first;
	fault_read(str_of(messages[0]), &first);
	for (size_t i = 1; i < sizeof messages / sizeof *messages; i++) {
		struct fault f;
		fault_read(str_of(messages[i]), &f);
		assert_int_equal(f.kind == first.kind, i == 1);
	}
}

static void what_names_none(void **state)
{
	(void)state;
	reads("", 0, false, "");
	reads("the tuple is wrong", 0, false, "");
	reads("Invalid tuple '", 0, false, "");
	reads("Invalid tuple 'archive:a'. Reason: x", 0, false, "");
	reads("Invalid tuple 'archive:a#parent@user:u", 0, false, "");
	reads("a different condition: user: 'user:u', relation: 'parent'", 0, false, "");
}

static void a_long_reason_is_cut(void **state)
{
	(void)state;
	struct buf message = {0};
	struct fault f;
	buf_add_text(&message, NAMED "type '");
	for (int i = 0; i < 300; i++)
		buf_add_text(&message, "ü");
	buf_add_text(&message, "' not found");
	fault_read(buf_str(&message), &f);
	assert_true(strlen(f.reason) < sizeof f.reason);
	assert_true(strlen(f.reason) > sizeof f.reason / 2);
	assert_true(str_is_utf8(str_of(f.reason)));
	buf_free(&message);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_the_model_does_not_have),
	    cmocka_unit_test(what_is_one_tuples_fault),
	    cmocka_unit_test(ids_of_all_kinds),
	    cmocka_unit_test(what_names_none),
	    cmocka_unit_test(a_long_reason_is_cut),
	    cmocka_unit_test(the_kind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
