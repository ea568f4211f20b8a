#include "core/batch.h"

#include <inttypes.h>

#include "base/die.h"
#include "core/backoff.h"

void batch_init(struct batch *b, size_t capacity, const struct batch_limits *limits)
{
	ASSERT(limits->max_tuples > 0);
	struct arena arena = b->arena;
	*b = (struct batch){.arena = arena, .limits = *limits, .capacity = capacity};
	arena_reset(&b->arena);
	b->rows = ARENA_ARRAY(&b->arena, struct batch_row, capacity);
}

void batch_fini(struct batch *b)
{
	arena_free(&b->arena);
	*b = (struct batch){0};
}

static struct batch_row *add(struct batch *b, int64_t id, unsigned attempts)
{
	ASSERT(b->n < b->capacity);
	ASSERT(b->n == 0 || b->rows[b->n - 1].id < id);
	struct batch_row *row = &b->rows[b->n++];
	row->id = id;
	row->attempts = attempts;
	return row;
}

static void reject(struct batch *b, struct batch_row *row, const char *error)
{
	row->state = ROW_REJECTED;
	row->error = arena_str(&b->arena, str_of(error));
}

struct batch_row *batch_add(struct batch *b, int64_t id, unsigned attempts, int64_t born_ms, struct str payload)
{
	struct batch_row *row = add(b, id, attempts);
	struct err e;
	row->born_ms = born_ms;
	if (!payload_parse(arena_str(&b->arena, payload), &b->arena, &row->payload, &e)) {
		row->payload = (struct payload){0};
		reject(b, row, e.text);
	} else if (row->payload.n == 0) {
		row->state = ROW_DELIVERED;
	} else {
		row->marks = marks_of(&row->payload, &b->arena);
	}
	return row;
}

struct batch_row *batch_add_rejected(struct batch *b, int64_t id, unsigned attempts, const char *error)
{
	struct batch_row *row = add(b, id, attempts);
	reject(b, row, error);
	return row;
}

void batch_hold(struct batch_row *row, int64_t behind)
{
	ASSERT(row->state == ROW_PENDING);
	row->state = ROW_HELD;
	row->behind = behind;
}

void batch_set_apart(struct batch_row *row)
{
	ASSERT(row->state == ROW_PENDING && !row->alone);
	row->state = ROW_APART;
}

/* A request that will not be sent again; its rows have no end yet. */
static void abandon(struct batch *b, struct request *r)
{
	r->state = REQUEST_DONE;
	for (size_t i = 0; i < r->n; i++) {
		struct batch_row *row = &b->rows[r->parts[i].row];
		if (row->state == ROW_PENDING)
			row->state = ROW_RELEASED;
	}
}

/* Whether an earlier try of the request may still be carried out. */
static bool is_unsettled(const struct request *r, int64_t now_ms)
{
	return r->tries > 0 && r->unsettled_until_ms > now_ms;
}

void batch_stop(struct batch *b)
{
	b->stopped = true;
}

void batch_give_up(struct batch *b)
{
	batch_stop(b);
	b->limits.deadline_ms = INT64_MIN;
}

/* After a stop only what is unsettled is tried again, and nothing is after the deadline: where every try is lost, each
 * one would only put off the moment when all of them are settled. */
static void abandon_settled(struct batch *b, int64_t now_ms)
{
	bool late = now_ms >= b->limits.deadline_ms;
	if (late)
		batch_stop(b);
	if (!b->stopped)
		return;
	for (struct request *r = b->requests; r != NULL; r = r->next) {
		if (r->state == REQUEST_PROBING)
			r->state = REQUEST_QUEUED;
		if (r->state == REQUEST_QUEUED && (late || !is_unsettled(r, now_ms)))
			abandon(b, r);
	}
}

