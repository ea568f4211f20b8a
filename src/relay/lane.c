#include "relay/lane.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "relay/ack.h"
#include "relay/lane_state.h"
#include "relay/refusals.h"

static const char *state_name(enum lane_state state)
{
	static const char *const names[] = {
#define X(name, text) text,
	    LANE_STATES(X)
#undef X
	};
	return names[state];
}

static bool is_edge(enum lane_state from, enum lane_state to)
{
	switch (from) {
	case LANE_OFFLINE:
		return to == LANE_IDLE;
	case LANE_IDLE:
		return to == LANE_CLAIMING || to == LANE_OFFLINE;
	case LANE_CLAIMING:
		return to == LANE_WRITING || to == LANE_ACKING || to == LANE_OFFLINE;
	case LANE_WRITING:
		return to == LANE_ACKING || to == LANE_ORPHANED;
	case LANE_ORPHANED:
		return to == LANE_IDLE || to == LANE_OFFLINE;
	case LANE_ACKING:
		return to == LANE_IDLE || to == LANE_CLAIMING || to == LANE_OFFLINE;
	}
	return false;
}

void lane_set_state(struct lane *l, enum lane_state to)
{
	ASSERT(is_edge(l->state, to));
	if (to == LANE_IDLE || to == LANE_OFFLINE)
		turn_end(&l->turn, l->engine);
	log_debug("lane", LOG_S("lane", l->label), LOG_S("from", state_name(l->state)), LOG_S("to", state_name(to)));
	l->engine->lanes_busy -= lane_is_done(l) ? 0 : 1;
	l->state = to;
	l->engine->lanes_busy += lane_is_done(l) ? 0 : 1;
	engine_turn(l->engine);
}

void lane_prove(struct lane *l, enum proof what)
{
	if (trust_proved(&l->engine->trust, what))
		pg_well(l->pg);
}

bool lane_is_connected(const struct lane *l)
{
	return pg_state(l->pg) == PG_READY;
}

bool lane_is_done(const struct lane *l)
{
	return l->state == LANE_IDLE || l->state == LANE_OFFLINE;
}

uint64_t lane_claim(const struct lane *l)
{
	return l->claim != 0 ? l->claim : UINT64_MAX;
}

/* Acking */

static void on_committed(void *arg, const PGresult *result)
{
	struct lane *l = arg;
	struct engine *e = l->engine;
	if (!ack_is_commit(result)) {
		struct err error;
		(void)err_set(&error, ERR_TRANSIENT,
		              "the transaction was rolled back: its rows will be delivered again");
		pg_fail(l->pg, &error);
		return;
	}
	if (l->marks)
		lane_prove(l, PROOF_MARK);
	ack_finish(e, &l->batch, clock_ms());
	lane_set_state(l, l->claims_next ? LANE_CLAIMING : LANE_IDLE);
}

/* Marks the batch and, where there is more to do, claims in the same round trip. */
static void ack(struct lane *l, int64_t now_ms)
{
	struct engine *e = l->engine;
	refusals_log(&l->batch, &l->refused_again);
	refusals_suspect(&l->batch, &e->suspect, e->options->fga_model_id);
	for (size_t i = 0; i < l->batch.n && l->callbacks.refused != NULL; i++)
		if (l->batch.rows[i].state == ROW_REJECTED)
			l->callbacks.refused(l->arg, l->batch.rows[i].id, l->batch.rows[i].error);
	ack_park(e, &l->batch, now_ms);
	l->marks = ack_send(e, l->pg, &l->batch, on_committed, l);
	e->work |= l->left_locked;
	l->claims_next = lane_wants_claim(l, now_ms);
	if (l->claims_next)
		lane_send_claim(l, now_ms);
	pg_sync(l->pg);
	lane_set_state(l, LANE_ACKING);
}

static void claim(struct lane *l, int64_t now_ms)
{
	lane_send_claim(l, now_ms);
	pg_sync(l->pg);
	lane_set_state(l, LANE_CLAIMING);
}

/* The connection */

static void go_home(struct lane *l)
{
	lane_set_state(l, lane_is_connected(l) ? LANE_IDLE : LANE_OFFLINE);
}

