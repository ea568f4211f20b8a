#include "io/pg.h"

#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/log.h"
#include "base/str.h"
#include "core/backoff.h"
#include "io/pg_params.h"
#include "io/pg_settings.h"

enum {
	RECONNECT_MIN_MS = 100,
	RECONNECT_MAX_MS = 10 * 1000,
	ANSWER_TIMEOUT_MS = 25 * 1000, /* above statement_timeout: a server that is there has answered by then */
};

/* What the server is going to answer, in order (libpq, "Pipeline Mode": interleave result processing). */
struct expected {
	STAILQ_ENTRY(expected) link;
	bool is_sync;
	pg_result_fn *fn;
	void *arg;
};

struct pg {
	struct event_base *base;
	struct pg_config config;
	struct pg_callbacks callbacks;
	void *arg;
	enum pg_state state;
	PGconn *conn;
	struct pg_lookup *lookup;
	struct event *readable;
	struct event *writable;
	struct event *timer; /* the next try to connect, or how long to wait for it, or for an answer */
	struct event *fault; /* reports what went wrong outside of an event */
	STAILQ_HEAD(, expected) expected;
	struct err last_words; /* of a server that ends the session while nothing was asked of it; ERR_NONE: none */
	struct err failure;
	bool failing;      /* `fault` is about to run: nothing more is taken from this connection */
	unsigned failures; /* in a row, since pg_well */
	unsigned timeouts; /* in a row: the next try begins with another host */
	struct rng rng;
	struct log_gate gate;
	struct log_gate notices;
};

static const char *state_name(enum pg_state state)
{
	static const char *const names[] = {
#define X(name, text) text,
	    PG_STATES(X)
#undef X
	};
	return names[state];
}

/* The edges of the state machine: from each state, the states that may follow. */
static bool is_edge(enum pg_state from, enum pg_state to)
{
	switch (from) {
	case PG_CLOSED:
		return to == PG_WAITING;
	case PG_WAITING:
		return to == PG_RESOLVING;
	case PG_RESOLVING:
		return to == PG_CONNECTING || to == PG_WAITING;
	case PG_CONNECTING:
		return to == PG_PREPARING || to == PG_WAITING;
	case PG_PREPARING:
		return to == PG_READY || to == PG_WAITING;
	case PG_READY:
		return to == PG_WAITING;
	}
	return false;
}

static void set_state(struct pg *pg, enum pg_state to)
{
	ASSERT(is_edge(pg->state, to));
	log_debug("postgres connection", LOG_S("connection", pg->config.label), LOG_S("from", state_name(pg->state)),
	          LOG_S("to", state_name(to)), LOG_N("pid", pg_backend_pid(pg)));
	pg->state = to;
}

void pg_well(struct pg *pg)
{
	pg->failures = 0;
}

enum pg_state pg_state(const struct pg *pg)
{
	return pg->state;
}

int pg_backend_pid(const struct pg *pg)
{
	return PQbackendPID(pg->conn);
}

static void timer_in(struct pg *pg, int64_t ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};
	evtimer_add(pg->timer, &tv);
}

static void event_drop(struct event **event)
{
	if (*event != NULL)
		event_free(*event);
	*event = NULL;
}

static void close_connection(struct pg *pg)
{
	event_drop(&pg->readable);
	event_drop(&pg->writable);
	evtimer_del(pg->timer);
	evtimer_del(pg->fault);
	pg->failing = false;
	pg_lookup_cancel(pg->lookup);
	pg->lookup = NULL;
	PQfinish(pg->conn);
	pg->conn = NULL;
	while (!STAILQ_EMPTY(&pg->expected)) {
		struct expected *x = STAILQ_FIRST(&pg->expected);
		STAILQ_REMOVE_HEAD(&pg->expected, link);
		free(x);
	}
}

