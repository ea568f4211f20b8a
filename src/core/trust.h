/* Whether Postgres, which lets relay in, lets it work as well. A server may take a connection and refuse every claim
 * (it is read-only, a privilege is gone), or let claim and refuse every mark (its disk is full). Then a new connection
 * proves nothing: what failed has to go well again before all is taken for mended, and tries are made at once again. */
#ifndef RELAY_CORE_TRUST_H
#define RELAY_CORE_TRUST_H

#include <stdbool.h>

/* What may go well or fail; each one proves those before it. */
enum proof {
	PROOF_SESSION, /* connected, and the session is set up */
	PROOF_CLAIM,   /* a claim was answered */
	PROOF_MARK,    /* rows were marked, and that was committed */
};

/* {0}: a session is proof enough. */
struct trust {
	enum proof wanted;
};

/* It failed: nothing less is a proof from now on. */
void trust_failed(struct trust *t, enum proof what);

/* It went well. Returns whether all is well. */
bool trust_proved(struct trust *t, enum proof what);

/* No row is pending, so there is none to be marked: a claim is proof enough. */
void trust_nothing_pending(struct trust *t);

bool trust_is_well(const struct trust *t);

#endif
