/* A batch's history: random rows, and all that is known of how they fare. For one test, which checks it at every step.
 */
#ifndef RELAY_TESTS_BATCH_HISTORY_H
#define RELAY_TESTS_BATCH_HISTORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "core/batch.h"

enum { MOST_ROWS = 14, TUPLES = 8, MOST_OPS = 2 * TUPLES, MOST_FLIGHTS = 4, MOST_LATE = 64 };
enum { SETTLE_MS = 6000, EXTERNAL = 3, FIRST_ID = 10 };

/* What OpenFGA makes of an operation: all but the first three are refused, each in its own way. */
enum condition { NONE, PLAIN, WITH_CONTEXT, REFUSED, CURSED, FORGED, CONDITIONS };

static const char *const conditions[CONDITIONS] = {
    [PLAIN] = "{\"name\":\"is_a\",\"context\":{}}",
    [WITH_CONTEXT] = "{\"name\":\"is_a\",\"context\":{\"n\":1}}",
    [REFUSED] = "{\"name\":\"refused\"}",
    [CURSED] = "{\"name\":\"cursed\"}",
    [FORGED] = "{\"name\":\"forged\"}",
};

struct sim_op {
	bool is_write;
	int tuple;
	enum condition condition;
	bool sent;
	bool accepted;
};

struct sim_row {
	size_t n;
	struct sim_op ops[MOST_OPS];
	bool unreadable;
	bool held;
	bool pointed_at; /* a refusal did */
};

struct flight {
	struct request *request;
	int64_t answered_ms;
	struct judgement judgement;
	bool carried_out_at_answer;
};

struct late {
	const struct request *request;
	int64_t at_ms;
};

/* How this history's OpenFGA is. */
struct world {
	size_t limit;      /* tuples a request */
	bool old;          /* single tuples only */
	bool black_hole;   /* no answer ever comes */
	bool cannot_write; /* what a probe says */
	int trouble;       /* percent of requests */
	int faults;        /* percent of operations */
	bool plain;        /* all faults are refused at once, and most refusals name one */
	int64_t stop_ms;   /* when the holder stops it */
};

static struct {
	unsigned seed;
	struct rng rng;
	struct batch b;
	int64_t now_ms;
	struct world world;
	struct sim_row rows[MOST_ROWS];
	size_t n;
	size_t most_in_flight;
	struct flight flights[MOST_FLIGHTS];
	size_t n_flights;
	struct late late[MOST_LATE];
	size_t n_late;
	int busy[TUPLES];   /* requests in flight with the tuple */
	int before[TUPLES]; /* the condition it has, -1: it does not exist */
	int tuples[TUPLES];
	int64_t probed_ms; /* 0: none is under way */
} sim;

/* How often what was seen over all histories. */
static struct {
	unsigned rows[ROW_RELEASED + 1];
	unsigned sent, again, split, late, probes, lone, cut;
} seen;

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			fail_msg("seed %u, at %d ms: %s", sim.seed, (int)sim.now_ms, #condition); \
	} while (0)

static inline int upto(int limit)
{
	return (int)rng_upto(&sim.rng, limit);
}

static inline bool chance(int percent)
{
	return upto(99) < percent;
}

/* Rows */

static inline enum condition some_condition(void)
{
	if (chance(sim.world.faults))
		return sim.world.plain ? REFUSED : (enum condition)(REFUSED + upto(FORGED - REFUSED));
	return chance(60) ? NONE : (enum condition)(PLAIN + upto(1));
}

static inline void invent_ops(struct sim_row *row)
{
	int most = chance(15) ? TUPLES : 3;
	int actions[TUPLES] = {0}; /* 1: delete, 2: write, 3: both */
	for (int i = 0; i < most; i++)
		actions[upto(TUPLES - 1)] = chance(10) ? 3 : chance(35) ? 1 : 2;
	for (int action = 1; action <= 2; action++)
		for (int tuple = 0; tuple < TUPLES; tuple++)
			if (actions[tuple] & action)
				row->ops[row->n++] = (struct sim_op){
				    .is_write = action == 2,
				    .tuple = tuple,
				    .condition = action == 2 ? some_condition() : NONE,
				};
}

static inline void write_payload(const struct sim_row *row, struct buf *out)
{
	const char *lists[] = {"\"deletes\"", "\"writes\""};
	for (int is_write = 0; is_write <= 1; is_write++) {
		buf_printf(out, "%s%s:[", is_write ? "," : "{", lists[is_write]);
		const char *comma = "";
		for (size_t i = 0; i < row->n; i++) {
			const struct sim_op *op = &row->ops[i];
			if (op->is_write != is_write)
				continue;
			buf_printf(out, "%s{\"user\":\"user:%d\",\"relation\":\"member\",\"object\":\"group:%d\"",
			           comma, op->tuple, op->tuple % 3);
			if (op->condition != NONE)
				buf_printf(out, ",\"condition\":%s", conditions[op->condition]);
			buf_add_char(out, '}');
			comma = ",";
		}
		buf_add_char(out, ']');
	}
	buf_add_text(out, row->unreadable ? ",\"wirtes\":[]}" : "}");
}

static inline void invent_row(size_t index)
{
	struct sim_row *row = &sim.rows[index];
	struct buf payload = {0};
	*row = (struct sim_row){.unreadable = chance(4)};
	if (!chance(3))
		invent_ops(row);
	write_payload(row, &payload);
	struct batch_row *added = batch_add(&sim.b, (int64_t)(FIRST_ID + index), 0, 0, buf_str(&payload));
	buf_free(&payload);
	added->alone = chance(12);
	CHECK(added->state == (row->unreadable ? ROW_REJECTED : row->n == 0 ? ROW_DELIVERED : ROW_PENDING));
	if (added->state == ROW_PENDING && chance(5)) {
		batch_hold(added, EXTERNAL);
		row->held = true;
	}
}

static inline bool conflict(const struct sim_op *a, const struct sim_op *b)
{
	return a->tuple == b->tuple && (a->is_write != b->is_write || a->condition != b->condition);
}

static inline bool rows_conflict(const struct sim_row *a, const struct sim_row *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++)
			if (conflict(&a->ops[i], &b->ops[k]))
				return true;
	return false;
}

static inline bool changes_a_tuple_twice(const struct sim_row *row)
{
	return rows_conflict(row, row);
}

static inline bool is_at_fault(const struct sim_row *row)
{
	for (size_t i = 0; i < row->n; i++)
		if (row->ops[i].condition >= REFUSED)
			return true;
	return row->unreadable;
}

/* Calls f for every operation of a request. */
static inline void each_op(const struct request *r, void (*f)(const struct request *, size_t row, struct sim_op *))
{
	for (size_t i = 0; i < r->n; i++)
		for (uint32_t k = 0; k < r->parts[i].n; k++)
			f(r, r->parts[i].row, &sim.rows[r->parts[i].row].ops[r->parts[i].first + k]);
}

#endif
