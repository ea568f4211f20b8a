#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/wake.h"

static void listening(struct wake *w)
{
	*w = (struct wake){0};
	wake_listening(w);
	assert_true(wake_writers(w, "", 0));
	w->can_hush = true;
}

static void busy(struct wake *w, int64_t now_ms)
{
	for (int i = 0; i < WAKE_BUSY_CLAIMS; i++)
		wake_claimed(w, 10, true, now_ms);
}

static void hushed(struct wake *w)
{
	listening(w);
	busy(w, 0);
	assert_int_equal(wake_next(w, true, 0), WAKE_TRY);
	assert_true(wake_tried(w, true, 0));
}

static void only_a_busy_relay_hushes(void **state)
{
	(void)state;
	struct wake w;
	listening(&w);
	for (int i = 0; i < 100; i++) {
		wake_claimed(&w, 1, false, i); /* a row alone: nothing behind it */
		wake_idle(&w);
		assert_int_equal(wake_next(&w, true, i), WAKE_NOTHING);
	}
	busy(&w, 100);
	w.can_hush = false;
	assert_int_equal(wake_next(&w, true, 100), WAKE_NOTHING);
	w.can_hush = true;
	assert_int_equal(wake_next(&w, false, 100), WAKE_NOTHING);
	wake_idle(&w);
	assert_int_equal(wake_next(&w, true, 100), WAKE_NOTHING);
	busy(&w, 100);
	assert_int_equal(wake_next(&w, true, 100), WAKE_TRY);
	assert_int_equal(wake_next(&w, true, 100), WAKE_NOTHING);
	wake_fini(&w);
}

static void k_that_is_not_to_be_had_is_tried_less_and_less_often(void **state)
{
	(void)state;
	struct wake w;
	listening(&w);
	busy(&w, 0);
	int64_t now_ms = 0;
	int tries = 0;
	for (; now_ms < 10000; now_ms++)
		if (wake_next(&w, true, now_ms) == WAKE_TRY) {
			tries++;
			assert_false(wake_tried(&w, false, now_ms));
		}
	assert_in_range(tries, 20, 40);
	wake_fini(&w);
}

static void it_polls_while_it_is_hushed(void **state)
{
	(void)state;
	struct wake w;
	hushed(&w);
	assert_true(wake_polls(&w, 0));
	assert_false(wake_polls(&w, 1000)); /* one claim is on its way */
	wake_claimed(&w, 5, true, 1000);
	assert_true(wake_polls(&w, 1000));
	for (int64_t now_ms = 1001; now_ms < 1100; now_ms += 1 + WAKE_POLL_MS) {
		wake_claimed(&w, now_ms % 2 == 0 ? 5 : 0, false, now_ms); /* rows or not: there is no more at hand */
		assert_false(wake_polls(&w, now_ms + WAKE_POLL_MS - 1));
		assert_true(wake_due_ms(&w) <= now_ms + WAKE_POLL_MS);
		assert_true(wake_polls(&w, now_ms + WAKE_POLL_MS));
	}
	wake_fini(&w);
}

static void without_rows_it_settles(void **state)
{
	(void)state;
	struct wake w;
	hushed(&w);
	wake_claimed(&w, 0, false, 100);
	assert_int_equal(wake_next(&w, true, 99 + WAKE_LINGER_MS), WAKE_NOTHING);
	assert_true(wake_due_ms(&w) <= 100 + WAKE_LINGER_MS);
	assert_int_equal(wake_next(&w, true, 100 + WAKE_LINGER_MS), WAKE_RELEASE);
	assert_int_equal(w.state, WAKE_RELEASING);
	assert_true(wake_writers(&w, "1/1 2/2", 200));
	assert_int_equal(wake_next(&w, true, 200), WAKE_NOTHING);
	assert_int_equal(wake_due_ms(&w), 200 + WAKE_MIN_WAIT_MS);
	assert_int_equal(wake_next(&w, true, 202), WAKE_LOOK);
	assert_int_equal(wake_next(&w, true, 1000), WAKE_NOTHING);
	assert_false(wake_writers(&w, "1/1 2/2", 1000)); /* nobody has gone: nothing to look for */
	assert_int_equal(wake_next(&w, true, 2000), WAKE_LOOK);
	assert_true(wake_writers(&w, "2/2 3/3", 2000)); /* whatever 1/1 left can be seen */
	assert_int_equal(w.state, WAKE_SETTLING);
	assert_int_equal(wake_next(&w, true, 3000), WAKE_LOOK);
	assert_true(wake_writers(&w, "3/3", 3000));
	assert_int_equal(w.state, WAKE_LOUD);
	assert_true(wake_due_ms(&w) == INT64_MAX);
	wake_fini(&w);
}

