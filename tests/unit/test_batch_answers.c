#include "batch_bench.h"

/* What answers mean for requests and rows. */

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Splitting */

/* Answers every request: those with the operation are refused with this hint. Returns how many there were. */
static size_t refuse_those_with(const char *op, enum hint hint)
{
	size_t sent = 0;
	struct buf text = {0};
	for (struct request *r; (r = batch_next(&b, now_ms)) != NULL; sent++) {
		buf_clear(&text);
		show(r, &text);
		buf_add_char(&text, ' ');
		if (strstr(text.p, op) != NULL)
			answer(r, VERDICT_SPLIT, hint);
		else
			accept(r);
	}
	buf_free(&text);
	return sent;
}

static void halves_down_to_the_row_at_fault(void **state)
{
	(void)state;
	static const size_t rows[] = {1, 2, 3, 8, 64, 100};
	static const size_t requests[] = {1, 3, 3, 7, 13, 13};
	for (size_t i = 0; i < COUNT(rows); i++) {
		begin_with(100, 400000);
		add(1, "-1");
		for (size_t id = 2; id <= rows[i]; id++) {
			char ops[16];
			snprintf(ops, sizeof ops, "+%zu", id);
			add((int64_t)id, ops);
		}
		batch_plan(&b);
		assert_int_equal(refuse_those_with(" -1 ", HINT_NONE), requests[i]);
		assert_true(batch_over(&b, now_ms));
		for (size_t id = 1; id <= rows[i]; id++)
			assert_int_equal(b.rows[id - 1].state, id == 1 ? ROW_REJECTED : ROW_DELIVERED);
	}
}

static void a_refused_row_is_not_cut(void **state)
{
	(void)state;
	add(1, "+1 +2");
	batch_plan(&b);
	assert_int_equal(answer(sends("1: +1 +2"), VERDICT_SPLIT, HINT_NONE), VERDICT_REJECTED);
	is_over("1 rejected");
	assert_true(str_eq(b.rows[0].error, STR("because")));
}

static void what_is_too_large_is_cut_within_a_row(void **state)
{
	(void)state;
	add(1, "+1 +2 +3");
	add(2, "+4");
	batch_plan(&b);
	assert_int_equal(answer(sends("1,2: +1 +2 +3 +4"), VERDICT_SPLIT, HINT_SIZE), VERDICT_SPLIT);
	assert_int_equal(answer(sends("1: +1 +2 +3"), VERDICT_SPLIT, HINT_SIZE), VERDICT_SPLIT);
	struct request *first = sends("1: +1");
	struct request *second = sends("1: +2 +3");
	accept(second);
	assert_int_equal(b.rows[0].state, ROW_PENDING);
	accept(first);
	assert_int_equal(b.rows[0].state, ROW_DELIVERED);
	assert_int_equal(answer(sends("2: +4"), VERDICT_SPLIT, HINT_SIZE), VERDICT_REJECTED);
	is_over("1 delivered, 2 rejected");
}

static void an_old_server_gets_single_tuples(void **state)
{
	(void)state;
	add(1, "+1 +2");
	add(2, "+3 -4");
	batch_plan(&b);
	size_t sent = 0;
	struct buf text = {0};
	for (struct request *r; (r = batch_next(&b, now_ms)) != NULL; sent++) {
		if (show(r, &text) > 1)
			assert_int_equal(answer(r, VERDICT_SPLIT, HINT_OLD), VERDICT_SPLIT);
		else
			accept(r);
	}
	buf_free(&text);
	assert_int_equal(sent, 7);
	is_over("1 delivered, 2 delivered");
}

