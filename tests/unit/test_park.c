#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/str.h"
#include "core/park.h"

/* When the next row of either kind is due. */
static int64_t next_due_ms(struct park *p, int64_t now_ms)
{
	int64_t held = park_due_ms(p, PARK_HELD, now_ms);
	int64_t refused = park_due_ms(p, PARK_REFUSED, now_ms);
	return held < refused ? held : refused;
}

/* Those of both kinds that are due, lowest first, at most `max` of each. */
static size_t due(struct park *p, int64_t now_ms, int64_t *ids, size_t max)
{
	size_t n = park_due(p, PARK_HELD, now_ms, ids, max);
	for (size_t i = 0; i < n; i++)
		assert_false(park_was_refused(p, ids[i]));
	size_t m = park_due(p, PARK_REFUSED, now_ms, ids + n, max);
	assert_true(n <= max && m <= max);
	for (size_t i = n; i < n + m; i++) {
		int64_t id = ids[i];
		size_t at = i;
		assert_true(park_was_refused(p, id));
		for (; at > 0 && ids[at - 1] > id; at--)
			ids[at] = ids[at - 1];
		ids[at] = id;
	}
	return n + m;
}

/* The ids that are due, as 1,2,3. */
static void assert_due(struct park *p, int64_t now_ms, size_t max, const char *expected)
{
	int64_t ids[64];
	struct buf text = {0};
	assert_true(2 * max <= sizeof ids / sizeof *ids);
	size_t n = due(p, now_ms, ids, max);
	buf_add_text(&text, "");
	for (size_t i = 0; i < n; i++)
		buf_printf(&text, i == 0 ? "%d" : ",%d", (int)ids[i]);
	assert_string_equal(text.p, expected);
	buf_free(&text);
}

static void an_empty_one(void **state)
{
	(void)state;
	struct park p = {0};
	assert_int_equal(park_count(&p), 0);
	assert_int_equal(next_due_ms(&p, 0), INT64_MAX);
	assert_due(&p, 1000, 10, "");
	assert_false(park_has(&p, 1));
	assert_false(park_was_refused(&p, 1));
	park_finish(&p, 1, 0);
	park_postpone(&p, 1, 5);
	park_wake(&p, 0);
	assert_int_equal(park_count(&p), 0);
	park_free(&p);
}

static void refused_rows_come_when_they_are_due(void **state)
{
	(void)state;
	struct park p = {0};
	park_refuse(&p, 7, 300);
	park_refuse(&p, 5, 100);
	park_refuse(&p, 6, 200);
	assert_int_equal(park_count(&p), 3);
	assert_true(park_has(&p, 7) && park_was_refused(&p, 7));
	assert_int_equal(next_due_ms(&p, 0), 100);
	assert_due(&p, 99, 10, "");
	assert_due(&p, 100, 10, "5");
	assert_true(next_due_ms(&p, 100) <= 100);
	assert_due(&p, 300, 10, "5,6,7");
	assert_due(&p, 300, 2, "5,6");
	park_refuse(&p, 4, 250);
	assert_due(&p, 300, 2, "5,6"); /* those that have waited longest */
	park_finish(&p, 4, 0);
	assert_due(&p, 300, 0, "");
	park_postpone(&p, 5, 1000);
	assert_due(&p, 300, 10, "6,7");
	park_refuse(&p, 6, 500);
	park_refuse(&p, 7, 400);
	assert_int_equal(park_count(&p), 3);
	assert_int_equal(next_due_ms(&p, 310), 400);
	assert_due(&p, 450, 10, "7");
	park_free(&p);
	assert_int_equal(park_count(&p), 0);
	assert_int_equal(next_due_ms(&p, 0), INT64_MAX);
}

static void held_rows_come_when_the_one_before_is_finished(void **state)
{
	(void)state;
	struct park p = {0};
	park_refuse(&p, 1, 10000);
	park_hold(&p, 2, 1);
	park_hold(&p, 3, 1);
	park_hold(&p, 4, 3);
	park_postpone(&p, 4, 5000);
	assert_false(park_was_refused(&p, 2));
	assert_int_equal(next_due_ms(&p, 0), 5000);
	assert_due(&p, 4999, 10, "");
	park_finish(&p, 1, 600);
	assert_false(park_has(&p, 1));
	assert_int_equal(next_due_ms(&p, 600), 600);
	assert_due(&p, 600, 10, "2,3");
	assert_due(&p, 5000, 10, "2,3,4");
	park_finish(&p, 2, 700);
	park_finish(&p, 3, 800);
	assert_due(&p, 800, 10, "4");
	park_finish(&p, 4, 900);
	assert_int_equal(park_count(&p), 0);
	assert_null(p.blockers);
	park_free(&p);
}

