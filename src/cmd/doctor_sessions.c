/* relay doctor: whether a session is one, and notifications arrive, through the connection string as it is. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cmd/bounded.h"
#include "cmd/doctor.h"
#include "cmd/pooler.h"
#include "cmd/session.h"

enum { CERTAINLY_LOST_MS = 500 };

static bool run(const struct doctor *d, PGconn *conn, const char *sql, struct err *e)
{
	PGresult *result = bounded_ask(conn, sql, 0, NULL, d->options->connect_timeout_ms, e);
	PQclear(result);
	return result != NULL;
}

static void check_pooler(struct doctor *d, PGconn *other)
{
	struct err e = {0};
	const enum pooler found = pooler_find(d->conn, other, d->options->connect_timeout_ms, &e);
	if (found == POOLER_UNKNOWN) {
		doctor_fail(d, DOCTOR_POOLER, e.text, "give relay a connection of its own");
		return;
	}
	d->is_pooled = found == POOLER_TRANSACTION;
	if (!d->is_pooled) {
		doctor_say(d, DOCTOR_POOLER, DOCTOR_OK, "%s",
		           found == POOLER_NONE ? "none" : "one that gives each connection a session of its own");
		return;
	}
	doctor_say(d, DOCTOR_POOLER, d->options->no_prepare ? DOCTOR_OK : DOCTOR_WARNING,
	           "a pooler gives each transaction another session: nothing can be prepared");
	if (!d->options->no_prepare)
		doctor_remedy(
		    d, DOCTOR_POOLER,
		    "put into DATABASE_URL a port that leads to Postgres itself, or to a pool in session mode; else "
		    "--no-prepare");
}

static void check_listen(struct doctor *d, PGconn *other)
{
	const int64_t timeout_ms = d->is_pooled ? CERTAINLY_LOST_MS : d->options->connect_timeout_ms;
	struct rng rng = {(uint64_t)clock_us() ^ (uint64_t)getpid() << 32};
	char channel[40];
	char sql[80];
	struct err e = {0};
	snprintf(channel, sizeof channel, "relay_doctor_%016" PRIx64, rng_next(&rng));
	snprintf(sql, sizeof sql, "LISTEN %s", channel);
	bool asked = run(d, d->conn, sql, &e);
	snprintf(sql, sizeof sql, "NOTIFY %s", channel);
	if (!asked || !run(d, other, sql, &e)) {
		doctor_fail(d, DOCTOR_LISTEN, e.text, "mend what Postgres complains of; until then, --no-listen");
	} else if (bounded_hears(d->conn, channel, timeout_ms)) {
		doctor_say(d, DOCTOR_LISTEN, DOCTOR_OK, "a notification arrives");
	} else {
		doctor_say(d, DOCTOR_LISTEN, DOCTOR_FAILURE,
		           "a notification does not arrive: relay is not ready, and delivers by the sweep alone");
		doctor_remedy(
		    d, DOCTOR_LISTEN,
		    "put into DATABASE_URL a port that leads to Postgres itself, or to a pool in session mode; else "
		    "--no-listen, and a short --sweep-interval");
	}
	/* A pooler would keep a session that listens. */
	snprintf(sql, sizeof sql, "UNLISTEN %s", channel);
	(void)run(d, d->conn, sql, &e);
}

void doctor_sessions(struct doctor *d)
{
	struct err e = {0};
	PGconn *other = session_open(d->options, "doctor", &e);
	if (other == NULL) {
		doctor_fail(d, DOCTOR_POOLER, e.text, "raise max_connections: relay takes several connections");
		doctor_skip(d, DOCTOR_LISTEN, DOCTOR_LISTEN, "a second connection cannot be had");
		return;
	}
	check_pooler(d, other);
	if (d->options->no_listen)
		doctor_skip(d, DOCTOR_LISTEN, DOCTOR_LISTEN, "--no-listen");
	else
		check_listen(d, other);
	PQfinish(other);
}
