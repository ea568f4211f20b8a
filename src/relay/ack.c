#include "relay/ack.h"

#include "core/backoff.h"

enum {
	MAX_REASON_BYTES = 1024,
	HOLD_MIN_MS = 20,
	HOLD_MAX_MS = 1000,
	DUE_STEP_MS = 250, /* parked rows fall due at multiples of it, so that one claim takes many */
};

static int64_t due_again(struct engine *e, unsigned attempts, int64_t now_ms)
{
	int64_t due = now_ms + backoff_ms(attempts, e->options->min_backoff_ms, e->options->max_backoff_ms, &e->rng);
	return (due + DUE_STEP_MS - 1) / DUE_STEP_MS * DUE_STEP_MS;
}

/* Behind a row of this relay: until that is finished. Behind another one's: nobody tells, so a short, growing wait. */
static void hold(struct engine *e, const struct batch_row *row, int64_t now_ms)
{
	unsigned holds = park_hold(&e->park, row->id, row->behind);
	if (holds == 1)
		log_info("row held", LOG_N("id", row->id), LOG_N("behind", row->behind));
	if (!order_has(&e->order, row->behind))
		park_wait(&e->park, row->id, now_ms + backoff_ms(holds, HOLD_MIN_MS, HOLD_MAX_MS, &e->rng));
}

void ack_park(struct engine *e, const struct batch *b, int64_t now_ms)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct batch_row *row = &b->rows[i];
		switch (row->state) {
		case ROW_REJECTED:
			order_add(&e->order, row->id, row->marks, row->payload.n);
			park_refuse(&e->park, row->id, due_again(e, row->attempts + 1, now_ms));
			park_explain(&e->park, row->id, row->error);
			metrics_count(&e->metrics, COUNTER_ROWS_REJECTED, 1);
			break;
		case ROW_APART:
			order_add(&e->order, row->id, row->marks, row->payload.n);
			park_refuse(&e->park, row->id, now_ms);
			break;
		case ROW_HELD:
			order_add(&e->order, row->id, row->marks, row->payload.n);
			hold(e, row, now_ms);
			metrics_count(&e->metrics, COUNTER_ROWS_HELD, 1);
			break;
		case ROW_PENDING:
		case ROW_DELIVERED:
		case ROW_RELEASED:
			continue;
		}
		park_keep(&e->park, row->id);
	}
}

/* Array literals of the rows in one state, and of their errors. Empty when there are none. */
static void gather(const struct batch *b, enum row_state state, struct buf *ids, struct buf *reasons)
{
	struct buf reason = {0};
	for (size_t i = 0; i < b->n; i++) {
		const struct batch_row *row = &b->rows[i];
		if (row->state != state)
			continue;
		buf_add_char(ids, ids->n == 0 ? '{' : ',');
		buf_add_number(ids, row->id);
		if (reasons == NULL)
			continue;
		buf_clear(&reason);
		buf_add_clean(&reason, row->error, MAX_REASON_BYTES);
		buf_add_char(reasons, reasons->n == 0 ? '{' : ',');
		outbox_add_element(reasons, buf_str(&reason));
	}
	if (ids->n > 0)
		buf_add_char(ids, '}');
	if (reasons != NULL && reasons->n > 0)
		buf_add_char(reasons, '}');
	buf_free(&reason);
}

/* What the database's encoding may not have becomes a question mark: a reason must never be what an ack fails of. */
static void fit_encoding(const struct pg *pg, struct buf *text)
{
	const char *encoding = pg_setting(pg, "server_encoding");
	if (encoding == NULL || strcmp(encoding, "UTF8") == 0)
		return;
	for (size_t i = 0; i < text->n; i++)
		if ((unsigned char)text->p[i] >= 0x80)
			text->p[i] = '?';
}

bool ack_send(const struct engine *e, struct pg *pg, const struct batch *b, pg_result_fn *fn, void *arg)
{
	struct buf delivered = {0};
	struct buf rejected = {0};
	struct buf reasons = {0};
	gather(b, ROW_DELIVERED, &delivered, NULL);
	gather(b, ROW_REJECTED, &rejected, &reasons);
	fit_encoding(pg, &reasons);
	outbox_ack(&e->outbox, pg, &(struct outbox_ack){delivered.p, rejected.p, reasons.p}, fn, arg);
	bool marks = delivered.n > 0 || rejected.n > 0;
	buf_free(&delivered);
	buf_free(&rejected);
	buf_free(&reasons);
	return marks;
}

bool ack_is_commit(const PGresult *result)
{
	/* PQcmdStatus takes what it does not change as not const. */
	union {
		const PGresult *in;
		PGresult *out;
	} r = {result};
	return strcmp(PQcmdStatus(r.out), "COMMIT") == 0;
}

/* A row that is left pending: a parked one is tried again by its id, any other one by an ordinary claim. */
static void let_go(struct engine *e, int64_t id, int64_t now_ms)
{
	if (park_has(&e->park, id)) {
		park_postpone(&e->park, id, now_ms);
		return;
	}
	order_let_go(&e->order, id, e->claims);
	horizon_reset(&e->horizon);
	park_finish(&e->park, id, now_ms);
	e->work = true;
}

void ack_finish(struct engine *e, const struct batch *b, int64_t now_ms)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct batch_row *row = &b->rows[i];
		switch (row->state) {
		case ROW_DELIVERED:
			order_remove(&e->order, row->id);
			park_finish(&e->park, row->id, now_ms);
			wait_delivered(&e->waits, row->id);
			metrics_count(&e->metrics, COUNTER_ROWS_DELIVERED, 1);
			break;
		case ROW_PENDING:
		case ROW_RELEASED:
			let_go(e, row->id, now_ms);
			break;
		case ROW_REJECTED:
			wait_refused(&e->waits, row->id, row->error);
			park_release(&e->park, row->id);
			break;
		case ROW_APART:
		case ROW_HELD:
			park_release(&e->park, row->id);
			break;
		}
	}
}

void ack_abandon(struct engine *e, const struct batch *b, bool was_parked, int64_t now_ms)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct batch_row *row = &b->rows[i];
		bool is_parked = row->state == ROW_REJECTED || row->state == ROW_APART || row->state == ROW_HELD;
		if (was_parked && is_parked)
			park_release(&e->park, row->id);
		else
			let_go(e, row->id, now_ms);
	}
}
