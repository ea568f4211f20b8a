#include "base/clock.h"
#include "relay/apart.h"
#include "relay/lane_state.h"
#include "relay/others.h"

enum {
	BATCH_DEADLINE_MS = 30 * 1000, /* a batch begins nothing new after it, so that its transaction ends */
	TAKEN_POSTPONE_MS = 1000,      /* a parked row that somebody else has locked */
};

static void on_claimed(void *arg, const PGresult *result);

static void on_backlog(void *arg, const PGresult *result)
{
	struct lane *l = arg;
	struct engine *e = l->engine;
	struct outbox_pending pending;
	l->counting = false;
	outbox_read_backlog(result, &pending);
	metrics_gauge(&e->metrics, GAUGE_ROWS_PENDING, (double)pending.rows);
	metrics_gauge(&e->metrics, GAUGE_OLDEST_PENDING, pending.oldest_age_seconds);
	metrics_gauge(&e->metrics, GAUGE_OLDEST_PENDING_DELETE, pending.oldest_delete_age_seconds);
	e->counted_ms = clock_wall_ms();
	if (pending.rows == 0) {
		e->from_head = false;
		trust_nothing_pending(&e->trust);
	}
	e->sweep_claims = pending.rows > 0 || !trust_is_well(&e->trust);
	if (e->sweep_claims && !e->target.checking)
		e->work = true;
	canary_committed(&e->canary, clock_ms());
	engine_turn(e);
}

/* The parked rows that are due, as an array literal; empty when none is, or when it is the pending rows' turn. */
static void choose_these(struct lane *l, int64_t now_ms, struct buf *ids)
{
	struct engine *e = l->engine;
	l->n_these = turn_choose(&l->turn, e, now_ms, l->these);
	for (size_t i = 0; i < l->n_these; i++) {
		buf_add_char(ids, i == 0 ? '{' : ',');
		buf_add_number(ids, l->these[i]);
		park_claim(&e->park, l->these[i]);
	}
	if (l->n_these > 0)
		buf_add_char(ids, '}');
}

void lane_ask_backlog(struct lane *l)
{
	struct engine *e = l->engine;
	if (l->counting || !e->wants_backlog)
		return;
	l->counting = true;
	e->wants_backlog = false;
	if (e->is_listening)
		canary_sent(&e->canary);
	outbox_backlog(&e->outbox, l->pg, e->is_listening ? e->canary.channel : NULL, e->canary.payload, on_backlog, l);
}

static void on_writers(void *arg, const PGresult *result)
{
	struct lane *l = arg;
	struct engine *e = l->engine;
	const char *list;
	bool in_order;
	l->asking = false;
	outbox_read_writers(result, &list, &in_order);
	if (horizon_writers(&e->horizon, l->asked, list, in_order, clock_ms()))
		e->work = true;
	engine_turn(e);
}

void lane_ask_writers(struct lane *l, int64_t now_ms)
{
	struct engine *e = l->engine;
	if (l->asking || !horizon_wants_writers(&e->horizon, now_ms))
		return;
	l->asking = true;
	l->asked = horizon_ask(&e->horizon);
	outbox_writers(&e->outbox, l->pg, on_writers, l);
}

void lane_send_claim(struct lane *l, int64_t now_ms)
{
	struct engine *e = l->engine;
	struct buf these = {0};
	struct buf known = {0};
	struct buf seen_ids = {0};
	struct buf seen_versions = {0};
	lane_ask_backlog(l);
	lane_ask_writers(l, now_ms);
	choose_these(l, now_ms, &these);
	horizon_claim(&e->horizon, l->n_these == 0 && e->from_head, &l->from);
	if (l->n_these == 0) {
		e->work = false;
		e->from_head = false;
	}
	order_ids(&e->order, l->from.above, &known);
	theirs_told(&e->theirs, l->from.above, &seen_ids, &seen_versions);
	metrics_count(&e->metrics, COUNTER_CLAIMS, 1);
	l->claim = ++e->claims;
	struct outbox_bounds bounds = {
	    .max_rows = e->options->batch_rows,
	    .max_bytes = e->options->batch_bytes,
	    .above = l->from.above,
	    .upto = l->n_these == 0 ? l->from.goal : HORIZON_NONE,
	    .known = known.p,
	    .these = these.p,
	    .seen_ids = seen_ids.p,
	    .seen_versions = seen_versions.p,
	};
	outbox_claim(&e->outbox, l->pg, &bounds, on_claimed, l);
	buf_free(&these);
	buf_free(&known);
	buf_free(&seen_ids);
	buf_free(&seen_versions);
}

bool lane_is_left_out(const struct lane *l, int64_t now_ms)
{
	const struct engine *e = l->engine;
	unsigned may = crowd_lanes(&e->crowd, e->options->lanes, limit_get(&e->limit), now_ms);
	return e->lanes_busy - (lane_is_done(l) ? 0 : 1) >= may;
}

