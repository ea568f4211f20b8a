/* relay doctor: the outbox. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/bounded.h"
#include "cmd/doctor.h"
#include "cmd/sql_files.h"
#include "core/ident.h"
#include "io/outbox.h"

/* $1 is the table's oid. What is wanted of the table, its index and its trigger is what sql/table.sql and
 * sql/trigger.sql make. */
static const char find_sql[] = "SELECT pg_catalog.to_regclass($1)::pg_catalog.oid";
static const char table_sql[] =
    "WITH relation AS (SELECT relkind IN ('r', 'p') AS is_table, format('%I.%I', nspname, relname) AS full_name,"
    " quote_ident(pg_get_userbyid(relowner)) AS owner,"
    " CASE WHEN octet_length(index_name) < 64 AND to_regclass(format('%I.%I', nspname, index_name)) IS NULL"
    " THEN quote_ident(index_name) || ' ' ELSE '' END AS new_index FROM "
    "pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace,"
    " LATERAL (SELECT relname || '_pending_idx') AS x (index_name) WHERE c.oid = $1::oid),"
    " wanted (place, name, type, may_be_null, definition) AS (VALUES (1, 'id', 'bigint', false, 'bigserial PRIMARY "
    "KEY'),"
    " (2, 'payload', 'jsonb', false, 'jsonb NOT NULL'),"
    " (3, 'created_at', 'timestamp with time zone', false, 'timestamptz NOT NULL DEFAULT now()'),"
    " (4, 'processed_at', 'timestamp with time zone', true, 'timestamptz'),"
    " (5, 'attempts', 'integer', false, 'integer NOT NULL DEFAULT 0'), (6, 'last_error', 'text', true, 'text')),"
    " compared AS (SELECT wanted.*, attnum, attnotnull, format_type(atttypid, atttypmod) AS found FROM wanted LEFT "
    "JOIN "
    "pg_attribute ON attrelid = $1::oid AND attname = name AND NOT attisdropped),"
    " differing AS (SELECT place, name || CASE WHEN attnum IS NULL THEN ' is missing' WHEN found <> type THEN"
    " format(' has type %s, not %s', found, type) ELSE ' may not be NULL' END AS what,"
    " CASE WHEN attnum IS NULL THEN format('ADD COLUMN %s %s', name, definition)"
    " WHEN found <> type THEN format('ALTER COLUMN %1$s TYPE %2$s USING %1$s::%2$s', name, type)"
    " ELSE format('ALTER COLUMN %s DROP NOT NULL', name) END AS action"
    " FROM compared WHERE attnum IS NULL OR found <> type OR (attnotnull AND may_be_null))"
    " SELECT full_name, is_table, count(place), string_agg('column ' || what, '; ' ORDER BY place),"
    " format('ALTER TABLE %s %s', full_name, string_agg(action, ', ' ORDER BY place)),"
    " owner, new_index FROM relation LEFT JOIN differing ON true GROUP BY 1, 2, 6, 7";
static const char index_sql[] =
    "SELECT name, is_valid, serves, EXISTS (SELECT FROM pg_index WHERE indrelid = $1::oid AND indisunique AND "
    "indisvalid"
    " AND indnkeyatts = 1 AND indpred IS NULL AND indkey[0] = attnum)"
    " FROM pg_attribute LEFT JOIN LATERAL (SELECT indexrelid::regclass AS name, indisvalid AS is_valid, "
    "coalesce(amname "
    "= 'btree' AND pg_get_expr(indpred, indrelid) = '(processed_at IS NULL)' AND indkey[0] = attnum, false) AS serves,"
    " i.relname = t.relname || '_pending_idx' AS is_named FROM pg_index JOIN pg_class AS i ON i.oid = indexrelid"
    " JOIN pg_class AS t ON t.oid = indrelid JOIN pg_am ON pg_am.oid = i.relam WHERE indrelid = $1::oid) AS pending"
    " ON serves OR is_named WHERE attrelid = $1::oid AND attname = 'id' AND NOT attisdropped"
    " ORDER BY serves DESC NULLS LAST, is_valid DESC LIMIT 1";
static const char trigger_sql[] =
    "SELECT tgenabled IN ('O', 'A'), proname = 'relay_notify' AND tgtype = 4 AND tgqual IS NULL AND tgargs ="
    " convert_to($2, getdatabaseencoding()) || '\\x00'::bytea, prosrc = $3 FROM pg_trigger JOIN pg_proc ON pg_proc.oid "
    "="
    " tgfoid WHERE tgrelid = $1::oid AND tgname = 'relay_notify'";
