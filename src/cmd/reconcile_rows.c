/* relay reconcile: the session with Postgres, and what it is asked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cmd/pooler.h"
#include "cmd/reconcile.h"
#include "cmd/reconcile_sql.h"
#include "cmd/session.h"
#include "core/copy_text.h"

enum { TICK_MS = 250 };

/* A number as a parameter. */
struct number {
	char text[24];
};

static struct number number_of(int64_t n)
{
	struct number number;
	snprintf(number.text, sizeof number.text, "%" PRId64, n);
	return number;
}

/* Names of this run's own: a pool in session mode may show the tables that another run has left there. */
static char *name_tables(const struct reconcile *r, const char *template)
{
	static const char placeholder[] = "relay_temp";
	struct buf out = {0};
	const char *found;
	for (; (found = strstr(template, placeholder)) != NULL; template = found + sizeof placeholder - 1) {
		buf_add(&out, template, (size_t)(found - template));
		buf_add_text(&out, r->temp.p);
	}
	buf_add_text(&out, template);
	return out.p;
}

bool rows_send(struct reconcile *r, const char *template, int n, const char *const *values, struct err *e)
{
	char *named = name_tables(r, template);
	const bool ok = session_send(r->conn, named, r->table.p, n, values, e);
	free(named);
	return ok;
}

PGresult *rows_take(struct reconcile *r, struct err *e)
{
	while (!session_is_ready(r->conn, TICK_MS))
		progress_tick(&r->progress);
	return session_take(r->conn, e);
}

PGresult *rows_ask(struct reconcile *r, const char *template, int n, const char *const *values, struct err *e)
{
	return rows_send(r, template, n, values, e) ? rows_take(r, e) : NULL;
}

bool rows_run(struct reconcile *r, const char *template, int n, const char *const *values, int64_t *about,
              struct err *e)
{
	PGresult *result = rows_ask(r, template, n, values, e);
	const bool ok = result != NULL;
	if (ok && about != NULL)
		*about = strtoll(PQcmdTuples(result), NULL, 10);
	PQclear(result);
	return ok;
}

static bool run_all(struct reconcile *r, const char *const *templates, struct err *e)
{
	for (; *templates != NULL; templates++)
		if (!rows_run(r, *templates, 0, NULL, NULL, e))
			return false;
	return true;
}

bool rows_copy(struct reconcile *r, const char *template, const struct buf *lines, struct err *e)
{
	PGresult *result = rows_ask(r, template, 0, NULL, e);
	if (result == NULL)
		return false;
	PQclear(result);
	if (PQputCopyData(r->conn, lines->p, (int)lines->n) != 1 || PQputCopyEnd(r->conn, NULL) != 1)
		return err_set(e, ERR_TRANSIENT, "lost Postgres on the way: %s", PQerrorMessage(r->conn));
	result = rows_take(r, e);
	const bool ok = result != NULL;
	PQclear(result);
	return ok;
}

/* A session is what the temporary tables are in. */
static bool check_pooler(struct reconcile *r, struct err *e)
{
	PGconn *other = session_open(r->o, "reconcile", e);
	const enum pooler found =
	    other != NULL ? pooler_find(r->conn, other, r->o->connect_timeout_ms, e) : POOLER_UNKNOWN;
	PQfinish(other);
	if (found == POOLER_TRANSACTION)
		return err_set(
		    e, ERR_CONFIG,
		    "a pooler gives each transaction another session: put into DATABASE_URL a port that leads "
		    "to Postgres itself, or to a pool in session mode");
	return found != POOLER_UNKNOWN;
}

/* Better now than after half an hour of reading. */
static bool check_privileges(struct reconcile *r, struct err *e)
{
	const char *values[] = {r->o->repair ? "t" : "f"};
	PGresult *result = rows_ask(r, reconcile_grants, 1, values, e);
	if (result == NULL)
		return false;
	const bool ok = PQgetisnull(result, 0, 0) ||
	                err_set(e, ERR_CONFIG,
	                        "privileges are missing; the owner of the table or the database grants "
	                        "them: %s",
	                        PQgetvalue(result, 0, 0));
	PQclear(result);
	return ok;
}

static bool start(struct reconcile *r, struct err *e)
{
	PGresult *result = rows_ask(r, reconcile_start, 0, NULL, e);
	if (result == NULL)
		return false;
	snprintf(r->started, sizeof r->started, "%s", PQgetvalue(result, 0, 0));
	r->first = session_number(result, 0, 1);
	r->last = session_number(result, 0, 2);
	PQclear(result);
	return true;
}

bool rows_open(struct reconcile *r, struct err *e)
{
	struct rng rng = {(uint64_t)clock_us() ^ (uint64_t)getpid() << 32};
	buf_printf(&r->temp, "relay_%016" PRIx64, rng_next(&rng));
	r->conn = session_open(r->o, "reconcile", e);
	return r->conn != NULL && check_pooler(r, e) && rows_run(r, reconcile_settings, 0, NULL, NULL, e) &&
	       check_privileges(r, e) && start(r, e) && run_all(r, reconcile_tables, e);
}

/* Comparing */

static bool count(struct reconcile *r, struct err *e)
{
	PGresult *result = rows_ask(r, reconcile_count, 0, NULL, e);
	if (result == NULL)
		return false;
	r->totals.pending = session_number(result, 0, 1);
	r->totals.touched = session_number(result, 0, 2);
	r->totals.tuples = session_number(result, 0, 0) - r->totals.pending - r->totals.touched;
	PQclear(result);
	return true;
}

