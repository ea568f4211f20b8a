#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/horizon.h"

/* A claim of `rows` rows up to `highest`, as a relay with one lane makes it. */
static void claim(struct horizon *h, int64_t lowest, int64_t highest, bool is_short, int64_t now_ms)
{
	struct horizon_claim c;
	horizon_claim(h, false, &c);
	struct horizon_seen seen = {
	    .rows = (size_t)(highest - lowest + 1),
	    .lowest = lowest,
	    .highest = highest,
	    .lowest_other = INT64_MAX,
	    .is_short = is_short,
	};
	horizon_claimed(h, &c, &seen, now_ms);
}

static void a_step(void **state)
{
	(void)state;
	struct horizon h;
	horizon_init(&h);
	claim(&h, 1, 499, false, 0);
	assert_false(horizon_wants_writers(&h, 0)); /* too few rows to be worth it */
	claim(&h, 500, 1000, false, 0);
	assert_true(horizon_wants_writers(&h, 0));
	uint64_t asked = horizon_ask(&h);
	assert_false(horizon_wants_writers(&h, 0));
	assert_false(horizon_writers(&h, asked, "1/1 2/2", true, 10));
	assert_int_equal(horizon_due_ms(&h), 10 + HORIZON_MIN_WAIT_MS);
	claim(&h, 1001, 1100, false, 11); /* does not confirm: a writer is there */
	assert_true(h.at == HORIZON_NONE);
	asked = horizon_ask(&h);
	assert_false(horizon_writers(&h, asked, "2/2 3/3", true, 20));
	asked = horizon_ask(&h);
	assert_true(horizon_writers(&h, asked, "3/3", true, 30)); /* 3/3 came later: whatever it drew is higher */
	assert_false(horizon_wants_writers(&h, INT64_MAX));
	claim(&h, 1101, 1200, false, 31);
	assert_int_equal(h.at, 1000);
	assert_int_equal(h.rows, 200); /* those above it: three hundred more, and there is another step */
	claim(&h, 1201, 1500, true, 32);
	assert_true(horizon_wants_writers(&h, 31 + HORIZON_STEP_MS));
	horizon_fini(&h);
}

static void what_confirms(void **state)
{
	(void)state;
	for (int other = 0; other <= 1; other++) {
		for (int is_short = 0; is_short <= 1; is_short++) {
			struct horizon h;
			struct horizon_claim c;
			horizon_init(&h);
			claim(&h, 1, 1000, false, 0);
			assert_true(horizon_writers(&h, horizon_ask(&h), "", true, 0));
			horizon_claim(&h, false, &c);
			assert_int_equal(c.goal, 1000);
			struct horizon_seen seen = {.rows = 10,
			                            .lowest = 700,
			                            .highest = 900,
			                            .is_short = is_short,
			                            .lowest_other = other ? 800 : INT64_MAX};
			horizon_claimed(&h, &c, &seen, 0);
			assert_true(h.at == (!is_short ? HORIZON_NONE : other ? 799 : 1000));
			horizon_fini(&h);
		}
	}
}

static void a_claim_sent_before_the_writers_were_gone_confirms_nothing(void **state)
{
	(void)state;
	struct horizon h;
	struct horizon_claim early;
	horizon_init(&h);
	claim(&h, 1, 1000, false, 0);
	uint64_t asked = horizon_ask(&h);
	horizon_claim(&h, false, &early);
	assert_true(horizon_writers(&h, asked, NULL, true, 0));
	horizon_claimed(&h, &early, &(struct horizon_seen){.is_short = true, .lowest_other = INT64_MAX}, 0);
	assert_true(h.at == HORIZON_NONE);
	horizon_fini(&h);
}

static void a_reset_undoes_what_is_under_way(void **state)
{
	(void)state;
	struct horizon h;
	struct horizon_claim before;
	horizon_init(&h);
	claim(&h, 1, 1000, false, 0);
	uint64_t asked = horizon_ask(&h);
	assert_true(horizon_writers(&h, asked, "", true, 0));
	horizon_claim(&h, false, &before);
	horizon_reset(&h);
	horizon_claimed(&h, &before, &(struct horizon_seen){.is_short = true, .lowest_other = INT64_MAX}, 0);
	assert_true(h.at == HORIZON_NONE);
	claim(&h, 1, 1000, false, 0);
	uint64_t again = horizon_ask(&h);
	assert_false(horizon_writers(&h, asked, "", true, 0)); /* asked before the reset */
	assert_false(h.is_clear);
	assert_true(horizon_writers(&h, again, "", true, 0));
	struct horizon_seen nothing = {.is_short = true, .lowest_other = INT64_MAX};
	horizon_claimed(&h, &before, &nothing, 0); /* the same goal, but of the step before */
	assert_true(h.at == HORIZON_NONE);
	horizon_fini(&h);
}

