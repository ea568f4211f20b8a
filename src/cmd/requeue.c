/* relay requeue: makes refused rows as new, or copies delivered ones, in one transaction that notifies. */
#include "cmd/requeue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/commands.h"
#include "cmd/requeue_sql.h"
#include "cmd/session.h"
#include "core/ids.h"
#include "io/outbox.h"

const char requeue_details[] =
    "Resets attempts and last_error of pending rows that were refused, once the model or the data is mended, and "
    "notifies the channel, so that every relay that listens tries its refused rows at once, whatever its backoff "
    "(SIGHUP does that to a relay that does not listen). Takes one of --ids, --reason and --all-refused. An id that "
    "is not there, or is processed, is named, and nothing is changed. Needs SELECT, and UPDATE of attempts and "
    "last_error, as `relay install --role` grants them; --dry-run only SELECT.\n"
    "--processed delivers delivered rows once more by inserting copies, in the order of their ids; the rows "
    "themselves stay as they are. Where a row with a higher id, and not in the list, has one of the same tuples "
    "(user, relation, object), it names that row and changes nothing, short of --force. It reads every row above the "
    "lowest id for this; a row that is committed meanwhile may be missed. Needs SELECT, INSERT of payload, and USAGE "
    "on the id's sequence.\n"
    "With --json: dry_run, rows (how many), and list: of a dry run (the first 10000) and of copies, each row's id, "
    "attempts, reason (null: none) and copy (the new row's id; null: none).";

enum { MOST_NAMED = 20, SHOWN_BYTES = 160 };

/* What the command line asks for. */
struct requeue {
	const struct options *o;
	enum requeue_selection selection;
	struct buf table;  /* as SQL has it */
	struct buf ids;    /* an array literal */
	const char *value; /* the selection's parameter; NULL: it has none */
};

/* What was done, or would be. */
struct outcome {
	int64_t rows;
	PGresult *list;   /* id, attempts, reason */
	PGresult *copies; /* their ids, row by row; NULL: none were made */
};

static bool read_command(struct requeue *r, struct err *e)
{
	const struct options *o = r->o;
	size_t n;
	if ((o->ids != NULL) + (o->reason != NULL) + o->all_refused != 1)
		return err_set(e, ERR_CONFIG, "say which rows: give one of --ids, --reason and --all-refused");
	if (o->processed && o->ids == NULL)
		return err_set(e, ERR_CONFIG, "--processed needs --ids: name the rows to deliver once more");
	if (o->force && !o->processed)
		return err_set(e, ERR_CONFIG, "--force goes with --processed: nothing holds pending rows back");
	if (o->ids != NULL && !ids_parse(o->ids, &r->ids, &n, e))
		return err_prefix(e, "--ids");
	r->selection = o->processed        ? REQUEUE_PROCESSED
	               : o->ids != NULL    ? REQUEUE_IDS
	               : o->reason != NULL ? REQUEUE_REASON
	                                   : REQUEUE_REFUSED;
	r->value = o->ids != NULL ? r->ids.p : o->reason;
	return outbox_check_channel(o->channel, e) && session_table(o, &r->table, e);
}

static PGresult *ask(const struct requeue *r, PGconn *conn, const char *template, struct err *e)
{
	return session_query(conn, template, r->table.p, r->value != NULL, &r->value, e);
}

/* Asks for rows that stand in the way: false where there are some, and on an error. A second column names the row that
 * is why. */
static bool none_of(const struct requeue *r, PGconn *conn, const char *template, const char *what, struct err *e)
{
	struct buf ids = {0};
	PGresult *result = ask(r, conn, template, e);
	if (result == NULL)
		return false;
	const int n = PQntuples(result);
	for (int i = 0; i < n && i < MOST_NAMED; i++) {
		buf_printf(&ids, "%s%s", i > 0 ? ", " : "", PQgetvalue(result, i, 0));
		if (PQnfields(result) > 1)
			buf_printf(&ids, " (by row %s)", PQgetvalue(result, i, 1));
	}
	if (n > 0)
		(void)err_set(e, ERR_REJECTED, "nothing was changed: %s: %s%s", what, ids.p,
		              n > MOST_NAMED ? " and more" : "");
	buf_free(&ids);
	PQclear(result);
	return n == 0;
}

static bool may_copy(const struct requeue *r, PGconn *conn, struct err *e)
{
	if (!none_of(r, conn, requeue_are_pending, "pending still; without --processed they are tried at once", e))
		return false;
	if (r->o->force)
		return true;
	PGresult *result = session_query(conn, requeue_take_time, r->table.p, 0, NULL, e);
	const bool ok = result != NULL;
	PQclear(result);
	return ok &&
	       none_of(r, conn, requeue_later,
	               "a copy would undo the word of a later row on the same tuple; give --force if it shall", e);
}

static bool check(const struct requeue *r, PGconn *conn, struct err *e)
{
	if (r->o->ids == NULL)
		return true;
	if (!none_of(r, conn, requeue_missing, "there are no rows with these ids", e))
		return false;
	if (r->o->processed)
		return may_copy(r, conn, e);
	return none_of(r, conn, requeue_are_processed, "processed already; --processed delivers them once more", e);
}

static bool look(const struct requeue *r, PGconn *conn, struct outcome *out, struct err *e)
{
	PGresult *count = ask(r, conn, requeue_sql[r->selection].count, e);
	if (count == NULL)
		return false;
	out->rows = session_number(count, 0, 0);
	PQclear(count);
	out->list = ask(r, conn, requeue_sql[r->selection].list, e);
	return out->list != NULL;
}

