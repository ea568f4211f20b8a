#include "batch_bench.h"

/* What is sent, and in which order, while all goes well. */

/* Plan */

static void requests_are_filled(void **state)
{
	(void)state;
	struct buf ops = {0};
	struct buf text = {0};
	for (int id = 1; id <= 100; id++) {
		buf_clear(&ops);
		buf_printf(&ops, "+%d +%d", 2 * id, 2 * id + 1);
		add(id, ops.p);
	}
	batch_plan(&b);
	struct request *first = batch_next(&b, 0);
	struct request *second = batch_next(&b, 0);
	SENDS_NOTHING();
	assert_int_equal(show(first, &text), 100);
	assert_int_equal(show(second, &text), 100);
	assert_int_equal(first->n, 50);
	assert_int_equal(second->n, 50);
	accept(second);
	NOT_OVER();
	accept(first);
	assert_true(batch_over(&b, 0));
	for (size_t i = 0; i < b.n; i++)
		assert_int_equal(b.rows[i].state, ROW_DELIVERED);
	buf_free(&ops);
	buf_free(&text);
}

static void a_rows_tuples_stay_together(void **state)
{
	(void)state;
	begin_with(5, 400000);
	add(1, "+1 +2");
	add(2, "+3 +4");
	add(3, "+5 -6");
	add(4, "+7");
	batch_plan(&b);
	accept(sends("1,2: +1 +2 +3 +4"));
	accept(sends("3,4: -6 +5 +7"));
	is_over("1 delivered, 2 delivered, 3 delivered, 4 delivered");
}

static void bodies_keep_to_the_bound_in_bytes(void **state)
{
	(void)state;
	static const size_t bounds[] = {1, 400, 700, 1500, 4000};
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
		begin_with(100, bounds[i]);
		for (int id = 1; id <= 20; id++) {
			struct buf payload = {0};
			buf_printf(
			    &payload,
			    "{\"writes\":[{\"user\":\"user:\\\"\\\\%d\",\"relation\":\"member\",\"object\":\"group:x\","
			    "\"condition\":{\"name\":\"is_a\",\"context\":{\"of\":\"%0*d\"}}}],"
			    "\"deletes\":[{\"user\":\"user:\xc3\xa9%d\",\"relation\":\"member\",\"object\":\"group:y\"}"
			    "]}",
			    id, id * 10, 0, id);
			batch_add(&b, id, 0, 0, buf_str(&payload));
			buf_free(&payload);
		}
		batch_plan(&b);
		size_t sent = 0;
		struct buf text = {0};
		for (struct request *r; (r = batch_next(&b, 0)) != NULL; accept(r))
			sent += show(r, &text);
		assert_true(batch_over(&b, 0));
		assert_int_equal(sent, 40);
		buf_free(&text);
	}
}

static void a_large_row_is_cut_in_order(void **state)
{
	(void)state;
	struct buf text = {0};
	add(1, "+1..250");
	add(2, "+251");
	batch_plan(&b);
	accept(sends("2: +251"));
	static const size_t sizes[] = {100, 100, 50};
	for (size_t i = 0; i < 3; i++) {
		struct request *r = batch_next(&b, 0);
		assert_non_null(r);
		SENDS_NOTHING();
		assert_int_equal(show(r, &text), sizes[i]);
		assert_int_equal(r->parts[0].first, 100 * i);
		NOT_OVER();
		assert_int_equal(b.rows[0].state, ROW_PENDING);
		accept(r);
	}
	is_over("1 delivered, 2 delivered");
	buf_free(&text);
}

static void a_large_row_is_delivered_whole_or_not(void **state)
{
	(void)state;
	begin_with(2, 400000);
	add(1, "+1 +2 +3 +4 +5");
	add(2, "-1");
	batch_plan(&b);
	accept(sends("1: +1 +2"));
	struct request *r = sends("1: +3 +4");
	assert_int_equal(answer(r, VERDICT_SPLIT, HINT_NONE), VERDICT_REJECTED);
	SENDS_NOTHING();
	is_over("1 rejected, 2 held behind 1");
}

/* A later row waits for all of it, though it shares the first tuple only. */
static void a_large_row_is_waited_for(void **state)
{
	(void)state;
	begin_with(2, 400000);
	add(1, "+1 +2 +3 +4");
	add(2, "-1");
	add(3, "+2");
	batch_plan(&b);
	accept(sends("1: +1 +2"));
	struct request *r = sends("1: +3 +4");
	SENDS_NOTHING();
	accept(r);
	accept(sends("2,3: -1 +2"));
	is_over("1 delivered, 2 delivered, 3 delivered");
}