static void confirmed(struct horizon *h, int64_t upto)
{
	horizon_init(h);
	claim(h, 1, upto, false, 0);
	assert_true(horizon_writers(h, horizon_ask(h), "", true, 0));
	claim(h, upto + 1, upto + 1, true, 0);
	assert_int_equal(h->at, upto);
}

static void a_sweep_that_finds_something_below_it_takes_it_back(void **state)
{
	(void)state;
	for (int other = 0; other <= 1; other++) {
		struct horizon h;
		struct horizon_claim c;
		confirmed(&h, 1000);
		horizon_claim(&h, true, &c);
		assert_true(c.above == HORIZON_NONE);
		struct horizon_seen nothing = {.is_short = true, .lowest_other = INT64_MAX};
		horizon_claimed(&h, &c, &nothing, 0);
		assert_int_equal(h.at, 1000);
		horizon_claim(&h, true, &c);
		struct horizon_seen below = {
		    .rows = !other, .lowest = 3, .highest = 3, .is_short = true, .lowest_other = other ? 3 : INT64_MAX};
		horizon_claimed(&h, &c, &below, 0);
		assert_true(h.at == HORIZON_NONE);
		horizon_fini(&h);
	}
}

static void without_order_there_is_none(void **state)
{
	(void)state;
	struct horizon h;
	horizon_init(&h);
	claim(&h, 1, 1000, false, 0);
	assert_false(horizon_writers(&h, horizon_ask(&h), "", false, 0));
	claim(&h, 1001, 3000, true, 0);
	assert_true(h.at == HORIZON_NONE);
	assert_false(horizon_wants_writers(&h, INT64_MAX));
	assert_true(horizon_due_ms(&h) == INT64_MAX);
	horizon_reset(&h); /* a new connection: the sequence may have been mended */
	claim(&h, 1, 1000, true, 0);
	assert_true(horizon_wants_writers(&h, 0));
	horizon_fini(&h);
}

/* A small world: transactions that draw ids and end much later, another relay that holds rows and lets them go, and a
 * relay of two lanes whose statements are sent, run and answered at different moments. */
enum { IDS = 4000, WRITERS = 6, LANES = 2, LIMIT = 25, TURNS = 60000 };

enum where { NOWHERE, DRAWN, PENDING, THEIRS, MINE, DONE };

struct statement {
	enum { NONE, SENT, RUN } at;
	struct horizon_claim from;
	bool known[IDS]; /* to the relay, when it was sent */
	int64_t mine[LIMIT];
	size_t n;
	int64_t others[IDS];
	size_t n_others;
	bool is_short;
	uint64_t asked;
	char writers[WRITERS * 24];
};

static struct world {
	enum where rows[IDS];
	bool known[IDS]; /* in flight in a lane, or parked */
	int64_t next_id;
	struct {
		bool is_open;
		unsigned number;
		int64_t ids[3];
		size_t n;
	} writers[WRITERS];
	struct statement claims[LANES];
	struct statement ask;
	struct horizon h;
	struct rng rng;
	int64_t now_ms;
} world;

static uint64_t below(uint64_t n)
{
	return rng_next(&world.rng) % n;
}

static void write_on(void)
{
	unsigned i = (unsigned)below(WRITERS);
	if (!world.writers[i].is_open) {
		world.writers[i].is_open = true;
		world.writers[i].number++;
		world.writers[i].n = 0;
	} else if (world.writers[i].n < 3 && world.next_id < IDS && below(3) > 0) {
		world.rows[world.next_id] = DRAWN;
		world.writers[i].ids[world.writers[i].n++] = world.next_id++;
	} else {
		bool commits = below(4) > 0;
		for (size_t k = 0; k < world.writers[i].n; k++)
			world.rows[world.writers[i].ids[k]] = commits ? PENDING : NOWHERE;
		world.writers[i].is_open = false;
	}
}

static void other_relay(void)
{
	int64_t id = (int64_t)below((uint64_t)world.next_id + 1);
	if (id >= IDS)
		return;
	if (world.rows[id] == PENDING && below(3) == 0)
		world.rows[id] = THEIRS;
	else if (world.rows[id] == THEIRS)
		world.rows[id] = below(2) ? DONE : PENDING;
}

/* Rows of ours end: most are done, some are parked (and stay known), some are let go. */
static void finish(void)
{
	int64_t id = (int64_t)below((uint64_t)world.next_id + 1);
	if (id >= IDS || world.rows[id] != MINE || !world.known[id])
		return;
	switch (below(20)) {
	case 0:
		world.rows[id] = PENDING; /* parked */
		break;
	case 1:
		world.rows[id] = PENDING;
		world.known[id] = false;
		horizon_reset(&world.h);
		break;
	default:
		world.rows[id] = DONE;
		world.known[id] = false;
	}
}

