#include "cmd/figures.h"

#include <stdlib.h>

#include "cmd/probe.h"
#include "cmd/session.h"

#define MAX_ROWS "100000"   /* FIGURES_MAX_ROWS */
#define MAX_WALKED "20000"  /* FIGURES_MAX_WALKED */
#define MAX_DELETES "10000" /* FIGURES_MAX_DELETES */
#define MAX_REFUSED "10000" /* FIGURES_MAX_REFUSED */
#define MAX_SESSIONS "50"   /* FIGURES_MAX_SESSIONS */

_Static_assert(FIGURES_MAX_ROWS == 100000 && FIGURES_MAX_WALKED == 20000 && FIGURES_MAX_DELETES == 10000 &&
                   FIGURES_MAX_REFUSED == 10000 && FIGURES_MAX_SESSIONS == 50,
               "the SQL says the same");

#define PENDING "FROM %s WHERE processed_at IS NULL ORDER BY id LIMIT "
#define AGE "pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - created_at)"

static const char pending[] =
    "SELECT c.n, o.id, o.age FROM (SELECT pg_catalog.count(*) AS n FROM (SELECT " PENDING MAX_ROWS
    ") AS p) AS c LEFT JOIN (SELECT id, " AGE " AS age " PENDING "1) AS o ON true";

static const char oldest_delete[] =
    "SELECT id, " AGE " FROM (SELECT id, created_at, payload -> 'deletes' AS deletes " PENDING MAX_DELETES ") AS p"
    " WHERE CASE WHEN pg_catalog.jsonb_typeof(deletes) = 'array' THEN pg_catalog.jsonb_array_length(deletes) > 0 END"
    " ORDER BY id LIMIT 1";

static const char refused[] =
    "SELECT id, pg_catalog.left(last_error, 512) FROM (SELECT id, attempts, last_error " PENDING MAX_ROWS ") AS p"
    " WHERE attempts > 0 OR last_error IS NOT NULL ORDER BY id LIMIT " MAX_REFUSED;

/* No index is on processed_at: the newest rows are walked, and those just below them tell whether there may be more.
 * The moment is a sub-select, so that it is computed once and not row by row. */
#define SINCE(interval) " >= (SELECT pg_catalog.now() - interval '" interval "')"
#define WALKED(interval) ", pg_catalog.count(*) FILTER (WHERE processed_at" SINCE(interval) ")"
#define BELOW(interval) ", below.n > 0 AND COALESCE(below.last" SINCE(interval) ", true)"
#define WALKED_ALL WALKED("1 minute") WALKED("1 hour") WALKED("1 day")
#define BELOW_ALL BELOW("1 minute") BELOW("1 hour") BELOW("1 day")
static const char delivered[] =
    "SELECT walked.*" BELOW_ALL " FROM (SELECT pg_catalog.min(id) AS lowest" WALKED_ALL
    " FROM (SELECT id, processed_at FROM %s ORDER BY id DESC LIMIT " MAX_WALKED ") AS newest) AS walked, LATERAL"
    " (SELECT pg_catalog.count(*) AS n, pg_catalog.max(processed_at) AS last FROM (SELECT processed_at FROM %s"
    " WHERE id < walked.lowest ORDER BY id DESC LIMIT 1000) AS older) AS below";

/* What a session of another role's did last is not shown to everybody, its application_name is. */
static const char sessions[] =
    "SELECT application_name, COALESCE(usename, ''), listens, pg_catalog.count(*) FROM"
    " (SELECT application_name, usename, application_name = 'relay listen' OR query ILIKE 'listen %' AS listens"
    " FROM pg_catalog.pg_stat_activity WHERE datname = pg_catalog.current_database()"
    " AND pid <> pg_catalog.pg_backend_pid()) AS s WHERE listens OR application_name LIKE 'relay %'"
    " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT " MAX_SESSIONS;

static struct figure_row row_of(const PGresult *result, int id_column)
{
	if (PQntuples(result) == 0 || PQgetisnull(result, 0, id_column))
		return (struct figure_row){0};
	const double age = strtod(PQgetvalue(result, 0, id_column + 1), NULL);
	return (struct figure_row){.found = true,
	                           .complete = true,
	                           .id = session_number(result, 0, id_column),
	                           .age_seconds = age > 0 ? age : 0};
}

