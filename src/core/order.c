#include "core/order.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/table.h"

/* One operation of a noted row. Of those on one tuple, the first stands in the table and the others behind it. */
struct order_mark {
	struct order_mark *next;
	int64_t id;
	struct mark mark;
	UT_hash_handle hh;
};

struct order_row {
	int64_t id;
	bool was_let_go;
	uint64_t turn; /* in which it was let go */
	size_t n;
	UT_hash_handle hh;
	struct order_mark marks[];
};

struct mark *marks_of(const struct payload *p, struct arena *arena)
{
	struct mark *marks = ARENA_ARRAY(arena, struct mark, p->n);
	for (size_t i = 0; i < p->n; i++) {
		const struct op *op = &p->ops[i];
		uint64_t action = hash_str(HASH_START, op->kind == OP_WRITE ? STR("w") : STR("d"));
		if (op->kind == OP_WRITE)
			action =
			    hash_str(hash_str(hash_str(action, op->tuple.condition), STR("\n")), op->tuple.context);
		marks[i] = (struct mark){op->tuple.hash, action};
	}
	return marks;
}

/* The first of a tuple's marks. */
static struct order_mark *find_first(const struct order *o, uint64_t tuple)
{
	struct order_mark *found;
	HASH_FIND(hh, o->marks, &tuple, sizeof tuple, found);
	return found;
}

static struct order_row *find_row(const struct order *o, int64_t id)
{
	struct order_row *found;
	HASH_FIND(hh, o->rows, &id, sizeof id, found);
	return found;
}

bool order_has(const struct order *o, int64_t id)
{
	const struct order_row *row = find_row(o, id);
	return row != NULL && !row->was_let_go;
}

static void link_mark(struct order *o, struct order_mark *mark)
{
	struct order_mark *first = find_first(o, mark->mark.tuple);
	if (first == NULL) {
		HASH_ADD(hh, o->marks, mark.tuple, sizeof mark->mark.tuple, mark);
		return;
	}
	mark->next = first->next;
	first->next = mark;
}

static void unlink_mark(struct order *o, struct order_mark *mark)
{
	struct order_mark *first = find_first(o, mark->mark.tuple);
	ASSERT(first != NULL);
	if (first == mark) {
		struct order_mark *next = mark->next;
		HASH_DELETE(hh, o->marks, mark);
		if (next != NULL)
			HASH_ADD(hh, o->marks, mark.tuple, sizeof next->mark.tuple, next);
		return;
	}
	struct order_mark *before = first;
	while (before->next != mark) {
		before = before->next;
		ASSERT(before != NULL);
	}
	before->next = mark->next;
}

void order_remove(struct order *o, int64_t id)
{
	struct order_row *row = find_row(o, id);
	if (row == NULL)
		return;
	if (row->was_let_go)
		o->let_go--;
	for (size_t i = 0; i < row->n; i++)
		unlink_mark(o, &row->marks[i]);
	HASH_DELETE(hh, o->rows, row);
	free(row);
}

void order_add(struct order *o, int64_t id, const struct mark *marks, size_t n)
{
	order_remove(o, id);
	struct order_row *row = xmalloc(sizeof *row + n * sizeof row->marks[0]);
	*row = (struct order_row){.id = id, .n = n};
	for (size_t i = 0; i < n; i++) {
		row->marks[i] = (struct order_mark){.id = id, .mark = marks[i]};
		link_mark(o, &row->marks[i]);
	}
	HASH_ADD(hh, o->rows, id, sizeof row->id, row);
}

void order_let_go(struct order *o, int64_t id, uint64_t turn)
{
	struct order_row *row = find_row(o, id);
	if (row == NULL || row->was_let_go)
		return;
	row->was_let_go = true;
	row->turn = turn;
	o->let_go++;
}

void order_forget(struct order *o, uint64_t turn)
{
	struct order_row *row;
	struct order_row *next;
	if (o->let_go == 0)
		return;
	HASH_ITER (hh, o->rows, row, next)
		if (row->was_let_go && row->turn < turn)
			order_remove(o, row->id);
}

void order_ids(const struct order *o, int64_t above, struct buf *out)
{
	size_t start = out->n;
	for (const struct order_row *row = o->rows; row != NULL; row = row->hh.next) {
		if (row->was_let_go || row->id <= above)
			continue;
		buf_add_char(out, out->n == start ? '{' : ',');
		buf_add_number(out, row->id);
	}
	if (out->n == start)
		buf_add_char(out, '{');
	buf_add_char(out, '}');
}

int64_t order_blocker(const struct order *o, int64_t id, const struct mark *marks, size_t n)
{
	int64_t lowest = 0;
	for (size_t i = 0; i < n; i++)
		for (const struct order_mark *m = find_first(o, marks[i].tuple); m != NULL; m = m->next)
			if (m->id < id && mark_conflict(m->mark, marks[i]) && (lowest == 0 || m->id < lowest))
				lowest = m->id;
	return lowest;
}

void order_free(struct order *o)
{
	struct order_row *row = o->rows;
	HASH_CLEAR(hh, o->marks);
	HASH_CLEAR(hh, o->rows);
	while (row != NULL) {
		struct order_row *next = row->hh.next;
		free(row);
		row = next;
	}
	*o = (struct order){0};
}
