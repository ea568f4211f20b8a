/* relay reconcile --repair: rows that put the differences right, and undo nothing that came meanwhile.
 *
 * Whoever delivers keeps rows on one tuple in the order of their ids, so only rows with a lower id than the repair's
 * matter: a later one has the last word anyway. The repair's ids are drawn by inserting, in a transaction that stays
 * open; whoever drew a lower id has ended, or holds a lock that is seen now (core/writers.h). Once those have ended,
 * the rows on the tuples have to be the same as before, or all is taken back. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/reconcile.h"
#include "cmd/reconcile_sql.h"
#include "cmd/session.h"
#include "core/writers.h"
#include "io/outbox.h"

enum { ATTEMPTS = 3, WAIT_MS = 20000, EVERY_MS = 20 };

/* Who holds the lock that inserting takes. NULL: *e says why nobody knows. */
static PGresult *ask_writers(struct reconcile *r, const struct outbox *outbox, struct err *e)
{
	(void)PQsendQuery(r->conn, outbox->sql[OUTBOX_WRITERS]); /* where it fails there is nothing to take */
	return rows_take(r, e);
}

static const char *list_of(const PGresult *result)
{
	return PQgetisnull(result, 0, 0) ? NULL : PQgetvalue(result, 0, 0);
}

/* Waits until whoever wrote at this moment has ended, except for this transaction, which is one of them. */
static bool wait_for_writers(struct reconcile *r, const struct outbox *outbox, struct err *e)
{
	struct writers writers = {0};
	const int64_t until_ms = clock_ms() + WAIT_MS;
	PGresult *result = ask_writers(r, outbox, e);
	bool ok = result != NULL;
	size_t left = 0;
	if (ok) {
		writers_note(&writers, list_of(result));
		left = writers.n;
	}
	while (ok && left > 1) {
		PQclear(result);
		poll(NULL, 0, EVERY_MS);
		result = ask_writers(r, outbox, e);
		ok = result != NULL;
		left = ok ? writers_keep(&writers, list_of(result)) : 0;
		if (ok && left > 1 && clock_ms() > until_ms)
			ok = err_set(e, ERR_TRANSIENT,
			             "nothing was inserted: a transaction that has written to the table is still open "
			             "after %d s: see pg_locks and pg_stat_activity",
			             WAIT_MS / 1000);
	}
	PQclear(result);
	writers_free(&writers);
	return ok;
}

static bool count_moved(struct reconcile *r, int64_t *moved, struct err *e)
{
	char since[24];
	snprintf(since, sizeof since, "%" PRId64, r->since);
	PGresult *result = rows_ask(r, reconcile_count_moved, 1, (const char *const[]){since}, e);
	if (result == NULL)
		return false;
	*moved = session_number(result, 0, 0);
	PQclear(result);
	return true;
}

/* One try. *moved: so many tuples have rows that were not there before, and nothing was inserted. */
static bool insert(struct reconcile *r, const struct outbox *outbox, int64_t *moved, struct err *e)
{
	int64_t inserted;
	if (!rows_run(r, "BEGIN", 0, NULL, NULL, e) || !rows_run(r, reconcile_repair, 0, NULL, &inserted, e) ||
	    !wait_for_writers(r, outbox, e) || !count_moved(r, moved, e))
		return false;
	if (*moved > 0)
		return rows_run(r, "ROLLBACK", 0, NULL, NULL, e);
	if (!rows_run(r, "COMMIT", 0, NULL, NULL, e))
		return false;
	r->totals.repairs = inserted;
	return true;
}

static bool insert_all(struct reconcile *r, const struct outbox *outbox, struct err *e)
{
	for (int attempt = 0; attempt < ATTEMPTS && totals_differences(&r->totals) > 0; attempt++) {
		int64_t moved = 0;
		if (!insert(r, outbox, &moved, e))
			return false;
		if (moved == 0)
			return true;
		/* Somebody has had a later word on those; the others are tried again. */
		if (!rows_settle(r, e))
			return false;
	}
	if (totals_differences(&r->totals) > 0)
		fprintf(stderr,
		        "relay reconcile: nothing was inserted: new rows on the same tuples keep coming; try again\n");
	return true;
}

static bool is_wanted(int64_t n)
{
	char answer[16] = "";
	fflush(stdout);
	fprintf(stderr, "Insert %" PRId64 "%s into the outbox, to be delivered by relay? [y/N] ", n,
	        n == 1 ? " row" : " rows");
	if (fgets(answer, sizeof answer, stdin) == NULL)
		fputc('\n', stderr);
	return strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0;
}

bool repair(struct reconcile *r, struct err *e)
{
	const int64_t n = totals_differences(&r->totals);
	struct outbox outbox;
	if (n == 0)
		return true;
	if (n > r->o->max_repairs) {
		fprintf(stderr,
		        "relay reconcile: nothing was inserted: %" PRId64
		        " differences are more than --max-repairs %u\n",
		        n, r->o->max_repairs);
		return true;
	}
	if (!r->o->yes && !is_wanted(n)) {
		fprintf(stderr, "relay reconcile: nothing was inserted\n");
		return true;
	}
	if (!outbox_init(&outbox, r->o->table, r->o->channel, e))
		return false;
	const bool ok = insert_all(r, &outbox, e);
	outbox_fini(&outbox);
	return ok;
}