/* The row before it need not be parked itself: another lane has it, or another process. */
static void held_behind_a_row_that_is_not_parked(void **state)
{
	(void)state;
	struct park p = {0};
	park_hold(&p, 2, 1);
	assert_due(&p, 1000000, 10, "");
	park_finish(&p, 9, 40);
	assert_due(&p, 1000000, 10, "");
	park_finish(&p, 1, 50);
	assert_due(&p, 50, 10, "2");
	park_free(&p);
}

static void a_row_can_be_held_behind_another_than_before(void **state)
{
	(void)state;
	struct park p = {0};
	park_refuse(&p, 3, 100);
	park_hold(&p, 3, 1);
	park_hold(&p, 3, 1);
	park_hold(&p, 4, 1);
	park_hold(&p, 3, 2);
	park_finish(&p, 1, 10);
	assert_due(&p, 10, 10, "4");
	park_finish(&p, 2, 20);
	assert_due(&p, 20, 10, "3,4");
	park_refuse(&p, 3, 500);
	assert_true(park_was_refused(&p, 3));
	park_finish(&p, 2, 30);
	assert_due(&p, 30, 10, "4");
	park_free(&p);
}

/* An orphaned lane still has it in flight: it waits for itself. */
static void held_behind_itself(void **state)
{
	(void)state;
	struct park p = {0};
	park_hold(&p, 3, 3);
	park_finish(&p, 3, 10);
	assert_int_equal(park_count(&p), 0);
	assert_null(p.blockers);
	park_free(&p);
}

static void waking_is_for_refused_rows(void **state)
{
	(void)state;
	struct park p = {0};
	park_refuse(&p, 1, 60000);
	park_refuse(&p, 2, 70000);
	park_hold(&p, 3, 1);
	park_wake(&p, 50);
	assert_int_equal(next_due_ms(&p, 50), 50);
	assert_due(&p, 50, 10, "1,2");
	park_free(&p);
}

static void holds_are_counted_until_a_refusal(void **state)
{
	(void)state;
	struct park p = {0};
	assert_int_equal(park_hold(&p, 3, 1), 1);
	assert_int_equal(park_hold(&p, 3, 1), 2);
	assert_int_equal(park_hold(&p, 3, 2), 3);
	assert_int_equal(park_hold(&p, 4, 1), 1);
	park_postpone(&p, 3, 10);
	park_finish(&p, 2, 20);
	assert_int_equal(park_hold(&p, 3, 1), 4);
	park_refuse(&p, 3, 30);
	assert_int_equal(park_hold(&p, 3, 1), 1);
	park_finish(&p, 3, 40);
	assert_int_equal(park_hold(&p, 3, 1), 1);
	park_free(&p);
}

/* It would take the others of its request down with it, whatever it waited for in between. */
static void a_refused_row_stays_refused_while_it_is_held(void **state)
{
	(void)state;
	struct park p = {0};
	park_refuse(&p, 3, 100);
	park_hold(&p, 3, 1);
	assert_true(park_was_refused(&p, 3));
	park_wake(&p, 200);
	assert_due(&p, 200, 10, "");
	assert_int_equal(park_refused(&p), 1);
	park_hold(&p, 3, 2);
	park_finish(&p, 2, 300);
	assert_due(&p, 300, 10, "3");
	assert_true(park_was_refused(&p, 3));
	park_finish(&p, 3, 400);
	assert_false(park_was_refused(&p, 3));
	park_hold(&p, 3, 1);
	assert_false(park_was_refused(&p, 3));
	assert_int_equal(park_refused(&p), 0);
	park_free(&p);
}

/* The same, with every question answered by looking at every row. */
enum { ROWS = 30, FAR = 400 };

