#include "core/park.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/table.h"

struct parked {
	int64_t id;
	int64_t due_ms;
	int64_t behind; /* 0: it is not held */
	unsigned holds; /* in a row */
	uint8_t cause;
	bool was_refused;
	bool is_claimed;
	bool is_kept;
	bool is_waiting;
	UT_hash_handle hh;
};

struct blocker {
	int64_t id;
	size_t held; /* how many rows are held behind it */
	UT_hash_handle hh;
};

static struct blocker *find_blocker(const struct park *p, int64_t id)
{
	struct blocker *found;
	HASH_FIND(hh, p->blockers, &id, sizeof id, found);
	return found;
}

static void behind_add(struct park *p, int64_t id)
{
	if (id == 0)
		return;
	struct blocker *blocker = find_blocker(p, id);
	if (blocker == NULL) {
		blocker = xcalloc(1, sizeof *blocker);
		blocker->id = id;
		HASH_ADD(hh, p->blockers, id, sizeof blocker->id, blocker);
	}
	blocker->held++;
}

static void behind_remove(struct park *p, int64_t id)
{
	struct blocker *blocker = id != 0 ? find_blocker(p, id) : NULL;
	if (blocker == NULL || --blocker->held > 0)
		return;
	HASH_DELETE(hh, p->blockers, blocker);
	free(blocker);
}

static struct parked *find(const struct park *p, int64_t id)
{
	struct parked *found;
	HASH_FIND(hh, p->rows, &id, sizeof id, found);
	return found;
}

static enum park_kind kind_of(const struct parked *row)
{
	return row->was_refused ? PARK_REFUSED : PARK_HELD;
}

static void set_waiting(struct park *p, struct parked *row, bool is_waiting)
{
	p->n_waiting += (size_t)is_waiting - (size_t)row->is_waiting;
	row->is_waiting = is_waiting;
}

static void due_at(struct park *p, struct parked *row, int64_t due_ms)
{
	row->due_ms = due_ms;
	row->is_claimed = false;
	set_waiting(p, row, false);
	if (due_ms < p->next_due_ms[kind_of(row)])
		p->next_due_ms[kind_of(row)] = due_ms;
}

static struct parked *put(struct park *p, int64_t id, bool refused, int64_t behind, int64_t due_ms)
{
	struct parked *row = find(p, id);
	if (row == NULL) {
		row = xcalloc(1, sizeof *row);
		row->id = id;
		HASH_ADD(hh, p->rows, id, sizeof row->id, row);
	}
	behind_add(p, behind);
	behind_remove(p, row->behind);
	row->behind = behind;
	p->n_refused += refused && !row->was_refused;
	row->was_refused |= refused;
	due_at(p, row, due_ms);
	return row;
}

void park_refuse(struct park *p, int64_t id, int64_t due_ms)
{
	put(p, id, true, 0, due_ms)->holds = 0;
}

void park_explain(struct park *p, int64_t id, struct str reason)
{
	struct parked *row = find(p, id);
	if (row == NULL)
		return;
	causes_remove(&p->causes, row->cause);
	row->cause = causes_add(&p->causes, reason);
}

unsigned park_hold(struct park *p, int64_t id, int64_t behind)
{
	ASSERT(behind != 0);
	return ++put(p, id, false, behind, INT64_MAX)->holds;
}

static void drop(struct park *p, struct parked *row)
{
	behind_remove(p, row->behind);
	set_waiting(p, row, false);
	p->n_refused -= row->was_refused;
	causes_remove(&p->causes, row->cause);
	HASH_DELETE(hh, p->rows, row);
	free(row);
}

void park_finish(struct park *p, int64_t id, int64_t now_ms)
{
	struct parked *row = find(p, id);
	if (row != NULL)
		drop(p, row);
	if (find_blocker(p, id) == NULL)
		return;
	for (row = p->rows; row != NULL; row = row->hh.next)
		if (row->behind == id && !row->is_claimed)
			due_at(p, row, now_ms);
}

void park_claim(struct park *p, int64_t id)
{
	struct parked *row = find(p, id);
	if (row == NULL)
		return;
	row->due_ms = INT64_MAX;
	row->is_claimed = true;
	set_waiting(p, row, false);
}

