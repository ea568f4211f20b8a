#include "core/target.h"

#include <stdio.h>

#include "base/die.h"
#include "base/log.h"
#include "core/backoff.h"

const char *target_state_name(enum target_state state)
{
	static const char *const names[] = {
#define X(name, text) text,
	    TARGET_STATES(X)
#undef X
	};
	return names[state];
}

static bool is_edge(enum target_state from, enum target_state to)
{
	switch (from) {
	case TARGET_UNCHECKED:
		return to == TARGET_READY || to == TARGET_BACKOFF || to == TARGET_HALTED;
	case TARGET_READY:
		return to == TARGET_BACKOFF || to == TARGET_HALTED;
	case TARGET_BACKOFF:
		return to == TARGET_READY || to == TARGET_HALTED;
	case TARGET_HALTED:
		return to == TARGET_READY || to == TARGET_BACKOFF;
	}
	return false;
}

static void set_state(struct target *t, enum target_state to, const char *reason)
{
	if (t->state != to) {
		ASSERT(is_edge(t->state, to));
		enum log_level level = to == TARGET_READY    ? LOG_LEVEL_INFO
		                       : to == TARGET_HALTED ? LOG_LEVEL_ERROR
		                                             : LOG_LEVEL_WARNING;
		log_event(level, "openfga",
		          LOG_FIELDS(LOG_S("from", target_state_name(t->state)), LOG_S("to", target_state_name(to)),
		                     LOG_S("reason", reason)));
	}
	t->state = to;
	snprintf(t->reason, sizeof t->reason, "%s", reason);
}

bool target_may_claim(const struct target *t)
{
	return t->state == TARGET_READY;
}

bool target_wants_check(const struct target *t, int64_t now_ms)
{
	return !t->checking && t->state != TARGET_READY && t->due_ms <= now_ms;
}

void target_asked(struct target *t)
{
	t->checking = true;
}

/* It did not answer well: ask again after a while, and not before it said, now or the time before. */
static void fail(struct target *t, const struct judgement *j, enum target_state to, int64_t now_ms, struct rng *rng)
{
	set_state(t, to, j->reason);
	t->failures++;
	int64_t wait = backoff_ms(t->failures, TARGET_BACKOFF_MIN_MS, TARGET_BACKOFF_MAX_MS, rng);
	int64_t due_ms = now_ms + (wait > j->retry_after_ms ? wait : j->retry_after_ms);
	if (due_ms > t->due_ms)
		t->due_ms = due_ms;
}

static void judge(struct target *t, enum verdict v, const struct judgement *j, int64_t now_ms, struct rng *rng)
{
	switch (v) {
	case VERDICT_DELIVERED:
	case VERDICT_SPLIT:
	case VERDICT_REJECTED:
		t->failures = 0;
		break;
	case VERDICT_RETRY:
		fail(t, j, TARGET_BACKOFF, now_ms, rng);
		break;
	case VERDICT_HALT:
		fail(t, j, TARGET_HALTED, now_ms, rng);
		break;
	}
}

void target_checked(struct target *t, const struct judgement *j, int64_t now_ms, struct rng *rng)
{
	t->checking = false;
	/* A write failed while the question was under way: its wait is to be kept, and the answer is older news. */
	bool overtaken = t->state != TARGET_READY && now_ms < t->due_ms;
	if (j->verdict == VERDICT_DELIVERED && overtaken)
		return;
	if (j->verdict == VERDICT_DELIVERED)
		set_state(t, TARGET_READY, "");
	else
		judge(t, j->verdict, j, now_ms, rng);
}

void target_wrote(struct target *t, enum verdict carried_out, const struct judgement *j, int64_t now_ms,
                  struct rng *rng)
{
	/* Answers that come in while it already waits say nothing new. */
	if (t->state != TARGET_READY)
		return;
	bool one_request_only = carried_out == VERDICT_RETRY && (j->hint == HINT_RACE || j->hint == HINT_PROBE);
	if (!one_request_only)
		judge(t, carried_out, j, now_ms, rng);
}

void target_probed(struct target *t, const struct judgement *j, int64_t now_ms, struct rng *rng)
{
	if (t->state == TARGET_READY)
		judge(t, j->verdict, j, now_ms, rng);
}

int64_t target_due_ms(const struct target *t)
{
	return t->checking || t->state == TARGET_READY ? INT64_MAX : t->due_ms;
}
