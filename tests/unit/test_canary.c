#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/canary.h"

static void one_that_comes_back(void **state)
{
	(void)state;
	struct canary c;
	canary_init(&c, 1);
	assert_true(canary_due_ms(&c) == INT64_MAX);
	canary_sent(&c);
	assert_true(canary_due_ms(&c) == INT64_MAX);
	canary_committed(&c, 100);
	assert_true(canary_due_ms(&c) == 100 + CANARY_TIMEOUT_MS);
	assert_false(canary_seen(&c, "nonsense"));
	char payload[sizeof c.payload];
	snprintf(payload, sizeof payload, "%s", c.payload);
	assert_true(canary_seen(&c, payload));
	assert_false(canary_seen(&c, payload)); /* the next one has another */
	assert_false(canary_is_lost(&c, INT64_MAX));
	assert_false(c.was_lost);
}

static void one_that_is_lost(void **state)
{
	(void)state;
	struct canary c;
	canary_init(&c, 1);
	canary_sent(&c);
	canary_committed(&c, 0);
	canary_sent(&c);
	canary_committed(&c, 4000); /* a sweep more often than the time-out gives no more time */
	assert_false(canary_is_lost(&c, CANARY_TIMEOUT_MS - 1));
	assert_true(canary_is_lost(&c, CANARY_TIMEOUT_MS));
	assert_true(c.was_lost);
	assert_false(canary_is_lost(&c, CANARY_TIMEOUT_MS)); /* says so once */
	canary_sent(&c);
	assert_true(c.was_lost); /* until one comes back */
	assert_true(canary_seen(&c, c.payload));
	assert_false(c.was_lost);
}

static void a_new_connection_is_not_blamed_for_the_old_one(void **state)
{
	(void)state;
	struct canary c;
	canary_init(&c, 1);
	canary_sent(&c);
	canary_committed(&c, 0);
	char old[sizeof c.payload];
	snprintf(old, sizeof old, "%s", c.payload);
	canary_forget(&c);
	assert_false(canary_is_lost(&c, INT64_MAX));
	canary_sent(&c);
	assert_false(canary_seen(&c, old));
}

/* The listening connection may be read before the one that sent it. */
static void one_that_is_seen_before_it_is_known_to_be_committed(void **state)
{
	(void)state;
	struct canary c;
	canary_init(&c, 1);
	canary_sent(&c);
	assert_true(canary_seen(&c, c.payload));
	canary_committed(&c, 100);
	assert_true(canary_due_ms(&c) == INT64_MAX);
	assert_false(canary_is_lost(&c, INT64_MAX));
}

static void two_relays_have_two_channels(void **state)
{
	(void)state;
	struct canary a;
	struct canary b;
	canary_init(&a, 1);
	canary_init(&b, UINT64_MAX);
	assert_string_equal(a.channel, "relay_canary_0000000000000001");
	assert_string_equal(b.channel, "relay_canary_ffffffffffffffff");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_that_comes_back),
	    cmocka_unit_test(one_that_is_seen_before_it_is_known_to_be_committed),
	    cmocka_unit_test(one_that_is_lost),
	    cmocka_unit_test(a_new_connection_is_not_blamed_for_the_old_one),
	    cmocka_unit_test(two_relays_have_two_channels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