static const char privileges_sql[] =
    "SELECT string_agg(privilege, '; '), string_agg(format('GRANT %s TO %I', privilege, current_user), '; '),"
    " row_security_active($1::oid), current_user FROM ("
    "SELECT format('USAGE ON SCHEMA %I', nspname) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace"
    " WHERE c.oid = $1::oid AND NOT has_schema_privilege(n.oid, 'USAGE')"
    " UNION ALL SELECT format('SELECT ON TABLE %s', $2::text) WHERE EXISTS (SELECT FROM pg_attribute WHERE attrelid = "
    "$1::oid"
    " AND attname IN ('id', 'payload', 'created_at', 'processed_at', 'attempts')"
    " AND NOT has_column_privilege($1::oid, attnum, 'SELECT'))"
    " UNION ALL SELECT format('UPDATE (%s) ON TABLE %s', string_agg(attname, ', ' ORDER BY attnum), $2::text) FROM "
    "pg_attribute"
    " WHERE attrelid = $1::oid AND attname IN ('processed_at', 'attempts', 'last_error')"
    " AND NOT has_column_privilege($1::oid, attnum, 'UPDATE') HAVING count(*) > 0) AS missing (privilege)";
static const char dead_rows_sql[] = "SELECT pg_stat_get_live_tuples($1::oid), pg_stat_get_dead_tuples($1::oid)";
static const char rows_sql[] =
    "SELECT id, CASE WHEN octet_length(payload::text) <= 65536 THEN payload::text END FROM %s"
    " WHERE processed_at IS NULL ORDER BY id LIMIT 100";

static bool is_true(const PGresult *result, int column)
{
	return *PQgetvalue(result, 0, column) == 't';
}

/* False: there is no table that can be looked at. */
static bool find_table(struct doctor *d)
{
	struct qualified_name name;
	struct buf quoted = {0};
	struct err e = {0};
	PGresult *r = NULL;
	if (ident_parse(d->options->table, &name, &e)) {
		ident_add_qualified(&quoted, &name);
		/* By this connection's own search_path. */
		r = bounded_ask(d->conn, find_sql, 1, (const char *const[]){quoted.p}, d->options->connect_timeout_ms,
		                &e);
	}
	if (r == NULL) {
		doctor_fail(d, DOCTOR_TABLE, e.text, "mend what Postgres complains of, and ask again");
	} else if (PQgetisnull(r, 0, 0)) {
		doctor_say(d, DOCTOR_TABLE, DOCTOR_FAILURE, "there is no table %s", quoted.p);
		doctor_remedy(d, DOCTOR_TABLE, "create it by `%s`, or name the right one: --table SCHEMA.NAME",
		              doctor_install(d));
	} else {
		(void)snprintf(d->table_id, sizeof d->table_id, "%s", PQgetvalue(r, 0, 0));
	}
	PQclear(r);
	buf_free(&quoted);
	return d->table_id[0] != '\0';
}

/* Whether Postgres understands what relay says to this table. */
static bool takes_statements(struct doctor *d, struct err *e)
{
	struct outbox outbox;
	bool ok = outbox_init(&outbox, d->options->table, d->options->channel, e);
	for (size_t i = 0; ok && i < OUTBOX_STATEMENTS; i++)
		ok = bounded_parse(d->conn, outbox.sql[i], d->options->connect_timeout_ms, e);
	outbox_fini(&outbox);
	return ok;
}

