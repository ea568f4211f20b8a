/* A batch on the bench: what it is given and what it sends, written short.
 *
 * A row's operations: "-1 +2 +3a +10..20" deletes tuple 1, writes 2, 3 with condition a, and 10 to 20.
 * A request: "5,6: -1 +2", the ids of its rows, and the operations of its body. */
#ifndef RELAY_TESTS_BATCH_BENCH_H
#define RELAY_TESTS_BATCH_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "core/batch.h"

static struct batch b;
static struct rng rng;
static int64_t now_ms;

enum { SETTLE_MS = 6000, DEADLINE_MS = 30000 };

static inline struct batch_limits limits(size_t max_tuples, size_t max_bytes)
{
	return (struct batch_limits){max_tuples, max_bytes, SETTLE_MS, DEADLINE_MS};
}

static inline int begin(void **state)
{
	(void)state;
	struct batch_limits usual = limits(100, 400000);
	rng.state = 1;
	now_ms = 0;
	batch_init(&b, 200, &usual);
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	batch_fini(&b);
	return 0;
}

static inline void begin_with(size_t max_tuples, size_t max_bytes)
{
	struct batch_limits other = limits(max_tuples, max_bytes);
	batch_init(&b, 200, &other);
}

static inline void add_op(struct buf *list, long tuple, char condition)
{
	buf_add_text(list, list->n == 0 ? "" : ",");
	buf_printf(list, "{\"user\":\"user:%ld\",\"relation\":\"member\",\"object\":\"group:x\"", tuple);
	if (condition != '\0')
		buf_printf(list, ",\"condition\":{\"name\":\"is_%c\"}", condition);
	buf_add_char(list, '}');
}

static inline struct batch_row *add(int64_t id, const char *ops)
{
	struct buf lists[2] = {0};
	struct buf payload = {0};
	for (const char *at = ops; *at != '\0';) {
		struct buf *list = &lists[*at == '+'];
		char *next;
		long first = strtol(at + 1, &next, 10);
		long last = first;
		if (*next == '.')
			last = strtol(next + 2, &next, 10);
		char condition = '\0';
		if (*next >= 'a' && *next <= 'z')
			condition = *next++;
		for (long tuple = first; tuple <= last; tuple++)
			add_op(list, tuple, condition);
		at = *next == ' ' ? next + 1 : next;
	}
	buf_printf(&payload, "{\"deletes\":[%s],\"writes\":[%s]}", lists[0].n > 0 ? lists[0].p : "",
	           lists[1].n > 0 ? lists[1].p : "");
	struct batch_row *row = batch_add(&b, id, 0, 0, buf_str(&payload));
	buf_free(&lists[0]);
	buf_free(&lists[1]);
	buf_free(&payload);
	return row;
}

static inline size_t show_ops(const cJSON *body, const char *list, char sign, struct buf *out)
{
	const cJSON *op;
	size_t n = 0;
	const cJSON *ops = cJSON_GetObjectItemCaseSensitive(body, list);
	cJSON_ArrayForEach(op, cJSON_GetObjectItemCaseSensitive(ops, "tuple_keys"))
	{
		const cJSON *user = cJSON_GetObjectItemCaseSensitive(op, "user");
		const cJSON *condition = cJSON_GetObjectItemCaseSensitive(op, "condition");
		buf_printf(out, " %c%s", sign, user->valuestring + strlen("user:"));
		if (condition != NULL)
			buf_add_char(out, cJSON_GetObjectItemCaseSensitive(condition, "name")->valuestring[3]);
		n++;
	}
	return n;
}

/* Adds what the request is to out; returns the tuples in it. */
static inline size_t show(const struct request *r, struct buf *out)
{
	struct buf body = {0};
	size_t tuples = batch_body(&b, r, STR("01JMODEL00000000000000000X"), &body);
	cJSON *tree = cJSON_Parse(body.p);
	assert_non_null(tree);
	batch_request_ids(&b, r, 100, out);
	buf_add_char(out, ':');
	assert_int_equal(tuples, show_ops(tree, "deletes", '-', out) + show_ops(tree, "writes", '+', out));
	assert_true(tuples <= r->tuples);
	assert_true(body.n <= r->bytes);
	assert_true(r->tuples <= b.limits.max_tuples);
	assert_true(r->bytes <= b.limits.max_bytes || r->tuples == 1);
	cJSON_Delete(tree);
	buf_free(&body);
	return tuples;
}

static inline struct request *sends(const char *expected)
{
	struct buf text = {0};
	struct request *r = batch_next(&b, now_ms);
	if (r == NULL) {
		fail_msg("nothing is sent, expected %s", expected);
		return NULL;
	}
	show(r, &text);
	assert_string_equal(text.p, expected);
	buf_free(&text);
	return r;
}

#define SENDS_NOTHING() assert_null(batch_next(&b, now_ms))

static inline enum verdict answer_with(struct request *r, struct judgement j, const char *reason)
{
	snprintf(j.reason, sizeof j.reason, "%s", reason);
	return batch_answer(&b, r, &j, now_ms, &rng);
}

static inline enum verdict answer(struct request *r, enum verdict verdict, enum hint hint)
{
	return answer_with(r, (struct judgement){.verdict = verdict, .hint = hint}, "because");
}

static inline void accept(struct request *r)
{
	assert_int_equal(answer(r, VERDICT_DELIVERED, HINT_NONE), VERDICT_DELIVERED);
}

static inline void lose(struct request *r)
{
	assert_int_equal(answer_with(r, (struct judgement){.verdict = VERDICT_RETRY, .unknown = true}, "lost"),
	                 VERDICT_RETRY);
}

/* An internal error, as the table of verdicts judges it. */
static inline void fail_inside(struct request *r)
{
	struct judgement j = {.verdict = VERDICT_RETRY, .hint = HINT_PROBE, .unknown = true};
	assert_int_equal(answer_with(r, j, "internal"), VERDICT_RETRY);
}

/* Waits for the next thing to happen by itself. */
static inline void wait_on(void)
{
	int64_t due_ms = batch_due_ms(&b, now_ms);
	assert_int_not_equal(due_ms, INT64_MAX);
	assert_true(due_ms > now_ms);
	now_ms = due_ms;
}

#define NOT_OVER() assert_false(batch_over(&b, now_ms))

/* The batch is over, and its rows have these ends: "1 delivered, 2 held behind 1". */
static inline void is_over(const char *expected)
{
	static const char *const names[] = {"pending", "delivered", "rejected", "apart", "held behind", "released"};
	struct buf text = {0};
	SENDS_NOTHING();
	assert_true(batch_over(&b, now_ms));
	for (size_t i = 0; i < b.n; i++) {
		const struct batch_row *row = &b.rows[i];
		buf_printf(&text, i == 0 ? "%d %s" : ", %d %s", (int)row->id, names[row->state]);
		if (row->state == ROW_HELD)
			buf_printf(&text, " %d", (int)row->behind);
	}
	assert_string_equal(text.p, expected);
	buf_free(&text);
	assert_int_equal(batch_due_ms(&b, now_ms), INT64_MAX);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

#endif
