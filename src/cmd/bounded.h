/* Questions to Postgres with a bound of time each, in a session of session_open's. */
#ifndef RELAY_CMD_BOUNDED_H
#define RELAY_CMD_BOUNDED_H

#include <libpq-fe.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Sends one statement with its n parameters as text (n is 0: values may be NULL); bounded_take waits at most timeout_ms
 * for its result, which PQclear frees. NULL: *e says what is wrong. Where the time was over, bounded_is_waiting is
 * true, and bounded_take may be called once more. libpq's own calls would wait for ever where a server, or a pooler, is
 * silent.
 */
bool bounded_send(PGconn *conn, const char *sql, size_t n, const char *const *values, struct err *e) MUST_CHECK;
PGresult *bounded_take(PGconn *conn, int64_t timeout_ms, struct err *e) MUST_CHECK;
bool bounded_is_waiting(const PGconn *conn);

/* Both. */
PGresult *bounded_ask(PGconn *conn, const char *sql, size_t n, const char *const *values, int64_t timeout_ms,
                      struct err *e) MUST_CHECK;

/* Has the server parse a statement, not run it: whether its names and types are right. */
bool bounded_parse(PGconn *conn, const char *sql, int64_t timeout_ms, struct err *e) MUST_CHECK;

/* Waits at most timeout_ms for a notification on a channel; others are dropped. */
bool bounded_hears(PGconn *conn, const char *channel, int64_t timeout_ms);

#endif
