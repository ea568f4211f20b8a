#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/copy_text.h"

static void a_row(void **state)
{
	(void)state;
	struct buf out = {0};
	copy_text_add(&out, STR("plain"), '\t');
	copy_text_add(&out, (struct str){0}, '\t');
	copy_text_add_null(&out, '\t');
	copy_text_add(&out, STR("\\N"), '\n');
	assert_string_equal(out.p, "plain\t\t\\N\t\\\\N\n");
	buf_free(&out);
}

static void what_is_escaped(void **state)
{
	(void)state;
	struct buf out = {0};
	copy_text_add(&out, STR("\ta\nb\r\\\\c\b é\\"), '\n');
	assert_string_equal(out.p, "\\ta\\nb\\r\\\\\\\\c\b é\\\\\n");
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_row),
	    cmocka_unit_test(what_is_escaped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