static void run_claim(struct statement *c)
{
	int64_t highest = c->from.goal;
	c->n = 0;
	c->n_others = 0;
	for (int64_t id = 0; id < IDS && c->n < LIMIT; id++)
		if (id > c->from.above && world.rows[id] == PENDING && !c->known[id]) {
			world.rows[id] = MINE;
			c->mine[c->n++] = id;
		}
	c->is_short = c->n < LIMIT;
	if (c->n > 0 && c->mine[c->n - 1] > highest)
		highest = c->mine[c->n - 1];
	for (int64_t id = 0; id < IDS; id++) {
		bool is_mine = false;
		for (size_t i = 0; i < c->n; i++)
			is_mine |= c->mine[i] == id;
		if (id > c->from.above && id <= highest &&
		    (world.rows[id] == THEIRS || world.rows[id] == MINE || world.rows[id] == PENDING) && !is_mine &&
		    !c->known[id])
			c->others[c->n_others++] = id;
	}
}

static void answer_claim(struct statement *c)
{
	struct horizon_seen seen = {.rows = c->n, .lowest_other = INT64_MAX, .is_short = c->is_short};
	for (size_t i = 0; i < c->n_others; i++)
		if (!world.known[c->others[i]] && c->others[i] < seen.lowest_other)
			seen.lowest_other = c->others[i];
	if (c->n > 0) {
		seen.lowest = c->mine[0];
		seen.highest = c->mine[c->n - 1];
	}
	horizon_claimed(&world.h, &c->from, &seen, world.now_ms);
	for (size_t i = 0; i < c->n; i++)
		world.known[c->mine[i]] = true;
}

static void lane(void)
{
	struct statement *c = &world.claims[below(LANES)];
	switch (c->at) {
	case NONE:
		horizon_claim(&world.h, below(50) == 0, &c->from);
		memcpy(c->known, world.known, sizeof c->known);
		c->at = SENT;
		break;
	case SENT:
		run_claim(c);
		c->at = RUN;
		break;
	case RUN:
		c->at = NONE;
		if (below(200) == 0) { /* its connection is lost: the rows are free, and nobody here knows of them */
			for (size_t i = 0; i < c->n; i++)
				world.rows[c->mine[i]] = PENDING;
			break;
		}
		answer_claim(c);
		break;
	}
}

static void ask(void)
{
	struct statement *a = &world.ask;
	switch (a->at) {
	case NONE:
		if (horizon_wants_writers(&world.h, world.now_ms)) {
			a->asked = horizon_ask(&world.h);
			a->at = SENT;
		}
		break;
	case SENT:
		a->writers[0] = '\0';
		for (unsigned i = 0, n = 0; i < WRITERS; i++)
			if (world.writers[i].is_open)
				n += (unsigned)snprintf(a->writers + n, sizeof a->writers - n, "%u/%u ", i,
				                        world.writers[i].number);
		a->at = RUN;
		break;
	case RUN:
		horizon_writers(&world.h, a->asked, a->writers, true, world.now_ms);
		a->at = NONE;
		break;
	}
}

static void nothing_unknown_is_below_the_horizon(void **state)
{
	(void)state;
	int64_t passed = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		memset(&world, 0, sizeof world);
		world.rng.state = seed;
		horizon_init(&world.h);
		for (unsigned turn = 0; turn < TURNS && world.next_id < IDS; turn++) {
			int64_t before = world.h.at;
			world.now_ms += 5;
			world.h.rows *= HORIZON_STEP_ROWS / 10; /* steps after every ten rows */
			switch (below(6)) {
			case 0:
				write_on();
				break;
			case 1:
				other_relay();
				break;
			case 2:
				finish();
				break;
			case 3:
				ask();
				break;
			default:
				lane();
			}
			passed += world.h.at > before && before != HORIZON_NONE ? world.h.at - before : 0;
			for (int64_t id = 0; id <= world.h.at && id < IDS; id++)
				if (world.rows[id] != NOWHERE && world.rows[id] != DONE && !world.known[id])
					fail_msg("seed %d, turn %u: row %d below %d", (int)seed, turn, (int)id,
					         (int)world.h.at);
		}
		horizon_fini(&world.h);
	}
	assert_true(passed > 1000); /* or it would say nothing */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_step),
	    cmocka_unit_test(what_confirms),
	    cmocka_unit_test(a_claim_sent_before_the_writers_were_gone_confirms_nothing),
	    cmocka_unit_test(a_reset_undoes_what_is_under_way),
	    cmocka_unit_test(a_sweep_that_finds_something_below_it_takes_it_back),
	    cmocka_unit_test(without_order_there_is_none),
	    cmocka_unit_test(nothing_unknown_is_below_the_horizon),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
