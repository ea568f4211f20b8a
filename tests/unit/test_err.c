#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"

static void is_one_line(void **state)
{
	struct err e;
	(void)state;
	assert_false(err_set(&e, ERR_TRANSIENT, "connection failed:\n\tno route to %s\r\n\n", "host"));
	assert_int_equal(e.kind, ERR_TRANSIENT);
	assert_string_equal(e.text, "connection failed:  no route to host");
	err_set(&e, ERR_BUG, "%s", "");
	assert_string_equal(e.text, "");
	err_set(&e, ERR_BUG, "\n \n");
	assert_string_equal(e.text, "");
}

static void is_cut_between_characters(void **state)
{
	char text[2000];
	struct err e;
	(void)state;
	/* one to three letters before, so that the bound falls on every byte of the two-byte characters */
	for (size_t letters = 0; letters < 4; letters++) {
		memset(text, 'x', letters);
		for (size_t i = letters; i + 2 < sizeof text; i += 2)
			memcpy(text + i, "\xc3\xa4", 3);
		err_set(&e, ERR_REJECTED, "%s", text);
		assert_in_range(strlen(e.text), sizeof e.text - 3, sizeof e.text - 1);
		assert_true(str_is_utf8(str_of(e.text)));
		assert_memory_equal(e.text + strlen(e.text) - 3, "\xe2\x80\xa6", 3);
	}
}

static void is_always_utf8(void **state)
{
	struct err e;
	(void)state;
	err_set(&e, ERR_REJECTED, "bad \xff byte");
	assert_string_equal(e.text, "bad \xef\xbf\xbd byte");
}

static void takes_a_context(void **state)
{
	struct err e;
	(void)state;
	err_set(&e, ERR_CONFIG, "no such file");
	assert_false(err_prefix(&e, "%s[%d]", "writes", 3));
	assert_int_equal(e.kind, ERR_CONFIG);
	assert_string_equal(e.text, "writes[3]: no such file");
}

static void its_own_text_may_be_an_argument(void **state)
{
	struct err e;
	(void)state;
	err_set(&e, ERR_CONFIG, "inner");
	err_set(&e, ERR_BUG, "outer (%s)", e.text);
	assert_int_equal(e.kind, ERR_BUG);
	assert_string_equal(e.text, "outer (inner)");
}

static void a_long_context_leaves_it_whole(void **state)
{
	char context[1000];
	struct err e;
	(void)state;
	memset(context, 'c', sizeof context - 1);
	context[sizeof context - 1] = '\0';
	err_set(&e, ERR_CONFIG, "reason");
	err_prefix(&e, "%s", context);
	assert_int_equal(strlen(e.text), sizeof e.text - 1);
	assert_int_equal(e.kind, ERR_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(is_one_line),
	    cmocka_unit_test(is_cut_between_characters),
	    cmocka_unit_test(is_always_utf8),
	    cmocka_unit_test(takes_a_context),
	    cmocka_unit_test(its_own_text_may_be_an_argument),
	    cmocka_unit_test(a_long_context_leaves_it_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
