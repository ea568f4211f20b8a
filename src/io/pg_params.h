/* How to reach Postgres: the connection string and libpq's defaults, with the host names resolved; and libpq's error
 * messages as errors that say what to do. */
#ifndef RELAY_IO_PG_PARAMS_H
#define RELAY_IO_PG_PARAMS_H

#include <event2/event.h>
#include <libpq-fe.h>

#include "base/err.h"

struct pg_params;
struct pg_lookup;

/* Reads the connection string (libpq, "Connection Strings"; NULL: only defaults) and what it leaves open from the
 * environment, as libpq does. `label` goes into application_name unless that is set. Adds keepalives and
 * tcp_user_timeout where they are not set. NULL and ERR_CONFIG when the string is wrong. */
struct pg_params *pg_params_new(const char *database_url, const char *label, struct err *e) MUST_CHECK;
void pg_params_free(struct pg_params *p);

/* Has libpq try the hosts, which it takes one after the other, from this one on (modulo their number), and then those
 * before it. libpq's own time for each host is not kept under PQconnectPoll, so a host that does not answer uses up the
 * whole time of a try: the next try has to begin with the next one, or a standby would never be reached. */
void pg_params_begin_with(struct pg_params *p, unsigned host);

/* For PQconnectStartParams; they live as long as p. */
const char *const *pg_params_keywords(const struct pg_params *p);
const char *const *pg_params_values(const struct pg_params *p);

/* params: they belong to the one called. NULL: the names could not be resolved, and *e (ERR_TRANSIENT) says which. */
typedef void pg_resolved_fn(void *arg, struct pg_params *params, const struct err *e);

/* Resolves every host name into hostaddr, since libpq would block on it, and keeps host for TLS (libpq, "hostaddr"): a
 * name with several addresses becomes several hosts, tried in turn. Reads /etc/hosts and /etc/resolv.conf as they are
 * now. Takes p. Calls fn exactly once, later or at once, unless cancelled; returns NULL when it has been called
 * already.
 */
struct pg_lookup *pg_params_resolve(struct pg_params *p, struct event_base *base, pg_resolved_fn *fn, void *arg);

/* fn will not be called. What is left is freed by the loop's next turns. NULL is nothing. */
void pg_lookup_cancel(struct pg_lookup *lookup);

/* What a failed connection says. Returns false. */
bool pg_params_connection_error(const PGconn *conn, struct err *e);

/* What a failed statement says: its kind by its SQLSTATE (PostgreSQL, appendix A), and what to do. Returns false. */
bool pg_params_result_error(const PGresult *result, struct err *e);

#endif
