#include "cmd/bounded.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "io/pg_params.h"

/* Waits until something can be read, and reads it. False: the time is over, or the connection is lost. */
static bool read_more(PGconn *conn, int64_t deadline_ms)
{
	struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
	const int64_t left_ms = deadline_ms - clock_ms();
	if (fd.fd < 0 || poll(&fd, 1, left_ms > 0 ? (int)left_ms : 0) <= 0)
		return false;
	return PQconsumeInput(conn) == 1;
}

static bool sent(const PGconn *conn, int ok, struct err *e)
{
	return ok == 1 || err_set(e, ERR_TRANSIENT, "the connection is lost: %s", PQerrorMessage(conn));
}

bool bounded_send(PGconn *conn, const char *sql, size_t n, const char *const *values, struct err *e)
{
	return sent(conn, PQsendQueryParams(conn, sql, (int)n, NULL, values, NULL, NULL, 0), e);
}

PGresult *bounded_take(PGconn *conn, int64_t timeout_ms, struct err *e)
{
	const int64_t deadline_ms = clock_ms() + timeout_ms;
	PGresult *result = NULL;
	for (;;) {
		while (PQisBusy(conn)) {
			if (read_more(conn, deadline_ms))
				continue;
			PQclear(result);
			if (PQstatus(conn) == CONNECTION_BAD)
				(void)sent(conn, 0, e);
			else
				(void)err_set(e, ERR_TRANSIENT, "no answer from Postgres within %lld ms",
				              (long long)timeout_ms);
			return NULL;
		}
		PGresult *next = PQgetResult(conn);
		if (next == NULL)
			break;
		PQclear(result);
		result = next;
	}
	const ExecStatusType status = PQresultStatus(result);
	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
		return result;
	if (PQstatus(conn) == CONNECTION_BAD)
		(void)sent(conn, 0, e);
	else
		(void)pg_params_result_error(result, e);
	PQclear(result);
	return NULL;
}

bool bounded_is_waiting(const PGconn *conn)
{
	return PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_ACTIVE;
}

PGresult *bounded_ask(PGconn *conn, const char *sql, size_t n, const char *const *values, int64_t timeout_ms,
                      struct err *e)
{
	return bounded_send(conn, sql, n, values, e) ? bounded_take(conn, timeout_ms, e) : NULL;
}

bool bounded_parse(PGconn *conn, const char *sql, int64_t timeout_ms, struct err *e)
{
	PGresult *result =
	    sent(conn, PQsendPrepare(conn, "", sql, 0, NULL), e) ? bounded_take(conn, timeout_ms, e) : NULL;
	PQclear(result);
	return result != NULL;
}

bool bounded_hears(PGconn *conn, const char *channel, int64_t timeout_ms)
{
	const int64_t deadline_ms = clock_ms() + timeout_ms;
	bool heard = false;
	do {
		PGnotify *notify;
		while ((notify = PQnotifies(conn)) != NULL) {
			heard = heard || strcmp(notify->relname, channel) == 0;
			PQfreemem(notify);
		}
	} while (!heard && read_more(conn, deadline_ms));
	return heard;
}
