#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/kinds.h"

static struct payload payload_of(struct op *ops, size_t n_deletes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ops[i].kind = i < n_deletes ? OP_DELETE : OP_WRITE;
	return (struct payload){.ops = ops, .n = n, .n_deletes = n_deletes};
}

static struct op op_of(const char *user)
{
	return (struct op){.tuple = {.user = str_of(user), .relation = STR("viewer"), .object = STR("archive:a")}};
}

static void what_is_written_counts(void **state)
{
	(void)state;
	struct kinds k = {0};
	struct op ops[] = {op_of("ship:1"), op_of("user:1")};
	struct op other = op_of("ship:2");
	struct payload none = {0};
	struct payload deletes = payload_of(ops, 1, 2);
	assert_false(kinds_touch(&k, &deletes));
	kinds_note(&k, 0);
	kinds_note(&k, tuple_kind(&other.tuple));
	assert_false(kinds_touch(&k, &none));
	assert_false(kinds_touch(&k, &deletes));
	struct payload writes = payload_of(ops, 0, 2);
	assert_true(kinds_touch(&k, &writes));
	struct payload user = payload_of(ops + 1, 0, 1);
	assert_false(kinds_touch(&k, &user));
}

static void what_is_accepted_is_forgotten(void **state)
{
	(void)state;
	struct kinds k = {0};
	struct op ops[] = {op_of("ship:1"), op_of("user:1"), op_of("group:1#member")};
	struct payload all = payload_of(ops, 0, 3);
	struct payload ship = payload_of(ops, 0, 1);
	struct payload group = payload_of(ops + 2, 0, 1);
	kinds_note(&k, tuple_kind(&ops[0].tuple));
	kinds_note(&k, tuple_kind(&ops[2].tuple));
	kinds_forget(&k, &ship);
	assert_false(kinds_touch(&k, &ship));
	assert_true(kinds_touch(&k, &group));
	kinds_forget(&k, &all);
	assert_false(kinds_touch(&k, &all));
}

static void the_oldest_makes_room(void **state)
{
	(void)state;
	struct kinds k = {0};
	for (int n = 0; n <= KINDS_MAX; n++) {
		char user[16];
		snprintf(user, sizeof user, "t%d:1", n);
		struct op op = op_of(user);
		struct payload p = payload_of(&op, 0, 1);
		kinds_note(&k, tuple_kind(&op.tuple));
		kinds_note(&k, tuple_kind(&op.tuple)); /* takes no second place */
		assert_true(kinds_touch(&k, &p));
	}
	struct op first = op_of("t0:1");
	struct op second = op_of("t1:1");
	struct payload p = payload_of(&first, 0, 1);
	assert_false(kinds_touch(&k, &p));
	p = payload_of(&second, 0, 1);
	assert_true(kinds_touch(&k, &p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_counts),
	    cmocka_unit_test(what_is_accepted_is_forgotten),
	    cmocka_unit_test(the_oldest_makes_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
