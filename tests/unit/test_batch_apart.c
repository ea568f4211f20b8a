#include "batch_bench.h"

/* Refusals that name a tuple: the rows at fault are set apart, and the others stay together. */

/* The condition is of the kind. */
static enum verdict refuse_kind(struct request *r, long tuple, const char *condition, bool is_kind)
{
	char user[32];
	snprintf(user, sizeof user, "user:%ld", tuple);
	struct tuple t = {.user = str_of(user), .relation = STR("member"), .object = STR("group:x")};
	t.condition = str_of(condition);
	tuple_hash(&t);
	struct judgement j = {.verdict = VERDICT_SPLIT, .fault = {.tuple = t.hash, .reason = "no such type"}};
	if (is_kind)
		j.fault.kind = tuple_kind(&t);
	return answer_with(r, j, "because");
}

static enum verdict refuse(struct request *r, long tuple, bool is_kind)
{
	return refuse_kind(r, tuple, "", is_kind);
}

static void the_named_row_goes_apart(void **state)
{
	(void)state;
	add(1, "+1 +2");
	add(2, "+3 +4");
	add(3, "+5 +6");
	batch_plan(&b);
	assert_int_equal(refuse(sends("1,2,3: +1 +2 +3 +4 +5 +6"), 4, false), VERDICT_SPLIT);
	accept(sends("1,3: +1 +2 +5 +6"));
	is_over("1 delivered, 2 apart, 3 delivered");
}

/* It is REJECTED only by the answer to a request of its own, with what that names. */
static void alone_it_is_rejected(void **state)
{
	(void)state;
	add(1, "+1 +2")->alone = true;
	batch_plan(&b);
	assert_int_equal(refuse(sends("1: +1 +2"), 1, true), VERDICT_REJECTED);
	is_over("1 rejected");
	assert_true(str_eq(b.rows[0].error, STR("because")));
	assert_true(str_eq(b.rows[0].fault, STR("no such type")));
}

/* Conditions are of the kind; users are not. */
static void what_is_akin_goes_apart_with_it(void **state)
{
	(void)state;
	add(1, "+1a");
	add(2, "+2");
	add(3, "+3a");
	add(4, "+4b");
	add(5, "-5");
	batch_plan(&b);
	refuse_kind(sends("1,2,3,4,5: -5 +1a +2 +3a +4b"), 1, "is_a", true);
	refuse(sends("2,4,5: -5 +2 +4b"), 2, true);
	accept(sends("4,5: -5 +4b"));
	is_over("1 apart, 2 apart, 3 apart, 4 delivered, 5 delivered");
}

/* Its holder knows before. */
static void set_apart_from_the_start(void **state)
{
	(void)state;
	batch_set_apart(add(1, "+1"));
	add(2, "+1 +2");
	add(3, "-1");
	batch_plan(&b);
	accept(sends("2: +1 +2"));
	is_over("1 apart, 2 delivered, 3 held behind 1");
}

static void all_of_them(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "+2");
	batch_plan(&b);
	refuse(sends("1,2: +1 +2"), 1, true);
	is_over("1 apart, 2 apart");
}

static void whoever_comes_after_it_is_held(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "+2");
	add(3, "-1");
	batch_plan(&b);
	refuse(sends("1,2: +1 +2"), 1, false);
	accept(sends("2: +2"));
	is_over("1 apart, 2 delivered, 3 held behind 1");
}

static void a_tuple_that_is_not_there_says_nothing(void **state)
{
	(void)state;
	add(1, "+1");
	add(2, "+2");
	batch_plan(&b);
	refuse(sends("1,2: +1 +2"), 7, true);
	accept(sends("1: +1"));
	accept(sends("2: +2"));
	is_over("1 delivered, 2 delivered");
}

/* Requests and depth with `bad` of a hundred rows at fault, each named by itself. */
static void count_requests(size_t bad, size_t *sent, unsigned *depth)
{
	enum { ROWS = 100 };
	unsigned seen[ROWS + 1] = {0};
	*sent = 0;
	*depth = 0;
	begin_with(100, 400000);
	for (int id = 1; id <= ROWS; id++) {
		char ops[16];
		snprintf(ops, sizeof ops, "+%d", id);
		add(id, ops);
	}
	batch_plan(&b);
	for (struct request *r; (r = batch_next(&b, now_ms)) != NULL; ++*sent) {
		long named = 0;
		for (size_t i = 0; i < r->n; i++) {
			int64_t id = b.rows[r->parts[i].row].id;
			*depth = ++seen[id] > *depth ? seen[id] : *depth;
			if (named == 0 && (size_t)id * bad / ROWS != (size_t)(id - 1) * bad / ROWS)
				named = (long)id;
		}
		if (named != 0)
			refuse(r, named, false);
		else
			accept(r);
	}
	assert_true(batch_over(&b, now_ms));
	size_t delivered = 0;
	for (size_t i = 0; i < b.n; i++)
		delivered += b.rows[i].state == ROW_DELIVERED;
	assert_int_equal(delivered, ROWS - bad);
}

/* However many are at fault, a row is in few requests, and there are fewer than halving alone would take. */
static void it_costs_the_others_little(void **state)
{
	(void)state;
	enum { LOG2_ROWS = 7 };
	size_t sent;
	unsigned depth;
	count_requests(1, &sent, &depth);
	assert_int_equal(sent, 2);
	assert_int_equal(depth, 2);
	for (size_t bad = 2; bad <= 100; bad++) {
		count_requests(bad, &sent, &depth);
		assert_true(depth <= 1 + BATCH_MAX_PICKED + LOG2_ROWS);
		assert_true(sent <= 101);
	}
}

/* A request whose rows share a tuple: what is left of it still goes one by one. */
static void what_is_left_of_one_that_shares(void **state)
{
	(void)state;
	begin_with(4, 400000);
	add(1, "+1");
	add(2, "+2");
	add(3, "+1");
	add(4, "+3");
	batch_plan(&b);
	refuse(sends("1,2,3,4: +1 +2 +3"), 2, false);
	refuse(sends("1,3,4: +1 +3"), 1, false);
	accept(sends("4: +3"));
	is_over("1 apart, 2 apart, 3 apart, 4 delivered");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_named_row_goes_apart),
	    TEST(alone_it_is_rejected),
	    TEST(what_is_akin_goes_apart_with_it),
	    TEST(set_apart_from_the_start),
	    TEST(all_of_them),
	    TEST(whoever_comes_after_it_is_held),
	    TEST(a_tuple_that_is_not_there_says_nothing),
	    TEST(it_costs_the_others_little),
	    TEST(what_is_left_of_one_that_shares),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
