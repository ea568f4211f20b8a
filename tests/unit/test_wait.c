#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "core/wait.h"

static bool begin(struct waits *w, uint64_t number, const char *query, int64_t now_ms)
{
	struct wait_query q;
	struct err e;
	assert_true(wait_query_read(&q, query, &e));
	return wait_begin(w, number, &q, now_ms);
}

static void assert_nothing(struct waits *w, int64_t now_ms)
{
	struct wait_answer a;
	assert_false(wait_next(w, now_ms, &a));
}

static void assert_next(struct waits *w, int64_t now_ms, uint64_t number, int code, const char *body)
{
	struct wait_answer a;
	assert_true(wait_next(w, now_ms, &a));
	assert_int_equal(a.number, number);
	assert_int_equal(a.code, code);
	assert_string_equal(a.body.p, body);
	buf_free(&a.body);
}

static void assert_asks(struct waits *w, int64_t now_ms, const char *ids)
{
	struct buf text = {0};
	assert_true(wait_wants_question(w, now_ms));
	wait_ask(w, now_ms, &text);
	assert_string_equal(text.p, ids);
	buf_free(&text);
}

static void found(struct waits *w, int64_t id, bool is_delivered, const char *reason)
{
	wait_found(w, &(struct wait_found){id, is_delivered, *reason != '\0', str_of(reason)});
}

static void without_waits_nothing_is_due(void **state)
{
	(void)state;
	static struct waits w;
	wait_delivered(&w, 7);
	wait_refused(&w, 8, STR("no"));
	assert_false(wait_wants_question(&w, 1000));
	assert_nothing(&w, 1000);
	assert_true(wait_due_ms(&w, true) == INT64_MAX);
	wait_forget(&w, 1);
	wait_unanswered(&w);
	wait_free(&w);
}

static void a_mark_ends_the_wait(void **state)
{
	(void)state;
	static struct waits w;
	assert_true(begin(&w, 1, "id=7&id=8", 1000));
	assert_true(begin(&w, 2, "id=8", 1000));
	assert_nothing(&w, 1000);
	wait_delivered(&w, 8);
	assert_next(&w, 1001, 2, 200, "{\"status\":\"delivered\",\"ids\":[8]}\n");
	assert_nothing(&w, 1001);
	wait_delivered(&w, 7);
	assert_next(&w, 1002, 1, 200, "{\"status\":\"delivered\",\"ids\":[7,8]}\n");
	assert_true(wait_due_ms(&w, true) == INT64_MAX);
	wait_free(&w);
}

static void a_refusal_ends_every_wait_for_the_row(void **state)
{
	(void)state;
	static struct waits w;
	assert_true(begin(&w, 1, "id=7&id=8", 1000));
	assert_true(begin(&w, 2, "id=9", 1000));
	wait_refused(&w, 8, STR("no \"such\"\ntype"));
	assert_next(&w, 1001, 1, 409, "{\"status\":\"refused\",\"ids\":[8],\"reason\":\"no \\\"such\\\" type\"}\n");
	assert_nothing(&w, 1001);
	wait_free(&w);
}

/* Who commits and then asks may be later than the mark. It is only a hint. */
static void what_was_marked_lately_is_asked_for_at_once(void **state)
{
	(void)state;
	static struct waits w;
	wait_delivered(&w, 7);
	wait_delivered(&w, 8);
	wait_delivered(&w, 8 + WAIT_RECENT);
	assert_true(begin(&w, 1, "id=6&id=7", 1001));
	assert_true(begin(&w, 2, "id=8", 1001));
	assert_nothing(&w, 1001);
	assert_int_equal(wait_due_ms(&w, true), 1001);
	assert_asks(&w, 1001, "{6,7}");
	found(&w, 6, false, "");
	found(&w, 7, true, "");
	wait_answered(&w, 1001);
	assert_false(wait_wants_question(&w, 1029));
	assert_asks(&w, 1030, "{8}");
	wait_free(&w);
}

static void questions_grow_rare(void **state)
{
	(void)state;
	static struct waits w;
	static const int64_t at_ms[] = {1020, 1060, 1140, 1300, 1550, 1800};
	assert_true(begin(&w, 1, "id=7", 1000));
	for (size_t i = 0; i < sizeof at_ms / sizeof *at_ms; i++) {
		assert_true(wait_due_ms(&w, false) == 6000);
		assert_int_equal(wait_due_ms(&w, true), at_ms[i]);
		assert_false(wait_wants_question(&w, at_ms[i] - 1));
		assert_asks(&w, at_ms[i], "{7}");
		assert_false(wait_wants_question(&w, at_ms[i] + 5000));
		assert_true(wait_due_ms(&w, true) == 6000);
		found(&w, 7, false, "");
		wait_answered(&w, at_ms[i]);
		assert_nothing(&w, at_ms[i]);
		assert_false(wait_wants_question(&w, at_ms[i]));
	}
	wait_free(&w);
}