/* False: it is no table. */
static bool check_table(struct doctor *d)
{
	struct err e = {0};
	PGresult *r = doctor_look(d, DOCTOR_TABLE, table_sql, 1, (const char *const[]){d->table_id});
	if (r == NULL)
		return false;
	d->full_name = arena_str(&d->arena, str_of(PQgetvalue(r, 0, 0))).p;
	d->owner = arena_str(&d->arena, str_of(PQgetvalue(r, 0, 5))).p;
	d->new_index = arena_str(&d->arena, str_of(PQgetvalue(r, 0, 6))).p;
	bool is_table = is_true(r, 1);
	bool differs = strcmp(PQgetvalue(r, 0, 2), "0") != 0;
	bool is_understood = is_table && takes_statements(d, &e);
	if (!is_table) {
		doctor_say(d, DOCTOR_TABLE, DOCTOR_FAILURE, "%s is no table", d->full_name);
		doctor_remedy(d, DOCTOR_TABLE, "name the outbox table itself: --table SCHEMA.NAME");
	} else if (differs) {
		doctor_say(d, DOCTOR_TABLE, is_understood ? DOCTOR_WARNING : DOCTOR_FAILURE, "%s: %s", d->full_name,
		           PQgetvalue(r, 0, 3));
		doctor_remedy(d, DOCTOR_TABLE, "%s", PQgetvalue(r, 0, 4));
	} else if (!is_understood) {
		doctor_fail(d, DOCTOR_TABLE, e.text, "see what `relay install` says of the table");
	} else {
		doctor_say(d, DOCTOR_TABLE, DOCTOR_OK, "%s has the columns that it should", d->full_name);
	}
	PQclear(r);
	return is_table;
}

static void check_index(struct doctor *d)
{
	PGresult *r = doctor_look(d, DOCTOR_INDEX, index_sql, 1, (const char *const[]){d->table_id});
	if (r == NULL)
		return;
	const char *name = PQntuples(r) == 1 ? PQgetvalue(r, 0, 0) : "";
	if (PQntuples(r) == 0) {
		doctor_skip(d, DOCTOR_INDEX, DOCTOR_INDEX, "column id is missing");
	} else if (name[0] == '\0' || !is_true(r, 2)) {
		doctor_say(d, DOCTOR_INDEX, DOCTOR_WARNING, "%s%s: every claim reads the delivered rows too",
		           name[0] == '\0' ? "there is none" : name, name[0] == '\0' ? "" : " is on something else");
		doctor_remedy(d, DOCTOR_INDEX, "CREATE INDEX CONCURRENTLY %sON %s (id) WHERE processed_at IS NULL",
		              d->new_index, d->full_name);
	} else if (!is_true(r, 1)) {
		doctor_say(d, DOCTOR_INDEX, DOCTOR_WARNING, "%s is not valid: it is being built, or that failed", name);
		doctor_remedy(d, DOCTOR_INDEX, "REINDEX INDEX CONCURRENTLY %s", name);
	} else if (!is_true(r, 3)) {
		doctor_say(d, DOCTOR_INDEX, DOCTOR_WARNING, "nothing keeps column id of %s unique", d->full_name);
		doctor_remedy(d, DOCTOR_INDEX, "ALTER TABLE %s ADD PRIMARY KEY (id)", d->full_name);
	} else {
		doctor_say(d, DOCTOR_INDEX, DOCTOR_OK, "%s", name);
	}
	PQclear(r);
}

/* The function's text, as sql/trigger.sql has it between its marks. */
static const char *trigger_body(struct doctor *d)
{
	static const char mark[] = "$body$";
	const char *start = strstr(sql_trigger, mark) + sizeof mark - 1;
	return arena_str(&d->arena, (struct str){start, (size_t)(strstr(start, mark) - start)}).p;
}

static void check_trigger(struct doctor *d)
{
	const char *values[] = {d->table_id, d->options->channel, trigger_body(d)};
	PGresult *r = doctor_look(d, DOCTOR_TRIGGER, trigger_sql, 3, values);
	if (r == NULL)
		return;
	d->has_trigger = PQntuples(r) == 1 && is_true(r, 0);
	bool is_right = PQntuples(r) == 1 && is_true(r, 1);
	bool is_current = PQntuples(r) == 1 && is_true(r, 2);
	if (PQntuples(r) == 0)
		doctor_say(d, DOCTOR_TRIGGER, DOCTOR_WARNING, "there is none: rows wait for the next sweep");
	else if (!d->has_trigger)
		doctor_say(d, DOCTOR_TRIGGER, DOCTOR_WARNING, "it is disabled: rows wait for the next sweep");
	else if (!is_right)
		doctor_say(d, DOCTOR_TRIGGER, DOCTOR_WARNING,
		           "it does not notify channel %s: rows wait for the next sweep", d->options->channel);
	else if (!is_current)
		doctor_say(d, DOCTOR_TRIGGER, DOCTOR_WARNING, "its function is of another version of relay");
	else
		doctor_say(d, DOCTOR_TRIGGER, DOCTOR_OK, "it notifies channel %s", d->options->channel);
	if (PQntuples(r) == 1 && !d->has_trigger)
		doctor_remedy(d, DOCTOR_TRIGGER, "ALTER TABLE %s ENABLE TRIGGER relay_notify", d->full_name);
	else if (!is_right || !is_current)
		doctor_remedy(d, DOCTOR_TRIGGER, "`%s`, as the table's owner, %s", doctor_install(d), d->owner);
	PQclear(r);
}

