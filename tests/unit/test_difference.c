#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/difference.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct tuple with(const char *condition, const char *context)
{
	return (struct tuple){.user = STR("user:u"),
	                      .relation = STR("viewer"),
	                      .object = STR("archive:a"),
	                      .condition = str_of(condition),
	                      .context = str_of(context)};
}

static void each_kind(void **state)
{
	(void)state;
	const struct tuple plain = with("", "");
	const struct tuple conditional = with("c", "{}");
	static const struct {
		enum last_word word;
		enum difference where_absent;
		enum difference where_plain;
		enum difference where_conditional;
	} cases[] = {
	    {WORD_NONE, DIFFERENCE_NONE, DIFFERENCE_FOREIGN, DIFFERENCE_FOREIGN},
	    {WORD_DELETE, DIFFERENCE_NONE, DIFFERENCE_SURVIVING, DIFFERENCE_SURVIVING},
	    {WORD_WRITE, DIFFERENCE_MISSING, DIFFERENCE_NONE, DIFFERENCE_CONDITION},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(difference_of(cases[i].word, &plain, NULL), cases[i].where_absent);
		assert_int_equal(difference_of(cases[i].word, &plain, &plain), cases[i].where_plain);
		assert_int_equal(difference_of(cases[i].word, &plain, &conditional), cases[i].where_conditional);
	}
	assert_int_equal(difference_of(WORD_WRITE, &conditional, &plain), DIFFERENCE_CONDITION);
	assert_int_equal(difference_of(WORD_WRITE, &conditional, &conditional), DIFFERENCE_NONE);
}

static void conditions_as_openfga_sees_them(void **state)
{
	(void)state;
	static const struct {
		const char *left;
		const char *right;
		bool same;
	} contexts[] = {
	    {"{}", "", true},
	    {"", "{ }", true},
	    {"{\"a\":1}", "", false},
	    {"{\"a\":1,\"b\":[true,null]}", "{\"b\":[true, null],\"a\":1.0}", true},
	    {"{\"a\":9007199254740993}", "{\"a\":9007199254740992}", true},
	    {"{\"a\":1}", "{\"a\":2}", false},
	    {"{\"a\":1}", "{\"A\":1}", false},
	    {"{\"a\":[1,2]}", "{\"a\":[2,1]}", false},
	    {"{\"a\":\"\\u00e9\"}", "{\"a\":\"é\"}", true},
	};
	for (size_t i = 0; i < COUNT(contexts); i++) {
		const struct tuple left = with("c", contexts[i].left);
		const struct tuple right = with("c", contexts[i].right);
		if (difference_same_condition(&left, &right) != contexts[i].same ||
		    difference_same_condition(&right, &left) != contexts[i].same)
			fail_msg("%s %s", contexts[i].left, contexts[i].right);
	}
	const struct tuple c = with("c", "{}");
	const struct tuple d = with("d", "{}");
	assert_false(difference_same_condition(&c, &d));
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(difference_name(DIFFERENCE_NONE), "none");
	assert_string_equal(difference_name(DIFFERENCE_SURVIVING), "surviving");
	assert_string_equal(difference_name(DIFFERENCE_FOREIGN), "foreign");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_kind),
	    cmocka_unit_test(conditions_as_openfga_sees_them),
	    cmocka_unit_test(names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