static void a_tuple_deleted_and_written_needs_two_requests(void **state)
{
	(void)state;
	add(1, "-1 +1a +2");
	add(2, "+3");
	add(3, "+1a");
	add(4, "-1");
	batch_plan(&b);
	accept(sends("2: +3"));
	struct request *r = sends("1: -1");
	SENDS_NOTHING();
	accept(r);
	r = sends("1: +1a +2");
	SENDS_NOTHING();
	accept(r);
	accept(sends("3: +1a"));
	accept(sends("4: -1"));
	is_over("1 delivered, 2 delivered, 3 delivered, 4 delivered");
}

static void a_repetition_is_sent_once(void **state)
{
	(void)state;
	add(1, "+1 +2a -5");
	add(2, "+1 +3");
	add(3, "-5 +2a");
	batch_plan(&b);
	accept(sends("1,2,3: -5 +1 +2a +3"));
	is_over("1 delivered, 2 delivered, 3 delivered");
}

static void other_changes_of_a_tuple_come_in_later_waves(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "+1a +9");
	add(3, "+1b");
	add(4, "-1");
	add(5, "+8");
	batch_plan(&b);
	static const char *const waves[] = {"1,5: +1 +8", "2: +1a +9", "3: +1b", "4: -1"};
	for (size_t i = 0; i < 4; i++) {
		struct request *r = sends(waves[i]);
		SENDS_NOTHING();
		NOT_OVER();
		accept(r);
	}
	is_over("1 delivered, 2 delivered, 3 delivered, 4 delivered, 5 delivered");
}

/* The request with the same operation has no room: it must not be in two requests at once. */
static void a_repetition_that_does_not_fit_waits(void **state)
{
	(void)state;
	begin_with(2, 400000);
	add(1, "+1 +2");
	add(2, "+1");
	add(3, "+3");
	add(4, "+2 +3");
	batch_plan(&b);
	struct request *r = sends("1: +1 +2");
	struct request *other = sends("3: +3");
	SENDS_NOTHING();
	accept(other);
	SENDS_NOTHING();
	accept(r);
	accept(sends("2: +1"));
	accept(sends("4: +2 +3"));
	is_over("1 delivered, 2 delivered, 3 delivered, 4 delivered");
}

static void a_row_that_goes_alone_goes_alone(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "+2")->alone = true;
	add(3, "+3")->alone = true;
	add(4, "+4 +2");
	add(5, "+5");
	add(6, "+5")->alone = true;
	batch_plan(&b);
	struct request *first = sends("1,5: +1 +5");
	struct request *second = sends("2: +2");
	struct request *third = sends("3: +3");
	SENDS_NOTHING();
	accept(first);
	accept(third);
	SENDS_NOTHING();
	accept(second);
	accept(sends("4: +2 +4"));
	accept(sends("6: +5"));
	is_over("1 delivered, 2 delivered, 3 delivered, 4 delivered, 5 delivered, 6 delivered");
}

static void rows_that_need_no_request(void **state)
{
	(void)state;
	batch_add(&b, 1, 3, -5, STR("{\"writes\":{}}"));
	batch_add(&b, 2, 0, 0, STR("{}"));
	struct batch_row *large = batch_add_rejected(&b, 3, 7, "too large");
	batch_plan(&b);
	assert_int_equal(b.rows[0].attempts, 3);
	assert_int_equal(b.rows[0].born_ms, -5);
	assert_int_equal(large->attempts, 7);
	assert_true(str_has(b.rows[0].error, STR("writes: is an object")));
	assert_true(str_eq(large->error, STR("too large")));
	SENDS_NOTHING();
	is_over("1 rejected, 2 delivered, 3 rejected");
}

static void an_empty_batch_is_over(void **state)
{
	(void)state;
	batch_plan(&b);
	assert_int_equal(batch_due_ms(&b, 0), INT64_MAX);
	SENDS_NOTHING();
	assert_true(batch_over(&b, 0));
}

static void the_payload_is_copied(void **state)
{
	(void)state;
	char payload[] = "{\"writes\":[{\"user\":\"user:1\",\"relation\":\"member\",\"object\":\"group:x\"}]}";
	batch_add(&b, 1, 0, 0, str_of(payload));
	memset(payload, 'x', sizeof payload - 1);
	batch_plan(&b);
	accept(sends("1: +1"));
	is_over("1 delivered");
}

/* Held rows */

