#include "cmd/session.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "cmd/commands.h"
#include "core/ident.h"
#include "io/pg_params.h"
#include "io/pg_settings.h"

PGconn *session_open(const struct options *o, const char *label, struct err *e)
{
	struct pg_params *params = pg_params_new(o->database_url, label, e);
	if (!params)
		return NULL;

	size_t n = 0;
	while (pg_params_keywords(params)[n])
		n++;
	const char **keywords = xcalloc(n + 2, sizeof *keywords);
	const char **values = xcalloc(n + 2, sizeof *values);
	char timeout_s[24];
	snprintf(timeout_s, sizeof timeout_s, "%lld", (long long)((o->connect_timeout_ms + 999) / 1000));
	/* Of a keyword that stands twice, the last counts. */
	keywords[0] = "connect_timeout";
	values[0] = timeout_s;
	memcpy(keywords + 1, pg_params_keywords(params), n * sizeof *keywords);
	memcpy(values + 1, pg_params_values(params), n * sizeof *values);

	PGconn *conn = PQconnectdbParams(keywords, values, 0);
	if (PQstatus(conn) != CONNECTION_OK) {
		(void)pg_params_connection_error(conn, e);
		/* libpq gives a failed connection no code; its ping tells a refusal from an absence. */
		const PGPing ping = PQpingParams(keywords, values, 0);
		e->kind = ping == PQPING_OK || ping == PQPING_NO_ATTEMPT ? ERR_CONFIG : ERR_TRANSIENT;
		PQfinish(conn);
		conn = NULL;
	}
	free(values);
	free(keywords);
	pg_params_free(params);
	return conn;
}

static bool is_right(PGconn *conn, PGresult *result, struct err *e)
{
	const ExecStatusType status = PQresultStatus(result);
	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_COPY_IN)
		return true;
	if (PQresultErrorField(result, PG_DIAG_SQLSTATE) == NULL || PQstatus(conn) == CONNECTION_BAD)
		return err_set(e, ERR_TRANSIENT, "lost Postgres on the way: %s", PQerrorMessage(conn));
	return pg_params_result_error(result, e);
}

static bool run(PGconn *conn, const char *sql, struct err *e)
{
	PGresult *result = PQexec(conn, sql);
	const bool ok = is_right(conn, result, e);
	PQclear(result);
	return ok;
}

bool session_begin(PGconn *conn, const char *mode, struct err *e)
{
	struct buf begin = {0};
	buf_printf(&begin, "BEGIN ISOLATION LEVEL %s", mode);
	const bool ok = run(conn, begin.p, e) && run(conn, PG_SETTINGS("true"), e);
	buf_free(&begin);
	return ok;
}

bool session_commit(PGconn *conn, struct err *e)
{
	return run(conn, "COMMIT", e);
}

bool session_table(const struct options *o, struct buf *quoted, struct err *e)
{
	struct qualified_name name;
	if (!ident_parse(o->table, &name, e))
		return err_prefix(e, "--table");
	ident_add_qualified(quoted, &name);
	return true;
}

bool session_send(PGconn *conn, const char *template, const char *table, int n, const char *const *values,
                  struct err *e)
{
	char *sql = ident_fill_in(template, table);
	const int sent = PQsendQueryParams(conn, sql, n, NULL, values, NULL, NULL, 0);
	free(sql);
	return sent == 1 || is_right(conn, NULL, e);
}

bool session_is_ready(PGconn *conn, int timeout_ms)
{
	while (PQisBusy(conn)) {
		struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
		if (poll(&fd, 1, timeout_ms) == 0)
			return false;
		if (PQconsumeInput(conn) == 0)
			return true;
	}
	return true;
}

PGresult *session_take(PGconn *conn, struct err *e)
{
	PGresult *result = NULL;
	PGresult *next;
	while ((next = PQgetResult(conn)) != NULL) {
		PQclear(result);
		result = next;
		if (PQresultStatus(result) == PGRES_COPY_IN || PQstatus(conn) == CONNECTION_BAD)
			break;
	}
	if (is_right(conn, result, e))
		return result;
	PQclear(result);
	return NULL;
}

PGresult *session_query(PGconn *conn, const char *template, const char *table, int n, const char *const *values,
                        struct err *e)
{
	return session_send(conn, template, table, n, values, e) ? session_take(conn, e) : NULL;
}

int64_t session_number(const PGresult *result, int row, int column)
{
	return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

int session_exit(const struct err *e)
{
	return e->kind == ERR_TRANSIENT ? EXIT_UNREACHABLE : EXIT_WRONG;
}
