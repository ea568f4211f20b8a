/* A session with Postgres for commands that ask, one question after the other, and end. */
#ifndef RELAY_CMD_SESSION_H
#define RELAY_CMD_SESSION_H

#include <libpq-fe.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"

/* Connects within connect_timeout_ms, unless the connection string says another time. `label` is in the session's
 * application_name. NULL: *e says whether the server could not be reached (ERR_TRANSIENT) or will not have us
 * (ERR_CONFIG). PQfinish ends it. */
PGconn *session_open(const struct options *o, const char *label, struct err *e) MUST_CHECK;

/* Begins a transaction with settings of its own, whatever the role or the database sets: limits of time, and only scans
 * of an index. mode: its isolation and access, such as "READ COMMITTED". */
bool session_begin(PGconn *conn, const char *mode, struct err *e) MUST_CHECK;

bool session_commit(PGconn *conn, struct err *e) MUST_CHECK;

/* Adds the table's name as SQL has it. */
bool session_table(const struct options *o, struct buf *quoted, struct err *e) MUST_CHECK;

/* Asks one statement, a template of ident_fill_in's. The caller clears the result. NULL: *e says why not, and a
 * transaction has failed. */
PGresult *session_query(PGconn *conn, const char *template, const char *table, int n, const char *const *values,
                        struct err *e) MUST_CHECK;

/* The same in three steps, for whoever has something to do meanwhile: sends it; waits at most so long, and tells
 * whether session_take need not wait; takes the result. That of a COPY is there as soon as data may be put. */
bool session_send(PGconn *conn, const char *template, const char *table, int n, const char *const *values,
                  struct err *e) MUST_CHECK;
bool session_is_ready(PGconn *conn, int timeout_ms);
PGresult *session_take(PGconn *conn, struct err *e) MUST_CHECK;

/* A field of a result as a number; 0 where it is NULL. */
int64_t session_number(const PGresult *result, int row, int column);

/* What a command ends with after such an error. */
int session_exit(const struct err *e);

#endif