/* One piece of a row is refused: the row is, and what is left of it is not sent. */
static void a_row_with_a_refused_piece(void **state)
{
	(void)state;
	add(1, "+1 +2 +3 +4");
	add(2, "-4");
	batch_plan(&b);
	answer(sends("1: +1 +2 +3 +4"), VERDICT_SPLIT, HINT_SIZE);
	struct request *first = sends("1: +1 +2");
	answer(sends("1: +3 +4"), VERDICT_SPLIT, HINT_SIZE);
	assert_int_equal(answer(sends("1: +3"), VERDICT_SPLIT, HINT_NONE), VERDICT_REJECTED);
	SENDS_NOTHING();
	accept(first);
	is_over("1 rejected, 2 held behind 1");
}

static void pieces_that_may_share_a_tuple_go_one_by_one(void **state)
{
	(void)state;
	begin_with(4, 400000);
	add(1, "+1");
	add(2, "+2");
	add(3, "+1");
	add(4, "+3");
	add(5, "+5");
	add(6, "+6");
	add(7, "+5");
	add(8, "+8");
	batch_plan(&b);
	struct request *first = sends("1,2,3,4: +1 +2 +3");
	struct request *second = sends("5,6,7,8: +5 +6 +8");
	answer(first, VERDICT_SPLIT, HINT_NONE);
	answer(second, VERDICT_SPLIT, HINT_NONE);
	first = sends("1,2: +1 +2");
	second = sends("5,6: +5 +6");
	SENDS_NOTHING();
	answer(first, VERDICT_SPLIT, HINT_NONE);
	first = sends("1: +1");
	SENDS_NOTHING();
	answer(first, VERDICT_RETRY, HINT_RACE);
	SENDS_NOTHING();
	wait_on();
	accept(sends("1: +1"));
	accept(sends("2: +2"));
	accept(sends("3,4: +1 +3"));
	accept(second);
	accept(sends("7,8: +5 +8"));
	is_over(
	    "1 delivered, 2 delivered, 3 delivered, 4 delivered, 5 delivered, 6 delivered, 7 delivered, 8 delivered");
}

/* The destination's fault */

static void a_race_is_tried_again_soon(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "-1");
	batch_plan(&b);
	answer(sends("1: +1"), VERDICT_RETRY, HINT_RACE);
	SENDS_NOTHING();
	wait_on();
	assert_true(now_ms <= BATCH_RETRY_MIN_MS);
	accept(sends("1: +1"));
	accept(sends("2: -1"));
	is_over("1 delivered, 2 delivered");
}

static void races_without_end_are_given_up(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "-1");
	batch_plan(&b);
	for (int i = 1; i < BATCH_MAX_RACES; i++) {
		assert_int_equal(answer(sends("1: +1"), VERDICT_RETRY, HINT_RACE), VERDICT_RETRY);
		assert_false(b.stopped);
		SENDS_NOTHING();
		NOT_OVER();
		int64_t before_ms = now_ms;
		wait_on();
		assert_true(now_ms - before_ms <= BATCH_RETRY_MAX_MS);
	}
	assert_int_equal(answer(sends("1: +1"), VERDICT_RETRY, HINT_RACE), VERDICT_RETRY);
	is_over("1 released, 2 released");
}

/* Nothing new is begun, and what is in flight has its end. */
static void a_failing_destination_stops_the_batch(void **state)
{
	(void)state;
	static const enum verdict verdicts[] = {VERDICT_RETRY, VERDICT_HALT};
	for (size_t i = 0; i < COUNT(verdicts); i++) {
		begin_with(1, 400000);
		for (int id = 1; id <= 5; id++)
			add(id, (const char *[]){"+1", "+2", "+3", "+4", "-2"}[id - 1]);
		batch_plan(&b);
		struct request *first = sends("1: +1");
		struct request *second = sends("2: +2");
		struct request *third = sends("3: +3");
		assert_int_equal(answer(first, verdicts[i], HINT_NONE), verdicts[i]);
		SENDS_NOTHING();
		NOT_OVER();
		accept(second);
		assert_int_equal(answer(third, VERDICT_SPLIT, HINT_NONE), VERDICT_REJECTED);
		is_over("1 released, 2 delivered, 3 rejected, 4 released, 5 released");
	}
}

