#include "core/wake.h"

#include "base/die.h"
#include "base/log.h"

static const char *state_name(enum wake_state state)
{
	static const char *const names[] = {
#define X(name, text) text,
	    WAKE_STATES(X)
#undef X
	};
	return names[state];
}

static bool is_edge(enum wake_state from, enum wake_state to)
{
	if (to == WAKE_LOUD)
		return from != WAKE_LOUD; /* also since the connection can be lost at any time */
	switch (from) {
	case WAKE_LOUD:
		return to == WAKE_TAKING || to == WAKE_RELEASING;
	case WAKE_TAKING:
		return to == WAKE_HUSHED || to == WAKE_SETTLING;
	case WAKE_HUSHED:
		return to == WAKE_RELEASING;
	case WAKE_RELEASING:
		return to == WAKE_SETTLING;
	case WAKE_SETTLING:
		return to == WAKE_TAKING;
	}
	return false;
}

static void set_state(struct wake *w, enum wake_state to)
{
	ASSERT(is_edge(w->state, to));
	log_debug("wake", LOG_S("from", state_name(w->state)), LOG_S("to", state_name(to)));
	w->state = to;
}

static int64_t doubled(int64_t ms, int64_t least, int64_t most)
{
	if (2 * ms < least)
		return least;
	return 2 * ms < most ? 2 * ms : most;
}

void wake_fini(struct wake *w)
{
	writers_free(&w->writers);
}

static void release(struct wake *w)
{
	set_state(w, WAKE_RELEASING);
	w->streak = 0;
	writers_free(&w->writers);
}

void wake_listening(struct wake *w)
{
	release(w);
}

bool wake_lost(struct wake *w)
{
	bool held = w->state == WAKE_TAKING || w->state == WAKE_HUSHED || w->state == WAKE_RELEASING;
	w->can_hush = false;
	w->streak = 0;
	writers_free(&w->writers);
	if (w->state != WAKE_LOUD)
		set_state(w, WAKE_LOUD);
	return held;
}

void wake_claimed(struct wake *w, size_t found, bool was_full, int64_t now_ms)
{
	w->streak += found > 0;
	w->needs_help = was_full;
	if (found > 0)
		w->empty_ms = INT64_MAX;
	else if (w->empty_ms == INT64_MAX)
		w->empty_ms = now_ms;
	w->poll_ms = was_full ? now_ms : now_ms + WAKE_POLL_MS;
}

void wake_idle(struct wake *w)
{
	w->streak = 0;
}

static bool is_calm(const struct wake *w, int64_t now_ms)
{
	return w->empty_ms != INT64_MAX && now_ms - w->empty_ms >= WAKE_LINGER_MS;
}

static enum wake_ask hushed_next(struct wake *w, bool may_claim, int64_t now_ms)
{
	if (!may_claim || is_calm(w, now_ms)) {
		release(w);
		return WAKE_RELEASE;
	}
	if (now_ms < w->share_ms)
		return WAKE_NOTHING;
	bool needs_help = w->needs_help;
	w->share_ms = now_ms + WAKE_SHARE_MS;
	w->needs_help = true; /* unless a claim comes back that left nothing behind */
	return needs_help ? WAKE_SHARE : WAKE_NOTHING;
}

static bool wants_hush(const struct wake *w, bool may_claim, int64_t now_ms)
{
	return may_claim && w->can_hush && w->streak >= WAKE_BUSY_CLAIMS && now_ms >= w->try_ms;
}

enum wake_ask wake_next(struct wake *w, bool may_claim, int64_t now_ms)
{
	switch (w->state) {
	case WAKE_HUSHED:
		return hushed_next(w, may_claim, now_ms);
	case WAKE_SETTLING:
		if (now_ms >= w->look_ms) {
			w->look_ms = INT64_MAX;
			return WAKE_LOOK;
		}
		if (w->look_ms == INT64_MAX)
			break; /* its answer comes before K's would */
		               /* fall through */
	case WAKE_LOUD:
		if (wants_hush(w, may_claim, now_ms)) {
			set_state(w, WAKE_TAKING);
			return WAKE_TRY;
		}
		break;
	case WAKE_TAKING:
	case WAKE_RELEASING:
		break;
	}
	return WAKE_NOTHING;
}

bool wake_tried(struct wake *w, bool got_it, int64_t now_ms)
{
	ASSERT(w->state == WAKE_TAKING);
	if (!got_it) {
		/* Who was waited for before K was tried still is. */
		set_state(w, w->writers.n > 0 ? WAKE_SETTLING : WAKE_LOUD);
		w->retry_ms = doubled(w->retry_ms, WAKE_MIN_RETRY_MS, WAKE_MAX_RETRY_MS);
		w->try_ms = now_ms + w->retry_ms;
		return false;
	}
	set_state(w, WAKE_HUSHED);
	w->retry_ms = 0;
	w->share_ms = now_ms + WAKE_SHARE_MS;
	w->needs_help = true;
	w->empty_ms = INT64_MAX;
	return true;
}

bool wake_writers(struct wake *w, const char *list, int64_t now_ms)
{
	size_t before = w->writers.n;
	if (w->state == WAKE_RELEASING) {
		set_state(w, WAKE_SETTLING);
		writers_note(&w->writers, list);
		before = SIZE_MAX;
		w->wait_ms = 0;
	} else {
		ASSERT(w->state == WAKE_SETTLING);
		writers_keep(&w->writers, list);
	}
	w->wait_ms = doubled(w->wait_ms, WAKE_MIN_WAIT_MS, WAKE_MAX_WAIT_MS);
	w->look_ms = now_ms + w->wait_ms;
	if (w->writers.n == 0)
		set_state(w, WAKE_LOUD);
	return w->writers.n < before;
}

bool wake_polls(struct wake *w, int64_t now_ms)
{
	if (w->state != WAKE_HUSHED || now_ms < w->poll_ms)
		return false;
	w->poll_ms = INT64_MAX; /* until a claim comes back */
	return true;
}

int64_t wake_due_ms(const struct wake *w)
{
	int64_t due = INT64_MAX;
	switch (w->state) {
	case WAKE_HUSHED:
		due = w->share_ms < w->poll_ms ? w->share_ms : w->poll_ms;
		if (w->empty_ms != INT64_MAX && w->empty_ms + WAKE_LINGER_MS < due)
			due = w->empty_ms + WAKE_LINGER_MS;
		break;
	case WAKE_SETTLING:
		due = w->look_ms;
		break;
	case WAKE_LOUD:
	case WAKE_TAKING:
	case WAKE_RELEASING:
		break;
	}
	return due;
}
