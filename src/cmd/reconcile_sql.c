#include "cmd/reconcile_sql.h"

#include <stddef.h>

#include "cmd/sql_parts.h"

#define CHUNK "5000"
#define BLOCK "100"
_Static_assert(RECONCILE_CHUNK == 5000 && RECONCILE_BLOCK == 100, "the SQL says the same");

/* No limit on a statement: the last ones look at everything. A role that may only read has
 * default_transaction_read_only set, perhaps; a temporary table is no harm. Hashing and sorting whole stores in 4 MB
 * takes many passes, and sorting tuples, which begin alike, twice as long as hashing them; of statistics, the size is
 * what matters. */
const char reconcile_settings[] = "SELECT pg_catalog.set_config('statement_timeout', '0', false),"
                                  " pg_catalog.set_config('lock_timeout', '5s', false),"
                                  " pg_catalog.set_config('idle_in_transaction_session_timeout', '90s', false),"
                                  " pg_catalog.set_config('idle_session_timeout', '0', false),"
                                  " CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL"
                                  " THEN pg_catalog.set_config('transaction_timeout', '0', false) END,"
                                  " pg_catalog.set_config('default_transaction_isolation', 'read committed', false),"
                                  " pg_catalog.set_config('default_transaction_read_only', 'off', false),"
                                  " pg_catalog.set_config('jit', 'off', false),"
                                  " pg_catalog.set_config('default_statistics_target', '10', false),"
                                  " pg_catalog.set_config('work_mem', '64MB', false),"
                                  " pg_catalog.set_config('enable_sort', 'off', false)";

#define DATABASE "pg_catalog.current_database()"
#define MAY_READ SQL_HAS("id", "SELECT") " AND " SQL_HAS("payload", "SELECT") " AND " SQL_HAS("processed_at", "SELECT")
const char reconcile_grants[] = SQL_GRANTS("(true, " MAY_READ ", 'SELECT (id, payload, processed_at) ON TABLE ' || %l),"
                                           " (true, pg_catalog.has_database_privilege(" DATABASE ", 'TEMPORARY'),"
                                           " 'TEMPORARY ON DATABASE ' || pg_catalog.quote_ident(" DATABASE ")),"
                                           " " SQL_MAY_INSERT("$1::pg_catalog.bool"));

#define TEMP "pg_temp.relay_temp_"
#define TEXT " pg_catalog.text COLLATE pg_catalog.\"C\""
#define TUPLE "u" TEXT ", r" TEXT ", o" TEXT
const char *const reconcile_tables[] = {
    "CREATE TABLE " TEMP "said (" TUPLE ", seq pg_catalog.int8, state pg_catalog.int2, condition pg_catalog.jsonb)",
    "CREATE TABLE " TEMP "held (" TUPLE ", name" TEXT ", context pg_catalog.jsonb)",
    "CREATE TABLE " TEMP "last (" TUPLE ", seq pg_catalog.int8, n_rows pg_catalog.int8, state pg_catalog.int2,"
    " condition pg_catalog.jsonb)",
    "CREATE TABLE " TEMP "differ (n pg_catalog.int8 PRIMARY KEY, " TUPLE ", seq pg_catalog.int8,"
    " n_rows pg_catalog.int8, is_write pg_catalog.bool, condition pg_catalog.jsonb, kind pg_catalog.text,"
    " found pg_catalog.jsonb, repair pg_catalog.int8)",
    "CREATE TABLE " TEMP "again (n pg_catalog.int8 PRIMARY KEY, kind pg_catalog.text, found pg_catalog.jsonb)",
    NULL,
};

const char reconcile_start[] = "SELECT pg_catalog.clock_timestamp(), pg_catalog.min(id), pg_catalog.max(id) FROM %s";

