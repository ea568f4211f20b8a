#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/existing.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define FOUND(condition) \
	"{\"tuples\":[{\"key\":{\"user\":\"user:u\",\"relation\":\"viewer\",\"object\":\"archive:a\"," \
	"\"condition\":" condition "},\"timestamp\":\"2026-01-01T00:00:00Z\"}],\"continuation_token\":\"\"}"

static struct tuple wanted(const char *condition, const char *context)
{
	return (struct tuple){
	    .user = STR("user:u"),
	    .relation = STR("viewer"),
	    .object = STR("archive:a"),
	    .condition = str_of(condition),
	    .context = str_of(context),
	};
}

static struct judgement judge(const struct tuple *t, int status, const char *body)
{
	struct answer a = {.transport = TRANSPORT_ANSWERED, .status = status, .body = str_of(body)};
	struct judgement j;
	existing_judge(&a, t, 0, &j);
	return j;
}

static void compares_conditions(void **state)
{
	(void)state;
	static const struct {
		const char *condition;
		const char *context;
		const char *found;
		bool same;
	} cases[] = {
	    {"", "", FOUND("null"), true},
	    {"", "", FOUND("{\"name\":\"c\",\"context\":{}}"), false},
	    {"c", "{}", FOUND("null"), false},
	    {"c", "{}", FOUND("{\"name\":\"c\",\"context\":{}}"), true},
	    {"c", "{}", FOUND("{\"name\":\"c\",\"context\":null}"), true},
	    {"c", "{}", FOUND("{\"name\":\"c\"}"), true},
	    {"c", "{}", FOUND("{\"name\":\"d\",\"context\":{}}"), false},
	    {"c", "{}", FOUND("{\"name\":\"c\",\"context\":{\"a\":1}}"), false},
	    {"c", "{\"a\":1}", FOUND("{\"name\":\"c\",\"context\":null}"), false},
	    {"c", "{\"a\":1,\"b\":[true,null,\"\\u00e9\"]}",
	     FOUND("{\"name\":\"c\",\"context\":{ \"b\":[true, null, \"é\"], \"a\":1}}"), true},
	    {"c", "{\"a\":1.0}", FOUND("{\"name\":\"c\",\"context\":{\"a\":1}}"), true},
	    {"c", "{\"a\":9007199254740993}", FOUND("{\"name\":\"c\",\"context\":{\"a\":9007199254740992}}"), true},
	    {"c", "{\"a\":1}", FOUND("{\"name\":\"c\",\"context\":{\"A\":1}}"), false},
	    {"c", "{\"a\":1}", FOUND("{\"name\":\"c\",\"context\":{\"a\":\"1\"}}"), false},
	    {"c", "{\"a\":[1,2]}", FOUND("{\"name\":\"c\",\"context\":{\"a\":[2,1]}}"), false},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct tuple t = wanted(cases[i].condition, cases[i].context);
		struct judgement j = judge(&t, 200, cases[i].found);
		if (j.verdict != (cases[i].same ? VERDICT_DELIVERED : VERDICT_REJECTED))
			fail_msg("%s %s: %s", cases[i].context, cases[i].found, verdict_name(j.verdict));
		assert_int_equal(j.hint, HINT_NONE);
		if (!cases[i].same)
			assert_non_null(strstr(j.reason, "user: 'user:u', relation: 'viewer', object: 'archive:a'"));
	}
}

static void one_that_is_gone_again_is_a_race(void **state)
{
	(void)state;
	struct tuple t = wanted("", "");
	struct judgement j = judge(&t, 200, "{\"tuples\":[],\"continuation_token\":\"\"}");
	assert_int_equal(j.verdict, VERDICT_RETRY);
	assert_int_equal(j.hint, HINT_RACE);
	assert_false(j.unknown);
}

static void what_cannot_be_read(void **state)
{
	(void)state;
	struct tuple t = wanted("", "");
	static const struct {
		int status;
		const char *body;
		enum verdict verdict;
	} cases[] = {
	    {503, "", VERDICT_RETRY},
	    {500, "{\"code\":\"internal_error\",\"message\":\"Internal Server Error\"}", VERDICT_RETRY},
	    {200, "<html>", VERDICT_RETRY},
	    {400, "{\"code\":\"cancelled\",\"message\":\"Request Cancelled\"}", VERDICT_RETRY},
	    {400, "{\"code\":\"validation_error\",\"message\":\"the 'user' field is malformed\"}", VERDICT_REJECTED},
	    {401, "{\"code\":\"unauthenticated\",\"message\":\"unauthenticated\"}", VERDICT_HALT},
	    {403, "", VERDICT_HALT},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct judgement j = judge(&t, cases[i].status, cases[i].body);
		if (j.verdict != cases[i].verdict)
			fail_msg("%d %s: %s", cases[i].status, cases[i].body, verdict_name(j.verdict));
		assert_false(j.unknown);
		assert_true(j.reason[0] != '\0');
	}
	struct judgement j;
	existing_judge(&(struct answer){.transport = TRANSPORT_LOST, .error = "timed out"}, &t, 0, &j);
	assert_int_equal(j.verdict, VERDICT_RETRY);
	assert_false(j.unknown);
}

static void a_long_tuple_fits_into_a_reason(void **state)
{
	(void)state;
	char user[512];
	struct tuple t = wanted("", "");
	snprintf(user, sizeof user, "user:%0*d", 500, 1);
	t.user = str_of(user);
	struct judgement j = judge(&t, 200, FOUND("{\"name\":\"c\",\"context\":{}}"));
	assert_int_equal(j.verdict, VERDICT_REJECTED);
	assert_true(str_is_utf8(str_of(j.reason)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(compares_conditions),
	    cmocka_unit_test(one_that_is_gone_again_is_a_race),
	    cmocka_unit_test(what_cannot_be_read),
	    cmocka_unit_test(a_long_tuple_fits_into_a_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
