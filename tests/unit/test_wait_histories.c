/* Random histories of waits, against a list in which every wait is looked at for everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/str.h"
#include "core/wait.h"

enum { IDS = 12, WAITS = 6, FATES = 4 };
enum fate { ABSENT, PENDING, REFUSED, DELIVERED };

struct plain_wait {
	bool is_open;
	uint64_t number;
	struct wait_query query;
	bool left[IDS + 1];
	bool asked; /* by the question under way */
	int64_t until_ms;
	int64_t ask_ms;
	int64_t pause_ms;
};

struct plain {
	struct plain_wait waits[WAITS];
	bool marked[IDS + 1];
	struct buf ended; /* expected, each as number, code, body */
	size_t n_ended;
	bool asking;
	int64_t wanted_ms;
};

/* id: 0: all that are left. */
static void plain_end(struct plain *p, struct plain_wait *one, int code, const char *status, int64_t id,
                      const char *why)
{
	buf_printf(&p->ended, "#%d %d {\"status\":\"%s\",\"ids\":", (int)one->number, code, status);
	for (size_t i = 0, n = 0; i < one->query.n; i++)
		if (code == 200 || (id == 0 ? one->left[one->query.ids[i]] : one->query.ids[i] == id))
			buf_printf(&p->ended, n++ == 0 ? "[%d" : ",%d", (int)one->query.ids[i]);
	buf_printf(&p->ended, *why != '\0' ? "],\"reason\":\"%s\"}\n" : "]%s}\n", why);
	p->n_ended++;
	one->is_open = false;
}

static size_t plain_left(const struct plain_wait *one)
{
	size_t n = 0;
	for (int id = 1; id <= IDS; id++)
		n += one->left[id];
	return n;
}

static void plain_delivered(struct plain *p, int64_t id)
{
	p->marked[id] = true;
	for (size_t i = 0; i < WAITS; i++) {
		struct plain_wait *one = &p->waits[i];
		if (!one->is_open || !one->left[id])
			continue;
		one->left[id] = false;
		if (plain_left(one) == 0)
			plain_end(p, one, 200, "delivered", 0, "");
	}
}

static void plain_refused(struct plain *p, int64_t id, bool all)
{
	for (size_t i = 0; i < WAITS; i++)
		if (p->waits[i].is_open && p->waits[i].left[id] && (all || p->waits[i].asked))
			plain_end(p, &p->waits[i], 409, "refused", id, "no");
}

static void plain_begin(struct plain *p, struct waits *w, uint64_t number, int64_t now_ms, struct rng *rng)
{
	struct plain_wait *one = p->waits;
	while (one < p->waits + WAITS && one->is_open)
		one++;
	if (one == p->waits + WAITS)
		return;
	int64_t timeout_ms = 1 + rng_upto(rng, 600);
	*one = (struct plain_wait){
	    .is_open = true,
	    .number = number,
	    .query = {.timeout_ms = timeout_ms},
	    .until_ms = now_ms + timeout_ms,
	    .ask_ms = (now_ms + WAIT_FIRST_MS + 9) / 10 * 10,
	    .pause_ms = WAIT_FIRST_MS,
	};
	for (int64_t id = 1 + rng_upto(rng, 3); id <= IDS; id += 1 + rng_upto(rng, 8)) {
		one->query.ids[one->query.n++] = id;
		one->left[id] = true;
		if (p->marked[id])
			one->ask_ms = now_ms;
	}
	assert_true(wait_begin(w, number, &one->query, now_ms));
}

static void plain_ask(struct plain *p, struct waits *w, int64_t now_ms, struct rng *rng)
{
	bool wants = false;
	bool expected[IDS + 1] = {false};
	struct buf ids = {0};
	for (size_t i = 0; i < WAITS && !p->asking; i++)
		wants |= p->waits[i].is_open && p->waits[i].ask_ms <= now_ms;
	assert_int_equal(wait_wants_question(w, now_ms), wants);
	if (!wants)
		return;
	p->wanted_ms = p->wanted_ms != 0 ? p->wanted_ms : now_ms;
	if (rng_upto(rng, 3) == 0)
		return; /* no connection */
	p->asking = true;
	for (size_t i = 0; i < WAITS; i++) {
		struct plain_wait *one = &p->waits[i];
		one->asked = one->is_open && one->ask_ms <= now_ms;
		for (int id = 1; one->asked && id <= IDS; id++)
			expected[id] |= one->left[id];
	}
	wait_ask(w, now_ms, &ids);
	for (char *at = ids.p; *at != '}';) {
		int64_t id = strtoll(at + 1, &at, 10);
		assert_true(id > 0 && id <= IDS && expected[id]);
		expected[id] = false;
	}
	for (int id = 1; id <= IDS; id++)
		assert_false(expected[id]);
	buf_free(&ids);
}

