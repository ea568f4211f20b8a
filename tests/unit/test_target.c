#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/target.h"

static struct rng rng = {3};

static struct judgement judgement(enum verdict verdict, enum hint hint, const char *reason)
{
	struct judgement j = {.verdict = verdict, .hint = hint};
	snprintf(j.reason, sizeof j.reason, "%s", reason);
	return j;
}

static void check(struct target *t, enum verdict verdict, const char *reason, int64_t now_ms)
{
	struct judgement j = judgement(verdict, HINT_NONE, reason);
	target_asked(t);
	target_checked(t, &j, now_ms, &rng);
}

static void write_answered(struct target *t, enum verdict carried_out, enum hint hint, int64_t now_ms)
{
	struct judgement j = judgement(carried_out, hint, "a write");
	target_wrote(t, carried_out, &j, now_ms, &rng);
}

static struct target ready(void)
{
	struct target t = {0};
	check(&t, VERDICT_DELIVERED, "", 0);
	assert_int_equal(t.state, TARGET_READY);
	return t;
}

static void asks_before_it_claims(void **state)
{
	(void)state;
	struct target t = {0};
	struct judgement well = judgement(VERDICT_DELIVERED, HINT_NONE, "fine");
	assert_int_equal(t.state, TARGET_UNCHECKED);
	assert_false(target_may_claim(&t));
	assert_true(target_wants_check(&t, 0));
	assert_true(target_due_ms(&t) <= 0);
	target_asked(&t);
	assert_false(target_may_claim(&t));
	assert_false(target_wants_check(&t, 1000000));
	assert_int_equal(target_due_ms(&t), INT64_MAX);
	target_checked(&t, &well, 5, &rng);
	assert_int_equal(t.state, TARGET_READY);
	assert_string_equal(t.reason, "");
	assert_true(target_may_claim(&t));
	assert_false(target_wants_check(&t, INT64_MAX));
	assert_int_equal(target_due_ms(&t), INT64_MAX);
}

static void a_failed_question_is_asked_again(void **state)
{
	(void)state;
	static const struct {
		enum verdict verdict;
		enum target_state state;
	} cases[] = {{VERDICT_RETRY, TARGET_BACKOFF}, {VERDICT_HALT, TARGET_HALTED}};
	for (size_t i = 0; i < 2; i++) {
		struct target t = {0};
		check(&t, cases[i].verdict, "store 01J: it is away", 1000);
		assert_int_equal(t.state, cases[i].state);
		assert_string_equal(t.reason, "store 01J: it is away");
		assert_false(target_may_claim(&t));
		int64_t due_ms = target_due_ms(&t);
		assert_in_range(due_ms - 1000, TARGET_BACKOFF_MIN_MS / 2, TARGET_BACKOFF_MIN_MS);
		assert_false(target_wants_check(&t, due_ms - 1));
		assert_true(target_wants_check(&t, due_ms));
		check(&t, VERDICT_DELIVERED, "", due_ms);
		assert_int_equal(t.state, TARGET_READY);
		assert_string_equal(t.reason, "");
	}
}

/* At every sweep it is asked although it is in order. */
static void a_question_while_ready(void **state)
{
	(void)state;
	struct target t = ready();
	target_asked(&t);
	assert_true(target_may_claim(&t));
	check(&t, VERDICT_DELIVERED, "", 50);
	assert_true(target_may_claim(&t));
	check(&t, VERDICT_HALT, "no such store", 60);
	assert_int_equal(t.state, TARGET_HALTED);
	check(&t, VERDICT_RETRY, "away", 70);
	assert_int_equal(t.state, TARGET_BACKOFF);
	assert_string_equal(t.reason, "away");
	check(&t, VERDICT_HALT, "no such model", 80);
	assert_int_equal(t.state, TARGET_HALTED);
	assert_string_equal(t.reason, "no such model");
}

