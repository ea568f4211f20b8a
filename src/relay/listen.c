#include "relay/listen.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/log.h"

struct listen {
	struct engine *engine;
	struct listen_callbacks callbacks;
	void *arg;
	struct pg *pg;
	bool is_on;
	struct outbox_session session;
	struct outbox_session before; /* which may still hold the hush, or come to it */
};

static void set_on(struct listen *l, bool on)
{
	l->is_on = on;
	l->engine->is_listening = on;
	canary_forget(&l->engine->canary);
	metrics_gauge(&l->engine->metrics, GAUGE_LISTENING, listen_is_on(l));
}

static void ignore_result(void *arg, const PGresult *result)
{
	(void)arg;
	(void)result;
}

/* The hush */

static void look_again(struct listen *l, bool wanted)
{
	if (wanted)
		l->callbacks.notified(l->arg);
	else
		engine_turn(l->engine);
}

static void on_tried(void *arg, const PGresult *result)
{
	struct listen *l = arg;
	bool got_it = outbox_read_hush(result);
	if (got_it)
		metrics_count(&l->engine->metrics, COUNTER_HUSHES, 1);
	look_again(l, wake_tried(&l->engine->wake, got_it, clock_ms()));
}

static void on_writers(void *arg, const PGresult *result)
{
	struct listen *l = arg;
	const char *list;
	bool in_order;
	outbox_read_writers(result, &list, &in_order);
	look_again(l, wake_writers(&l->engine->wake, list, clock_ms()));
}

static void hush_on(struct listen *l, int64_t now_ms)
{
	struct engine *e = l->engine;
	bool may_claim = target_may_claim(&e->target) && !e->stopping;
	if (!l->is_on)
		return;
	switch (wake_next(&e->wake, may_claim, now_ms)) {
	case WAKE_TRY:
		outbox_say(l->pg, e->outbox.hush, on_tried, l);
		break;
	case WAKE_RELEASE:
		outbox_say(l->pg, e->outbox.unhush, ignore_result, NULL);
		outbox_writers(&e->outbox, l->pg, on_writers, l);
		break;
	case WAKE_LOOK:
		outbox_writers(&e->outbox, l->pg, on_writers, l);
		break;
	case WAKE_SHARE:
		outbox_say(l->pg, e->outbox.share, ignore_result, NULL);
		break;
	case WAKE_NOTHING:
		break;
	}
}

/* The connection */

static void on_session(void *arg, const PGresult *result)
{
	struct listen *l = arg;
	outbox_read_session(result, &l->session);
}

static void on_ended(void *arg, const PGresult *result)
{
	struct listen *l = arg;
	(void)result;
	l->before = (struct outbox_session){0};
}

static void on_listen(void *arg, const PGresult *result)
{
	struct listen *l = arg;
	struct engine *e = l->engine;
	(void)result;
	pg_well(l->pg);
	set_on(l, true);
	if (!e->canary.was_lost)
		log_info("listening", LOG_S("channel", e->options->channel));
	if (l->before.pid != 0)
		outbox_end_session(l->pg, &l->before, on_ended, l);
	wake_listening(&e->wake);
	outbox_writers(&e->outbox, l->pg, on_writers, l);
	l->callbacks.listening(l->arg);
}

static void on_ready(void *arg)
{
	struct listen *l = arg;
	struct buf of_canary = {0};
	buf_printf(&of_canary, "LISTEN %s", l->engine->canary.channel);
	outbox_session(l->pg, on_session, l);
	pg_query(l->pg, of_canary.p, ignore_result, NULL);
	pg_query(l->pg, l->engine->outbox.listen, on_listen, l);
	pg_sync(l->pg);
	buf_free(&of_canary);
}

static void on_lost(void *arg, const struct err *e)
{
	struct listen *l = arg;
	if (wake_lost(&l->engine->wake) && l->before.pid == 0)
		l->before = l->session;
	set_on(l, false);
	metrics_count(&l->engine->metrics, COUNTER_RECONNECTIONS, 1);
	l->callbacks.lost(l->arg, e);
}

/* Through a pooler in transaction mode a canary comes back now and then, while this connection happens to have the
 * session that listens. */
static bool is_by_chance(const struct engine *e)
{
	return e->is_pooled && !e->options->no_prepare;
}

static void on_canary(struct listen *l, const char *payload)
{
	struct engine *e = l->engine;
	bool was_lost = e->canary.was_lost;
	if (is_by_chance(e) || !canary_seen(&e->canary, payload))
		return;
	/* With --no-prepare nobody has noticed what kind of pooler it is. */
	e->wake.can_hush = !e->is_pooled || l->session.pid == pg_backend_pid(l->pg);
	metrics_count(&e->metrics, COUNTER_CANARIES_SEEN, 1);
	metrics_gauge(&e->metrics, GAUGE_LISTENING, listen_is_on(l));
	if (was_lost)
		log_info("notifications arrive again");
}

static void on_notified(void *arg, const char *channel, const char *payload)
{
	struct listen *l = arg;
	if (strcmp(channel, l->engine->canary.channel) == 0) {
		on_canary(l, payload);
		return;
	}
	metrics_count(&l->engine->metrics, COUNTER_NOTIFICATIONS, 1);
	if (strcmp(payload, OUTBOX_REQUEUE) == 0)
		l->callbacks.requeued(l->arg);
	l->callbacks.notified(l->arg);
}

void listen_go(struct listen *l, int64_t now_ms)
{
	if (l == NULL)
		return;
	hush_on(l, now_ms);
	if (!canary_is_lost(&l->engine->canary, now_ms))
		return;
	struct err e;
	metrics_count(&l->engine->metrics, COUNTER_CANARIES_LOST, 1);
	(void)err_set(
	    &e, ERR_TRANSIENT,
	    "notifications do not arrive: is a pooler in transaction mode in between? Give relay a connection of its "
	    "own; until then the sweep delivers");
	pg_fail(l->pg, &e);
}

struct listen *listen_new(struct engine *e, const struct listen_callbacks *callbacks, void *arg)
{
	static const struct pg_callbacks of_pg = {.ready = on_ready, .lost = on_lost, .notified = on_notified};
	struct listen *l = xcalloc(1, sizeof *l);
	l->engine = e;
	l->callbacks = *callbacks;
	l->arg = arg;
	struct pg_config config = {
	    .database_url = e->options->database_url,
	    .label = "listen",
	    .connect_timeout_ms = e->options->connect_timeout_ms,
	    .statements = &e->outbox.statements[OUTBOX_WRITERS],
	    .n_statements = 1,
	    .is_pooled = &e->is_pooled,
	};
	l->pg = pg_new(e->base, &config, &of_pg, l);
	pg_open(l->pg);
	return l;
}

void listen_free(struct listen *l)
{
	if (l == NULL)
		return;
	pg_free(l->pg);
	free(l);
}

bool listen_is_on(const struct listen *l)
{
	return l != NULL && l->is_on && !l->engine->canary.was_lost;
}