static void a_held_row_holds_those_behind_it(void **state)
{
	(void)state;
	add(1, "+1");
	batch_hold(add(2, "-1 +2"), 77);
	add(3, "+1");
	add(4, "-2");
	add(5, "+3");
	add(6, "-1");
	add(7, "+2");
	add(8, "+4");
	add(9, "-3");
	batch_plan(&b);
	accept(sends("1,5,8: +1 +3 +4"));
	accept(sends("9: -3"));
	is_over("1 delivered, 2 held behind 77, 3 held behind 2, 4 held behind 2, 5 delivered, 6 held behind 3, "
	        "7 held behind 4, 8 delivered, 9 delivered");
}

static void a_held_row_leaves_the_others_repetitions_apart(void **state)
{
	(void)state;
	begin_with(2, 400000);
	add(1, "+1 +2");
	batch_hold(add(2, "+1 -9"), 77);
	add(3, "+1");
	batch_plan(&b);
	struct request *r = sends("1: +1 +2");
	SENDS_NOTHING();
	accept(r);
	accept(sends("3: +1"));
	is_over("1 delivered, 2 held behind 77, 3 delivered");
}

static void a_rejected_row_holds_only_what_is_behind_it(void **state)
{
	(void)state;
	add(1, "+1 +2");
	add(2, "-2 +3");
	add(3, "-3 +4");
	add(4, "-5");
	add(5, "-4");
	add(6, "+1");
	batch_plan(&b);
	struct request *r = sends("1,4,6: -5 +1 +2");
	assert_int_equal(answer(r, VERDICT_SPLIT, HINT_NONE), VERDICT_SPLIT);
	assert_int_equal(answer(sends("1: +1 +2"), VERDICT_SPLIT, HINT_NONE), VERDICT_REJECTED);
	accept(sends("4,6: -5 +1"));
	SENDS_NOTHING();
	is_over("1 rejected, 2 held behind 1, 3 held behind 2, 4 delivered, 5 held behind 3, 6 delivered");
	assert_true(str_eq(b.rows[0].error, STR("because")));
}

/* Bodies */

static void body_is(const char *expected, size_t tuples, struct str model, const char *payload)
{
	struct buf body = {0};
	struct batch_limits usual = limits(100, 400000);
	batch_init(&b, 1, &usual);
	batch_add(&b, 1, 0, 0, str_of(payload));
	batch_plan(&b);
	struct request *r = batch_next(&b, 0);
	assert_non_null(r);
	assert_int_equal(batch_body(&b, r, model, &body), tuples);
	assert_string_equal(body.p, expected);
	assert_true(body.n <= r->bytes);
	buf_free(&body);
}

#define TUPLE(user, relation, object) "{\"user\":\"" user "\",\"relation\":\"" relation "\",\"object\":\"" object "\"}"
#define WITH(user, condition) \
	"{\"user\":\"" user "\",\"relation\":\"r\",\"object\":\"a:1\",\"condition\":" condition "}"
#define DELETES(list) "\"deletes\":{\"tuple_keys\":[" list "],\"on_missing\":\"ignore\"}"
#define WRITES(list) "\"writes\":{\"tuple_keys\":[" list "],\"on_duplicate\":\"ignore\"}"

static void bodies_to_the_letter(void **state)
{
	(void)state;
	const struct str latest = {0};
	body_is("{" WRITES(TUPLE("user:1", "r", "a:1")) "}", 1, latest,
	        "{\"writes\": [" TUPLE("user:1", "r", "a:1") "]}");
	body_is("{" DELETES(TUPLE("user:1", "r", "a:1")) "}", 1, latest,
	        "{\"deletes\": [" TUPLE("user:1", "r", "a:1") "]}");
	body_is("{\"authorization_model_id\":\"01J\"," DELETES(TUPLE("user:2", "r", "a:1")) "," WRITES(
	            TUPLE("user:1", "r", "a:1")) "}",
	        2, STR("01J"),
	        "{\"writes\":[" TUPLE("user:1", "r", "a:1") "],\"deletes\":[" TUPLE("user:2", "r", "a:1") "]}");
}

static void tuples_are_sorted_by_object_relation_and_user(void **state)
{
	(void)state;
	const struct str latest = {0};
	body_is("{" DELETES(TUPLE("user:1", "r", "a:1") "," TUPLE("user:1", "r", "a:2")) "," WRITES(
	            TUPLE("user:2", "q", "a:1") "," TUPLE("user:3", "q", "a:1") "," TUPLE(
	                "user:1", "s", "a:1") "," TUPLE("user:0", "a", "a:10")) "}",
	        6, latest,
	        "{\"writes\":[" TUPLE("user:0", "a", "a:10") "," TUPLE("user:3", "q", "a:1") "," TUPLE(
	            "user:1", "s", "a:1") "," TUPLE("user:2", "q",
	                                            "a:1") "],"
	                                                   "\"deletes\":[" TUPLE("user:1", "r", "a:2") "," TUPLE(
	                                                       "user:1", "r", "a:1") "]}");
}