static void one_question_has_the_rows_of_all_that_are_due(void **state)
{
	(void)state;
	static struct waits w;
	assert_true(begin(&w, 1, "id=7&id=8", 1001));
	assert_true(begin(&w, 2, "id=8&id=9", 1010));
	assert_true(begin(&w, 3, "id=10", 1011));
	wait_delivered(&w, 9);
	assert_asks(&w, 1030, "{8,7}");
	found(&w, 7, true, "");
	found(&w, 8, true, "");
	wait_answered(&w, 1031);
	assert_next(&w, 1031, 1, 200, "{\"status\":\"delivered\",\"ids\":[7,8]}\n");
	assert_next(&w, 1031, 2, 200, "{\"status\":\"delivered\",\"ids\":[8,9]}\n");
	assert_asks(&w, 1040, "{10}");
	wait_free(&w);
}

static void a_question_has_not_too_many_rows(void **state)
{
	(void)state;
	static struct waits w;
	struct buf ids = {0};
	int64_t highest = 0;
	size_t asked = 0;
	for (uint64_t number = 1; number <= 12; number++) {
		struct wait_query q = {.n = WAIT_QUERY_IDS, .timeout_ms = 5000};
		for (size_t i = 0; i < q.n; i++)
			q.ids[i] = ++highest;
		assert_true(wait_begin(&w, number, &q, 1000));
	}
	for (int question = 0; question < 2; question++) {
		buf_clear(&ids);
		assert_true(wait_wants_question(&w, 1020));
		wait_ask(&w, 1020, &ids);
		size_t n = 0;
		for (char *p = ids.p; *p != '}'; n++)
			found(&w, strtoll(p + 1, &p, 10), false, "");
		assert_true(n <= WAIT_MOST_ASKED);
		asked += n;
		wait_answered(&w, 1020);
	}
	assert_int_equal(asked, 12 * WAIT_QUERY_IDS);
	assert_false(wait_wants_question(&w, 1020));
	buf_free(&ids);
	wait_free(&w);
}

static void a_question_finds_what_was_refused_and_what_is_not_there(void **state)
{
	(void)state;
	static struct waits w;
	assert_true(begin(&w, 1, "id=7&id=8", 1000));
	assert_true(begin(&w, 2, "id=8&id=9", 1000));
	assert_asks(&w, 1020, "{8,9,7}");
	found(&w, 7, false, "refused before");
	found(&w, 8, false, "");
	wait_answered(&w, 1020);
	assert_next(&w, 1020, 2, 404, "{\"status\":\"missing\",\"ids\":[9]}\n");
	assert_next(&w, 1020, 1, 409, "{\"status\":\"refused\",\"ids\":[7],\"reason\":\"refused before\"}\n");
	assert_nothing(&w, 1020);
	wait_free(&w);
}

/* Its row may have been committed since. */
static void a_wait_takes_no_bad_news_from_a_question_before_it(void **state)
{
	(void)state;
	static struct waits w;
	assert_true(begin(&w, 1, "id=7&id=8&id=9", 1000));
	assert_asks(&w, 1020, "{7,8,9}");
	assert_true(begin(&w, 2, "id=7", 1021));
	assert_true(begin(&w, 3, "id=8", 1021));
	assert_true(begin(&w, 4, "id=9", 1021));
	found(&w, 8, false, "refused");
	found(&w, 9, true, "");
	wait_answered(&w, 1022);
	assert_next(&w, 1022, 4, 200, "{\"status\":\"delivered\",\"ids\":[9]}\n");
	assert_next(&w, 1022, 1, 409, "{\"status\":\"refused\",\"ids\":[8],\"reason\":\"refused\"}\n");
	assert_nothing(&w, 1022);
	assert_asks(&w, 1050, "{8,7}");
	wait_answered(&w, 1051);
	assert_next(&w, 1051, 2, 404, "{\"status\":\"missing\",\"ids\":[7]}\n");
	assert_next(&w, 1051, 3, 404, "{\"status\":\"missing\",\"ids\":[8]}\n");
	wait_free(&w);
}

static void the_time_is_over(void **state)
{
	(void)state;
	static struct waits w;
	assert_true(begin(&w, 1, "id=7&id=8&timeout=100ms", 1000));
	wait_delivered(&w, 7);
	assert_asks(&w, 1020, "{8}");
	found(&w, 8, false, "");
	wait_answered(&w, 1021);
	assert_nothing(&w, 1099);
	assert_int_equal(wait_due_ms(&w, false), 1100);
	assert_next(&w, 1100, 1, 504, "{\"status\":\"pending\",\"ids\":[8]}\n");
	assert_nothing(&w, 1100);
	wait_free(&w);
}