bool lane_wants_claim(const struct lane *l, int64_t now_ms)
{
	struct engine *e = l->engine;
	return !e->stopping && target_may_claim(&e->target) && turn_is_due(&l->turn, e, now_ms) &&
	       !lane_is_left_out(l, now_ms);
}

/* Of the parked rows that were asked for: those that did not come are finished, and those that others have wait. */
static void settle_these(struct lane *l, const struct outbox_rows *found, int64_t now_ms)
{
	struct engine *e = l->engine;
	size_t at = 0;
	for (size_t i = 0; i < l->n_these; i++) {
		while (at < found->n && found->rows[at].id < l->these[i])
			at++;
		if (at >= found->n || found->rows[at].id != l->these[i]) {
			order_remove(&e->order, l->these[i]);
			park_finish(&e->park, l->these[i], now_ms);
		} else if (found->rows[at].whose == OUTBOX_TAKEN) {
			park_wait(&e->park, l->these[i], now_ms + TAKEN_POSTPONE_MS);
		}
	}
}

static void take_row(struct lane *l, const struct outbox_row *found, int64_t now_ms)
{
	struct engine *e = l->engine;
	struct batch *b = &l->batch;
	struct batch_row *row;
	if (l->n_these == 0 && park_has(&e->park, found->id))
		return; /* another lane has parked it since this claim was sent: it is tried when it is due */
	if (found->is_too_large) {
		row = batch_add_rejected(b, found->id, found->attempts, OUTBOX_TOO_LARGE);
	} else {
		row = batch_add(b, found->id, found->attempts, now_ms - found->age_ms, found->payload);
	}
	row->alone = park_was_refused(&e->park, row->id);
}

static void begin_batch(struct lane *l, const struct outbox_rows *found, int64_t now_ms)
{
	const struct options *o = l->engine->options;
	struct others others;
	struct batch_limits limits = {
	    .max_tuples = l->engine->max_tuples,
	    .max_bytes = BATCH_MAX_BODY,
	    .settle_ms = o->settle_timeout_ms,
	    .deadline_ms = now_ms + BATCH_DEADLINE_MS,
	};
	batch_init(&l->batch, found->mine, &limits);
	others_init(&others);
	for (size_t i = 0; i < found->n; i++) {
		const struct outbox_row *row = &found->rows[i];
		switch (row->whose) {
		case OUTBOX_MINE:
			take_row(l, row, now_ms);
			break;
		case OUTBOX_THEIRS:
		case OUTBOX_SEEN:
			others_note(&others, l->engine, l->claim, row);
			break;
		case OUTBOX_TAKEN:
			break;
		}
	}
	others_hold(&others, l->engine, &l->batch);
	others_fini(&others);
	apart_set(l->engine, &l->batch);
	batch_plan(&l->batch);
}

/* What a claim of pending rows tells of where the next one may start, and of whether there is more. */
static void learn(struct lane *l, const struct outbox_rows *found, int64_t now_ms)
{
	struct engine *e = l->engine;
	bool left_rows = found->locked >= e->options->batch_rows || found->locked > found->mine;
	struct horizon_seen seen = {.rows = found->mine, .lowest_other = INT64_MAX, .is_short = !left_rows};
	size_t others = 0;
	for (size_t i = 0, mine = 0; i < found->n; i++) {
		const struct outbox_row *row = &found->rows[i];
		if (row->whose == OUTBOX_MINE) {
			seen.lowest = mine++ == 0 ? row->id : seen.lowest;
			seen.highest = row->id;
		} else if (!order_has(&e->order, row->id)) {
			seen.lowest_other = others++ == 0 ? row->id : seen.lowest_other;
		}
	}
	crowd_seen(&e->crowd, others, e->options->batch_rows, now_ms);
	horizon_claimed(&e->horizon, &l->from, &seen, now_ms);
	wake_claimed(&e->wake, found->mine, left_rows, now_ms);
	e->backlog = left_rows;
	e->work |= left_rows;
}

static void on_claimed(void *arg, const PGresult *result)
{
	struct lane *l = arg;
	struct engine *e = l->engine;
	int64_t now_ms = clock_ms();
	struct outbox_rows found;
	lane_prove(l, PROOF_CLAIM);
	outbox_read(result, &found);
	if (l->n_these > 0)
		settle_these(l, &found, now_ms);
	else
		learn(l, &found, now_ms);
	begin_batch(l, &found, now_ms);
	l->left_locked = found.locked > found.mine;
	if (l->n_these == 0 && found.mine > 0)
		theirs_returned(&e->theirs, l->claim, e->claims);
	outbox_forget(&found);
	l->claim = 0;
	l->claims_next = false;
	if (e->stopping || !target_may_claim(&e->target))
		batch_stop(&l->batch);
	lane_set_state(l, LANE_WRITING);
}
