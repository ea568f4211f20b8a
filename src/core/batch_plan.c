/* Rows to waves to requests. */
#include "core/batch.h"

#include "base/table.h"

/* The rows that did one thing to one tuple, one after the other. */
struct run {
	struct batch_dependency *rows;
	uint64_t action;
};

/* What the rows planned so far do to a tuple. */
struct touch {
	uint64_t tuple;
	struct run last;
	struct run before; /* the run that the last one comes after */
	unsigned wave;     /* of the last operation */
	const struct request *request;
	UT_hash_handle hh;
};

struct plan {
	struct batch *batch;
	struct touch *touches;
	struct request **open; /* by wave: the request that is being filled */
};

/* The most that a request's body has besides its operations: the names, the options, a model's id. */
enum { ENVELOPE_BYTES = 256 };

/* The most that an operation adds to a request's body: names, quotes and braces, every byte escaped. */
static size_t op_bytes(const struct op *op)
{
	const struct tuple *t = &op->tuple;
	return 6 * (t->user.n + t->relation.n + t->object.n + t->condition.n) + t->context.n + 96;
}

static struct touch *touch_of(struct plan *plan, uint64_t tuple)
{
	struct touch *found;
	HASH_FIND(hh, plan->touches, &tuple, sizeof tuple, found);
	if (found == NULL) {
		found = ARENA_NEW(&plan->batch->arena, struct touch);
		found->tuple = tuple;
		HASH_ADD(hh, plan->touches, tuple, sizeof found->tuple, found);
	}
	return found;
}

/* What the rows before this one do to its tuples: by operation. */
static struct touch **touches_of(struct plan *plan, const struct batch_row *row)
{
	struct touch **touches = ARENA_ARRAY(&plan->batch->arena, struct touch *, row->payload.n);
	for (size_t i = 0; i < row->payload.n; i++)
		touches[i] = touch_of(plan, row->marks[i].tuple);
	return touches;
}

static struct batch_dependency *depend(struct batch *b, uint32_t row, struct batch_dependency *next)
{
	struct batch_dependency *d = ARENA_NEW(&b->arena, struct batch_dependency);
	*d = (struct batch_dependency){next, row};
	return d;
}

/* The rows that the row comes after, and the first wave that is late enough for all of it. */
static unsigned first_wave(struct batch *b, struct batch_row *row, struct touch *const *touches)
{
	unsigned wave = 0;
	for (size_t i = 0; i < row->payload.n; i++) {
		const struct touch *touch = touches[i];
		if (touch->last.rows == NULL)
			continue;
		bool conflict = touch->last.action != row->marks[i].action;
		const struct batch_dependency *d = conflict ? touch->last.rows : touch->before.rows;
		for (; d != NULL; d = d->next)
			row->after = depend(b, d->row, row->after);
		unsigned earliest = touch->wave + (conflict ? 1 : 0);
		if (earliest > wave)
			wave = earliest;
	}
	return wave;
}

/* Whether the row does the same as an earlier one to a tuple of that wave: then it must go into the same request. */
static const struct request *shared_request(const struct batch_row *row, struct touch *const *touches, unsigned wave,
                                            bool *several)
{
	const struct request *shared = NULL;
	*several = false;
	for (size_t i = 0; i < row->payload.n; i++) {
		const struct touch *touch = touches[i];
		if (touch->wave != wave || touch->request == NULL)
			continue;
		if (shared != NULL && shared != touch->request)
			*several = true;
		shared = touch->request;
	}
	return shared;
}

/* A new request for at most `parts` parts, last in the batch's list. */
static struct request *request_new(struct batch *b, unsigned wave, size_t parts)
{
	struct request *r = ARENA_NEW(&b->arena, struct request);
	r->wave = wave;
	r->bytes = ENVELOPE_BYTES;
	r->parts = ARENA_ARRAY(&b->arena, struct part, parts);
	if (b->last != NULL)
		b->last->next = r;
	else
		b->requests = r;
	b->last = r;
	if (wave >= b->waves)
		b->waves = wave + 1;
	return r;
}

static bool fits(const struct batch *b, const struct request *r, size_t tuples, size_t bytes)
{
	return r != NULL && r->tuples + tuples <= b->limits.max_tuples && r->bytes + bytes <= b->limits.max_bytes;
}

static void add_part(struct batch *b, struct request *r, struct part part, size_t bytes)
{
	r->parts[r->n++] = part;
	r->tuples += part.n;
	r->bytes += bytes;
	b->rows[part.row].open_parts++;
}