static void check_privileges(struct doctor *d)
{
	const char *values[] = {d->table_id, d->full_name};
	PGresult *r = doctor_look(d, DOCTOR_PRIVILEGES, privileges_sql, 2, values);
	if (r == NULL)
		return;
	const char *role = PQgetvalue(r, 0, 3);
	if (!PQgetisnull(r, 0, 0)) {
		doctor_say(d, DOCTOR_PRIVILEGES, DOCTOR_FAILURE, "role %s lacks %s", role, PQgetvalue(r, 0, 0));
		doctor_remedy(d, DOCTOR_PRIVILEGES, "%s", PQgetvalue(r, 0, 1));
	} else if (is_true(r, 2)) {
		doctor_say(d, DOCTOR_PRIVILEGES, DOCTOR_WARNING,
		           "row level security holds for role %s: it delivers only the rows that a policy shows it",
		           role);
		doctor_remedy(d, DOCTOR_PRIVILEGES, "CREATE POLICY relay ON %s TO %s USING (true)", d->full_name, role);
	} else {
		doctor_say(d, DOCTOR_PRIVILEGES, DOCTOR_OK, "role %s has what delivering takes", role);
	}
	PQclear(r);
}

static void check_dead_rows(struct doctor *d)
{
	enum { MANY = 10000 };
	PGresult *r = doctor_look(d, DOCTOR_DEAD_ROWS, dead_rows_sql, 1, (const char *const[]){d->table_id});
	if (r == NULL)
		return;
	long long live = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
	long long dead = strtoll(PQgetvalue(r, 0, 1), NULL, 10);
	bool are_many = dead > MANY && dead > live / 2;
	doctor_say(d, DOCTOR_DEAD_ROWS, are_many ? DOCTOR_WARNING : DOCTOR_OK, "%lld dead, %lld live", dead, live);
	if (are_many)
		doctor_remedy(d, DOCTOR_DEAD_ROWS,
		              "VACUUM (ANALYZE) %s, once nothing holds it back; and see that autovacuum is on for it",
		              d->full_name);
	PQclear(r);
}

/* For the comparison with the model. */
static void read_rows(struct doctor *d)
{
	struct buf sql = {0};
	if (d->findings[DOCTOR_TABLE].status == DOCTOR_FAILURE ||
	    d->findings[DOCTOR_PRIVILEGES].status == DOCTOR_FAILURE) {
		doctor_skip(d, DOCTOR_ROWS, DOCTOR_ROWS, "the pending rows cannot be read");
		return;
	}
	buf_printf(&sql, rows_sql, d->full_name);
	PGresult *r = doctor_look(d, DOCTOR_ROWS, sql.p, 0, NULL);
	buf_free(&sql);
	if (r == NULL)
		return;
	d->n_rows = (size_t)PQntuples(r);
	d->rows = ARENA_ARRAY(&d->arena, struct doctor_row, d->n_rows);
	for (size_t i = 0; i < d->n_rows; i++) {
		d->rows[i].id = arena_str(&d->arena, str_of(PQgetvalue(r, (int)i, 0))).p;
		d->rows[i].payload = arena_str(&d->arena, str_of(PQgetvalue(r, (int)i, 1)));
	}
	PQclear(r);
}

void doctor_table(struct doctor *d)
{
	if (find_table(d) && check_table(d)) {
		check_index(d);
		check_trigger(d);
		check_privileges(d);
		check_dead_rows(d);
		read_rows(d);
	}
	doctor_skip(d, DOCTOR_INDEX, DOCTOR_PRIVILEGES, "there is no table to look at");
	doctor_skip(d, DOCTOR_DEAD_ROWS, DOCTOR_DEAD_ROWS, "there is no table to look at");
	if (d->rows == NULL)
		doctor_skip(d, DOCTOR_ROWS, DOCTOR_ROWS, "there is no table to look at");
}