static void lost(struct pg *pg, const struct err *e)
{
	struct err copy = *e;
	uint64_t repeated;
	close_connection(pg);
	set_state(pg, PG_WAITING);
	pg->failures++;
	timer_in(pg, backoff_ms(pg->failures, RECONNECT_MIN_MS, RECONNECT_MAX_MS, &pg->rng));
	if (log_gate_pass(&pg->gate, str_of(copy.text), clock_ms(), &repeated))
		log_warning("no connection to postgres", LOG_S("connection", pg->config.label),
		            LOG_S("reason", copy.text), LOG_N("repeated", repeated));
	pg->callbacks.lost(pg->arg, &copy);
}

static void fault_now(evutil_socket_t fd, short what, void *arg)
{
	struct pg *pg = arg;
	(void)fd;
	(void)what;
	lost(pg, &pg->failure);
}

void pg_fail(struct pg *pg, const struct err *e)
{
	if (pg->conn == NULL || pg->failing)
		return;
	pg->failing = true;
	pg->failure = *e;
	event_active(pg->fault, EV_TIMEOUT, 0);
}

/* Why the connection is lost. libpq knows only that it is closed, where the server said why just before. */
static void tell_end(const struct pg *pg, struct err *e)
{
	if (pg->last_words.kind != ERR_NONE)
		*e = pg->last_words;
	else
		pg_params_connection_error(pg->conn, e);
}

static void fail_connection(struct pg *pg)
{
	struct err e;
	tell_end(pg, &e);
	pg_fail(pg, &e);
}

/* What the server says without being asked; libpq would print it as it is (libpq, "Notice Processing"). */
static void on_notice(void *arg, const PGresult *result)
{
	struct pg *pg = arg;
	struct err e;
	uint64_t repeated;
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	pg_params_result_error(result, &e);
	if (severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
		pg->last_words = e;
	else if (log_gate_pass(&pg->notices, str_of(e.text), clock_ms(), &repeated))
		log_warning("postgres notices", LOG_S("connection", pg->config.label), LOG_S("notice", e.text),
		            LOG_N("repeated", repeated));
}

static void flush(struct pg *pg)
{
	int left = PQflush(pg->conn);
	if (left < 0)
		fail_connection(pg);
	else if (left > 0)
		event_add(pg->writable, NULL);
}

static struct expected *expect(struct pg *pg, pg_result_fn *fn, void *arg)
{
	struct expected *x = xcalloc(1, sizeof *x);
	x->fn = fn;
	x->arg = arg;
	STAILQ_INSERT_TAIL(&pg->expected, x, link);
	return x;
}

void pg_execute(struct pg *pg, const struct pg_statement *s, int n, const char *const *values, pg_result_fn *fn,
                void *arg)
{
	ASSERT(pg->state == PG_READY || pg->state == PG_PREPARING);
	expect(pg, fn, arg);
	int sent = *pg->config.is_pooled ? PQsendQueryParams(pg->conn, s->sql, n, NULL, values, NULL, NULL, 0)
	                                 : PQsendQueryPrepared(pg->conn, s->name, n, values, NULL, NULL, 0);
	if (sent == 0)
		fail_connection(pg);
}

void pg_query(struct pg *pg, const char *sql, pg_result_fn *fn, void *arg)
{
	ASSERT(pg->state == PG_READY || pg->state == PG_PREPARING);
	expect(pg, fn, arg);
	if (!PQsendQueryParams(pg->conn, sql, 0, NULL, NULL, NULL, NULL, 0))
		fail_connection(pg);
}

static void ignore_result(void *arg, const PGresult *result)
{
	(void)arg;
	(void)result;
}

/* fn: for the end itself. */
static void end_round_trip(struct pg *pg, pg_result_fn *fn)
{
	expect(pg, fn, pg)->is_sync = true;
	/* From the first one on: those sent behind it give it no more time. */
	if (pg->state == PG_READY && !evtimer_pending(pg->timer, NULL))
		timer_in(pg, ANSWER_TIMEOUT_MS);
	if (!PQpipelineSync(pg->conn))
		fail_connection(pg);
	else
		flush(pg);
}

void pg_sync(struct pg *pg)
{
	end_round_trip(pg, ignore_result);
}

/* A pooler in transaction mode gives every transaction another session: what was prepared is not there, or is there
 * already (PostgreSQL, appendix A: 26000 and 42P05). */
static void notice_pooler(struct pg *pg, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	if (*pg->config.is_pooled || sqlstate == NULL ||
	    (strcmp(sqlstate, "26000") != 0 && strcmp(sqlstate, "42P05") != 0))
		return;
	*pg->config.is_pooled = true;
	log_warning(
	    "a pooler in transaction mode is in between: nothing is prepared from now on; give relay a connection of "
	    "its own, or set --no-prepare",
	    LOG_S("connection", pg->config.label));
}

/* Hands one result to whoever expects it. False: the connection is of no use any more, and *e says why. */
static bool take_result(struct pg *pg, PGresult *result, struct err *e)
{
	struct expected *x = STAILQ_FIRST(&pg->expected);
	ExecStatusType status = PQresultStatus(result); /* of which libpq 17 has more values: no switch */
	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
		if (x->is_sync)
			return err_set(e, ERR_BUG, "a result came where none was expected");
		x->fn(x->arg, result);
		return true;
	}
	if (status == PGRES_PIPELINE_SYNC) {
		if (!x->is_sync)
			return err_set(e, ERR_BUG, "a pipeline's end came where a result was expected");
		x->fn(x->arg, result);
		return true;
	}
	notice_pooler(pg, result);
	return pg_params_result_error(result, e);
}

