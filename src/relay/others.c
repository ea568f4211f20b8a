#include "relay/others.h"

void others_init(struct others *o)
{
	*o = (struct others){.unseen = INT64_MAX};
}

void others_fini(struct others *o)
{
	order_free(&o->order);
}

/* Nothing is known of the tuples of this row: all above it wait. */
static void note_unseen(struct others *o, int64_t id)
{
	if (id < o->unseen)
		o->unseen = id;
}

static void read_theirs(struct others *o, struct engine *e, uint64_t claim, const struct outbox_row *row)
{
	struct arena arena = {0};
	struct payload payload;
	struct err ignored; /* whoever has it will refuse it, and a row that cannot be read has no tuples */
	const struct mark *marks = NULL;
	if (payload_parse(row->payload, &arena, &payload, &ignored))
		marks = marks_of(&payload, &arena);
	else
		payload.n = 0;
	order_add(&o->order, row->id, marks, payload.n);
	theirs_note(&e->theirs, claim, row->id, row->version, marks, payload.n);
	arena_free(&arena);
}

void others_note(struct others *o, struct engine *e, uint64_t claim, const struct outbox_row *row)
{
	size_t n;
	if (row->whose == OUTBOX_SEEN) {
		const struct mark *marks = theirs_seen(&e->theirs, claim, row->id, row->version, &n);
		if (marks != NULL)
			order_add(&o->order, row->id, marks, n);
		else
			note_unseen(o, row->id);
	} else if (row->is_too_large) {
		note_unseen(o, row->id);
	} else {
		read_theirs(o, e, claim, row);
	}
}

/* The row that this one has to wait for; 0 when there is none. */
static int64_t blocker_of(const struct others *o, const struct engine *e, const struct batch_row *row)
{
	if (order_has(&e->order, row->id) && !park_has(&e->park, row->id))
		return row->id; /* a lane that lost its connection still has it in flight */
	int64_t behind = order_blocker(&e->order, row->id, row->marks, row->payload.n);
	if (behind == 0)
		behind = order_blocker(&o->order, row->id, row->marks, row->payload.n);
	if (behind == 0 && o->unseen < row->id)
		behind = o->unseen;
	return behind;
}

void others_hold(const struct others *o, struct engine *e, struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		struct batch_row *row = &b->rows[i];
		if (row->state != ROW_PENDING)
			continue;
		int64_t behind = blocker_of(o, e, row);
		if (behind != 0)
			batch_hold(row, behind);
		if (behind != row->id)
			order_add(&e->order, row->id, row->marks, row->payload.n);
	}
}
