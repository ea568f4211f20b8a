#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/writers.h"

static void they_go_one_by_one(void **state)
{
	(void)state;
	struct writers w = {0};
	writers_note(&w, "3/12 4/7 -1/55");
	assert_int_equal(w.n, 3);
	assert_int_equal(writers_keep(&w, "3/12 9/1 -1/55"), 2);
	assert_int_equal(writers_keep(&w, "-1/55 3/13"), 1); /* the same backend's next transaction is another one */
	assert_int_equal(writers_keep(&w, "-1/56"), 0);
	writers_free(&w);
}

static void nobody_writes(void **state)
{
	(void)state;
	struct writers w = {0};
	writers_note(&w, NULL);
	assert_int_equal(w.n, 0);
	writers_note(&w, "");
	assert_int_equal(w.n, 0);
	assert_int_equal(writers_keep(&w, "1/1"), 0);
	writers_free(&w);
}

static void a_new_note_replaces_the_old_one(void **state)
{
	(void)state;
	struct writers w = {0};
	writers_note(&w, "1/1 2/2");
	writers_note(&w, "3/3");
	assert_int_equal(writers_keep(&w, "1/1 2/2"), 0);
	writers_free(&w);
}

static void many(void **state)
{
	(void)state;
	struct writers w = {0};
	writers_note(&w, "1/1 1/2 1/3 1/4 1/5 1/6 1/7 1/8 1/9 1/10 1/11 1/12 1/13 1/14 1/15 1/16 1/17 1/4294967295");
	assert_int_equal(w.n, 18);
	assert_int_equal(writers_keep(&w, "1/17 1/4294967295 1/18"), 2);
	writers_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(they_go_one_by_one),
	    cmocka_unit_test(nobody_writes),
	    cmocka_unit_test(a_new_note_replaces_the_old_one),
	    cmocka_unit_test(many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