/* What keeps a row from being sent now: it becomes HELD or RELEASED. */
static bool may_go(struct batch *b, struct batch_row *row)
{
	for (const struct batch_dependency *d = row->after; row->state == ROW_PENDING && d != NULL; d = d->next) {
		const struct batch_row *before = &b->rows[d->row];
		switch (before->state) {
		case ROW_DELIVERED:
			break;
		case ROW_REJECTED:
		case ROW_APART:
		case ROW_HELD:
			batch_hold(row, before->id);
			break;
		case ROW_PENDING:
		case ROW_RELEASED:
			row->state = ROW_RELEASED;
			break;
		}
	}
	return row->state == ROW_PENDING;
}

/* Leaves out the parts of rows that must not go. */
static void prune(struct batch *b, struct request *r)
{
	size_t kept = 0;
	for (size_t i = 0; i < r->n; i++) {
		struct part part = r->parts[i];
		if (may_go(b, &b->rows[part.row]))
			r->parts[kept++] = part;
		else
			r->tuples -= part.n;
	}
	r->n = kept;
	if (kept == 0)
		r->state = REQUEST_DONE;
}

/* Whether another piece of the request that this one comes from, with perhaps the same tuple, is under way. */
static bool must_wait(const struct batch *b, const struct request *piece)
{
	if (piece->whole == NULL)
		return false;
	for (const struct request *r = b->requests; r != NULL; r = r->next)
		if (r != piece && r->whole == piece->whole && r->state != REQUEST_DONE &&
		    (r->state != REQUEST_QUEUED || r->tries > 0))
			return true;
	return false;
}

/* The next request of the wave that is under way; *open tells whether any of it is not done. */
static struct request *next_in_wave(struct batch *b, int64_t now_ms, bool *open)
{
	*open = false;
	for (struct request *r = b->requests; r != NULL; r = r->next) {
		if (r->wave != b->wave || r->state == REQUEST_DONE)
			continue;
		if (r->state == REQUEST_QUEUED && r->tries == 0)
			prune(b, r);
		if (r->state == REQUEST_DONE)
			continue;
		*open = true;
		if (r->state == REQUEST_QUEUED && r->due_ms <= now_ms && !must_wait(b, r))
			return r;
	}
	return NULL;
}

struct request *batch_next(struct batch *b, int64_t now_ms)
{
	abandon_settled(b, now_ms);
	for (;;) {
		bool open;
		struct request *r = next_in_wave(b, now_ms, &open);
		if (r != NULL) {
			r->state = REQUEST_IN_FLIGHT;
			r->sent_ms = now_ms;
			r->tries++;
			b->in_flight++;
			return r;
		}
		if (open || b->wave + 1 >= b->waves || now_ms < b->settle_until_ms)
			return NULL;
		b->wave++;
	}
}

void batch_request_ids(const struct batch *b, const struct request *r, size_t max, struct buf *out)
{
	for (size_t i = 0; i < r->n && i < max; i++)
		buf_printf(out, i == 0 ? "%" PRId64 : ",%" PRId64, b->rows[r->parts[i].row].id);
	if (r->n > max)
		buf_add_text(out, ",…");
}

static void delivered(struct batch *b, struct request *r)
{
	r->state = REQUEST_DONE;
	for (size_t i = 0; i < r->n; i++) {
		struct batch_row *row = &b->rows[r->parts[i].row];
		ASSERT(row->open_parts > 0);
		if (--row->open_parts == 0 && row->state == ROW_PENDING)
			row->state = ROW_DELIVERED;
	}
}

static void retry(struct request *r, int64_t now_ms, int64_t not_before_ms, struct rng *rng)
{
	r->state = REQUEST_QUEUED;
	int64_t wait = backoff_ms(r->tries, BATCH_RETRY_MIN_MS, BATCH_RETRY_MAX_MS, rng);
	r->due_ms = now_ms + (wait > not_before_ms ? wait : not_before_ms);
}

/* A piece of a request: the parts given to it are counted by the caller. */
static struct request *piece(struct batch *b, struct request *of, size_t parts)
{
	struct request *r = ARENA_NEW(&b->arena, struct request);
	r->wave = of->wave;
	r->shares = of->shares;
	r->picked = of->picked;
	if (of->shares)
		r->whole = of->whole != NULL ? of->whole : of;
	r->parts = ARENA_ARRAY(&b->arena, struct part, parts);
	r->next = of->next;
	of->next = r;
	if (b->last == of)
		b->last = r;
	return r;
}