struct plain_row {
	bool parked;
	bool kept;
	bool waiting;
	int64_t due_ms;
	int64_t behind;
	bool was_refused;
	unsigned holds;
};

static void plain_due(struct plain_row *row, int64_t due_ms)
{
	row->due_ms = due_ms;
	row->waiting = false;
}

static void plain_finish(struct plain_row *rows, int64_t id, int64_t now_ms)
{
	rows[id] = (struct plain_row){0};
	for (int i = 1; i <= ROWS; i++)
		if (rows[i].parked && rows[i].behind == id)
			plain_due(&rows[i], now_ms);
}

static void change(struct park *p, struct plain_row *rows, int64_t now_ms, struct rng *rng)
{
	int64_t id = 1 + rng_upto(rng, ROWS - 1);
	int64_t due_ms = rng_upto(rng, 9) == 0 ? INT64_MAX : now_ms + rng_upto(rng, FAR);
	int64_t behind = 1 + rng_upto(rng, ROWS - 1);
	switch (rng_upto(rng, 9)) {
	case 0:
	case 1:
		park_refuse(p, id, due_ms);
		rows[id] =
		    (struct plain_row){.parked = true, .kept = rows[id].kept, .due_ms = due_ms, .was_refused = true};
		break;
	case 2:
	case 3:
		rows[id].parked = true;
		plain_due(&rows[id], INT64_MAX);
		rows[id].behind = behind;
		assert_int_equal(park_hold(p, id, behind), ++rows[id].holds);
		break;
	case 4:
		park_postpone(p, id, due_ms);
		if (rows[id].parked)
			plain_due(&rows[id], due_ms);
		break;
	case 5:
		park_finish(p, id, now_ms);
		plain_finish(rows, id, now_ms);
		break;
	case 6:
		park_wait(p, id, due_ms);
		if (rows[id].parked)
			plain_due(&rows[id], due_ms);
		rows[id].waiting = rows[id].parked;
		break;
	case 7:
		park_keep(p, id);
		rows[id].kept = rows[id].parked;
		break;
	case 8:
		park_release(p, id);
		rows[id].kept = false;
		break;
	default:
		if (rng_upto(rng, 20) > 0)
			break;
		park_wake(p, now_ms);
		for (int i = 1; i <= ROWS; i++)
			if (rows[i].parked && rows[i].behind == 0)
				plain_due(&rows[i], now_ms);
		break;
	}
}

/* Whether a row is due before another one: it has waited longer, or as long and is lower. */
static bool is_before(const struct plain_row *rows, int a, int b)
{
	return rows[a].due_ms < rows[b].due_ms || (rows[a].due_ms == rows[b].due_ms && a < b);
}

static void compare_kind(struct park *p, const struct plain_row *rows, enum park_kind kind, int64_t now_ms, size_t max)
{
	int64_t ids[ROWS];
	size_t n = 0;
	int64_t next = INT64_MAX;
	size_t n_due = park_due(p, kind, now_ms, ids, max);
	for (int i = 1; i <= ROWS; i++) {
		size_t earlier = 0;
		if (!rows[i].parked || rows[i].kept || rows[i].was_refused != (kind == PARK_REFUSED))
			continue;
		next = rows[i].due_ms < next ? rows[i].due_ms : next;
		for (int k = 1; k <= ROWS; k++)
			earlier += rows[k].parked && !rows[k].kept && rows[k].was_refused == rows[i].was_refused &&
			           is_before(rows, k, i);
		if (rows[i].due_ms <= now_ms && earlier < max) {
			assert_true(n < n_due);
			assert_int_equal(ids[n++], i);
		}
	}
	assert_int_equal(n, n_due);
	int64_t due_ms = park_due_ms(p, kind, now_ms);
	if (next <= now_ms)
		assert_true(due_ms <= now_ms);
	else
		assert_true(due_ms > now_ms && due_ms <= next);
}

static void compare(struct park *p, const struct plain_row *rows, int64_t now_ms, size_t max)
{
	size_t count = 0;
	size_t waiting = 0;
	size_t refused = 0;
	for (int i = 1; i <= ROWS; i++) {
		assert_int_equal(park_has(p, i), rows[i].parked);
		assert_int_equal(park_was_refused(p, i), rows[i].was_refused);
		count += rows[i].parked;
		waiting += rows[i].waiting;
		refused += rows[i].was_refused;
	}
	assert_int_equal(park_count(p), count);
	assert_int_equal(park_waiting(p), waiting);
	assert_int_equal(park_refused(p), refused);
	compare_kind(p, rows, PARK_HELD, now_ms, max);
	compare_kind(p, rows, PARK_REFUSED, now_ms, max);
	if (count == 0)
		assert_int_equal(next_due_ms(p, now_ms), INT64_MAX);
}

