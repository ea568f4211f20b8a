#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/order.h"

static struct mark mark(uint64_t tuple, uint64_t action)
{
	return (struct mark){tuple, action};
}

static void add(struct order *o, int64_t id, uint64_t tuple, uint64_t action)
{
	struct mark m = mark(tuple, action);
	order_add(o, id, &m, 1);
}

static int64_t blocker(const struct order *o, int64_t id, uint64_t tuple, uint64_t action)
{
	struct mark m = mark(tuple, action);
	return order_blocker(o, id, &m, 1);
}

static void assert_ids(const struct order *o, const char *expected)
{
	struct buf ids = {0};
	order_ids(o, INT64_MIN, &ids);
	assert_string_equal(ids.p, expected);
	buf_free(&ids);
}

static struct mark *marks(const char *text, struct arena *arena, size_t n)
{
	struct payload p;
	struct err e;
	if (!payload_parse(str_of(text), arena, &p, &e))
		fail_msg("%s: %s", text, e.text);
	assert_int_equal(p.n, n);
	return marks_of(&p, arena);
}

#define TUPLE "\"user\":\"user:anne\",\"relation\":\"member\",\"object\":\"organization:acme\""
#define OTHER "\"user\":\"user:anne\",\"relation\":\"owner\",\"object\":\"organization:acme\""

static void marks_tell_operations_apart(void **state)
{
	(void)state;
	static const char *const payloads[] = {
	    "{\"writes\":[{" TUPLE "}]}",
	    "{\"deletes\":[{" TUPLE "}]}",
	    "{\"writes\":[{" TUPLE ",\"condition\":{\"name\":\"aa\"}}]}",
	    "{\"writes\":[{" TUPLE ",\"condition\":{\"name\":\"bb\"}}]}",
	    "{\"writes\":[{" TUPLE ",\"condition\":{\"name\":\"aa\",\"context\":{\"x\":1}}}]}",
	    "{\"writes\":[{" TUPLE ",\"condition\":{\"name\":\"aa\",\"context\":{\"x\":2}}}]}",
	};
	enum { N = sizeof payloads / sizeof *payloads };
	struct arena arena = {0};
	for (size_t i = 0; i < N; i++) {
		struct mark m = *marks(payloads[i], &arena, 1);
		for (size_t k = 0; k < N; k++) {
			struct mark other = *marks(payloads[k], &arena, 1);
			assert_int_equal(m.tuple, other.tuple);
			assert_int_equal(mark_conflict(m, other), i != k);
		}
		assert_false(mark_conflict(m, *marks("{\"deletes\":[{" OTHER "}]}", &arena, 1)));
	}
	arena_free(&arena);
}

static void marks_stand_in_the_order_of_the_operations(void **state)
{
	(void)state;
	struct arena arena = {0};
	struct mark *both = marks("{\"writes\":[{" TUPLE "}],\"deletes\":[{" OTHER "},{" TUPLE "}]}", &arena, 3);
	assert_int_equal(both[1].tuple, both[2].tuple);
	assert_int_not_equal(both[0].tuple, both[1].tuple);
	assert_int_equal(both[0].action, both[1].action);
	assert_int_not_equal(both[1].action, both[2].action);
	assert_non_null(marks("{}", &arena, 0));
	arena_free(&arena);
}

/* A delete has one effect whatever condition its text names. */
static void a_deletes_condition_is_no_action(void **state)
{
	(void)state;
	struct arena arena = {0};
	struct mark *plain = marks("{\"deletes\":[{" TUPLE "}]}", &arena, 1);
	struct mark *odd = marks("{\"deletes\":[{" TUPLE ",\"condition\":{\"name\":\"aa\"}}]}", &arena, 1);
	assert_false(mark_conflict(*plain, *odd));
	arena_free(&arena);
}

static void a_row_waits_for_lower_ones_that_differ(void **state)
{
	(void)state;
	struct order o = {0};
	assert_int_equal(blocker(&o, 5, 1, 1), 0);
	add(&o, 5, 1, 1);
	assert_int_equal(blocker(&o, 6, 1, 2), 5);
	assert_int_equal(blocker(&o, 6, 1, 1), 0);
	assert_int_equal(blocker(&o, 6, 2, 2), 0);
	assert_int_equal(blocker(&o, 5, 1, 2), 0);
	assert_int_equal(blocker(&o, 4, 1, 2), 0);
	order_free(&o);
	assert_int_equal(blocker(&o, 6, 1, 2), 0);
}

static void the_lowest_blocker_is_named(void **state)
{
	(void)state;
	struct order o = {0};
	add(&o, 9, 1, 1);
	add(&o, 3, 2, 1);
	add(&o, 7, 1, 1);
	add(&o, 2, 1, 2); /* does the same as the row that asks */
	struct mark both[] = {mark(1, 2), mark(2, 2)};
	assert_int_equal(order_blocker(&o, 10, both, 2), 3);
	assert_int_equal(order_blocker(&o, 10, both, 1), 7);
	order_remove(&o, 3);
	assert_int_equal(order_blocker(&o, 10, both, 2), 7);
	order_remove(&o, 7);
	assert_int_equal(order_blocker(&o, 10, both, 2), 9);
	order_remove(&o, 9);
	assert_int_equal(order_blocker(&o, 10, both, 2), 0);
	order_free(&o);
}

