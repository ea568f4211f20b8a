/* The destination: whether OpenFGA, the store and the model are in order, and so whether rows may be claimed for it.
 *
 *   UNCHECKED  ask before anything is claimed
 *   READY      claim
 *   BACKOFF    it failed by its own fault: wait, then ask
 *   HALTED     somebody has to mend a setting: ask from time to time
 */
#ifndef RELAY_CORE_TARGET_H
#define RELAY_CORE_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "core/verdict.h"

#define TARGET_STATES(X) \
	X(UNCHECKED, "unchecked") \
	X(READY, "ready") \
	X(BACKOFF, "backoff") \
	X(HALTED, "halted")

enum target_state {
#define X(name, text) TARGET_##name,
	TARGET_STATES(X)
#undef X
};

const char *target_state_name(enum target_state state);

/* Waits of the destination as a whole are short: rows are not at fault, and it usually comes back soon. */
enum { TARGET_BACKOFF_MIN_MS = 100, TARGET_BACKOFF_MAX_MS = 5000 };

/* {0} is UNCHECKED. */
struct target {
	enum target_state state;
	bool checking;     /* a question is under way */
	unsigned failures; /* in a row; only a write that is answered well ends it, so that good checks do not */
	int64_t due_ms;    /* BACKOFF, HALTED: when to ask again */
	char reason[512];  /* why it is not READY; "" while UNCHECKED for the first time */
};

/* Whether rows may be claimed. */
bool target_may_claim(const struct target *t);

/* Whether to ask for store and model now; then target_asked. */
bool target_wants_check(const struct target *t, int64_t now_ms);
void target_asked(struct target *t);

/* The answer to the question, the worst one where it took several. */
void target_checked(struct target *t, const struct judgement *j, int64_t now_ms, struct rng *rng);

/* What a write's answer says of the destination. `carried_out`: the verdict of batch_answer. */
void target_wrote(struct target *t, enum verdict carried_out, const struct judgement *j, int64_t now_ms,
                  struct rng *rng);

/* What a probe's answer says of it. A probe is no row's: what may be one request's trouble in a write's answer is the
 * destination's here. */
void target_probed(struct target *t, const struct judgement *j, int64_t now_ms, struct rng *rng);

/* When target_wants_check will say yes by itself; INT64_MAX: not by time. */
int64_t target_due_ms(const struct target *t);

#endif