#define SAY(which) \
	"WITH read AS MATERIALIZED (SELECT id, payload, processed_at FROM %s WHERE " which ")," \
	" said AS (INSERT INTO " TEMP "said SELECT " SQL_TUPLE ", o.id * 2 + t.is_write," \
	" CASE WHEN o.processed_at IS NULL THEN 2" \
	" WHEN o.id > $3::pg_catalog.int8 OR o.processed_at >= $2::pg_catalog.timestamptz THEN 1 ELSE 0 END," \
	" CASE WHEN t.is_write = 1 THEN NULLIF(t.tuple -> 'condition', 'null') END FROM read AS o, " SQL_OPERATIONS \
	" WHERE $4::pg_catalog.text IS NULL OR pg_catalog.starts_with(t.tuple ->> 'object', $4) RETURNING seq & 1 AS " \
	"is_write)" \
	" SELECT (SELECT pg_catalog.count(*) FROM read), (SELECT pg_catalog.max(id) FROM read)," \
	" pg_catalog.count(*) FILTER (WHERE is_write = 1), pg_catalog.count(*) FILTER (WHERE is_write = 0) FROM said"
const char reconcile_say[] = SAY("id > $1::pg_catalog.int8 ORDER BY id LIMIT " CHUNK);
const char reconcile_say_pending[] = SAY("id <= $1::pg_catalog.int8 AND processed_at IS NULL");

const char reconcile_copy_held[] = "COPY " TEMP "held FROM STDIN";

const char *const reconcile_analyze_loaded[] = {"ANALYZE " TEMP "said", "ANALYZE " TEMP "held", NULL};
const char *const reconcile_analyze_last[] = {"ANALYZE " TEMP "last", NULL};

#define SAME(a, b) a ".u = " b ".u AND " a ".r = " b ".r AND " a ".o = " b ".o"
const char reconcile_sum_up[] =
    "INSERT INTO " TEMP "last SELECT l.u, l.r, l.o, l.seq, l.n_rows, l.state, c.condition FROM"
    " (SELECT u, r, o, pg_catalog.max(seq) AS seq, pg_catalog.count(*) AS n_rows, pg_catalog.max(state) AS state"
    " FROM " TEMP "said WHERE u IS NOT NULL AND r IS NOT NULL AND o IS NOT NULL GROUP BY u, r, o"
    " HAVING pg_catalog.max(seq) > $1::pg_catalog.int8) AS l LEFT JOIN"
    " (SELECT DISTINCT ON (u, r, o, seq) u, r, o, seq, condition FROM " TEMP "said WHERE condition IS NOT NULL) AS c"
    " ON " SAME("l", "c") " AND l.seq = c.seq";

const char reconcile_count[] = "SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE state = 2),"
                               " pg_catalog.count(*) FILTER (WHERE state = 1) FROM " TEMP "last";

#define CONTEXT(condition) "COALESCE(NULLIF(" condition " -> 'context', 'null'), '{}')"
#define FILL "INSERT INTO " TEMP "differ (n, u, r, o, seq, n_rows, is_write, condition) SELECT "
#define OF_LAST "l.u, l.r, l.o, l.seq, l.n_rows, l.seq & 1 = 1, l.condition FROM " TEMP "last AS l"
const char reconcile_compare[] =
    FILL "pg_catalog.row_number() OVER (ORDER BY seq, u, r, o), * FROM (SELECT DISTINCT ON (l.u, l.r, l.o) " OF_LAST
         " LEFT JOIN " TEMP "held AS h ON " SAME(
             "l", "h") " WHERE l.state = 0 AND CASE WHEN l.seq & 1 = 0"
                       " THEN h.o IS NOT NULL ELSE h.o IS NULL OR l.condition ->> 'name' IS DISTINCT FROM h.name"
                       " OR (h.name IS NOT NULL AND " CONTEXT("l.condition") " <> h.context) END) AS d";
const char reconcile_compare_foreign[] =
    FILL "(SELECT pg_catalog.count(*) FROM " TEMP "differ) + pg_catalog.row_number() OVER (ORDER BY o, r, u),"
         " u, r, o, NULL, 0, NULL, NULL FROM (SELECT DISTINCT h.u, h.r, h.o FROM " TEMP "held AS h"
         " WHERE NOT EXISTS (SELECT FROM " TEMP
         "last AS l WHERE " SAME("l", "h") ")"
                                           " AND (pg_catalog.split_part(h.o, ':', 1), h.r) IN"
                                           " (SELECT pg_catalog.split_part(o, ':', 1), r FROM " TEMP "last)) AS d";