static void a_row_noted_anew_is_replaced(void **state)
{
	(void)state;
	struct order o = {0};
	assert_false(order_has(&o, 5));
	struct mark both[] = {mark(1, 1), mark(2, 1)};
	order_add(&o, 5, both, 2);
	add(&o, 5, 2, 3);
	assert_true(order_has(&o, 5));
	assert_int_equal(blocker(&o, 6, 1, 2), 0);
	assert_int_equal(blocker(&o, 6, 2, 1), 5);
	assert_int_equal(blocker(&o, 6, 2, 3), 0);
	assert_ids(&o, "{5}");
	order_add(&o, 5, NULL, 0);
	assert_true(order_has(&o, 5));
	assert_int_equal(blocker(&o, 6, 2, 1), 0);
	order_remove(&o, 5);
	assert_false(order_has(&o, 5));
	order_remove(&o, 5);
	order_free(&o);
}

static void a_row_let_go_blocks_until_it_is_forgotten(void **state)
{
	(void)state;
	struct order o = {0};
	add(&o, 4, 2, 1);
	add(&o, 5, 1, 1);
	order_let_go(&o, 5, 7);
	assert_false(order_has(&o, 5));
	assert_true(order_has(&o, 4));
	assert_int_equal(blocker(&o, 6, 1, 2), 5);
	order_forget(&o, 7); /* the claim with this number may have been told to leave it out */
	assert_int_equal(blocker(&o, 6, 1, 2), 5);
	order_forget(&o, 8);
	assert_int_equal(blocker(&o, 6, 1, 2), 0);
	order_forget(&o, UINT64_MAX);
	assert_int_equal(blocker(&o, 6, 2, 2), 4);
	order_let_go(&o, 5, 9);
	order_forget(&o, UINT64_MAX);
	assert_true(order_has(&o, 4));
	assert_false(order_has(&o, 5));
	order_free(&o);
}

static void letting_go_again_changes_nothing(void **state)
{
	(void)state;
	struct order o = {0};
	add(&o, 5, 1, 1);
	add(&o, 6, 2, 1);
	order_let_go(&o, 5, 7);
	order_let_go(&o, 5, 9);
	order_let_go(&o, 6, 9);
	order_forget(&o, 8);
	assert_int_equal(blocker(&o, 7, 1, 2), 0);
	assert_int_equal(blocker(&o, 7, 2, 2), 6);
	order_remove(&o, 6); /* it was finished by whoever took it */
	assert_int_equal(blocker(&o, 7, 2, 2), 0);
	order_free(&o);
}

static void a_row_let_go_can_be_noted_again(void **state)
{
	(void)state;
	struct order o = {0};
	add(&o, 5, 1, 1);
	add(&o, 6, 2, 1);
	order_let_go(&o, 5, 7);
	order_let_go(&o, 6, 7);
	add(&o, 5, 1, 3);
	assert_true(order_has(&o, 5));
	assert_ids(&o, "{5}");
	order_forget(&o, 8);
	assert_int_equal(blocker(&o, 7, 2, 2), 0);
	assert_int_equal(blocker(&o, 7, 1, 2), 5);
	assert_int_equal(blocker(&o, 7, 1, 3), 0);
	order_let_go(&o, 5, 9);
	assert_int_equal(blocker(&o, 7, 1, 2), 5);
	order_forget(&o, 10);
	assert_int_equal(blocker(&o, 7, 1, 2), 0);
	order_free(&o);
}

static void ids_as_an_array_literal(void **state)
{
	(void)state;
	struct order o = {0};
	assert_ids(&o, "{}");
	add(&o, INT64_MAX, 1, 1);
	assert_ids(&o, "{9223372036854775807}");
	add(&o, 12, 1, 1);
	struct buf ids = {0};
	buf_add_text(&ids, "x");
	order_ids(&o, INT64_MIN, &ids);
	if (strcmp(ids.p, "x{9223372036854775807,12}") != 0)
		assert_string_equal(ids.p, "x{12,9223372036854775807}");
	buf_free(&ids);
	order_let_go(&o, INT64_MAX, 1);
	assert_ids(&o, "{12}");
	order_let_go(&o, 12, 1);
	assert_ids(&o, "{}");
	order_free(&o);
	assert_ids(&o, "{}");
}

static void the_marks_are_copied(void **state)
{
	(void)state;
	struct order o = {0};
	struct mark m = mark(1, 1);
	order_add(&o, 5, &m, 1);
	m = mark(2, 2);
	assert_int_equal(blocker(&o, 6, 1, 2), 5);
	order_free(&o);
}