static void a_long_writer_is_looked_for_less_and_less_often(void **state)
{
	(void)state;
	struct wake w = {0};
	int looks = 0;
	wake_listening(&w);
	assert_true(wake_writers(&w, "1/1", 0));
	for (int64_t now_ms = 0; now_ms < 60000; now_ms++)
		if (wake_next(&w, true, now_ms) == WAKE_LOOK) {
			looks++;
			assert_false(wake_writers(&w, "1/1", now_ms));
		}
	assert_in_range(looks, 60000 / WAKE_MAX_WAIT_MS, 60000 / WAKE_MAX_WAIT_MS + 10);
	wake_fini(&w);
}

static void who_was_waited_for_still_is_when_k_is_not_to_be_had(void **state)
{
	(void)state;
	struct wake w;
	listening(&w);
	busy(&w, 0);
	assert_int_equal(wake_next(&w, true, 0), WAKE_TRY);
	assert_true(wake_tried(&w, true, 0));
	assert_int_equal(wake_next(&w, false, 1), WAKE_RELEASE); /* it may not claim: others are to be woken */
	assert_true(wake_writers(&w, "1/1", 1));
	busy(&w, 2);
	assert_int_equal(wake_next(&w, true, 2), WAKE_TRY); /* settling does not keep it from it */
	assert_false(wake_tried(&w, false, 3));
	assert_int_equal(w.state, WAKE_SETTLING);
	assert_int_equal(wake_next(&w, true, 100), WAKE_LOOK);
	assert_true(wake_writers(&w, "", 100));
	assert_int_equal(w.state, WAKE_LOUD);
	wake_fini(&w);
}

static void the_others_are_told_while_it_cannot_keep_up(void **state)
{
	(void)state;
	struct wake w;
	hushed(&w);
	wake_claimed(&w, 100, true, 10);
	assert_int_equal(wake_next(&w, true, WAKE_SHARE_MS - 1), WAKE_NOTHING);
	assert_int_equal(wake_next(&w, true, WAKE_SHARE_MS), WAKE_SHARE);
	assert_int_equal(wake_next(&w, true, WAKE_SHARE_MS), WAKE_NOTHING);
	wake_claimed(&w, 3, false, 150);
	assert_int_equal(wake_next(&w, true, 2 * WAKE_SHARE_MS), WAKE_NOTHING); /* it keeps up */
	assert_int_equal(wake_next(&w, true, 3 * WAKE_SHARE_MS), WAKE_SHARE);   /* no claim has come back since */
	wake_fini(&w);
}

static void a_lost_connection_says_whether_k_may_have_been_held(void **state)
{
	(void)state;
	struct wake w;
	hushed(&w);
	assert_true(wake_lost(&w));
	assert_int_equal(w.state, WAKE_LOUD);
	assert_false(w.can_hush);
	assert_false(wake_lost(&w));
	listening(&w);
	busy(&w, 0);
	assert_int_equal(wake_next(&w, true, 0), WAKE_TRY);
	assert_true(wake_lost(&w)); /* its answer may have been yes */
	wake_fini(&w);
}

/* A small world: writers, the trigger, notifications, and a relay whose statements are sent, run and answered at
 * different moments. In the end nobody writes any more: no row may be left. */
enum { WRITERS = 5, ACTS = 4000 };

static struct world {
	struct {
		enum { AWAY, OPEN, INSERTED } at;
		unsigned number;
		unsigned rows;
		bool notifies;
	} writers[WRITERS];
	unsigned pending;
	unsigned notifications; /* under way */
	bool is_held;           /* K */
	bool work;
	bool stops; /* nobody begins a transaction */
	struct {
		enum { NONE, SENT, RUN } at;
		unsigned found;
	} claim;
	enum wake_ask saying; /* on the listening connection, and how far it is */
	unsigned step;
	bool got_it;
	char list[WRITERS * 24];
	struct wake w;
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
	switch (world.writers[i].at) {
	case AWAY:
		if (world.stops)
			return;
		world.writers[i].at = OPEN;
		world.writers[i].number++;
		world.writers[i].rows = 0;
		world.writers[i].notifies = false;
		return;
	case OPEN:
		world.writers[i].rows++;
		world.writers[i].notifies |= !world.is_held;
		world.writers[i].at = INSERTED;
		return;
	case INSERTED:
		if (below(4) == 0) { /* a second statement, whose trigger may meet something else */
			world.writers[i].at = OPEN;
		} else {
			bool commits = below(5) > 0;
			world.pending += commits ? world.writers[i].rows : 0;
			world.notifications += commits && world.writers[i].notifies;
			world.writers[i].at = AWAY;
		}
		return;
	}
}

