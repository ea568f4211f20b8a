#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/crowd.h"

enum { LANES = 4, ROWS = 100, FEW = 1, MANY = 100 };

static void nobody_else(void **state)
{
	(void)state;
	struct crowd c = {0};
	assert_int_equal(crowd_lanes(&c, LANES, FEW, 0), LANES);
	assert_true(crowd_due_ms(&c, 0) == INT64_MAX);
	crowd_seen(&c, 0, ROWS, 50);
	assert_int_equal(crowd_lanes(&c, LANES, FEW, 50), LANES);
	assert_true(crowd_due_ms(&c, 50) == INT64_MAX);
}

static void a_trickle_is_nobody(void **state)
{
	(void)state;
	struct crowd c = {0};
	crowd_seen(&c, ROWS - 1, ROWS, 0);
	assert_int_equal(crowd_lanes(&c, LANES, FEW, 0), LANES);
	assert_true(crowd_due_ms(&c, 0) == INT64_MAX);
}

static void a_lane_less_for_each_batch(void **state)
{
	(void)state;
	struct crowd c = {0};
	for (unsigned batches = 1; batches < 20; batches++) {
		crowd_seen(&c, batches * (size_t)ROWS, ROWS, 0);
		assert_int_equal(crowd_lanes(&c, LANES, FEW, 0), batches < LANES ? LANES - batches : 1);
	}
}

/* Several relays with nothing but this rule share about as many lanes as one has. */
static void the_sum_stays(void **state)
{
	(void)state;
	for (unsigned relays = 2; relays <= LANES; relays++) {
		unsigned lanes[LANES] = {LANES, LANES, LANES, LANES};
		unsigned sum = relays * LANES;
		for (unsigned turn = 0; turn < 20; turn++) {
			struct crowd c = {0};
			unsigned *one = &lanes[turn % relays];
			crowd_seen(&c, (sum - *one) * (size_t)ROWS, ROWS, 0);
			sum -= *one;
			*one = crowd_lanes(&c, LANES, FEW, 0);
			sum += *one;
		}
		assert_in_range(sum, LANES, LANES + relays - 1);
	}
}

static void as_many_as_fill_the_requests(void **state)
{
	(void)state;
	struct crowd c = {0};
	crowd_seen(&c, 50 * (size_t)ROWS, ROWS, 0);
	assert_int_equal(crowd_lanes(&c, LANES, 1, 0), 1);
	assert_int_equal(crowd_lanes(&c, LANES, 8, 0), 1);
	assert_int_equal(crowd_lanes(&c, LANES, 9, 0), 2);
	assert_int_equal(crowd_lanes(&c, LANES, 24, 0), 3);
	assert_int_equal(crowd_lanes(&c, LANES, MANY, 0), LANES);
	assert_int_equal(crowd_lanes(&c, 1, FEW, 0), 1);
}

/* Whoever has them may be stuck, and nobody else would look. */
static void forgotten_after_a_while(void **state)
{
	(void)state;
	struct crowd c = {0};
	crowd_seen(&c, 50 * (size_t)ROWS, ROWS, 7);
	assert_int_equal(crowd_due_ms(&c, 7), 7 + CROWD_MS);
	assert_int_equal(crowd_lanes(&c, LANES, FEW, 7 + CROWD_MS - 1), 1);
	assert_int_equal(crowd_lanes(&c, LANES, FEW, 7 + CROWD_MS), LANES);
	assert_true(crowd_due_ms(&c, 7 + CROWD_MS) == INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_else),
	    cmocka_unit_test(a_trickle_is_nobody),
	    cmocka_unit_test(a_lane_less_for_each_batch),
	    cmocka_unit_test(the_sum_stays),
	    cmocka_unit_test(as_many_as_fill_the_requests),
	    cmocka_unit_test(forgotten_after_a_while),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