/* A row that changes a tuple twice, and one that has no tuples at all. */
static void odd_rows(void **state)
{
	(void)state;
	struct order o = {0};
	struct mark twice[] = {mark(1, 1), mark(1, 2)};
	order_add(&o, 5, twice, 2);
	assert_int_equal(blocker(&o, 6, 1, 1), 5);
	assert_int_equal(blocker(&o, 6, 1, 2), 5);
	assert_int_equal(order_blocker(&o, 5, twice, 2), 0);
	order_add(&o, 7, NULL, 0);
	assert_true(order_has(&o, 7));
	assert_int_equal(order_blocker(&o, 8, NULL, 0), 0);
	order_remove(&o, 5);
	assert_int_equal(blocker(&o, 6, 1, 1), 0);
	order_free(&o);
	assert_false(order_has(&o, 7));
}

/* The same, without any index. */
enum { ROWS = 40, TUPLES = 6, ACTIONS = 3, MOST_MARKS = 4 };

struct plain_row {
	bool noted;
	bool was_let_go;
	uint64_t turn;
	size_t n;
	struct mark marks[MOST_MARKS];
};

static int64_t plain_blocker(const struct plain_row *rows, int64_t id, const struct plain_row *of)
{
	for (int64_t lower = 1; lower < id; lower++)
		for (size_t i = 0; rows[lower].noted && i < rows[lower].n; i++)
			for (size_t k = 0; k < of->n; k++)
				if (mark_conflict(rows[lower].marks[i], of->marks[k]))
					return lower;
	return 0;
}

static struct plain_row any_row(struct rng *rng)
{
	struct plain_row row = {.noted = true, .n = (size_t)rng_upto(rng, MOST_MARKS)};
	for (size_t i = 0; i < row.n; i++)
		row.marks[i] = mark((uint64_t)rng_upto(rng, TUPLES), (uint64_t)rng_upto(rng, ACTIONS));
	return row;
}

static void change(struct order *o, struct plain_row *rows, uint64_t turn, struct rng *rng)
{
	int64_t id = 1 + rng_upto(rng, ROWS - 1);
	uint64_t older = turn - (uint64_t)rng_upto(rng, 20);
	struct plain_row row = any_row(rng);
	switch (rng_upto(rng, 9)) {
	case 0:
	case 1:
		order_remove(o, id);
		rows[id] = (struct plain_row){0};
		break;
	case 2:
	case 3:
		order_let_go(o, id, turn);
		if (rows[id].noted && !rows[id].was_let_go) {
			rows[id].was_let_go = true;
			rows[id].turn = turn;
		}
		break;
	case 4:
		order_forget(o, older);
		for (int i = 1; i <= ROWS; i++)
			if (rows[i].was_let_go && rows[i].turn < older)
				rows[i] = (struct plain_row){0};
		break;
	default:
		order_add(o, id, row.marks, row.n);
		rows[id] = row;
		break;
	}
}

static bool is_known(const struct plain_row *row)
{
	return row->noted && !row->was_let_go;
}

/* Each known row once, in whatever order. */
static void compare_ids(const struct order *o, const struct plain_row *rows)
{
	struct buf ids = {0};
	bool seen[ROWS + 1] = {0};
	order_ids(o, INT64_MIN, &ids);
	char *at = ids.p;
	while (strcmp(at, "{}") != 0 && strcmp(at, "}") != 0) {
		assert_true(*at == (at == ids.p ? '{' : ','));
		int64_t id = strtoll(at + 1, &at, 10);
		assert_true(id >= 1 && id <= ROWS && !seen[id]);
		seen[id] = true;
	}
	for (int i = 1; i <= ROWS; i++)
		assert_int_equal(seen[i], is_known(&rows[i]));
	buf_free(&ids);
}

static void agrees_with_a_plain_search(void **state)
{
	(void)state;
	struct rng rng = {17};
	struct order o = {0};
	struct plain_row rows[ROWS + 1] = {0};
	for (uint64_t step = 0; step < 20000; step++) {
		change(&o, rows, 100 + step, &rng);
		int64_t id = 1 + rng_upto(&rng, ROWS - 1);
		struct plain_row row = any_row(&rng);
		assert_int_equal(order_blocker(&o, id, row.marks, row.n), plain_blocker(rows, id, &row));
		size_t let_go = 0;
		for (int i = 1; i <= ROWS; i++) {
			assert_int_equal(order_has(&o, i), is_known(&rows[i]));
			let_go += rows[i].was_let_go;
		}
		assert_int_equal(o.let_go, let_go);
		compare_ids(&o, rows);
	}
	order_free(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(marks_tell_operations_apart),
	    cmocka_unit_test(marks_stand_in_the_order_of_the_operations),
	    cmocka_unit_test(a_deletes_condition_is_no_action),
	    cmocka_unit_test(a_row_waits_for_lower_ones_that_differ),
	    cmocka_unit_test(the_lowest_blocker_is_named),
	    cmocka_unit_test(a_row_noted_anew_is_replaced),
	    cmocka_unit_test(a_row_let_go_blocks_until_it_is_forgotten),
	    cmocka_unit_test(letting_go_again_changes_nothing),
	    cmocka_unit_test(a_row_let_go_can_be_noted_again),
	    cmocka_unit_test(ids_as_an_array_literal),
	    cmocka_unit_test(the_marks_are_copied),
	    cmocka_unit_test(odd_rows),
	    cmocka_unit_test(agrees_with_a_plain_search),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