static bool change(const struct requeue *r, PGconn *conn, struct outcome *out, struct err *e)
{
	const char *const notice[] = {r->o->channel, OUTBOX_REQUEUE};
	if (r->o->processed && !look(r, conn, out, e))
		return false;
	PGresult *changed = ask(r, conn, requeue_sql[r->selection].change, e);
	if (changed == NULL)
		return false;
	out->rows = strtoll(PQcmdTuples(changed), NULL, 10);
	if (r->o->processed)
		out->copies = changed;
	else
		PQclear(changed);
	PGresult *notified = session_query(conn, requeue_notify, r->table.p, 2, notice, e);
	const bool ok = notified != NULL;
	PQclear(notified);
	return ok;
}

/* One transaction: all of it, or nothing. */
static bool carry_out(const struct requeue *r, PGconn *conn, struct outcome *out, struct err *e)
{
	const bool dry = r->o->dry_run;
	return session_begin(conn, dry ? "REPEATABLE READ, READ ONLY" : "READ COMMITTED", e) && check(r, conn, e) &&
	       (dry ? look(r, conn, out, e) : change(r, conn, out, e)) && session_commit(conn, e);
}

/* Where privileges are missing, the error becomes the GRANTs that mend it. */
static void advise(const struct requeue *r, PGconn *conn, struct err *e)
{
	struct err ignored;
	const char *processed = r->o->processed ? "t" : "f";
	PQclear(PQexec(conn, "ROLLBACK"));
	PGresult *result = session_query(conn, requeue_grants, r->table.p, 1, &processed, &ignored);
	if (result != NULL && !PQgetisnull(result, 0, 0))
		(void)err_set(e, ERR_CONFIG,
		              "nothing was changed: privileges are missing; the table's owner grants them: %s",
		              PQgetvalue(result, 0, 0));
	PQclear(result);
}

/* What is told */

static void add_row_json(struct buf *out, const struct outcome *of, int row)
{
	buf_printf(out, "%s{\"id\":%s,\"attempts\":%s,\"reason\":", row > 0 ? "," : "", PQgetvalue(of->list, row, 0),
	           PQgetvalue(of->list, row, 1));
	if (PQgetisnull(of->list, row, 2))
		buf_add_text(out, "null");
	else
		buf_add_json(out, str_of(PQgetvalue(of->list, row, 2)));
	buf_printf(out, ",\"copy\":%s}", of->copies != NULL ? PQgetvalue(of->copies, row, 0) : "null");
}

static void add_json(struct buf *out, const struct requeue *r, const struct outcome *of)
{
	buf_printf(out, "{\"dry_run\":%s,\"rows\":%" PRId64 ",\"list\":[", r->o->dry_run ? "true" : "false", of->rows);
	for (int i = 0; of->list != NULL && i < PQntuples(of->list); i++)
		add_row_json(out, of, i);
	buf_add_text(out, "]}\n");
}

static void add_row(struct buf *out, const struct outcome *of, int row)
{
	if (of->copies != NULL) {
		buf_printf(out, "%12s  copied as %s\n", PQgetvalue(of->list, row, 0), PQgetvalue(of->copies, row, 0));
		return;
	}
	buf_printf(out, "%12s  %8s  ", PQgetvalue(of->list, row, 0), PQgetvalue(of->list, row, 1));
	buf_add_clean(out, str_of(PQgetvalue(of->list, row, 2)), SHOWN_BYTES);
	buf_add_char(out, '\n');
}

static void add_table(struct buf *out, const struct requeue *r, const struct outcome *of)
{
	const int n = of->list != NULL ? PQntuples(of->list) : 0;
	if (n > 0 && of->copies == NULL)
		buf_printf(out, "%12s  %8s  reason\n", "id", "attempts");
	for (int i = 0; i < n; i++)
		add_row(out, of, i);
	if (n > 0 && of->rows > n)
		buf_printf(out, "%12s\n", "and more");
	buf_printf(out, "%" PRId64 "%s%s\n", of->rows, of->rows == 1 ? " row" : " rows",
	           r->o->dry_run     ? " would be requeued; nothing was changed"
	           : r->o->processed ? " copied, to be delivered once more"
	                             : " requeued");
}

static int print(const struct requeue *r, const struct outcome *of)
{
	struct buf text = {0};
	(r->o->json ? add_json : add_table)(&text, r, of);
	const bool ok = fwrite(text.p, 1, text.n, stdout) == text.n && fflush(stdout) == 0;
	buf_free(&text);
	return ok ? EXIT_OK : EXIT_REFUSED;
}

static bool run(const struct requeue *r, struct outcome *out, struct err *e)
{
	PGconn *conn = session_open(r->o, "requeue", e);
	if (conn == NULL)
		return false;
	const bool ok = carry_out(r, conn, out, e);
	if (!ok && e->kind == ERR_CONFIG)
		advise(r, conn, e);
	PQfinish(conn);
	return ok;
}

int cmd_requeue(const struct options *o)
{
	struct err e = {0};
	struct requeue asked = {.o = o};
	struct outcome outcome = {0};
	int code;
	if (read_command(&asked, &e) && run(&asked, &outcome, &e)) {
		code = print(&asked, &outcome);
	} else {
		fprintf(stderr, "relay requeue: %s\n", e.text);
		code = session_exit(&e);
	}
	PQclear(outcome.list);
	PQclear(outcome.copies);
	buf_free(&asked.ids);
	buf_free(&asked.table);
	return code;
}