static void list_writers(void)
{
	world.list[0] = '\0';
	for (unsigned i = 0, n = 0; i < WRITERS; i++)
		if (world.writers[i].at != AWAY)
			n += (unsigned)snprintf(world.list + n, sizeof world.list - n, "%u/%u ", i,
			                        world.writers[i].number);
}

static void say(void)
{
	switch (world.saying) {
	case WAKE_NOTHING:
		world.saying = wake_next(&world.w, true, world.now_ms);
		world.step = 0;
		return;
	case WAKE_TRY:
		if (world.step++ == 0) {
			world.got_it = below(5) > 0;
			world.is_held |= world.got_it;
			return;
		}
		world.work |= wake_tried(&world.w, world.got_it, world.now_ms);
		break;
	case WAKE_RELEASE:
		if (world.step == 0) {
			world.is_held = false;
			world.step++;
			return;
		}
		/* fall through */
	case WAKE_LOOK:
		if (world.step < 2) {
			list_writers();
			world.step = 2;
			return;
		}
		world.work |= wake_writers(&world.w, world.list, world.now_ms);
		break;
	case WAKE_SHARE:
		world.notifications++;
		break;
	}
	world.saying = WAKE_NOTHING;
}

static void claim(void)
{
	switch (world.claim.at) {
	case NONE:
		world.work |= wake_polls(&world.w, world.now_ms);
		if (!world.work) {
			if (below(20) == 0)
				wake_idle(&world.w);
			return;
		}
		world.work = false;
		world.claim.at = SENT;
		return;
	case SENT:
		world.claim.found = world.pending < 3 ? world.pending : 3;
		world.pending -= world.claim.found;
		world.claim.at = RUN;
		return;
	case RUN:
		wake_claimed(&world.w, world.claim.found, world.claim.found == 3, world.now_ms);
		world.work |= world.claim.found == 3;
		world.claim.at = NONE;
		return;
	}
}

static void hear(void)
{
	if (world.notifications == 0)
		return;
	world.notifications--;
	world.work = true;
}

static void act(void)
{
	world.now_ms += (int64_t)below(3);
	switch (below(10)) {
	case 0:
		say();
		break;
	case 1:
		hear();
		break;
	case 2:
	case 3:
	case 4:
		claim();
		break;
	default:
		write_on();
	}
}

static void no_row_is_left(void **state)
{
	(void)state;
	unsigned hushes = 0;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		wake_fini(&world.w);
		memset(&world, 0, sizeof world);
		world.rng.state = seed;
		listening(&world.w);
		for (unsigned i = 0; i < ACTS; i++) {
			act();
			world.stops = i % 400 > 300; /* bursts, so that it begins to settle and is disturbed */
			hushes += world.w.state == WAKE_HUSHED;
		}
		world.stops = true;
		for (unsigned i = 0; i < 3000; i++)
			act();
		if (world.pending > 0 || world.is_held || world.w.state != WAKE_LOUD)
			fail_msg("seed %d: %u rows left", (int)seed, world.pending);
	}
	assert_true(hushes > 10000);
	wake_fini(&world.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_a_busy_relay_hushes),
	    cmocka_unit_test(k_that_is_not_to_be_had_is_tried_less_and_less_often),
	    cmocka_unit_test(it_polls_while_it_is_hushed),
	    cmocka_unit_test(without_rows_it_settles),
	    cmocka_unit_test(a_long_writer_is_looked_for_less_and_less_often),
	    cmocka_unit_test(who_was_waited_for_still_is_when_k_is_not_to_be_had),
	    cmocka_unit_test(the_others_are_told_while_it_cannot_keep_up),
	    cmocka_unit_test(a_lost_connection_says_whether_k_may_have_been_held),
	    cmocka_unit_test(no_row_is_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
