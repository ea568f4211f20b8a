#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/model.h"

/* As OpenFGA answers, with what it leaves empty. */
#define MODEL \
	"{\"id\":\"01M\",\"schema_version\":\"1.1\",\"type_definitions\":[" \
	"{\"type\":\"user\",\"relations\":{},\"metadata\":null}," \
	"{\"type\":\"group\",\"relations\":{\"member\":{\"this\":{}},\"admin\":{\"this\":{}}}," \
	"\"metadata\":{\"relations\":{\"member\":{\"directly_related_user_types\":[{\"type\":\"user\",\"condition\":" \
	"\"\"}]}}}}," \
	"{\"type\":\"doc\",\"relations\":{\"viewer\":{\"this\":{}},\"editor\":{\"this\":{}},\"can_read\":{}}," \
	"\"metadata\":{\"relations\":{" \
	"\"viewer\":{\"directly_related_user_types\":[{\"type\":\"user\"},{\"type\":\"user\",\"condition\":\"soon\"}," \
	"{\"type\":\"group\",\"relation\":\"member\"},{\"type\":\"group\",\"wildcard\":{}}]}," \
	"\"editor\":{\"directly_related_user_types\":[{\"type\":\"user\",\"condition\":\"soon\"}]}," \
	"\"can_read\":{\"directly_related_user_types\":[]}}}}]," \
	"\"conditions\":{\"soon\":{\"name\":\"soon\"},\"later\":{\"name\":\"later\"}}}"

#define ONE "{\"authorization_model\":" MODEL "}"
#define LIST "{\"authorization_models\":[" MODEL "],\"continuation_token\":\"\"}"

static void judge(const char *body, const struct tuple *t, const char *refusal)
{
	struct arena arena = {0};
	struct model m;
	struct err e = {0};
	assert_true(model_read(str_of(body), &arena, &m, &e));
	assert_true(str_eq(m.id, STR("01M")));
	assert_int_equal(model_takes(&m, t, &e), refusal == NULL);
	if (refusal != NULL)
		assert_string_equal(e.text, refusal);
	arena_free(&arena);
}

static void check(const char *user, const char *relation, const char *object, const char *condition,
                  const char *refusal)
{
	struct tuple t = {.user = str_of(user),
	                  .relation = str_of(relation),
	                  .object = str_of(object),
	                  .condition = str_of(condition)};
	judge(ONE, &t, refusal);
	judge(LIST, &t, refusal);
}

static void takes_what_it_has(void **state)
{
	(void)state;
	check("user:a", "viewer", "doc:1", "", NULL);
	check("user:a", "viewer", "doc:1", "soon", NULL);
	check("group:a#member", "viewer", "doc:1", "", NULL);
	check("group:*", "viewer", "doc:1", "", NULL);
	check("user:a", "editor", "doc:1", "soon", NULL);
	check("user:a", "viewer", "doc:1", "$expression", NULL);
}

static void refuses_types_and_relations_that_it_has_not(void **state)
{
	(void)state;
	check("user:a", "viewer", "ship:1", "", "the model has no type ship");
	check("ship:a", "viewer", "doc:1", "", "the model has no type ship");
	check("ship:*", "viewer", "doc:1", "", "the model has no type ship");
	check("user:a", "owner", "doc:1", "", "type doc of the model has no relation owner");
	check("group:a#owner", "viewer", "doc:1", "", "type group of the model has no relation owner");
	check("user:a", "view", "doc:1", "", "type doc of the model has no relation view");
}

static void refuses_whom_a_relation_does_not_take(void **state)
{
	(void)state;
	check("doc:2", "viewer", "doc:1", "", "relation doc#viewer does not take doc");
	check("group:a", "viewer", "doc:1", "", "relation doc#viewer does not take group");
	check("group:a#admin", "viewer", "doc:1", "", "relation doc#viewer does not take group#admin");
	check("user:*", "viewer", "doc:1", "", "relation doc#viewer does not take user:*");
	check("user:a", "can_read", "doc:1", "", "relation doc#can_read does not take user");
	check("user:a", "admin", "group:1", "", "relation group#admin does not take user"); /* says of nobody */
}

static void refuses_conditions(void **state)
{
	(void)state;
	check("user:a", "viewer", "doc:1", "never", "the model has no condition never");
	check("user:a", "viewer", "doc:1", "later", "relation doc#viewer does not take user with condition later");
	check("user:a", "editor", "doc:1", "", "relation doc#editor takes user with a condition only");
}

static void what_holds_no_model(void **state)
{
	(void)state;
	static const char *const bodies[] = {"",
	                                     "{}",
	                                     "[]",
	                                     "{\"authorization_models\":[]}",
	                                     "{\"authorization_model\":null}",
	                                     "{\"authorization_model\":{\"type_definitions\":{}}}",
	                                     "<html>",
	                                     "{\"authorization_model\":{\"type_definitions\":["};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		struct arena arena = {0};
		struct model m;
		struct err e = {0};
		assert_false(model_read(str_of(bodies[i]), &arena, &m, &e));
		assert_int_equal(e.kind, ERR_CONFIG);
		arena_free(&arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(takes_what_it_has),
	    cmocka_unit_test(refuses_types_and_relations_that_it_has_not),
	    cmocka_unit_test(refuses_whom_a_relation_does_not_take),
	    cmocka_unit_test(refuses_conditions),
	    cmocka_unit_test(what_holds_no_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