static bool pick(struct reconcile *r, struct err *e)
{
	const struct number n = number_of(r->o->sample);
	if (!rows_run(r, reconcile_pick, 1, (const char *const[]){n.text}, &r->candidates, e))
		return false;
	r->totals.tuples = r->candidates;
	return rows_read_again(r, e);
}

static bool find(struct reconcile *r, struct err *e)
{
	int64_t foreign = 0;
	if (!rows_run(r, reconcile_compare, 0, NULL, &r->candidates, e) ||
	    (r->o->foreign && !rows_run(r, reconcile_compare_foreign, 0, NULL, &foreign, e)))
		return false;
	r->candidates += foreign;
	return true;
}

/* The last place in the order of operations that is before a row. */
static int64_t seq_before(int64_t id)
{
	if (id == INT64_MIN)
		return id;
	return id <= INT64_MAX / 2 ? id * 2 - 1 : INT64_MAX;
}

bool rows_compare(struct reconcile *r, struct err *e)
{
	/* Statistics: a plan for a handful of tuples would take for ever with a million. */
	const struct number seq = number_of(seq_before(r->since));
	progress_begin(&r->progress, "tuples compared", 0);
	return run_all(r, reconcile_analyze_loaded, e) &&
	       rows_run(r, reconcile_sum_up, 1, (const char *const[]){seq.text}, NULL, e) && count(r, e) &&
	       run_all(r, reconcile_analyze_last, e) && (r->o->sample > 0 ? pick : find)(r, e);
}

/* Reading singly */

/* The differences that are read at a time. */
struct block {
	PGresult *rows;
	struct tuple tuples[RECONCILE_BLOCK];
	struct buf lines; /* what differs still, for COPY */
};

static struct str field(const PGresult *result, int row, int column)
{
	return (struct str){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

static enum last_word word_of(const PGresult *rows, int row)
{
	if (PQgetisnull(rows, row, 4))
		return WORD_NONE;
	return *PQgetvalue(rows, row, 4) == 't' ? WORD_WRITE : WORD_DELETE;
}

static void on_found(void *arg, size_t which, const struct tuple *found)
{
	struct block *b = arg;
	const enum difference difference = difference_of(word_of(b->rows, (int)which), &b->tuples[which], found);
	if (difference == DIFFERENCE_NONE)
		return;
	copy_text_add(&b->lines, field(b->rows, (int)which, 0), '\t');
	copy_text_add(&b->lines, str_of(difference_name(difference)), '\t');
	if (found == NULL || found->condition.n == 0) {
		copy_text_add_null(&b->lines, '\n');
		return;
	}
	struct buf condition = {0};
	buf_add_text(&condition, "{\"name\":");
	buf_add_json(&condition, found->condition);
	buf_add_text(&condition, ",\"context\":");
	buf_add_str(&condition, found->context);
	buf_add_char(&condition, '}');
	copy_text_add(&b->lines, buf_str(&condition), '\n');
	buf_free(&condition);
}

static bool read_block(struct reconcile *r, struct block *b, struct err *e)
{
	const int n = PQntuples(b->rows);
	for (int i = 0; i < n; i++) {
		b->tuples[i] = (struct tuple){
		    .user = field(b->rows, i, 1), .relation = field(b->rows, i, 2), .object = field(b->rows, i, 3)};
		if (!PQgetisnull(b->rows, i, 5)) {
			b->tuples[i].condition = field(b->rows, i, 5);
			b->tuples[i].context = field(b->rows, i, 6);
		}
	}
	buf_clear(&b->lines);
	return store_find(r->store, b->tuples, (size_t)n, on_found, b, e) &&
	       (b->lines.n == 0 || rows_copy(r, reconcile_copy_again, &b->lines, e));
}

bool rows_read_again(struct reconcile *r, struct err *e)
{
	struct block b = {0};
	struct number above = {"0"};
	bool ok = true;
	int n = 0;
	progress_begin(&r->progress, "tuples read one by one", r->candidates);
	do {
		b.rows = rows_ask(r, reconcile_block, 1, (const char *const[]){above.text}, e);
		ok = b.rows != NULL && read_block(r, &b, e);
		n = b.rows != NULL ? PQntuples(b.rows) : 0;
		if (n > 0)
			above = number_of(session_number(b.rows, n - 1, 0));
		r->progress.done += n;
		progress_tick(&r->progress);
		PQclear(b.rows);
	} while (ok && n == RECONCILE_BLOCK);
	buf_free(&b.lines);
	return ok && rows_run(r, reconcile_drop_same, 0, NULL, NULL, e) &&
	       rows_run(r, reconcile_note_found, 0, NULL, &r->candidates, e) &&
	       rows_run(r, reconcile_forget_found, 0, NULL, NULL, e);
}

bool rows_settle(struct reconcile *r, struct err *e)
{
	const struct number since = number_of(r->since);
	progress_begin(&r->progress, "rows asked once more", 0);
	PGresult *moved = rows_ask(r, reconcile_leave_moved, 1, (const char *const[]){since.text}, e);
	if (moved == NULL)
		return false;
	r->totals.touched += session_number(moved, 0, 0);
	r->totals.tuples -= session_number(moved, 0, 1);
	PQclear(moved);
	PGresult *result = rows_ask(r, reconcile_kinds, 0, NULL, e);
	if (result == NULL)
		return false;
	for (int kind = 0; kind < DIFFERENCE_COUNT; kind++) {
		r->totals.differences[kind] = 0;
		for (int i = 0; i < PQntuples(result); i++)
			if (strcmp(PQgetvalue(result, i, 0), difference_name((enum difference)kind)) == 0)
				r->totals.differences[kind] = session_number(result, i, 1);
	}
	PQclear(result);
	return true;
}
