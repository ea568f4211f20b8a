#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/similar.h"

static const char *const words[] = {"run", "drain", "install", "sweep-interval", "settle-timeout", "table"};

static const char *near(const char *typed)
{
	return similar(typed, words, sizeof words / sizeof *words);
}

static void finds_what_was_meant(void **state)
{
	(void)state;
	assert_string_equal(near("drain"), "drain");
	assert_string_equal(near("drian"), "drain");
	assert_string_equal(near("drin"), "drain");
	assert_string_equal(near("ruun"), "run");
	assert_string_equal(near("tabel"), "table");
	assert_string_equal(near("sweep-intervall"), "sweep-interval");
	assert_string_equal(near("sweep_interval"), "sweep-interval");
	assert_string_equal(near("swep-intreval"), "sweep-interval");
}

static void finds_a_beginning(void **state)
{
	(void)state;
	assert_string_equal(near("sweep"), "sweep-interval");
	assert_string_equal(near("inst"), "install");
}

static void finds_nothing_far_away(void **state)
{
	char longest[SIMILAR_LETTERS + 2];
	(void)state;
	assert_null(near(""));
	assert_null(near("status"));
	assert_null(near("xyz"));
	assert_null(near("raw-deal"));
	memset(longest, 'a', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	assert_null(near(longest));
	longest[SIMILAR_LETTERS] = '\0';
	assert_null(near(longest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_what_was_meant),
	    cmocka_unit_test(finds_a_beginning),
	    cmocka_unit_test(finds_nothing_far_away),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
