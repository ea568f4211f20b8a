#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/probe.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define E(code, message) "{\"code\":\"" code "\",\"message\":\"" message "\"}"

static enum server_age age(int status, const char *body)
{
	struct answer a = {.transport = TRANSPORT_ANSWERED, .status = status, .body = str_of(body)};
	return probe_age(&a);
}

static void tells_the_age(void **state)
{
	(void)state;
	/* As 1.22.1 and 1.9.5 sent them. */
	assert_int_equal(age(400, E("validation_error", "invalid on_missing option: probe-invalid")), SERVER_CURRENT);
	assert_int_equal(age(400, E("write_failed_due_to_invalid_input",
	                            "cannot delete a tuple which does not exist: user: 'probe:x', relation: 'probe', "
	                            "object: 'probe:x': tuple to be written already existed or the tuple to be deleted "
	                            "did not exist")),
	                 SERVER_OLD);
}

static void says_nothing_of_other_answers(void **state)
{
	(void)state;
	static const struct {
		int status;
		const char *body;
	} others[] = {
	    {200, "{}"},
	    {400, ""},
	    {400, "null"},
	    {400, "<html>"},
	    {400, "{\"code\":3,\"message\":null}"},
	    {400, "{\"code\":\"validation_error\"}"},
	    {400, E("validation_error", "invalid WriteRequest.StoreId: …")},
	    {400, E("latest_authorization_model_not_found", "No authorization models found for store 'x'")},
	    {401, E("bearer_token_missing", "missing bearer token")},
	    {500, E("write_failed_due_to_invalid_input", "")},
	    {503, ""},
	};
	for (size_t i = 0; i < COUNT(others); i++)
		assert_int_equal(age(others[i].status, others[i].body), SERVER_UNKNOWN);
	assert_int_equal(probe_age(&(struct answer){.transport = TRANSPORT_LOST, .error = "timed out"}),
	                 SERVER_UNKNOWN);
}

static void names_the_model_where_one_is_given(void **state)
{
	(void)state;
	static const char *const bodies[] = {
	    "{\"deletes\":{\"tuple_keys\":[{\"user\":\"probe:x\",\"relation\":\"probe\",\"object\":\"probe:x\"}],"
	    "\"on_missing\":\"ignore\"}}",
	    "{\"authorization_model_id\":\"m\",\"deletes\":{\"tuple_keys\":[{\"user\":\"probe:x\",\"relation\":"
	    "\"probe\",\"object\":\"probe:x\"}],\"on_missing\":\"probe-invalid\"}}",
	};
	struct buf out = {0};
	probe_body((struct str){0}, PROBE_WRITES, &out);
	assert_string_equal(out.p, bodies[0]);
	buf_clear(&out);
	probe_body(STR("m"), PROBE_AGE, &out);
	assert_string_equal(out.p, bodies[1]);
	buf_free(&out);
}

static void asks_for_so_many_tuples(void **state)
{
	(void)state;
	struct buf out = {0};
	probe_tuples_body(2, &out);
	assert_string_equal(out.p, "{\"deletes\":{\"tuple_keys\":["
	                           "{\"user\":\"probe:x\",\"relation\":\"probe\",\"object\":\"probe:0\"},"
	                           "{\"user\":\"probe:x\",\"relation\":\"probe\",\"object\":\"probe:1\"}],"
	                           "\"on_missing\":\"probe-invalid\"}}");
	buf_clear(&out);
	probe_tuples_body(1000 * 1000, &out);
	assert_true(out.n < 400 * 1024);
	assert_true(str_has(buf_str(&out), STR("\"probe:4999\"")));
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tells_the_age),
	    cmocka_unit_test(says_nothing_of_other_answers),
	    cmocka_unit_test(names_the_model_where_one_is_given),
	    cmocka_unit_test(asks_for_so_many_tuples),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