static void agrees_with_a_plain_list(void **state)
{
	(void)state;
	struct rng rng = {23};
	struct park p = {0};
	struct plain_row rows[ROWS + 1] = {0};
	int64_t now_ms = 1000;
	for (int step = 0; step < 20000; step++) {
		change(&p, rows, now_ms, &rng);
		now_ms += rng_upto(&rng, 20);
		compare(&p, rows, now_ms, (size_t)rng_upto(&rng, ROWS));
	}
	park_free(&p);
}

static void a_claimed_row_is_not_due_whatever_happens(void **state)
{
	(void)state;
	struct park p = {0};
	int64_t ids[8];
	park_refuse(&p, 1, 100);
	park_hold(&p, 2, 9);
	park_claim(&p, 1);
	park_claim(&p, 2);
	park_claim(&p, 3); /* is not parked */
	park_wake(&p, 200);
	park_finish(&p, 9, 200);
	assert_int_equal(due(&p, INT64_MAX - 1, ids, 4), 0);
	assert_true(next_due_ms(&p, 300) == INT64_MAX);
	park_postpone(&p, 1, 400);
	assert_int_equal(due(&p, 400, ids, 4), 1);
	assert_int_equal(ids[0], 1);
	park_claim(&p, 1);
	park_refuse(&p, 1, 500);
	park_wake(&p, 450);
	assert_int_equal(due(&p, 450, ids, 4), 1);
	assert_int_equal(park_count(&p), 2);
	park_free(&p);
}

/* No other transaction could claim it. */
static void a_kept_row_is_not_due_before_it_is_released(void **state)
{
	(void)state;
	struct park p = {0};
	park_hold(&p, 2, 1);
	park_keep(&p, 2);
	park_keep(&p, 3); /* is not parked */
	park_finish(&p, 1, 100);
	assert_due(&p, 200, 10, "");
	assert_int_equal(next_due_ms(&p, 200), INT64_MAX);
	park_release(&p, 2);
	park_release(&p, 3);
	assert_true(next_due_ms(&p, 200) <= 200);
	assert_due(&p, 200, 10, "2");
	park_free(&p);
}

static void a_row_waits_for_others_until_it_is_claimed_or_gone(void **state)
{
	(void)state;
	struct park p = {0};
	park_wait(&p, 1, 100); /* is not parked */
	assert_int_equal(park_waiting(&p), 0);
	park_hold(&p, 1, 9);
	park_hold(&p, 2, 9);
	park_wait(&p, 1, 100);
	park_wait(&p, 1, 120);
	park_wait(&p, 2, 100);
	assert_int_equal(park_waiting(&p), 2);
	assert_due(&p, 100, 10, "2");
	park_claim(&p, 2);
	assert_int_equal(park_waiting(&p), 1);
	park_finish(&p, 1, 110);
	assert_int_equal(park_waiting(&p), 0);
	park_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_empty_one),
	    cmocka_unit_test(refused_rows_come_when_they_are_due),
	    cmocka_unit_test(held_rows_come_when_the_one_before_is_finished),
	    cmocka_unit_test(held_behind_a_row_that_is_not_parked),
	    cmocka_unit_test(a_row_can_be_held_behind_another_than_before),
	    cmocka_unit_test(held_behind_itself),
	    cmocka_unit_test(a_claimed_row_is_not_due_whatever_happens),
	    cmocka_unit_test(a_kept_row_is_not_due_before_it_is_released),
	    cmocka_unit_test(a_row_waits_for_others_until_it_is_claimed_or_gone),
	    cmocka_unit_test(waking_is_for_refused_rows),
	    cmocka_unit_test(holds_are_counted_until_a_refusal),
	    cmocka_unit_test(a_refused_row_stays_refused_while_it_is_held),
	    cmocka_unit_test(agrees_with_a_plain_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