static void tell_notifications(struct pg *pg)
{
	PGnotify *n;
	while ((n = PQnotifies(pg->conn)) != NULL) {
		if (pg->callbacks.notified != NULL)
			pg->callbacks.notified(pg->arg, n->relname, n->extra);
		PQfreemem(n);
	}
}

/* Takes every result that has arrived whole. PQgetResult gives NULL behind each statement's result, and none behind a
 * pipeline's end. */
static bool take_results(struct pg *pg, struct err *e)
{
	while (!pg->failing && !STAILQ_EMPTY(&pg->expected) && !PQisBusy(pg->conn)) {
		struct expected *x = STAILQ_FIRST(&pg->expected);
		PGresult *result = PQgetResult(pg->conn);
		if (result == NULL)
			return err_set(e, ERR_BUG, "no result where one was expected");
		bool fine = take_result(pg, result, e);
		bool ends_statement = fine && !x->is_sync;
		PQclear(result);
		if (!fine)
			return false;
		if (ends_statement) {
			result = PQgetResult(pg->conn);
			PQclear(result);
			if (result != NULL)
				return err_set(e, ERR_BUG, "a second result of one statement");
		}
		STAILQ_REMOVE_HEAD(&pg->expected, link);
		free(x);
	}
	return true;
}

/* TLS: bytes that OpenSSL holds already do not make the socket readable (SSL_pending(3)). */
static bool has_hidden_bytes(const struct pg *pg)
{
	SSL *ssl = PQsslStruct(pg->conn, "OpenSSL");
	return ssl != NULL && SSL_pending(ssl) > 0;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct pg *pg = arg;
	struct err e;
	(void)fd;
	(void)what;
	do {
		bool alive = PQconsumeInput(pg->conn) == 1;
		/* What arrived before the end is taken first: a FATAL error's own words, say. */
		bool fine = take_results(pg, &e);
		if (!fine) {
			lost(pg, &e);
			return;
		}
		tell_notifications(pg);
		if (!alive) {
			tell_end(pg, &e);
			lost(pg, &e);
			return;
		}
	} while (has_hidden_bytes(pg));
	if (PQstatus(pg->conn) == CONNECTION_BAD) {
		tell_end(pg, &e);
		lost(pg, &e);
		return;
	}
	flush(pg);
	if (pg->state == PG_READY && STAILQ_EMPTY(&pg->expected))
		evtimer_del(pg->timer);
	else if (pg->state == PG_READY)
		timer_in(pg, ANSWER_TIMEOUT_MS);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	flush(arg);
}