static void piece_add(const struct request *of, struct request *r, struct part part)
{
	r->parts[r->n++] = part;
	r->tuples += part.n;
	r->bytes = of->bytes; /* still an upper bound */
}

/* Halves a request: between its rows, or within its only row. Later pieces stand behind earlier ones. */
static void halve(struct batch *b, struct request *r)
{
	struct request *second = piece(b, r, r->n);
	struct request *first = piece(b, r, r->n);
	r->state = REQUEST_DONE;
	if (r->n == 1) {
		struct part whole = r->parts[0];
		uint32_t half = whole.n / 2;
		b->rows[whole.row].open_parts++;
		piece_add(r, first, (struct part){whole.row, whole.first, half});
		piece_add(r, second, (struct part){whole.row, whole.first + half, whole.n - half});
		return;
	}
	for (size_t i = 0; i < r->n; i++)
		piece_add(r, i < r->n / 2 ? first : second, r->parts[i]);
}

/* Whether the row has the tuple that a refusal names. */
static bool has_named(const struct batch_row *row, const struct fault *fault)
{
	for (size_t i = 0; i < row->payload.n; i++)
		if (row->payload.ops[i].tuple.hash == fault->tuple)
			return true;
	return false;
}

/* Whether it, or one that is refused with it. */
static bool is_suspect(const struct batch_row *row, const struct fault *fault)
{
	for (size_t i = row->payload.n_deletes; i < row->payload.n && fault->kind != 0; i++)
		if (tuple_kind(&row->payload.ops[i].tuple) == fault->kind)
			return true;
	return has_named(row, fault);
}

/* Sets the rows apart that the refusal points to; what is left goes again. Of several rows none is cut, so that all of
 * a row is here. */
static bool set_apart(struct batch *b, struct request *r, const struct fault *fault)
{
	size_t named = 0;
	for (size_t i = 0; i < r->n && fault->tuple != 0; i++)
		named += has_named(&b->rows[r->parts[i].row], fault);
	if (named == 0)
		return false;
	struct request *rest = piece(b, r, r->n);
	rest->picked = r->picked + 1;
	r->state = REQUEST_DONE;
	for (size_t i = 0; i < r->n; i++) {
		struct batch_row *row = &b->rows[r->parts[i].row];
		if (is_suspect(row, fault))
			batch_set_apart(row);
		else
			piece_add(r, rest, r->parts[i]);
	}
	if (rest->n == 0)
		rest->state = REQUEST_DONE;
	else if (rest->picked > BATCH_MAX_PICKED && rest->n > 1)
		halve(b, rest);
	return true;
}

static enum verdict split(struct batch *b, struct request *r, enum hint hint, const struct fault *fault,
                          struct str reason)
{
	if (r->n > 1 && set_apart(b, r, fault))
		return VERDICT_SPLIT;
	bool cuts_rows = hint == HINT_SIZE || hint == HINT_OLD;
	if (r->n > 1 || (cuts_rows && r->parts[0].n > 1)) {
		halve(b, r);
		return VERDICT_SPLIT;
	}
	struct batch_row *row = &b->rows[r->parts[0].row];
	r->state = REQUEST_DONE;
	row->state = ROW_REJECTED;
	row->error = arena_str(&b->arena, reason);
	row->fault = arena_str(&b->arena, str_of(fault->reason));
	return VERDICT_REJECTED;
}

/* The destination's fault. Nothing else is begun; this request only goes on where an earlier try is unsettled, and not
 * for long where every try is lost. */
static void destination_failed(struct batch *b, struct request *r, const struct judgement *j, int64_t now_ms,
                               struct rng *rng)
{
	batch_stop(b);
	if (is_unsettled(r, now_ms) && r->lost < BATCH_MAX_LOST)
		retry(r, now_ms, j->retry_after_ms, rng);
	else
		abandon(b, r);
}