/* `wave` is never below the tuple's wave so far. `request` is NULL for a row that is not sent. */
static void touch_op(struct batch *b, uint32_t row, struct mark mark, struct touch *touch, unsigned wave,
                     const struct request *request)
{
	if (touch->last.rows == NULL || touch->last.action != mark.action) {
		touch->before = touch->last;
		touch->last = (struct run){.action = mark.action};
	}
	touch->last.rows = depend(b, row, touch->last.rows);
	if (wave > touch->wave || request != NULL)
		touch->request = request;
	touch->wave = wave;
}

/* Puts a row that fits into one request into the one that is being filled, or into a new one. */
static void place_whole(struct plan *plan, uint32_t index, struct touch *const *touches, size_t bytes)
{
	struct batch *b = plan->batch;
	struct batch_row *row = &b->rows[index];
	struct part part = {index, 0, (uint32_t)row->payload.n};
	unsigned wave = first_wave(b, row, touches);
	size_t most_parts = b->n < b->limits.max_tuples ? b->n : b->limits.max_tuples;
	bool several;
	const struct request *shared = shared_request(row, touches, wave, &several);
	struct request *r = row->alone ? NULL : plan->open[wave];
	bool joins = fits(b, r, part.n, bytes);
	if (several || (shared != NULL && (shared != r || !joins))) {
		shared = NULL;
		wave++;
		r = row->alone ? NULL : plan->open[wave];
		joins = fits(b, r, part.n, bytes);
	}
	if (!joins) {
		r = request_new(b, wave, row->alone ? 1 : most_parts);
		if (!row->alone)
			plan->open[wave] = r;
	}
	if (shared != NULL)
		r->shares = true;
	add_part(b, r, part, bytes);
	for (size_t i = 0; i < row->payload.n; i++)
		touch_op(b, index, row->marks[i], touches[i], wave, r);
}

/* Cuts a row that does not fit into one request, or that changes a tuple twice, into several: one a wave, in order. Who
 * comes after it comes after the last of them, since only then it is delivered. */
static void place_cut(struct batch *b, uint32_t index, struct touch *const *touches)
{
	struct batch_row *row = &b->rows[index];
	unsigned wave = first_wave(b, row, touches) + 1;
	size_t n = row->payload.n;
	struct request *r = NULL;
	for (size_t first = 0; first < n;) {
		size_t end = row->payload.rewrites && first < row->payload.n_deletes ? row->payload.n_deletes : n;
		size_t bytes = ENVELOPE_BYTES + op_bytes(&row->payload.ops[first]);
		size_t next = first + 1;
		while (next < end && next - first < b->limits.max_tuples &&
		       bytes + op_bytes(&row->payload.ops[next]) <= b->limits.max_bytes)
			bytes += op_bytes(&row->payload.ops[next++]);
		r = request_new(b, wave++, 1);
		add_part(b, r, (struct part){index, (uint32_t)first, (uint32_t)(next - first)}, bytes - ENVELOPE_BYTES);
		first = next;
	}
	for (size_t i = 0; i < n; i++)
		touch_op(b, index, row->marks[i], touches[i], r->wave, r);
}

static void place(struct plan *plan, uint32_t index)
{
	struct batch *b = plan->batch;
	struct batch_row *row = &b->rows[index];
	if (row->state != ROW_PENDING && row->state != ROW_HELD && row->state != ROW_APART)
		return;
	struct touch **touches = touches_of(plan, row);
	if (row->state != ROW_PENDING) {
		unsigned wave = first_wave(b, row, touches);
		for (size_t i = 0; i < row->payload.n; i++)
			touch_op(b, index, row->marks[i], touches[i], wave, NULL);
		return;
	}
	size_t bytes = 0;
	for (size_t i = 0; i < row->payload.n; i++)
		bytes += op_bytes(&row->payload.ops[i]);
	if (row->payload.rewrites || row->payload.n > b->limits.max_tuples ||
	    ENVELOPE_BYTES + bytes > b->limits.max_bytes)
		place_cut(b, index, touches);
	else
		place_whole(plan, index, touches, bytes);
}

/* Every row may begin a wave, and every operation of a cut row too. */
static size_t most_waves(const struct batch *b)
{
	size_t most = 2;
	for (size_t i = 0; i < b->n; i++)
		most += b->rows[i].payload.n + 2;
	return most;
}

void batch_plan(struct batch *b)
{
	struct plan plan = {.batch = b};
	plan.open = ARENA_ARRAY(&b->arena, struct request *, most_waves(b));
	for (size_t i = 0; i < b->n; i++)
		place(&plan, (uint32_t)i);
	HASH_CLEAR(hh, plan.touches);
}