static void read_pending(struct figures *f, const PGresult *result)
{
	const int64_t rows = session_number(result, 0, 0);
	f->pending = (struct figure_count){rows, rows >= FIGURES_MAX_ROWS};
	f->oldest_pending = row_of(result, 1);
	f->oldest_pending.complete = true;
}

static void read_oldest_delete(struct figures *f, const PGresult *result)
{
	f->oldest_pending_delete = row_of(result, 0);
	f->oldest_pending_delete.complete |= f->pending.rows <= FIGURES_MAX_DELETES;
}

static void read_refused(struct figures *f, const PGresult *result)
{
	const int rows = PQntuples(result);
	for (int i = 0; i < rows; i++)
		reasons_add(&f->refused_reasons, session_number(result, i, 0), str_of(PQgetvalue(result, i, 1)));
	reasons_sort(&f->refused_reasons);
	f->refused = (struct figure_count){rows, rows >= FIGURES_MAX_REFUSED || f->pending.at_least};
}

static struct figure_count count_of(const PGresult *result, int rows, int at_least)
{
	return (struct figure_count){session_number(result, 0, rows), *PQgetvalue(result, 0, at_least) == 't'};
}

static void read_delivered(struct figures *f, const PGresult *result)
{
	f->delivered_minute = count_of(result, 1, 4);
	f->delivered_hour = count_of(result, 2, 5);
	f->delivered_day = count_of(result, 3, 6);
}

static void read_sessions(struct figures *f, const PGresult *result)
{
	struct figure_sessions *s = &f->sessions;
	for (int i = 0; i < PQntuples(result); i++) {
		struct figure_session *session = &s->list[s->n++];
		snprintf(session->application_name, sizeof session->application_name, "%s", PQgetvalue(result, i, 0));
		snprintf(session->user, sizeof session->user, "%s", PQgetvalue(result, i, 1));
		session->listens = *PQgetvalue(result, i, 2) == 't';
		session->sessions = session_number(result, i, 3);
		f->listening.rows += session->listens ? session->sessions : 0;
	}
	f->listening.at_least = s->n == FIGURES_MAX_SESSIONS;
}

bool figures_read(struct figures *f, PGconn *conn, const char *table, struct err *e)
{
	static const struct {
		const char *template;
		void (*read)(struct figures *f, const PGresult *result);
	} questions[] = {
	    {pending, read_pending},     {oldest_delete, read_oldest_delete}, {refused, read_refused},
	    {delivered, read_delivered}, {sessions, read_sessions},
	};
	buf_add_text(&f->table, table);
	if (!session_begin(conn, "REPEATABLE READ, READ ONLY", e))
		return false;
	for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
		PGresult *result = session_query(conn, questions[i].template, table, 0, NULL, e);
		if (result == NULL)
			return false;
		questions[i].read(f, result);
		PQclear(result);
	}
	return session_commit(conn, e);
}

/* A gauge of a page of metrics; negative where it has none. */
static double gauge(const char *page, const char *name)
{
	const size_t n = strlen(name);
	for (const char *line = page; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, n) == 0 && line[n] == ' ')
			return strtod(line + n, NULL);
	}
	return -1;
}

void figures_probe(struct figures *f, const struct address *at)
{
	static const char *const words[] = {
	    [PROBE_READY] = "ready", [PROBE_UNREADY] = "not ready", [PROBE_SILENT] = "no answer"};
	struct buf page = {0};
	struct buf ignored = {0};
	const enum probe_end end = probe_ask(at, "/readyz", &page, &f->relay_problem);
	buf_add_text(&f->relay, words[end]);
	buf_clear(&page);
	f->relay_parked = -1;
	f->relay_held = -1;
	f->relay_in_flight = -1;
	if (end != PROBE_SILENT && probe_ask(at, "/metrics", &page, &ignored) == PROBE_READY) {
		f->relay_parked = gauge(page.p, "relay_rows_parked");
		const double tried = gauge(page.p, "relay_rows_refused");
		if (f->relay_parked >= 0 && tried >= 0)
			f->relay_held = f->relay_parked - tried;
		f->relay_in_flight = gauge(page.p, "relay_requests_in_flight");
	}
	buf_free(&ignored);
	buf_free(&page);
}

void figures_free(struct figures *f)
{
	buf_free(&f->table);
	buf_free(&f->relay);
	buf_free(&f->relay_problem);
}