static void the_holder_stops_it(void **state)
{
	(void)state;
	begin_with(2, 400000);
	add(1, "+1");
	add(2, "+2");
	add(3, "+3");
	add(4, "+4");
	add(5, "+5");
	add(6, "-1");
	batch_plan(&b);
	struct request *first = sends("1,2: +1 +2");
	struct request *second = sends("3,4: +3 +4");
	batch_stop(&b);
	SENDS_NOTHING();
	NOT_OVER();
	accept(first);
	answer(second, VERDICT_SPLIT, HINT_NONE);
	is_over("1 delivered, 2 delivered, 3 released, 4 released, 5 released, 6 released");
}

static void stopped_before_it_began(void **state)
{
	(void)state;
	add(1, "+1");
	batch_add(&b, 2, 0, 0, STR("[]"));
	batch_plan(&b);
	batch_stop(&b);
	is_over("1 released, 2 rejected");
}

static void nothing_new_is_begun_after_the_deadline(void **state)
{
	(void)state;
	begin_with(1, 400000);
	add(1, "+1");
	add(2, "+2");
	add(3, "+3");
	batch_plan(&b);
	now_ms = DEADLINE_MS - 1;
	struct request *first = sends("1: +1");
	struct request *second = sends("2: +2");
	now_ms = DEADLINE_MS;
	SENDS_NOTHING();
	accept(first);
	assert_int_equal(answer(second, VERDICT_RETRY, HINT_RACE), VERDICT_RETRY);
	is_over("1 delivered, 2 released, 3 released");
}

/* Internal errors */

static void probed(bool can_write)
{
	struct judgement j = {.verdict = can_write ? VERDICT_DELIVERED : VERDICT_RETRY, .reason = "the probe"};
	assert_true(batch_wants_probe(&b));
	batch_probed(&b, can_write, &j, now_ms, &rng);
	assert_false(batch_wants_probe(&b));
}

/* Two answers in a row that ask for a probe. */
static void fail_twice(const char *expected)
{
	fail_inside(sends(expected));
	assert_false(batch_wants_probe(&b));
	SENDS_NOTHING();
	wait_on();
	fail_inside(sends(expected));
	SENDS_NOTHING();
	NOT_OVER();
}

static void internal_errors_that_a_probe_does_not_have(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "+2");
	batch_plan(&b);
	fail_twice("1,2: +1 +2");
	probed(true);
	wait_on();
	fail_twice("1,2: +1 +2");
	probed(true);
	struct request *first = sends("1: +1");
	accept(sends("2: +2"));
	fail_inside(first);
	wait_on();
	fail_inside(sends("1: +1"));
	probed(true);
	wait_on();
	fail_twice("1: +1");
	probed(true);
	SENDS_NOTHING();
	while (!batch_over(&b, now_ms))
		wait_on();
	is_over("1 rejected, 2 delivered");
	assert_true(str_eq(b.rows[0].error, STR("internal")));
}

/* OpenFGA's database was away, and is back when the probe is sent: nobody is at fault. */
static void internal_errors_that_end_before_the_probe(void **state)
{
	(void)state;
	add(1, "+1");
	batch_plan(&b);
	fail_twice("1: +1");
	probed(true);
	wait_on();
	accept(sends("1: +1"));
	while (!batch_over(&b, now_ms))
		wait_on();
	is_over("1 delivered");
}

/* The connection was lost and the rows are others': nothing that was lost is sent again, it is only waited for. */
static void what_was_given_up_is_only_waited_for(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "-1");
	batch_plan(&b);
	lose(sends("1: +1"));
	int64_t settled_ms = now_ms + SETTLE_MS;
	batch_give_up(&b);
	SENDS_NOTHING();
	NOT_OVER();
	wait_on();
	assert_int_equal(now_ms, settled_ms);
	is_over("1 released, 2 released");
}

