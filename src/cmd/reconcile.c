/* relay reconcile: compares what the rows say with what OpenFGA holds.
 *
 * No difference is reported of a tuple that somebody touches meanwhile. Of each tuple the rows are read first, and none
 * of them may be pending then; later OpenFGA is asked for it; last the rows are read once more, and have to be the
 * same. A row is committed before it is delivered, and marked after: whatever changed the tuple in between shows in the
 * last reading. The rest is for speed: the store is read whole, and only what differs from that is asked for again. */
#include "cmd/reconcile.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/commands.h"
#include "cmd/session.h"
#include "core/ids.h"

const char reconcile_details[] =
    "Compares what the delivered rows say, for each tuple the last operation by id, with what OpenFGA holds, and shows "
    "what is missing there, what survives there although a row deleted it, and what has another condition. Tuples that "
    "have a pending row, or were touched since the start, are left out and counted; a difference is read again, one by "
    "one, after --settle-timeout, before it is shown.\n"
    "Reads the table and, page by page, the whole store. Writes nothing but temporary tables in Postgres (about 150 "
    "bytes for each tuple in the store and for each in the rows); with --repair it inserts rows, which a relay "
    "delivers. It never writes to OpenFGA. Needs SELECT on id, payload and processed_at, and TEMPORARY on the "
    "database, from a primary, and not through a pooler in transaction mode; --repair also INSERT of payload and USAGE "
    "on the id's sequence.\n"
    "--repair inserts one row for each difference: a write for what is missing, a delete for what survives (and, with "
    "--foreign, for what no row ever had), both for another condition. It waits for the transactions that may still "
    "bring a row with a lower id, and inserts nothing where such a row is on one of the tuples, so that it undoes no "
    "word that came meanwhile. What remains: rows whose ids were drawn ahead.\n"
    "Ends with 0 in step, 1 differences (also where --repair has inserted rows: reconcile again once they are "
    "delivered), 2 a wrong command line, 3 it could not be done: Postgres, OpenFGA, the store or a privilege is "
    "missing, and nothing is said of any tuple.\n"
    "With --json: in_step, rows (that were read), store_tuples (null with --sample), compared, pending, touched, "
    "missing, surviving, condition, foreign (null without --foreign), repairs (rows that were inserted), and "
    "differences, a list of difference (missing, surviving, condition or foreign), user, relation, object, row (the "
    "last one on the tuple; null: none) and its processed_at, condition (the row's; null: none), found_condition "
    "(OpenFGA's; null: none), and repair (the id of the row that was inserted; null: none).";

static bool read_type(struct reconcile *r, struct err *e)
{
	const char *type = r->o->object_type;
	if (type == NULL)
		return true;
	if (type[strcspn(type, ":#@ \t")] != '\0')
		return err_set(e, ERR_CONFIG, "--object-type: \"%.80s\" is no type: write archive, not archive:1",
		               type);
	buf_printf(&r->prefix, "%s:", type);
	return true;
}

static bool read_command(struct reconcile *r, struct err *e)
{
	const struct options *o = r->o;
	r->since = INT64_MIN;
	if (o->since_id != NULL && !ids_parse_one(o->since_id, &r->since, e))
		return err_prefix(e, "--since-id");
	if (o->foreign && (o->sample > 0 || o->since_id != NULL))
		return err_set(e, ERR_CONFIG,
		               "--foreign takes all rows and the whole store: leave --sample and "
		               "--since-id out");
	if (o->yes && !o->repair)
		return err_set(e, ERR_CONFIG, "--yes goes with --repair: nothing else is asked");
	if (o->repair && !o->yes && o->json)
		return err_set(e, ERR_CONFIG, "--repair with --json does not ask: give --yes");
	if (o->repair && !o->yes && !(isatty(STDIN_FILENO) && isatty(STDERR_FILENO)))
		return err_set(e, ERR_CONFIG, "--repair asks before it inserts, and there is no terminal: give --yes");
	return read_type(r, e) && session_table(o, &r->table, e);
}

static bool read_all(struct reconcile *r, struct err *e)
{
	if (!load_begin(r, e))
		return false;
	if (r->o->sample > 0) {
		r->totals.store = -1;
	} else {
		progress_begin(&r->progress, "tuples read from OpenFGA", 0);
		if (!store_read(r->store, load_page, r, e))
			return false;
	}
	return load_end(r, e);
}

/* What is under way has arrived, or never will. */
static void settle(struct reconcile *r)
{
	const int64_t begun_ms = clock_ms();
	progress_begin(&r->progress, "seconds waited before differences are read again",
	               r->o->settle_timeout_ms / 1000);
	for (int64_t ms = 0; ms < r->o->settle_timeout_ms; ms = clock_ms() - begun_ms) {
		const int64_t left_ms = r->o->settle_timeout_ms - ms;
		r->progress.done = ms / 1000;
		progress_tick(&r->progress);
		poll(NULL, 0, left_ms < 100 ? (int)left_ms : 100);
	}
}

static bool compare(struct reconcile *r, struct err *e)
{
	if (!rows_open(r, e) || (r->store = store_open(r->o, e)) == NULL)
		return false;
	if (!store_check(r->store, e) || !read_all(r, e) || !rows_compare(r, e))
		return false;
	if (r->candidates > 0) {
		settle(r);
		if (!rows_read_again(r, e) || (r->candidates > 0 && !rows_settle(r, e)))
			return false;
	}
	/* A store that was deleted meanwhile reads as empty. */
	return store_check(r->store, e);
}

static bool run(struct reconcile *r, struct err *e)
{
	const bool ok = compare(r, e);
	progress_end(&r->progress);
	if (!ok)
		return false;
	if (r->o->json)
		return (!r->o->repair || repair(r, e)) && show_json(r, e);
	if (!show_differences(r, e) || (r->o->repair && !repair(r, e)))
		return false;
	show_totals(r);
	return true;
}

int cmd_reconcile(const struct options *o)
{
	struct reconcile r = {.o = o, .progress.is_on = isatty(STDERR_FILENO) == 1};
	struct err e = {0};
	int code = EXIT_WRONG;
	if (!read_command(&r, &e)) {
		fprintf(stderr, "relay reconcile: %s\n", e.text);
	} else if (!run(&r, &e)) {
		fprintf(stderr, "relay reconcile: %s\n", e.text);
		code = EXIT_UNREACHABLE;
	} else {
		code = totals_differences(&r.totals) > 0 ? EXIT_REFUSED : EXIT_OK;
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		code = EXIT_REFUSED;
	PQfinish(r.conn);
	store_close(r.store);
	buf_free(&r.load.waiting);
	buf_free(&r.prefix);
	buf_free(&r.table);
	buf_free(&r.temp);
	return code;
}