static void conditions_keep_their_context_as_it_is(void **state)
{
	(void)state;
	const struct str latest = {0};
	body_is(
	    "{" WRITES(WITH("user:1", "{\"name\":\"cc\",\"context\":{}}") "," WITH(
	        "user:2", "{\"name\":\"cc\","
	                  "\"context\":{}}") "," WITH("user:3", "{\"name\":\"cc\",\"context\":{\"n\": "
	                                                        "12345678901234567890.10, \"e\":\"\\u00e9\"}}")) "}",
	    3, latest,
	    "{\"writes\":[" WITH("user:1", "{\"name\":\"cc\"}") "," WITH(
	        "user:2", "{\"name\":\"cc\",\"context\":"
	                  "null}") "," WITH("user:3", "{\"context\":{\"n\": 12345678901234567890.10, "
	                                              "\"e\":\"\\u00e9\"},\"name\":\"cc\"}") "]}");
	body_is("{" DELETES(TUPLE("user:1", "r", "a:1")) "}", 1, latest,
	        "{\"deletes\":[" WITH("user:1", "{\"name\":\"cc\"}") "]}");
}

/* Nothing in it is escaped, and so nothing makes up for what is forgotten in the bound. */
static void the_bound_in_bytes_counts_everything(void **state)
{
	(void)state;
	struct buf payload = {0};
	struct buf body = {0};
	buf_printf(&payload, "{\"writes\":[" WITH("u:1", "{\"name\":\"cc\",\"context\":{\"x\":\"%0*d\"}}") "]}", 5000,
	           0);
	batch_add(&b, 1, 0, 0, buf_str(&payload));
	batch_plan(&b);
	const struct request *r = batch_next(&b, 0);
	assert_non_null(r);
	batch_body(&b, r, STR("01JMODEL00000000000000000X"), &body);
	assert_true(body.n <= r->bytes);
	buf_free(&payload);
	buf_free(&body);
}

static void names_are_escaped(void **state)
{
	(void)state;
	const struct str latest = {0};
	body_is("{" WRITES(TUPLE("user:\\\"\\\\\xc3\xa9", "r", "a:1")) "}", 1, latest,
	        "{\"writes\":[" TUPLE("user:\\\"\\\\\\u00e9", "r", "a:1") "]}");
}

static void ids_are_listed_up_to_a_number(void **state)
{
	(void)state;
	struct buf ids = {0};
	add(5, "+1");
	add(7, "+2");
	add(INT64_MAX, "+3");
	batch_plan(&b);
	const struct request *r = batch_next(&b, 0);
	assert_non_null(r);
	batch_request_ids(&b, r, 3, &ids);
	assert_string_equal(ids.p, "5,7,9223372036854775807");
	buf_clear(&ids);
	batch_request_ids(&b, r, 2, &ids);
	assert_string_equal(ids.p, "5,7,…");
	buf_free(&ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(requests_are_filled),
	    TEST(a_rows_tuples_stay_together),
	    TEST(bodies_keep_to_the_bound_in_bytes),
	    TEST(a_large_row_is_cut_in_order),
	    TEST(a_large_row_is_delivered_whole_or_not),
	    TEST(a_large_row_is_waited_for),
	    TEST(a_tuple_deleted_and_written_needs_two_requests),
	    TEST(a_repetition_is_sent_once),
	    TEST(other_changes_of_a_tuple_come_in_later_waves),
	    TEST(a_repetition_that_does_not_fit_waits),
	    TEST(a_row_that_goes_alone_goes_alone),
	    TEST(rows_that_need_no_request),
	    TEST(an_empty_batch_is_over),
	    TEST(the_payload_is_copied),
	    TEST(a_held_row_holds_those_behind_it),
	    TEST(a_held_row_leaves_the_others_repetitions_apart),
	    TEST(a_rejected_row_holds_only_what_is_behind_it),
	    TEST(bodies_to_the_letter),
	    TEST(tuples_are_sorted_by_object_relation_and_user),
	    TEST(conditions_keep_their_context_as_it_is),
	    TEST(the_bound_in_bytes_counts_everything),
	    TEST(names_are_escaped),
	    TEST(ids_are_listed_up_to_a_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