#define SILENT "{\"status\":\"unknown\",\"ids\":[7],\"reason\":\"postgres does not answer: ask again later\"}\n"

static void nobody_can_be_asked(void **state)
{
	(void)state;
	static struct waits w;
	assert_true(begin(&w, 1, "id=7&timeout=100ms", 1000));
	assert_true(wait_wants_question(&w, 1020)); /* and there is no connection */
	assert_next(&w, 1100, 1, 503, SILENT);
	assert_true(begin(&w, 2, "id=7&timeout=100ms", 2000));
	assert_true(begin(&w, 3, "id=7&timeout=2s", 2000));
	assert_asks(&w, 2020, "{7}");
	assert_next(&w, 2100, 2, 504, "{\"status\":\"pending\",\"ids\":[7]}\n"); /* the answer may be on its way */
	wait_unanswered(&w);
	assert_asks(&w, 2200, "{7}");
	assert_true(begin(&w, 4, "id=7&timeout=10ms", 2200));
	assert_nothing(&w, 2209);
	assert_next(&w, 2200 + WAIT_SILENCE_MS, 4, 503, SILENT); /* it does not come */
	wait_answered(&w, 3500);
	assert_next(&w, 3500, 3, 404, "{\"status\":\"missing\",\"ids\":[7]}\n");
	assert_true(begin(&w, 5, "id=7&timeout=10ms", 3600));
	assert_next(&w, 3610, 5, 504, "{\"status\":\"pending\",\"ids\":[7]}\n");
	wait_free(&w);
}

static void the_relay_stops(void **state)
{
	(void)state;
	static struct waits w;
	assert_true(begin(&w, 1, "id=7&id=8", 1000));
	wait_delivered(&w, 7);
	wait_stop(&w);
	assert_next(&w, 1001, 1, 503,
	            "{\"status\":\"unknown\",\"ids\":[8],\"reason\":\"relay is stopping: ask again later\"}\n");
	wait_free(&w);
}

static void a_client_that_is_gone_is_forgotten(void **state)
{
	(void)state;
	static struct waits w;
	assert_true(begin(&w, 1, "id=7&id=8", 1000));
	assert_true(begin(&w, 2, "id=8", 1000));
	assert_true(begin(&w, 3, "id=9", 1000));
	wait_delivered(&w, 9);
	wait_forget(&w, 1);
	wait_forget(&w, 3); /* it has its end, and nobody has taken it yet */
	assert_nothing(&w, 1001);
	assert_asks(&w, 1020, "{8}");
	wait_forget(&w, 2);
	found(&w, 8, false, "refused");
	wait_answered(&w, 1021);
	assert_nothing(&w, 1021);
	assert_int_equal(w.n, 0);
	assert_int_equal(w.n_ids, 0);
	assert_null(w.rows);
	wait_free(&w);
}

static void there_may_not_be_too_many(void **state)
{
	(void)state;
	static struct waits w;
	struct wait_query q = {.n = WAIT_QUERY_IDS, .timeout_ms = 5000};
	uint64_t number = 0;
	for (size_t i = 0; i < q.n; i++)
		q.ids[i] = (int64_t)i + 1;
	while (wait_begin(&w, number + 1, &q, 1000))
		number++;
	assert_int_equal(number, WAIT_MOST_IDS / WAIT_QUERY_IDS);
	wait_forget(&w, 1);
	while (begin(&w, number + 1, "id=1", 1000))
		number++;
	assert_int_equal(number, 200);
	while (number > 100)
		wait_forget(&w, number--);
	for (number = 2; number <= 100; number++)
		wait_forget(&w, number);
	assert_int_equal(w.n, 0);
	for (number = 0; begin(&w, number + 1, "id=1", 1000); number++)
		;
	assert_int_equal(number, WAIT_MOST);
	wait_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(without_waits_nothing_is_due),
	    cmocka_unit_test(a_mark_ends_the_wait),
	    cmocka_unit_test(a_refusal_ends_every_wait_for_the_row),
	    cmocka_unit_test(what_was_marked_lately_is_asked_for_at_once),
	    cmocka_unit_test(questions_grow_rare),
	    cmocka_unit_test(one_question_has_the_rows_of_all_that_are_due),
	    cmocka_unit_test(a_question_has_not_too_many_rows),
	    cmocka_unit_test(a_question_finds_what_was_refused_and_what_is_not_there),
	    cmocka_unit_test(a_wait_takes_no_bad_news_from_a_question_before_it),
	    cmocka_unit_test(the_time_is_over),
	    cmocka_unit_test(nobody_can_be_asked),
	    cmocka_unit_test(the_relay_stops),
	    cmocka_unit_test(a_client_that_is_gone_is_forgotten),
	    cmocka_unit_test(there_may_not_be_too_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