void park_postpone(struct park *p, int64_t id, int64_t due_ms)
{
	struct parked *row = find(p, id);
	if (row != NULL)
		due_at(p, row, due_ms);
}

void park_wait(struct park *p, int64_t id, int64_t due_ms)
{
	struct parked *row = find(p, id);
	if (row == NULL)
		return;
	due_at(p, row, due_ms);
	set_waiting(p, row, true);
}

size_t park_waiting(const struct park *p)
{
	return p->n_waiting;
}

void park_keep(struct park *p, int64_t id)
{
	struct parked *row = find(p, id);
	if (row != NULL)
		row->is_kept = true;
}

void park_release(struct park *p, int64_t id)
{
	struct parked *row = find(p, id);
	if (row == NULL)
		return;
	row->is_kept = false;
	if (row->due_ms < p->next_due_ms[kind_of(row)])
		p->next_due_ms[kind_of(row)] = row->due_ms;
}

bool park_has(const struct park *p, int64_t id)
{
	return find(p, id) != NULL;
}

bool park_was_refused(const struct park *p, int64_t id)
{
	const struct parked *row = find(p, id);
	return row != NULL && row->was_refused;
}

void park_wake(struct park *p, int64_t now_ms)
{
	for (struct parked *row = p->rows; row != NULL; row = row->hh.next)
		if (row->behind == 0 && !row->is_claimed)
			due_at(p, row, now_ms);
}

size_t park_count(const struct park *p)
{
	return HASH_COUNT(p->rows);
}

size_t park_refused(const struct park *p)
{
	return p->n_refused;
}

int64_t park_due_ms(struct park *p, enum park_kind kind, int64_t now_ms)
{
	if (p->rows == NULL)
		return INT64_MAX;
	if (p->next_due_ms[kind] > now_ms)
		return p->next_due_ms[kind];
	int64_t next = INT64_MAX;
	for (const struct parked *row = p->rows; row != NULL && next > now_ms; row = row->hh.next)
		if (kind_of(row) == kind && !row->is_kept && row->due_ms < next)
			next = row->due_ms;
	p->next_due_ms[kind] = next;
	return next;
}

/* A row that is due. */
struct due {
	int64_t ms;
	int64_t id;
};

static int by_id(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a;
	int64_t y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int by_time(const void *a, const void *b)
{
	const struct due *x = a;
	const struct due *y = b;
	return x->ms != y->ms ? (x->ms > y->ms) - (x->ms < y->ms) : (x->id > y->id) - (x->id < y->id);
}

size_t park_due(struct park *p, enum park_kind kind, int64_t now_ms, int64_t *ids, size_t max)
{
	if (park_due_ms(p, kind, now_ms) > now_ms || max == 0)
		return 0;
	size_t n_due = 0;
	size_t n_rows = HASH_COUNT(p->rows);
	struct due *due = xmalloc(n_rows * sizeof *due);
	for (const struct parked *row = p->rows; row != NULL; row = row->hh.next)
		if (kind_of(row) == kind && !row->is_kept && row->due_ms <= now_ms)
			due[n_due++] = (struct due){row->due_ms, row->id};
	qsort(due, n_due, sizeof *due, by_time);
	size_t n = n_due < max ? n_due : max;
	for (size_t i = 0; i < n; i++)
		ids[i] = due[i].id;
	qsort(ids, n, sizeof *ids, by_id);
	free(due);
	return n;
}

void park_each(const struct park *p, void (*fn)(void *arg, const struct park_row *row), void *arg)
{
	for (const struct parked *row = p->rows; row != NULL; row = row->hh.next)
		fn(arg, &(struct park_row){row->id, row->behind, row->cause, row->was_refused});
}

const struct causes *park_causes(const struct park *p)
{
	return &p->causes;
}

void park_free(struct park *p)
{
	struct parked *row = p->rows;
	struct blocker *blocker = p->blockers;
	HASH_CLEAR(hh, p->rows);
	HASH_CLEAR(hh, p->blockers);
	while (row != NULL) {
		struct parked *next = row->hh.next;
		free(row);
		row = next;
	}
	while (blocker != NULL) {
		struct blocker *next = blocker->hh.next;
		free(blocker);
		blocker = next;
	}
	*p = (struct park){0};
}