static void plain_answer(struct plain *p, struct waits *w, int64_t now_ms, struct rng *rng)
{
	enum fate fates[IDS + 1];
	if (!p->asking)
		return;
	for (int id = 1; id <= IDS; id++) {
		fates[id] = rng_upto(rng, 2) > 0 ? PENDING : (enum fate)rng_upto(rng, FATES - 1);
		if (fates[id] == ABSENT)
			continue;
		wait_found(w, &(struct wait_found){id, fates[id] == DELIVERED, fates[id] == REFUSED, STR("no")});
		if (fates[id] == DELIVERED)
			plain_delivered(p, id);
		else if (fates[id] == REFUSED)
			plain_refused(p, id, false);
	}
	wait_answered(w, now_ms);
	for (size_t i = 0; i < WAITS; i++) {
		struct plain_wait *one = &p->waits[i];
		if (!one->is_open || !one->asked)
			continue;
		one->asked = false;
		one->pause_ms = 2 * one->pause_ms < WAIT_LONGEST_MS ? 2 * one->pause_ms : WAIT_LONGEST_MS;
		one->ask_ms = (now_ms + one->pause_ms + 9) / 10 * 10;
		for (size_t k = 0; k < one->query.n && one->is_open; k++)
			if (one->left[one->query.ids[k]] && fates[one->query.ids[k]] == ABSENT)
				plain_end(p, one, 404, "missing", one->query.ids[k], "");
	}
	p->asking = false;
	p->wanted_ms = 0;
}

static void plain_over(struct plain *p, int64_t now_ms)
{
	bool silent = p->wanted_ms != 0 && (!p->asking || now_ms - p->wanted_ms >= WAIT_SILENCE_MS);
	for (size_t i = 0; i < WAITS; i++) {
		if (!p->waits[i].is_open || p->waits[i].until_ms > now_ms)
			continue;
		if (silent)
			plain_end(p, &p->waits[i], 503, "unknown", 0, "postgres does not answer: ask again later");
		else
			plain_end(p, &p->waits[i], 504, "pending", 0, "");
	}
}

/* What has ended here and there, in whatever order. */
static void compare(struct plain *p, struct waits *w, int64_t now_ms)
{
	struct wait_answer a;
	struct buf line = {0};
	bool any = false;
	plain_over(p, now_ms);
	while (wait_next(w, now_ms, &a)) {
		buf_clear(&line);
		buf_printf(&line, "#%d %d %s", (int)a.number, a.code, a.body.p);
		if (!str_has(buf_str(&p->ended), buf_str(&line)))
			fail_msg("not expected: %s; but: %s", line.p, p->n_ended > 0 ? p->ended.p : "nothing");
		p->n_ended--;
		buf_free(&a.body);
	}
	assert_int_equal(p->n_ended, 0);
	for (size_t i = 0; i < WAITS; i++)
		any |= p->waits[i].is_open;
	if (!any && !p->asking)
		p->wanted_ms = 0;
	buf_clear(&p->ended);
	buf_free(&line);
}

static void compare_due(const struct plain *p, const struct waits *w, int64_t now_ms)
{
	int64_t over_ms = INT64_MAX;
	int64_t ask_ms = INT64_MAX;
	for (size_t i = 0; i < WAITS; i++) {
		if (!p->waits[i].is_open)
			continue;
		over_ms = p->waits[i].until_ms < over_ms ? p->waits[i].until_ms : over_ms;
		ask_ms = p->waits[i].ask_ms < ask_ms && !p->asking ? p->waits[i].ask_ms : ask_ms;
	}
	assert_true(wait_due_ms(w, false) <= over_ms && wait_due_ms(w, false) > now_ms);
	assert_true(wait_due_ms(w, true) <= (ask_ms < over_ms ? ask_ms : over_ms));
	if (ask_ms > now_ms)
		assert_true(wait_due_ms(w, true) > now_ms);
	if (over_ms == INT64_MAX)
		assert_true(wait_due_ms(w, true) == INT64_MAX);
}

static void change(struct plain *p, struct waits *w, int64_t now_ms, struct rng *rng)
{
	static uint64_t number;
	int64_t id = 1 + rng_upto(rng, IDS - 1);
	struct plain_wait *one = &p->waits[rng_upto(rng, WAITS - 1)];
	switch (rng_upto(rng, 9)) {
	case 0:
	case 1:
	case 2:
		plain_begin(p, w, ++number, now_ms, rng);
		break;
	case 3:
		if (one->is_open)
			wait_forget(w, one->number);
		one->is_open = false;
		break;
	case 4:
		wait_delivered(w, id);
		plain_delivered(p, id);
		break;
	case 7: /* takes its place among those marked last */
		wait_delivered(w, id + WAIT_RECENT);
		p->marked[id] = false;
		break;
	case 5:
		wait_refused(w, id, STR("no"));
		plain_refused(p, id, true);
		break;
	case 6:
		wait_unanswered(w);
		p->asking = false;
		break;
	default:
		plain_answer(p, w, now_ms, rng);
		break;
	}
}

static void agrees_with_a_plain_list(void **state)
{
	(void)state;
	static struct waits w;
	struct rng rng = {29};
	struct plain p = {0};
	int64_t now_ms = 1000;
	for (int step = 0; step < 20000; step++) {
		change(&p, &w, now_ms, &rng);
		compare(&p, &w, now_ms);
		plain_ask(&p, &w, now_ms, &rng);
		compare_due(&p, &w, now_ms);
		now_ms += rng_upto(&rng, 9) == 0 ? rng_upto(&rng, 1500) : rng_upto(&rng, 20);
		compare(&p, &w, now_ms);
	}
	buf_free(&p.ended);
	wait_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(agrees_with_a_plain_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
