#include "core/horizon.h"

#include "base/log.h"

static int64_t lower(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void horizon_init(struct horizon *h)
{
	*h = (struct horizon){.at = HORIZON_NONE, .reached = HORIZON_NONE, .goal = HORIZON_NONE};
}

void horizon_fini(struct horizon *h)
{
	writers_free(&h->writers);
}

static void end_step(struct horizon *h)
{
	h->goal = HORIZON_NONE;
	h->is_asking = false;
	h->is_noted = false;
	h->is_clear = false;
	writers_free(&h->writers);
}

void horizon_reset(struct horizon *h)
{
	if (h->at != HORIZON_NONE)
		log_debug("horizon taken back", LOG_N("at", h->at));
	end_step(h);
	h->at = HORIZON_NONE;
	h->reached = HORIZON_NONE;
	h->rows = 0;
	h->is_off = false;
	h->resets++;
}

void horizon_claim(const struct horizon *h, bool from_head, struct horizon_claim *c)
{
	*c = (struct horizon_claim){
	    .above = from_head ? HORIZON_NONE : h->at,
	    .goal = h->is_clear ? h->goal : HORIZON_NONE,
	    .resets = h->resets,
	};
}

/* A row at or below the horizon that was not known: ids do not rise, or somebody made a row pending again. */
static bool belies(const struct horizon *h, const struct horizon_claim *c, const struct horizon_seen *seen)
{
	return c->above == HORIZON_NONE && h->at != HORIZON_NONE &&
	       ((seen->rows > 0 && seen->lowest <= h->at) || seen->lowest_other <= h->at);
}

static bool confirms(const struct horizon *h, const struct horizon_claim *c, const struct horizon_seen *seen)
{
	return c->goal != HORIZON_NONE && c->goal == h->goal &&
	       (seen->is_short || (seen->rows > 0 && seen->highest >= c->goal));
}

void horizon_claimed(struct horizon *h, const struct horizon_claim *c, const struct horizon_seen *seen, int64_t now_ms)
{
	if (c->resets != h->resets)
		return;
	if (belies(h, c, seen))
		horizon_reset(h);
	if (seen->rows > 0 && seen->highest > h->reached)
		h->reached = seen->highest;
	h->rows += seen->rows;
	if (confirms(h, c, seen)) {
		int64_t seen_to = seen->lowest_other == INT64_MAX ? h->goal : lower(h->goal, seen->lowest_other - 1);
		if (seen_to > h->at)
			h->at = seen_to;
		if (seen_to < h->goal)
			h->rows += h->below; /* others hold some of them: once more */
		log_debug("horizon", LOG_N("at", h->at), LOG_N("goal", h->goal));
		end_step(h);
		h->due_ms = now_ms + HORIZON_STEP_MS;
	}
}

static bool wants_step(const struct horizon *h)
{
	return !h->is_off && !h->is_asking && !h->is_clear &&
	       (h->is_noted || (h->reached > h->at && h->rows >= HORIZON_STEP_ROWS));
}

bool horizon_wants_writers(const struct horizon *h, int64_t now_ms)
{
	return wants_step(h) && now_ms >= h->due_ms;
}

uint64_t horizon_ask(struct horizon *h)
{
	h->is_asking = true;
	if (!h->is_noted) {
		h->goal = h->reached;
		h->below = h->rows;
		h->rows = 0;
	}
	return h->resets;
}

bool horizon_writers(struct horizon *h, uint64_t asked, const char *list, bool in_order, int64_t now_ms)
{
	if (asked != h->resets)
		return false;
	h->is_asking = false;
	if (!in_order) {
		horizon_reset(h);
		h->is_off = true;
		return false;
	}
	if (!h->is_noted) {
		writers_note(&h->writers, list);
		h->is_noted = true;
		h->wait_ms = HORIZON_MIN_WAIT_MS;
	} else {
		writers_keep(&h->writers, list);
		h->wait_ms = lower(2 * h->wait_ms, HORIZON_MAX_WAIT_MS);
	}
	h->is_clear = h->writers.n == 0;
	h->due_ms = now_ms + h->wait_ms;
	return h->is_clear;
}

int64_t horizon_due_ms(const struct horizon *h)
{
	return wants_step(h) ? h->due_ms : INT64_MAX;
}
