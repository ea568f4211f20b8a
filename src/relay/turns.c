#include "relay/turns.h"

enum {
	REFUSED_EVERY_MS = 1000, /* with a backlog, a claim of refused rows */
	SHARE_BUSY = 4,          /* one in that many of the requests in flight is theirs, */
	SHARE_FREE = 2,          /* and without a backlog */
};

/* Whether the lane may try refused rows. */
static bool may_try_refused(const struct turn *t, const struct engine *e, int64_t now_ms)
{
	if (e->outcasts != NULL && e->outcasts != t)
		return false;
	return !e->backlog || now_ms >= e->outcasts_ms + REFUSED_EVERY_MS;
}

bool turn_is_due(const struct turn *t, struct engine *e, int64_t now_ms)
{
	return e->work || park_due_ms(&e->park, PARK_HELD, now_ms) <= now_ms ||
	       (may_try_refused(t, e, now_ms) && park_due_ms(&e->park, PARK_REFUSED, now_ms) <= now_ms);
}

static size_t choose_kind(struct turn *t, struct engine *e, enum park_kind kind, int64_t now_ms, int64_t *ids)
{
	if (kind == PARK_REFUSED && !may_try_refused(t, e, now_ms))
		return 0;
	size_t n = park_due(&e->park, kind, now_ms, ids, e->options->batch_rows);
	if (n == 0)
		return 0;
	t->was_kind = kind;
	if (kind == PARK_REFUSED) {
		e->outcasts = t;
		e->outcasts_ms = now_ms;
	}
	return n;
}

size_t turn_choose(struct turn *t, struct engine *e, int64_t now_ms, int64_t *ids)
{
	enum park_kind first = t->was_kind == PARK_HELD ? PARK_REFUSED : PARK_HELD;
	size_t n = 0;
	turn_end(t, e);
	if (!t->was_parked || !e->work) {
		n = choose_kind(t, e, first, now_ms, ids);
		if (n == 0)
			n = choose_kind(t, e, t->was_kind, now_ms, ids);
	}
	t->was_parked = n > 0;
	return n;
}

size_t turn_share(const struct turn *t, const struct engine *e)
{
	size_t most = limit_get(&e->limit);
	size_t parts = e->backlog ? SHARE_BUSY : SHARE_FREE;
	return e->outcasts == t ? (most + parts - 1) / parts : most;
}

void turn_end(struct turn *t, struct engine *e)
{
	if (e->outcasts == t)
		e->outcasts = NULL;
}