static void retry_or_fail(struct batch *b, struct request *r, const struct judgement *j, int64_t now_ms,
                          struct rng *rng)
{
	if (b->stopped) {
		destination_failed(b, r, j, now_ms, rng);
	} else if (j->hint == HINT_RACE && r->tries < BATCH_MAX_RACES) {
		r->dubious = 0;
		retry(r, now_ms, 0, rng);
	} else if (j->hint == HINT_PROBE) {
		r->reason = arena_str(&b->arena, str_of(j->reason));
		if (++r->dubious > 1)
			r->state = REQUEST_PROBING;
		else
			retry(r, now_ms, 0, rng);
	} else {
		destination_failed(b, r, j, now_ms, rng);
	}
}

/* A try of the request, sent at the latest at sent_ms, may still be carried out. */
static void lost(struct batch *b, struct request *r, int64_t sent_ms)
{
	r->unsettled_until_ms = sent_ms + b->limits.settle_ms;
	if (r->unsettled_until_ms > b->settle_until_ms)
		b->settle_until_ms = r->unsettled_until_ms;
}

void batch_sent(struct batch *b, struct request *r, const struct answer *a)
{
	ASSERT(r->state == REQUEST_IN_FLIGHT);
	if (a->sent_ms != 0)
		r->sent_ms = a->sent_ms;
	if (a->resent)
		lost(b, r, r->sent_ms);
}

enum verdict batch_answer(struct batch *b, struct request *r, const struct judgement *j, int64_t now_ms,
                          struct rng *rng)
{
	ASSERT(r->state == REQUEST_IN_FLIGHT);
	b->in_flight--;
	if (j->unknown) {
		lost(b, r, r->sent_ms);
		r->lost++;
	}
	switch (j->verdict) {
	case VERDICT_DELIVERED:
		delivered(b, r);
		break;
	case VERDICT_SPLIT:
	case VERDICT_REJECTED:
		return split(b, r, j->hint, &j->fault, str_of(j->reason));
	case VERDICT_RETRY:
		retry_or_fail(b, r, j, now_ms, rng);
		break;
	case VERDICT_HALT:
		if (j->hint == HINT_PROBE) {
			retry_or_fail(b, r, j, now_ms, rng);
			return VERDICT_RETRY;
		}
		batch_stop(b);
		abandon(b, r);
		break;
	}
	return j->verdict;
}

bool batch_wants_probe(const struct batch *b)
{
	for (const struct request *r = b->requests; r != NULL; r = r->next)
		if (r->state == REQUEST_PROBING)
			return true;
	return false;
}

void batch_probed(struct batch *b, bool can_write, const struct judgement *j, int64_t now_ms, struct rng *rng)
{
	for (struct request *r = b->requests; r != NULL; r = r->next) {
		if (r->state != REQUEST_PROBING)
			continue;
		if (!can_write) {
			destination_failed(b, r, j, now_ms, rng);
		} else if (r->blamed) {
			split(b, r, HINT_NONE, &(struct fault){0}, r->reason);
		} else {
			/* The trouble may have ended between its last try and the probe. */
			r->blamed = true;
			r->dubious = 0;
			retry(r, now_ms, 0, rng);
		}
	}
}

bool batch_over(struct batch *b, int64_t now_ms)
{
	abandon_settled(b, now_ms);
	if (b->in_flight > 0 || now_ms < b->settle_until_ms)
		return false;
	for (const struct request *r = b->requests; r != NULL; r = r->next)
		if (r->state != REQUEST_DONE)
			return false;
	for (size_t i = 0; i < b->n; i++)
		if (b->rows[i].state == ROW_PENDING)
			b->rows[i].state = ROW_RELEASED;
	return true;
}

int64_t batch_due_ms(const struct batch *b, int64_t now_ms)
{
	int64_t due = INT64_MAX;
	if (b->settle_until_ms > now_ms)
		due = b->settle_until_ms;
	for (const struct request *r = b->requests; r != NULL; r = r->next)
		if (r->state == REQUEST_QUEUED && r->wave == b->wave && r->due_ms > now_ms && r->due_ms < due)
			due = r->due_ms;
	return due;
}
