/* relay doctor: Postgres, all but its table. */
#include <stdlib.h>

#include "base/clock.h"
#include "cmd/bounded.h"
#include "cmd/doctor.h"
#include "cmd/session.h"

/* $1: how many transactions old is old. A session of another database, and vacuum itself, keep nothing of this one. */
#define OLD_TRANSACTIONS "20000"
static const char server_sql[] =
    "SELECT current_database(), current_user, pg_is_in_recovery(), current_setting('default_transaction_read_only') = "
    "'on', current_setting('server_version'), current_setting('server_version_num')::int4 >= 140000,"
    " format('ALTER DATABASE %I RESET default_transaction_read_only; ALTER ROLE %I RESET "
    "default_transaction_read_only', current_database(), current_user)";
static const char two_phase_sql[] = "SELECT current_setting('max_prepared_transactions')";
static const char snapshots_sql[] =
    "SELECT who, age, remedy FROM ("
    "SELECT format('session %s (%s)', pid, coalesce(nullif(application_name, ''), usename)), age(backend_xmin),"
    " format('end its transaction, or SELECT pg_terminate_backend(%s)', pid) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND backend_type IS DISTINCT FROM 'autovacuum worker'"
    " AND (datname IS NULL OR datname = current_database())"
    " UNION ALL SELECT format('replication slot %s', slot_name), age(xmin),"
    " format('where its standby is gone, SELECT pg_drop_replication_slot(%L)', slot_name) FROM pg_replication_slots"
    ") AS held (who, age, remedy) WHERE age > $1::int4 ORDER BY age DESC LIMIT 1";
static const char prepared_sql[] =
    "SELECT gid, date_part('epoch', clock_timestamp() - prepared)::int8, format('COMMIT PREPARED %L, or ROLLBACK "
    "PREPARED %L', gid, gid) FROM pg_prepared_xacts WHERE database = current_database()"
    " AND (age(transaction) > $1::int4 OR prepared < clock_timestamp() - interval '1 minute') ORDER BY prepared LIMIT "
    "1";
/* Nobody is told which sessions listen. The one that has been in a transaction for longest keeps most, if it does. */
static const char queue_sql[] =
    "SELECT round((usage * 100)::numeric, 1), usage >= 0.01, (SELECT format('session %s (%s, database %s) has been in"
    " a transaction for %s s: if it listens, SELECT pg_terminate_backend(%1$s)', pid,"
    " coalesce(nullif(application_name, ''), usename), datname, floor(date_part('epoch', clock_timestamp() - "
    "xact_start)))"
    " FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start IS NOT "
    "NULL"
    " ORDER BY xact_start LIMIT 1) FROM pg_notification_queue_usage() AS usage";
static const char clock_sql[] =
    "SELECT (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000)::pg_catalog.int8";

static bool run(const struct doctor *d, const char *sql, struct err *e)
{
	PGresult *result = bounded_ask(d->conn, sql, 0, NULL, d->options->connect_timeout_ms, e);
	PQclear(result);
	return result != NULL;
}

PGresult *doctor_look(struct doctor *d, enum doctor_check check, const char *sql, size_t n, const char *const *values)
{
	/* No object of another schema can stand in for one of Postgres's own. */
	static const char settings[] = "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),"
	                               " pg_catalog.set_config('statement_timeout', '5s', true),"
	                               " pg_catalog.set_config('lock_timeout', '2s', true)";
	struct err e = {0};
	struct err ignored;
	PGresult *result = NULL;
	if (run(d, "BEGIN READ ONLY", &e) && run(d, settings, &e))
		result = bounded_ask(d->conn, sql, n, values, d->options->connect_timeout_ms, &e);
	(void)run(d, "ROLLBACK", &ignored);
	if (result == NULL)
		doctor_fail(d, check, e.text, "mend what Postgres complains of, and ask again");
	return result;
}

static bool is_true(const PGresult *result, int column)
{
	return *PQgetvalue(result, 0, column) == 't';
}

static void check_server(struct doctor *d)
{
	PGresult *r = doctor_look(d, DOCTOR_POSTGRES, server_sql, 0, NULL);
	if (r == NULL)
		return;
	if (is_true(r, 2)) {
		doctor_say(d, DOCTOR_POSTGRES, DOCTOR_FAILURE, "%s is a standby, which takes no writes",
		           PQhost(d->conn));
		doctor_remedy(d, DOCTOR_POSTGRES,
		              "name the primary in DATABASE_URL, with target_session_attrs=read-write");
	} else if (is_true(r, 3)) {
		doctor_say(d, DOCTOR_POSTGRES, DOCTOR_FAILURE,
		           "default_transaction_read_only is on for role %s in database %s", PQgetvalue(r, 0, 1),
		           PQgetvalue(r, 0, 0));
		doctor_remedy(d, DOCTOR_POSTGRES, "%s", PQgetvalue(r, 0, 6));
	} else {
		/* Of one of several hosts that was named without a port, libpq does not tell the default. */
		const char *port = PQport(d->conn);
		doctor_say(d, DOCTOR_POSTGRES, DOCTOR_OK, "database %s on %s%s%s, as role %s", PQgetvalue(r, 0, 0),
		           PQhost(d->conn), *port != '\0' ? ", port " : "", port, PQgetvalue(r, 0, 1));
	}
	if (is_true(r, 5)) {
		doctor_say(d, DOCTOR_VERSION, DOCTOR_OK, "%s", PQgetvalue(r, 0, 4));
	} else {
		doctor_say(d, DOCTOR_VERSION, DOCTOR_FAILURE, "%s is older than relay supports", PQgetvalue(r, 0, 4));
		doctor_remedy(d, DOCTOR_VERSION, "upgrade Postgres to 14 or later");
	}
	PQclear(r);
}

