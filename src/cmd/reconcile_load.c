/* relay reconcile: reads the rows and the store into temporary tables, both at the same time. OpenFGA is waited for
 * most of the time, a page after another; meanwhile Postgres reads a chunk of the rows, or takes the pages in by COPY.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/reconcile.h"
#include "cmd/reconcile_sql.h"
#include "cmd/session.h"
#include "core/copy_text.h"

/* Postgres is woken for a good many pages at a time: on a small machine it takes the processor from OpenFGA. */
enum { PAGES_BETWEEN_CHUNKS = 16, LEAST_PUT_BYTES = 256 * 1024, MOST_WAITING_BYTES = 2 * 1024 * 1024 };

/* Rows */

/* What all the statements that read rows want to know. */
struct say {
	char above[24];
	char last[24];
	const char *values[4];
};

static void say_init(struct say *s, const struct reconcile *r, int64_t above)
{
	snprintf(s->above, sizeof s->above, "%" PRId64, above);
	snprintf(s->last, sizeof s->last, "%" PRId64, r->last);
	s->values[0] = s->above;
	s->values[1] = r->started;
	s->values[2] = s->last;
	s->values[3] = r->prefix.n > 0 ? r->prefix.p : NULL;
}

static bool begin_chunk(struct reconcile *r, struct err *e)
{
	struct say say = {0};
	say_init(&say, r, r->load.above);
	r->load.doing = LOAD_READS;
	r->load.pages = 0;
	return rows_send(r, reconcile_say, 4, say.values, e);
}

/* How many tuples the store may have, from the rows that were read so far. */
static int64_t expect(const struct reconcile *r)
{
	const int64_t first = r->since > r->first ? r->since : r->first;
	const double left = (double)r->last - (double)r->load.above;
	const double part = r->load.has_all || left <= 0 ? 1 : 1 - left / ((double)r->last - (double)first + 1);
	const int64_t alive = r->load.writes - r->load.deletes;
	return part > 0 && alive > 0 ? (int64_t)((double)alive / part) : 0;
}

static bool end_chunk(struct reconcile *r, struct err *e)
{
	PGresult *result = rows_take(r, e);
	if (result == NULL)
		return false;
	const int64_t rows = session_number(result, 0, 0);
	r->totals.rows += rows;
	r->load.has_all = rows < RECONCILE_CHUNK;
	if (rows > 0)
		r->load.above = session_number(result, 0, 1);
	r->load.writes += session_number(result, 0, 2);
	r->load.deletes += session_number(result, 0, 3);
	r->load.doing = LOAD_RESTS;
	PQclear(result);
	if (r->totals.store > 0)
		r->progress.expected = expect(r);
	return true;
}

/* The store */

static bool lost(const struct reconcile *r, struct err *e)
{
	return err_set(e, ERR_TRANSIENT, "lost Postgres on the way: %s", PQerrorMessage(r->conn));
}

static bool begin_copy(struct reconcile *r, struct err *e)
{
	PGresult *result = rows_ask(r, reconcile_copy_held, 0, NULL, e);
	const bool ok = result != NULL;
	PQclear(result);
	r->load.doing = LOAD_COPIES;
	r->load.pages = 0;
	return ok;
}

static bool put(struct reconcile *r, struct err *e)
{
	struct buf *lines = &r->load.waiting;
	const bool ok = lines->n == 0 || PQputCopyData(r->conn, lines->p, (int)lines->n) == 1;
	buf_clear(lines);
	return ok || lost(r, e);
}

static bool end_copy(struct reconcile *r, struct err *e)
{
	if (!put(r, e))
		return false;
	if (PQputCopyEnd(r->conn, NULL) != 1)
		return lost(r, e);
	PGresult *result = rows_take(r, e);
	const bool ok = result != NULL;
	PQclear(result);
	r->load.doing = LOAD_RESTS;
	return ok;
}

static void add_line(struct buf *out, const struct tuple *t)
{
	copy_text_add(out, t->user, '\t');
	copy_text_add(out, t->relation, '\t');
	copy_text_add(out, t->object, '\t');
	if (t->condition.n > 0) {
		copy_text_add(out, t->condition, '\t');
		copy_text_add(out, t->context, '\n');
	} else {
		copy_text_add_null(out, '\t');
		copy_text_add_null(out, '\n');
	}
}

static bool is_wanted(const struct reconcile *r, const struct tuple *t)
{
	return t->object.n >= r->prefix.n && (r->prefix.n == 0 || memcmp(t->object.p, r->prefix.p, r->prefix.n) == 0);
}

bool load_page(void *arg, const struct page *page, struct err *e)
{
	struct reconcile *r = arg;
	struct load *l = &r->load;
	for (size_t i = 0; i < page->n; i++)
		if (is_wanted(r, &page->tuples[i]))
			add_line(&l->waiting, &page->tuples[i]);
	r->totals.store += (int64_t)page->n;
	r->progress.done = r->totals.store;
	progress_tick(&r->progress);
	l->pages++;
	if (l->doing == LOAD_READS && (l->waiting.n > MOST_WAITING_BYTES || session_is_ready(r->conn, 0)) &&
	    !end_chunk(r, e))
		return false;
	if (l->doing == LOAD_READS)
		return true;
	if (l->doing == LOAD_RESTS && !begin_copy(r, e))
		return false;
	if (l->waiting.n >= LEAST_PUT_BYTES && !put(r, e))
		return false;
	if (l->has_all || l->pages < PAGES_BETWEEN_CHUNKS)
		return true;
	return end_copy(r, e) && begin_chunk(r, e);
}

bool load_begin(struct reconcile *r, struct err *e)
{
	struct say say = {0};
	r->load.above = INT64_MIN;
	if (r->since > INT64_MIN) {
		r->load.above = r->since - 1;
		say_init(&say, r, r->load.above);
		PGresult *result = rows_ask(r, reconcile_say_pending, 4, say.values, e);
		if (result == NULL)
			return false;
		PQclear(result);
	}
	return begin_chunk(r, e);
}

bool load_end(struct reconcile *r, struct err *e)
{
	struct load *l = &r->load;
	if (l->doing == LOAD_READS && !end_chunk(r, e))
		return false;
	if (l->waiting.n > 0 && l->doing == LOAD_RESTS && !begin_copy(r, e))
		return false;
	if (l->doing == LOAD_COPIES && !end_copy(r, e))
		return false;
	progress_begin(&r->progress, "rows read", 0);
	do {
		r->progress.done = r->totals.rows;
		progress_tick(&r->progress);
		if (!begin_chunk(r, e) || !end_chunk(r, e))
			return false;
	} while (!l->has_all);
	return true;
}