static void on_ready(void *arg)
{
	struct lane *l = arg;
	/* What was committed while nobody could claim is found now, and the server may be another one. */
	horizon_reset(&l->engine->horizon);
	theirs_reset(&l->engine->theirs, l->engine->claims);
	l->engine->work = true;
	lane_prove(l, PROOF_SESSION);
	if (l->state == LANE_OFFLINE)
		lane_set_state(l, LANE_IDLE);
}

static void on_lost(void *arg, const struct err *error)
{
	struct lane *l = arg;
	struct engine *e = l->engine;
	metrics_count(&e->metrics, COUNTER_RECONNECTIONS, 1);
	for (size_t i = 0; i < l->n_these && (l->state == LANE_CLAIMING || l->claims_next); i++)
		park_postpone(&e->park, l->these[i], clock_ms());
	e->work = true;
	switch (l->state) {
	case LANE_WRITING:
		batch_give_up(&l->batch);
		lane_set_state(l, LANE_ORPHANED);
		break;
	case LANE_ACKING: /* marked or not: who claims them again will see */
		if (l->marks)
			trust_failed(&e->trust, PROOF_MARK);
		ack_abandon(e, &l->batch, true, clock_ms());
		lane_set_state(l, LANE_OFFLINE);
		break;
	case LANE_CLAIMING:
		trust_failed(&e->trust, PROOF_CLAIM);
		lane_set_state(l, LANE_OFFLINE);
		break;
	case LANE_IDLE:
		lane_set_state(l, LANE_OFFLINE);
		break;
	case LANE_OFFLINE:
	case LANE_ORPHANED:
		break;
	}
	if (l->asking)
		horizon_reset(&e->horizon);
	l->asking = false;
	l->counting = false;
	l->claims_next = false;
	l->claim = 0;
	l->callbacks.lost(l->arg, error);
}

void lane_go(struct lane *l, int64_t now_ms)
{
	switch (l->state) {
	case LANE_IDLE:
		lane_ask_backlog(l);
		lane_ask_writers(l, now_ms);
		if (lane_wants_claim(l, now_ms))
			claim(l, now_ms);
		break;
	case LANE_WRITING:
		lane_write_on(l, now_ms);
		if (!l->probing && batch_over(&l->batch, now_ms))
			ack(l, now_ms);
		break;
	case LANE_ORPHANED:
		lane_write_on(l, now_ms);
		if (!l->probing && batch_over(&l->batch, now_ms)) {
			ack_abandon(l->engine, &l->batch, false, now_ms);
			l->engine->work = true;
			go_home(l);
		}
		break;
	case LANE_OFFLINE:
	case LANE_CLAIMING:
	case LANE_ACKING:
		break;
	}
}

int64_t lane_due_ms(const struct lane *l, int64_t now_ms)
{
	if (l->state == LANE_WRITING || l->state == LANE_ORPHANED)
		return batch_due_ms(&l->batch, now_ms);
	return l->state == LANE_IDLE ? crowd_due_ms(&l->engine->crowd, now_ms) : INT64_MAX;
}

struct lane *lane_new(struct engine *e, unsigned number, const struct lane_callbacks *callbacks, void *arg)
{
	static const struct pg_callbacks of_pg = {.ready = on_ready, .lost = on_lost};
	struct lane *l = xcalloc(1, sizeof *l);
	l->engine = e;
	l->callbacks = *callbacks;
	l->arg = arg;
	l->these = xcalloc(e->options->batch_rows, sizeof *l->these);
	snprintf(l->label, sizeof l->label, "lane %u", number);
	struct pg_config config = {
	    .database_url = e->options->database_url,
	    .label = l->label,
	    .connect_timeout_ms = e->options->connect_timeout_ms,
	    .statements = e->outbox.statements,
	    .n_statements = OUTBOX_OF_LANES,
	    .is_pooled = &e->is_pooled,
	};
	l->pg = pg_new(e->base, &config, &of_pg, l);
	pg_open(l->pg);
	return l;
}

void lane_free(struct lane *l)
{
	if (l == NULL)
		return;
	pg_free(l->pg);
	batch_fini(&l->batch);
	free(l->these);
	free(l);
}