/* The longest of many waits after so many failures in a row. */
static int64_t longest_wait(unsigned failures)
{
	int64_t longest = 0;
	for (int i = 0; i < 500; i++) {
		struct target t = {0};
		for (unsigned k = 0; k < failures; k++)
			check(&t, VERDICT_RETRY, "away", 1000);
		int64_t wait = target_due_ms(&t) - 1000;
		assert_true(wait >= TARGET_BACKOFF_MIN_MS / 2);
		longest = wait > longest ? wait : longest;
	}
	return longest;
}

static void waits_grow_to_their_cap(void **state)
{
	(void)state;
	assert_in_range(longest_wait(1), 90, 100);
	assert_in_range(longest_wait(3), 360, 400);
	assert_in_range(longest_wait(40), 4500, TARGET_BACKOFF_MAX_MS);
}

static void waits_as_long_as_it_was_told(void **state)
{
	(void)state;
	struct target t = ready();
	struct judgement j = judgement(VERDICT_RETRY, HINT_SLOWER, "429");
	j.retry_after_ms = 30000;
	target_wrote(&t, VERDICT_RETRY, &j, 1000, &rng);
	assert_int_equal(t.state, TARGET_BACKOFF);
	assert_int_equal(target_due_ms(&t), 31000);
	assert_string_equal(t.reason, "429");
}

/* A write is told to wait while the sweep's question is under way, and that is answered well, or badly. */
static void an_answer_ends_no_wait_that_began_after_its_question(void **state)
{
	(void)state;
	struct judgement busy = judgement(VERDICT_RETRY, HINT_SLOWER, "429");
	struct judgement well = judgement(VERDICT_DELIVERED, HINT_NONE, "");
	struct judgement away = judgement(VERDICT_RETRY, HINT_NONE, "away");
	const struct judgement *const answers[] = {&well, &away};
	busy.retry_after_ms = 30000;
	for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
		struct target t = ready();
		target_asked(&t);
		target_wrote(&t, VERDICT_RETRY, &busy, 1000, &rng);
		target_checked(&t, answers[i], 1001, &rng);
		assert_int_equal(t.state, TARGET_BACKOFF);
		assert_int_equal(target_due_ms(&t), 31000);
		assert_true(target_wants_check(&t, 31000));
		target_asked(&t);
		target_checked(&t, &well, 31005, &rng);
		assert_int_equal(t.state, TARGET_READY);
	}
}

static void what_a_writes_answer_says(void **state)
{
	(void)state;
	static const struct {
		enum verdict carried_out;
		enum hint hint;
		enum target_state then;
	} cases[] = {
	    {VERDICT_DELIVERED, HINT_NONE, TARGET_READY}, {VERDICT_SPLIT, HINT_NONE, TARGET_READY},
	    {VERDICT_SPLIT, HINT_SIZE, TARGET_READY},     {VERDICT_REJECTED, HINT_NONE, TARGET_READY},
	    {VERDICT_RETRY, HINT_NONE, TARGET_BACKOFF},   {VERDICT_RETRY, HINT_SLOWER, TARGET_BACKOFF},
	    {VERDICT_RETRY, HINT_RACE, TARGET_READY},     {VERDICT_RETRY, HINT_PROBE, TARGET_READY},
	    {VERDICT_HALT, HINT_NONE, TARGET_HALTED},     {VERDICT_HALT, HINT_AUTH, TARGET_HALTED},
	    {VERDICT_HALT, HINT_PROBE, TARGET_HALTED},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct target t = ready();
		write_answered(&t, cases[i].carried_out, cases[i].hint, 1000);
		assert_string_equal(target_state_name(t.state), target_state_name(cases[i].then));
		assert_string_equal(t.reason, cases[i].then == TARGET_READY ? "" : "a write");
		assert_int_equal(target_may_claim(&t), cases[i].then == TARGET_READY);
	}
}