static void internal_errors_that_a_probe_has_too(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "-1");
	batch_plan(&b);
	fail_twice("1: +1");
	int64_t settled_ms = now_ms + SETTLE_MS;
	probed(false);
	for (;;) {
		wait_on();
		struct request *r = batch_next(&b, now_ms);
		if (r == NULL)
			break;
		answer(r, VERDICT_RETRY, HINT_NONE);
		NOT_OVER();
	}
	assert_int_equal(now_ms, settled_ms);
	is_over("1 released, 2 released");
}

static void only_internal_errors_in_a_row_count(void **state)
{
	(void)state;
	add(1, "+1");
	batch_plan(&b);
	for (int i = 0; i < 4; i++) {
		fail_inside(sends("1: +1"));
		assert_false(batch_wants_probe(&b));
		wait_on();
		answer(sends("1: +1"), VERDICT_RETRY, HINT_RACE);
		wait_on();
	}
	accept(sends("1: +1"));
}

static void a_stop_ends_the_wait_for_a_probe(void **state)
{
	(void)state;
	add(1, "+1");
	batch_plan(&b);
	fail_twice("1: +1");
	batch_stop(&b);
	accept(sends("1: +1"));
	assert_false(batch_wants_probe(&b));
	now_ms += SETTLE_MS;
	is_over("1 delivered");
}

/* A condition's context can make OpenFGA's answer look like one about the configuration. */
static void a_halt_that_asks_for_a_probe(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "+2");
	batch_plan(&b);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(answer(sends("1,2: +1 +2"), VERDICT_HALT, HINT_PROBE), VERDICT_RETRY);
		assert_false(b.stopped);
		if (i % 2 == 1)
			probed(true);
		if (i < 3)
			wait_on();
	}
	accept(sends("1: +1"));
	assert_int_equal(answer(sends("2: +2"), VERDICT_HALT, HINT_PROBE), VERDICT_RETRY);
	wait_on();
	assert_int_equal(answer(sends("2: +2"), VERDICT_HALT, HINT_PROBE), VERDICT_RETRY);
	probed(false);
	is_over("1 delivered, 2 released");
}

/* Unknown outcomes */

static void a_lost_request_is_sent_again_until_it_is_answered(void **state)
{
	(void)state;
	begin_with(1, 400000);
	add(1, "+1");
	add(2, "+2");
	batch_plan(&b);
	struct request *r = sends("1: +1");
	now_ms = 100;
	lose(r);
	NOT_OVER();
	for (int i = 0; i < 3; i++) {
		wait_on();
		assert_true(now_ms < SETTLE_MS);
		r = sends("1: +1");
		if (i < 2)
			lose(r);
	}
	int64_t settled_ms = now_ms - 1 + SETTLE_MS; /* the last lost try was sent before this one */
	accept(r);
	SENDS_NOTHING();
	NOT_OVER();
	wait_on();
	assert_true(now_ms > SETTLE_MS && now_ms <= settled_ms);
	is_over("1 delivered, 2 released");
}

static void no_wave_begins_before_everything_is_settled(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "-1");
	batch_plan(&b);
	struct request *r = sends("1: +1");
	now_ms = 50;
	fail_inside(r);
	wait_on();
	accept(sends("1: +1"));
	SENDS_NOTHING();
	wait_on();
	assert_int_equal(now_ms, SETTLE_MS);
	accept(sends("2: -1"));
	is_over("1 delivered, 2 delivered");
}

static void released_when_it_is_settled(void **state)
{
	(void)state;
	add(1, "+1");
	batch_plan(&b);
	lose(sends("1: +1"));
	struct judgement busy = {.verdict = VERDICT_RETRY, .retry_after_ms = VERDICT_MAX_RETRY_AFTER_MS};
	wait_on();
	answer_with(sends("1: +1"), busy, "busy");
	wait_on();
	assert_int_equal(now_ms, SETTLE_MS);
	is_over("1 released");
}

