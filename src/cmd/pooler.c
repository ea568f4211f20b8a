#include "cmd/pooler.h"

#include <stdlib.h>

#include "cmd/bounded.h"

static const char pid_sql[] = "SELECT pg_catalog.pg_backend_pid()";

static bool run(PGconn *conn, const char *sql, int64_t timeout_ms, struct err *e)
{
	PGresult *result = bounded_ask(conn, sql, 0, NULL, timeout_ms, e);
	PQclear(result);
	return result != NULL;
}

static int read_pid(PGresult *result)
{
	int pid = result != NULL ? (int)strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;
	PQclear(result);
	return pid;
}

/* The session that conn has while another connection is in a transaction: a pooler that gives sessions by the
 * transaction has given the first one away, or has none left, and answers when that has ended. 0: no answer. */
static int pid_meanwhile(PGconn *conn, PGconn *other, int64_t timeout_ms, bool *had_to_wait, struct err *e)
{
	struct err ignored;
	PGresult *result = NULL;
	if (!run(other, "BEGIN", timeout_ms, e) || !run(other, pid_sql, timeout_ms, e))
		return 0;
	if (bounded_send(conn, pid_sql, 0, NULL, e))
		result = bounded_take(conn, timeout_ms, e);
	*had_to_wait = result == NULL && bounded_is_waiting(conn);
	(void)run(other, "ROLLBACK", timeout_ms, &ignored);
	if (*had_to_wait)
		result = bounded_take(conn, timeout_ms, e);
	return read_pid(result);
}

enum pooler pooler_find(PGconn *conn, PGconn *other, int64_t timeout_ms, struct err *e)
{
	int first = read_pid(bounded_ask(conn, pid_sql, 0, NULL, timeout_ms, e));
	bool had_to_wait = false;
	int then = first != 0 ? pid_meanwhile(conn, other, timeout_ms, &had_to_wait, e) : 0;
	if (then == 0)
		return POOLER_UNKNOWN;
	/* What libpq was told at the start is the server's own where nothing is in between. */
	const bool is_direct = first == PQbackendPID(conn);
	if (first != then || (had_to_wait && !is_direct))
		return POOLER_TRANSACTION;
	return is_direct ? POOLER_NONE : POOLER_SESSION;
}