static void check_two_phase(struct doctor *d)
{
	PGresult *r = doctor_look(d, DOCTOR_TWO_PHASE, two_phase_sql, 0, NULL);
	if (r == NULL)
		return;
	const char *most = PQgetvalue(r, 0, 0);
	if (strcmp(most, "0") == 0) {
		doctor_say(d, DOCTOR_TWO_PHASE, DOCTOR_OK, "max_prepared_transactions is 0");
	} else if (!d->has_trigger) {
		doctor_say(d, DOCTOR_TWO_PHASE, DOCTOR_OK, "max_prepared_transactions is %s, and no trigger notifies",
		           most);
	} else {
		doctor_say(
		    d, DOCTOR_TWO_PHASE, DOCTOR_WARNING,
		    "max_prepared_transactions is %s: a transaction that inserts into the outbox cannot be prepared, "
		    "because the trigger notifies",
		    most);
		doctor_remedy(
		    d, DOCTOR_TWO_PHASE,
		    "where such transactions are prepared, take the trigger away: `%s --uninstall`; where none "
		    "is, ALTER SYSTEM SET max_prepared_transactions = 0, and restart Postgres",
		    doctor_install(d));
	}
	PQclear(r);
}

static void check_snapshots(struct doctor *d)
{
	PGresult *r = doctor_look(d, DOCTOR_SNAPSHOTS, snapshots_sql, 1, (const char *const[]){OLD_TRANSACTIONS});
	if (r == NULL)
		return;
	if (PQntuples(r) == 0) {
		doctor_say(d, DOCTOR_SNAPSHOTS, DOCTOR_OK, "none is older than " OLD_TRANSACTIONS " transactions");
	} else {
		doctor_say(d, DOCTOR_SNAPSHOTS, DOCTOR_WARNING,
		           "%s keeps vacuum from removing what died in the last %s transactions", PQgetvalue(r, 0, 0),
		           PQgetvalue(r, 0, 1));
		doctor_remedy(d, DOCTOR_SNAPSHOTS, "%s", PQgetvalue(r, 0, 2));
	}
	PQclear(r);
}

static void check_prepared(struct doctor *d)
{
	PGresult *r = doctor_look(d, DOCTOR_PREPARED, prepared_sql, 1, (const char *const[]){OLD_TRANSACTIONS});
	if (r == NULL)
		return;
	if (PQntuples(r) == 0) {
		doctor_say(d, DOCTOR_PREPARED, DOCTOR_OK, "none is old");
	} else {
		doctor_say(
		    d, DOCTOR_PREPARED, DOCTOR_WARNING,
		    "transaction %s was prepared %s s ago; until it is ended, vacuum removes nothing that died since",
		    PQgetvalue(r, 0, 0), PQgetvalue(r, 0, 1));
		doctor_remedy(d, DOCTOR_PREPARED, "%s", PQgetvalue(r, 0, 2));
	}
	PQclear(r);
}

static void check_queue(struct doctor *d)
{
	PGresult *r = doctor_look(d, DOCTOR_QUEUE, queue_sql, 0, NULL);
	if (r == NULL)
		return;
	if (!is_true(r, 1)) {
		doctor_say(d, DOCTOR_QUEUE, DOCTOR_OK, "%s %% full", PQgetvalue(r, 0, 0));
	} else {
		doctor_say(
		    d, DOCTOR_QUEUE, DOCTOR_WARNING,
		    "%s %% full: a session that listens keeps a transaction open, and at 100 %% every insert into the "
		    "outbox fails",
		    PQgetvalue(r, 0, 0));
		doctor_remedy(d, DOCTOR_QUEUE, "%s",
		              PQgetisnull(r, 0, 2)
		                  ? "as a superuser, end the session that listens and has the earliest "
		                    "xact_start in pg_stat_activity"
		                  : PQgetvalue(r, 0, 2));
	}
	PQclear(r);
}

static void check_clock(struct doctor *d)
{
	struct err e;
	int64_t before_ms = clock_wall_ms();
	PGresult *r = bounded_ask(d->conn, clock_sql, 0, NULL, d->options->connect_timeout_ms, &e);
	if (r != NULL)
		doctor_clock(d, DOCTOR_CLOCK, strtoll(PQgetvalue(r, 0, 0), NULL, 10), before_ms, clock_wall_ms());
	else
		doctor_fail(d, DOCTOR_CLOCK, e.text, "ask again");
	PQclear(r);
}

void doctor_postgres(struct doctor *d)
{
	struct err e = {0};
	d->conn = session_open(d->options, "doctor", &e);
	if (d->conn == NULL) {
		doctor_fail(d, DOCTOR_POSTGRES, e.text,
		            "check the host and the port in DATABASE_URL, and that Postgres runs");
		doctor_skip(d, DOCTOR_POSTGRES, DOCTOR_CLOCK, "Postgres cannot be reached");
		doctor_skip(d, DOCTOR_ROWS, DOCTOR_ROWS, "Postgres cannot be reached");
		return;
	}
	check_server(d);
	doctor_skip(d, DOCTOR_VERSION, DOCTOR_VERSION, "Postgres does not answer");
	doctor_sessions(d);
	doctor_table(d);
	check_two_phase(d);
	check_snapshots(d);
	check_prepared(d);
	check_queue(d);
	check_clock(d);
}
