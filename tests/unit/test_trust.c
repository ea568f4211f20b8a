#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/trust.h"

static void at_first_a_session_is_proof_enough(void **state)
{
	(void)state;
	struct trust t = {0};
	assert_true(trust_is_well(&t));
	assert_true(trust_proved(&t, PROOF_SESSION));
	trust_failed(&t, PROOF_SESSION);
	assert_true(trust_is_well(&t));
}

static void what_failed_has_to_go_well(void **state)
{
	(void)state;
	struct trust t = {0};
	trust_failed(&t, PROOF_CLAIM);
	assert_false(trust_is_well(&t));
	assert_false(trust_proved(&t, PROOF_SESSION));
	assert_true(trust_proved(&t, PROOF_CLAIM));
	trust_failed(&t, PROOF_MARK);
	assert_false(trust_proved(&t, PROOF_SESSION));
	assert_false(trust_proved(&t, PROOF_CLAIM));
	assert_true(trust_proved(&t, PROOF_MARK));
	assert_true(trust_is_well(&t));
}

static void a_lesser_failure_does_not_hide_the_greater_one(void **state)
{
	(void)state;
	struct trust t = {0};
	trust_failed(&t, PROOF_MARK);
	trust_failed(&t, PROOF_CLAIM);
	trust_failed(&t, PROOF_SESSION);
	assert_false(trust_proved(&t, PROOF_CLAIM));
	assert_true(trust_proved(&t, PROOF_MARK));
	trust_failed(&t, PROOF_CLAIM);
	assert_true(trust_proved(&t, PROOF_MARK));
}

static void with_nothing_pending_a_claim_is_proof_enough(void **state)
{
	(void)state;
	struct trust t = {0};
	trust_failed(&t, PROOF_MARK);
	trust_nothing_pending(&t);
	assert_false(trust_is_well(&t));
	assert_true(trust_proved(&t, PROOF_CLAIM));
	trust_failed(&t, PROOF_CLAIM);
	trust_nothing_pending(&t); /* counting takes less than claiming */
	assert_false(trust_is_well(&t));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(at_first_a_session_is_proof_enough),
	    cmocka_unit_test(what_failed_has_to_go_well),
	    cmocka_unit_test(a_lesser_failure_does_not_hide_the_greater_one),
	    cmocka_unit_test(with_nothing_pending_a_claim_is_proof_enough),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
