#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mask.h"

static void overwrites_a_secret_however_it_is_written(void **state)
{
	static const struct {
		const char *secret;
		const char *text;
		const char *masked;
	} cases[] = {
	    {"geheim", "", ""},
	    {"geheim", "geheim", "******"},
	    {"geheim", "a geheimgeheim b", "a ************ b"},
	    {"geheim", "gehei", "gehei"},
	    {"geheim", "ggeheim geheiM", "g****** geheiM"},
	    {"aab", "aaab", "a***"},
	    {"a/b\"c", "{\"x\":\"a\\/b\\\"c\"}", "{\"x\":\"*******\"}"},
	    {"a/b", "a\\u002fb a\\u002Fb a\\u002gb", "******** ******** a\\u002gb"},
	    {"a/b c", "x=a%2fb%20c&y=a%2Fb+c", "x=*********&y=*******"},
	    {"a%2f\\n", "a%2f\\n", "******"},
	    {"a+b", "a+b a%2Bb", "*** *****"},
	    {"ab\\", "ab\\", "***"},
	    {"ab", "a%6", "a%6"},
	    {"ab", "a\\u006", "a\\u006"},
	    {"", "anything", "anything"},
	    {NULL, "anything", "anything"},
	};
	char text[64];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(text, sizeof text, "%s", cases[i].text);
		mask(text, strlen(text), cases[i].secret);
		assert_string_equal(text, cases[i].masked);
	}
}

static void stays_within_its_bytes(void **state)
{
	char text[] = "x geheim";
	(void)state;
	mask(text, 7, "geheim");
	assert_string_equal(text, "x geheim");
	mask(NULL, 0, "geheim");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(overwrites_a_secret_however_it_is_written),
	    cmocka_unit_test(stays_within_its_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