/* Many requests fail together: that is one failure. */
static void answers_while_it_waits_say_nothing_new(void **state)
{
	(void)state;
	struct target t = ready();
	write_answered(&t, VERDICT_RETRY, HINT_NONE, 1000);
	struct target before = t;
	static const enum verdict verdicts[] = {VERDICT_RETRY, VERDICT_HALT, VERDICT_DELIVERED, VERDICT_REJECTED};
	for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
		write_answered(&t, verdicts[i], HINT_NONE, 1020);
		assert_int_equal(t.state, before.state);
		assert_int_equal(t.due_ms, before.due_ms);
		assert_int_equal(t.failures, before.failures);
	}
}

/* Where questions are answered well and writes are not, the waits grow all the same; a write's answer ends the row of
 * failures. */
static void only_a_writes_answer_ends_a_row_of_failures(void **state)
{
	(void)state;
	struct target t = ready();
	for (unsigned i = 1; i <= 4; i++) {
		int64_t now_ms = INT64_C(1000) * i;
		write_answered(&t, VERDICT_RETRY, HINT_NONE, now_ms);
		assert_int_equal(t.failures, i);
		check(&t, VERDICT_DELIVERED, "", now_ms + 500);
		assert_int_equal(t.failures, i);
	}
	write_answered(&t, VERDICT_RETRY, HINT_RACE, 9000);
	assert_int_equal(t.failures, 4);
	write_answered(&t, VERDICT_DELIVERED, HINT_NONE, 9000);
	assert_int_equal(t.failures, 0);
}

static void states_have_names(void **state)
{
	(void)state;
	assert_string_equal(target_state_name(TARGET_UNCHECKED), "unchecked");
	assert_string_equal(target_state_name(TARGET_READY), "ready");
	assert_string_equal(target_state_name(TARGET_BACKOFF), "backoff");
	assert_string_equal(target_state_name(TARGET_HALTED), "halted");
}

/* An internal error may be one row's in the answer to a write, and is not in the answer to a probe. */
static void what_a_probe_meets_is_the_destinations(void **state)
{
	(void)state;
	struct target t = ready();
	struct judgement j = judgement(VERDICT_RETRY, HINT_PROBE, "read-only");
	write_answered(&t, VERDICT_RETRY, HINT_PROBE, 10);
	assert_int_equal(t.state, TARGET_READY);
	target_probed(&t, &j, 20, &rng);
	assert_int_equal(t.state, TARGET_BACKOFF);
	assert_string_equal(t.reason, "read-only");
	int64_t due_ms = target_due_ms(&t);
	target_probed(&t, &j, 20, &rng); /* another lane's */
	assert_int_equal(t.failures, 1);
	assert_int_equal(target_due_ms(&t), due_ms);
	check(&t, VERDICT_DELIVERED, "", due_ms);
	target_probed(&t, &j, due_ms, &rng);
	assert_int_equal(t.failures, 2);
	check(&t, VERDICT_DELIVERED, "", due_ms + 1000);
	j.verdict = VERDICT_DELIVERED;
	target_probed(&t, &j, due_ms + 1000, &rng);
	assert_int_equal(t.state, TARGET_READY);
	assert_int_equal(t.failures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(asks_before_it_claims),
	    cmocka_unit_test(a_failed_question_is_asked_again),
	    cmocka_unit_test(a_question_while_ready),
	    cmocka_unit_test(waits_grow_to_their_cap),
	    cmocka_unit_test(waits_as_long_as_it_was_told),
	    cmocka_unit_test(an_answer_ends_no_wait_that_began_after_its_question),
	    cmocka_unit_test(what_a_writes_answer_says),
	    cmocka_unit_test(answers_while_it_waits_say_nothing_new),
	    cmocka_unit_test(only_a_writes_answer_ends_a_row_of_failures),
	    cmocka_unit_test(states_have_names),
	    cmocka_unit_test(what_a_probe_meets_is_the_destinations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