static void on_prepared(void *arg, const PGresult *result)
{
	struct pg *pg = arg;
	(void)result;
	evtimer_del(pg->timer);
	set_state(pg, PG_READY);
	pg->timeouts = 0;
	pg->callbacks.ready(pg->arg);
}

/* Prepared like the holder's own statements: they are sent with each of them. */
enum { BEGIN, COMMIT, TRANSACTION_STATEMENTS };
static const struct pg_statement transaction[TRANSACTION_STATEMENTS] = {
    [BEGIN] = {"relay_begin", "BEGIN ISOLATION LEVEL READ COMMITTED"}, /* a pooled session has its own default */
    [COMMIT] = {"relay_commit", "COMMIT"},
};

void pg_begin(struct pg *pg)
{
	pg_execute(pg, &transaction[BEGIN], 0, NULL, ignore_result, NULL);
	if (*pg->config.is_pooled)
		pg_query(pg, PG_SETTINGS("true"), ignore_result, NULL);
}

void pg_commit(struct pg *pg, pg_result_fn *fn, void *arg)
{
	pg_execute(pg, &transaction[COMMIT], 0, NULL, fn, arg);
}

static bool prepare(struct pg *pg, const struct pg_statement *statements, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		expect(pg, ignore_result, NULL);
		if (!PQsendPrepare(pg->conn, statements[i].name, statements[i].sql, 0, NULL))
			return false;
	}
	return true;
}

static void prepare_session(struct pg *pg)
{
	if (PQsetnonblocking(pg->conn, 1) != 0 || !PQenterPipelineMode(pg->conn)) {
		fail_connection(pg);
		return;
	}
	set_state(pg, PG_PREPARING);
	/* First, since what is prepared may have to wait for a lock. */
	pg_query(pg, *pg->config.is_pooled ? "SELECT 1" : PG_SETTINGS("false"), ignore_result, NULL);
	bool prepares = pg->config.n_statements > 0 && !*pg->config.is_pooled;
	if (prepares && (!prepare(pg, transaction, TRANSACTION_STATEMENTS) ||
	                 !prepare(pg, pg->config.statements, pg->config.n_statements))) {
		fail_connection(pg);
		return;
	}
	end_round_trip(pg, on_prepared);
}

static void watch(struct pg *pg, short what, event_callback_fn fn);

static void on_connecting(evutil_socket_t fd, short what, void *arg)
{
	struct pg *pg = arg;
	struct err e;
	(void)fd;
	(void)what;
	switch (PQconnectPoll(pg->conn)) {
	case PGRES_POLLING_READING:
		watch(pg, EV_READ, on_connecting);
		return;
	case PGRES_POLLING_WRITING:
		watch(pg, EV_WRITE, on_connecting);
		return;
	case PGRES_POLLING_OK:
		watch(pg, EV_READ | EV_PERSIST, on_readable);
		pg->writable = event_new(pg->base, PQsocket(pg->conn), EV_WRITE, on_writable, pg);
		ASSERT(pg->writable != NULL);
		prepare_session(pg);
		return;
	case PGRES_POLLING_FAILED:
	case PGRES_POLLING_ACTIVE:
		break;
	}
	pg_params_connection_error(pg->conn, &e);
	lost(pg, &e);
}

/* The event is made anew after every poll: libpq may have put another socket under the same number. */
static void watch(struct pg *pg, short what, event_callback_fn fn)
{
	event_drop(&pg->readable);
	pg->readable = event_new(pg->base, PQsocket(pg->conn), what, fn, pg);
	ASSERT(pg->readable != NULL);
	event_add(pg->readable, NULL);
}