const char reconcile_pick[] = FILL "pg_catalog.row_number() OVER (ORDER BY seq, u, r, o), * FROM (SELECT " OF_LAST
                                   " WHERE l.state = 0 ORDER BY pg_catalog.random() LIMIT $1::pg_catalog.int8) AS d";

const char reconcile_block[] = "SELECT n, u, r, o, is_write, condition ->> 'name', " CONTEXT(
    "condition") " FROM " TEMP "differ WHERE n > $1::pg_catalog.int8 ORDER BY n LIMIT " BLOCK;

const char reconcile_copy_again[] = "COPY " TEMP "again FROM STDIN";

const char reconcile_drop_same[] =
    "DELETE FROM " TEMP "differ AS d WHERE NOT EXISTS (SELECT FROM " TEMP "again AS a WHERE a.n = d.n)";
const char reconcile_note_found[] =
    "UPDATE " TEMP "differ AS d SET kind = a.kind, found = a.found FROM " TEMP "again AS a WHERE a.n = d.n";
const char reconcile_forget_found[] = "TRUNCATE " TEMP "again";

#define MAX_ID "9223372036854775807"
#define ROWS_NOW \
	"SELECT " SQL_TUPLE ", o.id, o.processed_at FROM %s AS o, " SQL_OPERATIONS \
	" WHERE o.id >= $1::pg_catalog.int8 OR o.processed_at IS NULL"
#define MOVED \
	"SELECT d.n FROM " TEMP "differ AS d LEFT JOIN" \
	" (SELECT w.n, pg_catalog.count(*) AS n_rows, pg_catalog.bool_or(s.processed_at IS NULL) AS is_pending FROM" \
	" (" ROWS_NOW ") AS s JOIN " TEMP \
	"differ AS w ON " SAME("s", "w") " WHERE s.id < COALESCE(w.repair, " MAX_ID \
	                                 ") GROUP BY w.n) AS f ON f.n = d.n" \
	                                 " WHERE COALESCE(f.n_rows, 0) <> d.n_rows OR f.is_pending"
const char reconcile_leave_moved[] = "WITH gone AS (DELETE FROM " TEMP "differ WHERE n IN (" MOVED ") RETURNING seq)"
                                     " SELECT pg_catalog.count(*), pg_catalog.count(seq) FROM gone";
const char reconcile_count_moved[] = "SELECT pg_catalog.count(*) FROM (" MOVED ") AS moved";

const char reconcile_kinds[] = "SELECT kind, pg_catalog.count(*) FROM " TEMP "differ GROUP BY kind";

#define OPERATION(name, tuple) "pg_catalog.jsonb_build_object('" name "', pg_catalog.jsonb_build_array(" tuple "))"
#define PLAIN "pg_catalog.jsonb_build_object('user', u, 'relation', r, 'object', o)"
#define CONDITIONAL \
	PLAIN " || CASE WHEN condition IS NULL THEN '{}' ELSE pg_catalog.jsonb_build_object('condition', condition) " \
	      "END"
#define WRITE OPERATION("writes", CONDITIONAL)
#define DELETE OPERATION("deletes", PLAIN)
const char reconcile_repair[] =
    "WITH made AS (INSERT INTO %s (payload) SELECT CASE kind WHEN 'missing' THEN " WRITE
    " WHEN 'condition' THEN " DELETE " || " WRITE " ELSE " DELETE " END FROM " TEMP "differ ORDER BY n RETURNING id)"
    " UPDATE " TEMP "differ AS d SET repair = m.id FROM"
    " (SELECT id, pg_catalog.row_number() OVER (ORDER BY id) AS place FROM made) AS m JOIN"
    " (SELECT n, pg_catalog.row_number() OVER (ORDER BY n) AS place FROM " TEMP "differ) AS p USING (place)"
    " WHERE d.n = p.n";

const char reconcile_list[] =
    "SELECT d.n, d.kind, d.u, d.r, d.o, d.seq >> 1, pg_catalog.to_char(o.processed_at AT TIME ZONE 'UTC',"
    " 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), d.condition, d.found, d.repair FROM " TEMP "differ AS d"
    " LEFT JOIN %s AS o ON o.id = d.seq >> 1 WHERE d.n > $1::pg_catalog.int8 ORDER BY d.n LIMIT " BLOCK;
