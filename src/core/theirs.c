#include "core/theirs.h"

#include <stdlib.h>

#include "base/table.h"

struct theirs_row {
	int64_t id;
	int64_t version;
	uint64_t claim; /* the last one that has brought it */
	uint64_t gone;  /* when it was gone, this claim was the last one sent; 0: it is not */
	UT_hash_handle hh;
	size_t n;
	struct mark marks[];
};

static struct theirs_row *find(const struct theirs *t, int64_t id)
{
	struct theirs_row *found;
	HASH_FIND(hh, t->rows, &id, sizeof id, found);
	return found;
}

static void drop(struct theirs *t, int64_t id)
{
	struct theirs_row *row = find(t, id);
	if (row == NULL)
		return;
	HASH_DELETE(hh, t->rows, row);
	free(row);
}

static void brought(struct theirs_row *row, uint64_t claim)
{
	row->gone = 0;
	if (claim > row->claim)
		row->claim = claim;
}

void theirs_note(struct theirs *t, uint64_t claim, int64_t id, int64_t version, const struct mark *marks, size_t n)
{
	const struct theirs_row *known = find(t, id);
	if (known != NULL && known->claim > claim)
		return; /* a later claim knows better */
	drop(t, id);
	if (HASH_COUNT(t->rows) >= THEIRS_MAX)
		return;
	struct theirs_row *row = xmalloc(sizeof *row + n * sizeof row->marks[0]);
	*row = (struct theirs_row){.id = id, .version = version, .claim = claim, .n = n};
	if (n > 0)
		memcpy(row->marks, marks, n * sizeof row->marks[0]);
	HASH_ADD(hh, t->rows, id, sizeof row->id, row);
}

const struct mark *theirs_seen(struct theirs *t, uint64_t claim, int64_t id, int64_t version, size_t *n)
{
	struct theirs_row *row = find(t, id);
	if (row == NULL || row->version != version)
		return NULL;
	brought(row, claim);
	*n = row->n;
	return row->marks;
}

static void leave(struct theirs *t, struct theirs_row *row, uint64_t sent)
{
	if (row->gone != 0)
		return;
	row->gone = sent;
	if (sent < t->next_gone || t->next_gone == 0)
		t->next_gone = sent;
}

void theirs_returned(struct theirs *t, uint64_t claim, uint64_t sent)
{
	for (struct theirs_row *row = t->rows; row != NULL; row = row->hh.next)
		if (row->claim < claim)
			leave(t, row, sent);
}

void theirs_reset(struct theirs *t, uint64_t sent)
{
	for (struct theirs_row *row = t->rows; row != NULL; row = row->hh.next)
		leave(t, row, sent);
}

void theirs_told(const struct theirs *t, int64_t above, struct buf *ids, struct buf *versions)
{
	buf_add_char(ids, '{');
	buf_add_char(versions, '{');
	bool is_first = true;
	for (const struct theirs_row *row = t->rows; row != NULL; row = row->hh.next) {
		if (row->gone != 0 || row->id <= above)
			continue;
		if (!is_first) {
			buf_add_char(ids, ',');
			buf_add_char(versions, ',');
		}
		is_first = false;
		buf_add_number(ids, row->id);
		buf_add_number(versions, row->version);
	}
	buf_add_char(ids, '}');
	buf_add_char(versions, '}');
}

void theirs_forget(struct theirs *t, uint64_t oldest)
{
	struct theirs_row *row;
	struct theirs_row *next;
	if (t->next_gone == 0 || t->next_gone >= oldest)
		return;
	t->next_gone = 0;
	HASH_ITER (hh, t->rows, row, next) {
		if (row->gone != 0 && row->gone < oldest)
			drop(t, row->id);
		else if (row->gone != 0 && (row->gone < t->next_gone || t->next_gone == 0))
			t->next_gone = row->gone;
	}
}

size_t theirs_count(const struct theirs *t)
{
	return HASH_COUNT(t->rows);
}

void theirs_free(struct theirs *t)
{
	struct theirs_row *row = t->rows;
	HASH_CLEAR(hh, t->rows);
	while (row != NULL) {
		struct theirs_row *next = row->hh.next;
		free(row);
		row = next;
	}
	*t = (struct theirs){0};
}