/* It waited for a token, or for a connection, before it was sent. */
static void settles_from_when_it_was_really_sent(void **state)
{
	(void)state;
	add(1, "+1");
	batch_plan(&b);
	struct request *r = sends("1: +1");
	now_ms = 5000;
	batch_sent(&b, r, &(struct answer){.sent_ms = 4000});
	lose(r);
	while (!batch_over(&b, now_ms)) {
		wait_on();
		if ((r = batch_next(&b, now_ms)) != NULL)
			accept(r);
	}
	assert_int_equal(now_ms, 4000 + SETTLE_MS);
	is_over("1 delivered");
}

/* What was sent before on another connection may be carried out late, whatever the answer to the last try. */
static void settles_what_was_sent_twice(void **state)
{
	(void)state;
	add(1, "+1");
	batch_plan(&b);
	struct request *r = sends("1: +1");
	now_ms = 2000;
	batch_sent(&b, r, &(struct answer){.sent_ms = 1500, .resent = true});
	accept(r);
	SENDS_NOTHING();
	NOT_OVER();
	wait_on();
	assert_int_equal(now_ms, 1500 + SETTLE_MS);
	is_over("1 delivered");
}

static void settled_already_when_the_loss_is_known(void **state)
{
	(void)state;
	add(1, "+1");
	batch_plan(&b);
	struct request *r = sends("1: +1");
	now_ms = SETTLE_MS;
	lose(r);
	is_over("1 released");
}

static void a_halt_waits_for_what_is_unsettled(void **state)
{
	(void)state;
	add(1, "+1");
	batch_plan(&b);
	lose(sends("1: +1"));
	wait_on();
	assert_int_equal(answer(sends("1: +1"), VERDICT_HALT, HINT_NONE), VERDICT_HALT);
	SENDS_NOTHING();
	NOT_OVER();
	wait_on();
	assert_int_equal(now_ms, SETTLE_MS);
	is_over("1 released");
}

/* A port that takes connections and drops them, for as long as OpenFGA is away: the rows must not stay locked. */
static void losses_without_end_end(void **state)
{
	(void)state;
	add(1, "+1");
	batch_plan(&b);
	int64_t sent_ms = 0;
	for (int lost = 0; lost < BATCH_MAX_LOST; lost++) {
		if (lost > 0)
			wait_on();
		sent_ms = now_ms;
		lose(sends("1: +1"));
	}
	SENDS_NOTHING();
	NOT_OVER();
	wait_on();
	assert_int_equal(now_ms, sent_ms + SETTLE_MS);
	is_over("1 released");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(halves_down_to_the_row_at_fault),
	    TEST(a_refused_row_is_not_cut),
	    TEST(what_is_too_large_is_cut_within_a_row),
	    TEST(an_old_server_gets_single_tuples),
	    TEST(a_row_with_a_refused_piece),
	    TEST(pieces_that_may_share_a_tuple_go_one_by_one),
	    TEST(a_race_is_tried_again_soon),
	    TEST(races_without_end_are_given_up),
	    TEST(a_failing_destination_stops_the_batch),
	    TEST(the_holder_stops_it),
	    TEST(stopped_before_it_began),
	    TEST(nothing_new_is_begun_after_the_deadline),
	    TEST(internal_errors_that_a_probe_does_not_have),
	    TEST(internal_errors_that_end_before_the_probe),
	    TEST(what_was_given_up_is_only_waited_for),
	    TEST(internal_errors_that_a_probe_has_too),
	    TEST(only_internal_errors_in_a_row_count),
	    TEST(a_stop_ends_the_wait_for_a_probe),
	    TEST(a_halt_that_asks_for_a_probe),
	    TEST(a_lost_request_is_sent_again_until_it_is_answered),
	    TEST(no_wave_begins_before_everything_is_settled),
	    TEST(released_when_it_is_settled),
	    TEST(settles_from_when_it_was_really_sent),
	    TEST(settles_what_was_sent_twice),
	    TEST(settled_already_when_the_loss_is_known),
	    TEST(a_halt_waits_for_what_is_unsettled),
	    TEST(losses_without_end_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
