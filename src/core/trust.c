#include "core/trust.h"

void trust_failed(struct trust *t, enum proof what)
{
	if (what > t->wanted)
		t->wanted = what;
}

bool trust_proved(struct trust *t, enum proof what)
{
	if (what >= t->wanted)
		t->wanted = PROOF_SESSION;
	return trust_is_well(t);
}

void trust_nothing_pending(struct trust *t)
{
	if (t->wanted == PROOF_MARK)
		t->wanted = PROOF_CLAIM;
}

bool trust_is_well(const struct trust *t)
{
	return t->wanted == PROOF_SESSION;
}
