#include "relay/await.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"

enum { LINGER_MS = 10 * 1000 }; /* the connection's, without waits */

struct await {
	struct engine *engine;
	struct admin *admin;
	struct pg *pg;   /* NULL: nothing was to be asked of late */
	int64_t used_ms; /* when there were waits last */
};

/* Requests */

static bool on_wait(void *arg, uint64_t number, const struct wait_query *query, struct buf *body)
{
	const struct await *a = arg;
	struct engine *e = a->engine;
	if (e->stopping) {
		wait_write_error("unknown", "relay is stopping: ask again later", body);
		return false;
	}
	if (!wait_begin(&e->waits, number, query, clock_ms())) {
		wait_write_error("unknown", "too many wait already: ask again later", body);
		return false;
	}
	engine_turn(e);
	return true;
}

static void on_gone(void *arg, uint64_t number)
{
	const struct await *a = arg;
	wait_forget(&a->engine->waits, number);
	engine_turn(a->engine);
}

static void answer(struct await *a, int64_t now_ms)
{
	struct wait_answer next;
	while (wait_next(&a->engine->waits, now_ms, &next)) {
		admin_answer(a->admin, next.number, next.code, buf_str(&next.body));
		buf_free(&next.body);
	}
}

/* Questions */

static void on_ready(void *arg)
{
	const struct await *a = arg;
	engine_turn(a->engine);
}

static void on_lost(void *arg, const struct err *error)
{
	const struct await *a = arg;
	(void)error;
	metrics_count(&a->engine->metrics, COUNTER_RECONNECTIONS, 1);
	wait_unanswered(&a->engine->waits);
	engine_turn(a->engine);
}

static void on_answer(void *arg, const PGresult *result)
{
	const struct await *a = arg;
	struct waits *waits = &a->engine->waits;
	struct outbox_awaited row;
	for (int i = 0; i < PQntuples(result); i++) {
		outbox_read_awaited(result, i, &row);
		wait_found(waits, &(struct wait_found){row.id, row.is_delivered, row.was_refused, row.reason});
	}
	wait_answered(waits, clock_ms());
	pg_well(a->pg);
	engine_turn(a->engine);
}

static void connect_now(struct await *a)
{
	static const struct pg_callbacks of_pg = {.ready = on_ready, .lost = on_lost};
	struct engine *e = a->engine;
	struct pg_config config = {
	    .database_url = e->options->database_url,
	    .label = "wait",
	    .connect_timeout_ms = e->options->connect_timeout_ms,
	    .statements = &e->outbox.statements[OUTBOX_AWAITED],
	    .n_statements = 1,
	    .is_pooled = &e->is_pooled,
	};
	a->pg = pg_new(e->base, &config, &of_pg, a);
	pg_open(a->pg);
}

static void ask(struct await *a, int64_t now_ms)
{
	struct engine *e = a->engine;
	struct buf ids = {0};
	if (a->pg == NULL)
		connect_now(a);
	if (pg_state(a->pg) != PG_READY)
		return;
	wait_ask(&e->waits, now_ms, &ids);
	metrics_count(&e->metrics, COUNTER_WAIT_QUESTIONS, 1);
	outbox_awaited(&e->outbox, a->pg, ids.p, on_answer, a);
	buf_free(&ids);
}

/* Whether the connection is there and nothing needs it. */
static bool is_spare(const struct await *a)
{
	return a->pg != NULL && a->engine->waits.n == 0 && !a->engine->waits.asking;
}

void await_go(struct await *a, int64_t now_ms)
{
	if (a == NULL)
		return;
	struct engine *e = a->engine;
	if (e->waits.n > 0)
		a->used_ms = now_ms;
	answer(a, now_ms);
	if (!e->stopping && wait_wants_question(&e->waits, now_ms))
		ask(a, now_ms);
	if (is_spare(a) && now_ms >= a->used_ms + LINGER_MS) {
		pg_free(a->pg);
		a->pg = NULL;
	}
	metrics_gauge(&e->metrics, GAUGE_WAITS, (double)e->waits.n);
}

int64_t await_due_ms(const struct await *a)
{
	if (a == NULL)
		return INT64_MAX;
	if (is_spare(a))
		return a->used_ms + LINGER_MS;
	bool can_ask = !a->engine->stopping && (a->pg == NULL || pg_state(a->pg) == PG_READY);
	return wait_due_ms(&a->engine->waits, can_ask);
}

struct await *await_new(struct engine *e, struct admin *admin)
{
	static const struct admin_wait_callbacks of_admin = {.wait = on_wait, .gone = on_gone};
	struct await *a = xcalloc(1, sizeof *a);
	a->engine = e;
	a->admin = admin;
	admin_on_wait(admin, &of_admin, a);
	return a;
}

void await_free(struct await *a)
{
	if (a == NULL)
		return;
	wait_stop(&a->engine->waits);
	answer(a, clock_ms());
	event_base_loop(a->engine->base, EVLOOP_NONBLOCK);
	wait_free(&a->engine->waits);
	pg_free(a->pg);
	free(a);
}