static void connect_to(struct pg *pg, struct pg_params *params)
{
	struct err e;
	set_state(pg, PG_CONNECTING);
	pg_params_begin_with(params, pg->timeouts);
	pg->conn = PQconnectStartParams(pg_params_keywords(params), pg_params_values(params), 0);
	pg_params_free(params);
	if (pg->conn == NULL)
		die(__FILE__, __LINE__, "out of memory");
	pg->last_words = (struct err){0};
	PQsetNoticeReceiver(pg->conn, on_notice, pg);
	if (PQstatus(pg->conn) == CONNECTION_BAD) {
		pg_params_connection_error(pg->conn, &e);
		lost(pg, &e);
		return;
	}
	watch(pg, EV_WRITE, on_connecting);
}

static void on_resolved(void *arg, struct pg_params *params, const struct err *e)
{
	struct pg *pg = arg;
	pg->lookup = NULL;
	if (params == NULL)
		lost(pg, e);
	else
		connect_to(pg, params);
}

static void begin(struct pg *pg)
{
	struct err e;
	set_state(pg, PG_RESOLVING);
	struct pg_params *params = pg_params_new(pg->config.database_url, pg->config.label, &e);
	if (params == NULL) {
		lost(pg, &e);
		return;
	}
	timer_in(pg, pg->config.connect_timeout_ms);
	pg->lookup = pg_params_resolve(params, pg->base, on_resolved, pg);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pg *pg = arg;
	struct err e;
	(void)fd;
	(void)what;
	switch (pg->state) {
	case PG_WAITING:
		begin(pg);
		return;
	case PG_RESOLVING:
	case PG_CONNECTING:
		pg->timeouts++;
		(void)err_set(
		    &e, ERR_TRANSIENT,
		    "no connection within %lld ms (%s): check the host and the port, or raise --connect-timeout",
		    (long long)pg->config.connect_timeout_ms, state_name(pg->state));
		lost(pg, &e);
		return;
	case PG_PREPARING:
		(void)err_set(&e, ERR_TRANSIENT,
		              "connected, but nothing could be prepared within %lld ms: does somebody hold a lock on "
		              "the table (pg_locks), or is the server overloaded?",
		              (long long)pg->config.connect_timeout_ms);
		lost(pg, &e);
		return;
	case PG_READY:
		(void)err_set(&e, ERR_TRANSIENT, "no answer within %d ms: the connection is given up",
		              ANSWER_TIMEOUT_MS);
		lost(pg, &e);
		return;
	case PG_CLOSED:
		return;
	}
}

bool pg_check_url(const char *database_url, struct err *e)
{
	struct pg_params *params = pg_params_new(database_url, "check", e);
	bool fine = params != NULL;
	pg_params_free(params);
	return fine;
}

struct pg *pg_new(struct event_base *base, const struct pg_config *config, const struct pg_callbacks *callbacks,
                  void *arg)
{
	struct pg *pg = xcalloc(1, sizeof *pg);
	pg->base = base;
	pg->config = *config;
	pg->callbacks = *callbacks;
	pg->arg = arg;
	pg->rng.state = (uint64_t)clock_us() ^ (uint64_t)(uintptr_t)pg;
	STAILQ_INIT(&pg->expected);
	pg->timer = evtimer_new(base, on_timer, pg);
	pg->fault = evtimer_new(base, fault_now, pg);
	ASSERT(pg->timer != NULL && pg->fault != NULL);
	return pg;
}

void pg_open(struct pg *pg)
{
	set_state(pg, PG_WAITING);
	timer_in(pg, 0);
}

void pg_free(struct pg *pg)
{
	if (pg == NULL)
		return;
	close_connection(pg);
	event_free(pg->timer);
	event_free(pg->fault);
	free(pg);
}

const char *pg_setting(const struct pg *pg, const char *name)
{
	return pg->conn != NULL ? PQparameterStatus(pg->conn, name) : NULL;
}
