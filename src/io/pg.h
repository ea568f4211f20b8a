/* One connection to Postgres, on the loop: it connects, reconnects for ever with backoff, and sends statements in
 * pipeline mode, without ever blocking.
 *
 * Any error closes the connection: Postgres then rolls back and frees what was locked, and a new session knows nothing
 * of the old one's trouble. The holder is told once, by `lost`; results that were still expected are not delivered. */
#ifndef RELAY_IO_PG_H
#define RELAY_IO_PG_H

#include <event2/event.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PG_STATES(X) \
	X(CLOSED, "closed")         /* not wanted */ \
	X(WAITING, "waiting")       /* until the next try to connect */ \
	X(RESOLVING, "resolving")   /* host names, since libpq would block on them */ \
	X(CONNECTING, "connecting") /* PQconnectPoll has the word */ \
	X(PREPARING, "preparing")   /* the session's settings and statements are on their way */ \
	X(READY, "ready")

enum pg_state {
#define X(name, text) PG_##name,
	PG_STATES(X)
#undef X
};

/* A statement: prepared once a connection, under its name, or sent as text each time where that is wanted. */
struct pg_statement {
	const char *name;
	const char *sql;
};

struct pg;

struct pg_callbacks {
	void (*ready)(void *arg);                     /* the session is set up */
	void (*lost)(void *arg, const struct err *e); /* a connection failed or was lost; it is tried again */
	void (*notified)(void *arg, const char *channel, const char *payload); /* may be NULL */
};

struct pg_config {
	const char *database_url; /* NULL: all from libpq's defaults */
	const char *label;        /* "lane 1": in the log, and after "relay " in application_name */
	int64_t connect_timeout_ms;
	const struct pg_statement *statements; /* prepared when the connection is made; outlive the connection */
	size_t n_statements;
	bool *is_pooled; /* no session of one's own: nothing is prepared or set in it, only in each transaction. Set
	                    when Postgres does not know what was prepared; shared by connections that go the same way */
};

/* A result that is in order: PGRES_COMMAND_OK or PGRES_TUPLES_OK. It belongs to pg. */
typedef void pg_result_fn(void *arg, const PGresult *result);

/* Whether libpq understands the connection string; ERR_CONFIG says why not. Connects to nothing. */
bool pg_check_url(const char *database_url, struct err *e) MUST_CHECK;

/* Makes a closed connection; nothing happens before pg_open. The configuration's strings outlive it. */
struct pg *pg_new(struct event_base *base, const struct pg_config *config, const struct pg_callbacks *callbacks,
                  void *arg);

/* Begins to connect, and keeps at it. */
void pg_open(struct pg *pg);

/* Closes without calling anything, and frees. NULL is nothing. Not to be called from one of its own callbacks. */
void pg_free(struct pg *pg);

enum pg_state pg_state(const struct pg *pg);

/* The process that serves the connection, as libpq was told when it was made (a pooler invents one); 0: none. */
int pg_backend_pid(const struct pg *pg);

/* A server setting as the server reports it ("server_version", "server_encoding"); NULL when not connected. */
const char *pg_setting(const struct pg *pg, const char *name);

/* The connection has proved good for what it is there for: should it be lost, the next tries begin with short waits
 * again. A server that lets one in and then refuses everything is not asked for it ten times a second. */
void pg_well(struct pg *pg);

/* Sends one of the prepared statements, with text parameters (NULL is SQL's NULL). Only while READY (or PREPARING); fn
 * gets the result. A failure to send shows as a lost connection, later. */
void pg_execute(struct pg *pg, const struct pg_statement *s, int n, const char *const *values, pg_result_fn *fn,
                void *arg);

/* Sends BEGIN, and what a pooled connection needs to be told in each transaction. Only for a connection with
 * statements. */
void pg_begin(struct pg *pg);

/* Sends COMMIT; fn gets its result. Only for a connection with statements. */
void pg_commit(struct pg *pg, pg_result_fn *fn, void *arg);

/* Sends a statement without parameters, unprepared. */
void pg_query(struct pg *pg, const char *sql, pg_result_fn *fn, void *arg);

/* Ends a round trip: the server answers what was sent since the last one, and flushes its answers (libpq, "Pipeline
 * Mode"). */
void pg_sync(struct pg *pg);

/* Gives up this connection because of *e, as if it had been lost, and connects anew. Calls `lost`, later. */
void pg_fail(struct pg *pg, const struct err *e);

#endif
