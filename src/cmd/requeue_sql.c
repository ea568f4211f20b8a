#include "cmd/requeue_sql.h"

#include "cmd/sql_parts.h"
#include "core/ids.h"

_Static_assert(IDS_MAX == 10000, "the SQL says the same");

#define IDS "$1::pg_catalog.int8[]"
#define OF_IDS "id = ANY (" IDS ")"
#define COUNT(which) "SELECT pg_catalog.count(*) FROM %s WHERE " which
#define LIST(which) \
	"SELECT id, attempts, pg_catalog.left(last_error, 512) FROM %s WHERE " which " ORDER BY id LIMIT 10000"
#define RESET(which) "UPDATE %s SET attempts = 0, last_error = NULL WHERE " which
#define COPY(which) "INSERT INTO %s (payload) SELECT payload FROM %s WHERE " which " ORDER BY id RETURNING id"
#define ROW(which, change) \
	{ \
		COUNT(which), LIST(which), change(which) \
	}

const struct requeue_sql requeue_sql[REQUEUE_SELECTIONS] = {
    [REQUEUE_IDS] = ROW("processed_at IS NULL AND " OF_IDS, RESET),
    [REQUEUE_REASON] = ROW("processed_at IS NULL AND pg_catalog.strpos(last_error, $1::pg_catalog.text) > 0", RESET),
    [REQUEUE_REFUSED] = ROW("processed_at IS NULL AND (attempts > 0 OR last_error IS NOT NULL)", RESET),
    [REQUEUE_PROCESSED] = ROW("processed_at IS NOT NULL AND " OF_IDS, COPY),
};

const char requeue_missing[] = "SELECT w.id FROM pg_catalog.unnest(" IDS ") AS w (id) WHERE NOT EXISTS"
                               " (SELECT FROM %s AS o WHERE o.id = w.id) ORDER BY 1 LIMIT 100";
const char requeue_are_processed[] =
    "SELECT id FROM %s WHERE processed_at IS NOT NULL AND " OF_IDS " ORDER BY 1 LIMIT 100";
const char requeue_are_pending[] = "SELECT id FROM %s WHERE processed_at IS NULL AND " OF_IDS " ORDER BY 1 LIMIT 100";

#define TUPLES "SELECT o.id, " SQL_TUPLE " FROM %s AS o, " SQL_OPERATIONS

const char requeue_later[] =
    "WITH chosen AS MATERIALIZED (" TUPLES " WHERE o." OF_IDS "), others AS (" TUPLES
    " WHERE o.id > (SELECT pg_catalog.min(id) FROM chosen) AND o.id NOT IN (SELECT pg_catalog.unnest(" IDS ")))"
    " SELECT chosen.id, pg_catalog.min(others.id) FROM others JOIN chosen USING (u, r, o)"
    " WHERE others.id > chosen.id GROUP BY 1 ORDER BY 1 LIMIT 100";

const char requeue_take_time[] = "SELECT pg_catalog.set_config('statement_timeout', '0', true)";

const char requeue_notify[] = "SELECT pg_catalog.pg_notify($1, $2)";

#define MAY_RESET SQL_HAS("attempts", "UPDATE") " AND " SQL_HAS("last_error", "UPDATE")
const char requeue_grants[] =
    SQL_GRANTS("(true, pg_catalog.has_table_privilege(%l, 'SELECT'), 'SELECT ON TABLE ' || %l),"
               " (NOT $1::pg_catalog.bool, " MAY_RESET ", 'UPDATE (attempts, last_error) ON TABLE ' || %l),"
               " " SQL_MAY_INSERT("$1::pg_catalog.bool"));
