#include "relay/relay.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "io/admin.h"
#include "io/notify.h"
#include "relay/await.h"
#include "relay/check.h"
#include "relay/engine.h"
#include "relay/lane.h"
#include "relay/listen.h"
#include "relay/overview.h"
#include "relay/status.h"

enum { DRAIN_PATIENCE = 5 }; /* failures of OpenFGA in a row, after which a drain gives up */

static void on_stop(evutil_socket_t signal, short what, void *arg);
static void on_hangup(evutil_socket_t signal, short what, void *arg);

static const struct {
	int number;
	event_callback_fn fn;
} signals[] = {{SIGTERM, on_stop}, {SIGINT, on_stop}, {SIGHUP, on_hangup}};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

struct relay {
	struct engine engine;
	bool drains; /* ends when nothing is left */
	enum relay_end end;
	struct lane **lanes;
	struct listen *listen;
	struct check *check;
	struct admin *admin;
	struct await *await;
	struct overview *overview;
	struct notify *notify;
	struct status status;
	struct event *sweep;
	struct event *tick;     /* the next moment at which something is due */
	struct event *deadline; /* of a stop */
	struct event *signals[SIGNALS];
	uint64_t refused;
	unsigned turns;
};

static void arm(struct event *event, int64_t ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};
	evtimer_add(event, &tv);
}

static void finish(struct relay *r, enum relay_end end)
{
	r->end = end;
	event_base_loopbreak(r->engine.base);
}

/* Draining, what would be tried again for ever ends the command. */
static void give_up(struct relay *r, bool needs_mending, const char *what, const char *reason)
{
	if (!r->drains || r->engine.stopping)
		return;
	log_error("cannot drain", LOG_S("what", what), LOG_S("reason", reason));
	finish(r, needs_mending ? RELAY_WRONG : RELAY_UNREACHABLE);
}

/* The destination */

static void set_path(char **path, const char *store_id, const char *what)
{
	struct buf made = {0};
	buf_printf(&made, "/stores/%s/%s", store_id, what);
	free(*path);
	*path = made.p;
}

static void note_age(struct engine *e, enum server_age age)
{
	if (age == SERVER_OLD && e->server_age != SERVER_OLD)
		log_warning(STATUS_OLD);
	if (age != SERVER_UNKNOWN)
		e->server_age = age;
}

static void on_checked(void *arg, const struct judgement *j, const char *store_id, enum server_age age)
{
	struct relay *r = arg;
	struct engine *e = &r->engine;
	if (store_id != NULL) {
		set_path(&e->write_path, store_id, "write");
		set_path(&e->read_path, store_id, "read");
	}
	bool could_claim = target_may_claim(&e->target);
	note_age(e, age);
	target_checked(&e->target, j, clock_ms(), &e->rng);
	if (target_may_claim(&e->target))
		e->work |= !could_claim || e->sweep_claims;
	else
		give_up(r, e->target.state == TARGET_HALTED, "openfga", j->reason);
	engine_turn(e);
}

static void ask_target(struct relay *r)
{
	target_asked(&r->engine.target);
	/* After an outage it may be another one. */
	check_start(r->check, !target_may_claim(&r->engine.target));
}

/* The loop's turns */

static bool all_done(const struct relay *r)
{
	for (unsigned i = 0; i < r->engine.options->lanes; i++)
		if (!lane_is_done(r->lanes[i]))
			return false;
	return true;
}

static bool any_connected(const struct relay *r)
{
	for (unsigned i = 0; i < r->engine.options->lanes; i++)
		if (lane_is_connected(r->lanes[i]))
			return true;
	return false;
}

static bool any_idle(const struct relay *r)
{
	for (unsigned i = 0; i < r->engine.options->lanes; i++)
		if (lane_is_connected(r->lanes[i]) && lane_is_done(r->lanes[i]))
			return true;
	return false;
}

/* When the next parked row is due. */
static int64_t next_parked(struct engine *e, int64_t now_ms)
{
	int64_t held = park_due_ms(&e->park, PARK_HELD, now_ms);
	int64_t refused = park_due_ms(&e->park, PARK_REFUSED, now_ms);
	return held < refused ? held : refused;
}

static bool is_drained(struct relay *r, int64_t now_ms)
{
	struct engine *e = &r->engine;
	return r->drains && target_may_claim(&e->target) && any_connected(r) && !e->work &&
	       next_parked(e, now_ms) > now_ms && park_waiting(&e->park) == 0;
}

/* The oldest claim that is under way. */
static uint64_t oldest_claim(const struct relay *r)
{
	uint64_t oldest = UINT64_MAX;
	for (unsigned i = 0; i < r->engine.options->lanes; i++)
		if (lane_claim(r->lanes[i]) < oldest)
			oldest = lane_claim(r->lanes[i]);
	return oldest;
}

/* The earliest moment at which a turn is due though nothing happens. */
static int64_t next_due(struct relay *r, int64_t now_ms)
{
	struct engine *e = &r->engine;
	int64_t due = e->stopping ? INT64_MAX : target_due_ms(&e->target);
	int64_t park = target_may_claim(&e->target) && !e->stopping ? next_parked(e, now_ms) : INT64_MAX;
	if (park > now_ms && park < due)
		due = park;
	if (canary_due_ms(&e->canary) < due)
		due = canary_due_ms(&e->canary);
	if (wake_due_ms(&e->wake) < due)
		due = wake_due_ms(&e->wake);
	if (await_due_ms(r->await) < due)
		due = await_due_ms(r->await);
	if (any_idle(r) && horizon_due_ms(&e->horizon) < due)
		due = horizon_due_ms(&e->horizon);
	for (unsigned i = 0; i < e->options->lanes; i++) {
		int64_t lane = lane_due_ms(r->lanes[i], now_ms);
		if (lane < due)
			due = lane;
	}
	return due;
}

/* Lanes at work take turns, or the first one would take every request that may be in flight. New work goes to the first
 * idle one, whose session is the warmest. */
static void go_on(struct relay *r, int64_t now_ms)
{
	unsigned lanes = r->engine.options->lanes;
	r->turns++;
	for (unsigned i = 0; i < lanes; i++)
		if (!lane_is_done(r->lanes[(r->turns + i) % lanes]))
			lane_go(r->lanes[(r->turns + i) % lanes], now_ms);
	for (unsigned i = 0; i < lanes; i++)
		if (lane_is_done(r->lanes[i]))
			lane_go(r->lanes[i], now_ms);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct relay *r = arg;
	struct engine *e = &r->engine;
	int64_t now_ms = clock_ms();
	(void)fd;
	(void)what;
	if (!e->stopping && target_wants_check(&e->target, now_ms))
		ask_target(r);
	order_forget(&e->order, oldest_claim(r));
	theirs_forget(&e->theirs, oldest_claim(r));
	if (wake_polls(&e->wake, now_ms))
		e->work = true;
	go_on(r, now_ms);
	if (all_done(r) && !e->work)
		wake_idle(&e->wake);
	listen_go(r->listen, now_ms);
	await_go(r->await, now_ms);
	if (e->target.failures >= DRAIN_PATIENCE && !target_may_claim(&e->target))
		give_up(r, false, "openfga", e->target.reason);
	if (all_done(r)) {
		if (e->stopping)
			finish(r, RELAY_STOPPED);
		else if (is_drained(r, now_ms))
			finish(r, r->refused > 0 ? RELAY_REFUSED : RELAY_STOPPED);
	}
	metrics_gauge(&e->metrics, GAUGE_IN_FLIGHT, (double)e->in_flight);
	metrics_gauge(&e->metrics, GAUGE_LIMIT, limit_get(&e->limit));
	int64_t due = next_due(r, now_ms);
	if (due < INT64_MAX)
		arm(r->tick, due > now_ms ? due - now_ms : 1);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct relay *r = arg;
	(void)fd;
	(void)what;
	engine_turn(&r->engine);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct relay *r = arg;
	struct engine *e = &r->engine;
	(void)fd;
	(void)what;
	if (e->stopping)
		return;
	metrics_count(&e->metrics, COUNTER_SWEEPS, 1);
	e->from_head = true;
	arm(r->sweep, e->options->sweep_interval_ms);
	e->wants_backlog = true;
	e->sweep_claims = false;
	/* The claim comes when rows were counted, and when the store and the model are known to be in order. */
	if (target_may_claim(&e->target) && !e->target.checking)
		ask_target(r);
	engine_turn(e);
}

/* What the connections tell */

/* LISTEN is in force: what was committed before is looked for, and the canary tries it out. */
static void on_listening(void *arg)
{
	struct relay *r = arg;
	r->engine.work = true;
	r->engine.wants_backlog = true;
	engine_turn(&r->engine);
}

static void on_work(void *arg)
{
	struct relay *r = arg;
	r->engine.work = true;
	engine_turn(&r->engine);
}

static void on_lost(void *arg, const struct err *error)
{
	struct relay *r = arg;
	status_postgres(&r->status, error);
	if (error->kind != ERR_POOLED)
		give_up(r, error->kind == ERR_CONFIG, "postgres", error->text);
	engine_turn(&r->engine);
}

/* Every refused row is tried now. */
static void on_requeued(void *arg)
{
	struct relay *r = arg;
	log_info("trying refused rows again", LOG_N("parked", park_count(&r->engine.park)));
	park_wake(&r->engine.park, clock_ms());
	engine_turn(&r->engine);
}

static void on_refused(void *arg, int64_t id, struct str reason)
{
	struct relay *r = arg;
	r->refused++;
	if (r->drains)
		printf("%" PRId64 "\t%.*s\n", id, (int)reason.n, reason.p);
}

/* Signals */

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct relay *r = arg;
	(void)fd;
	(void)what;
	log_warning("what was in flight did not end in time: its rows stay pending",
	            LOG_N("shutdown_timeout_ms", r->engine.options->shutdown_timeout_ms));
	finish(r, RELAY_STOPPED);
}

static void on_stop(evutil_socket_t signal, short what, void *arg)
{
	struct relay *r = arg;
	(void)what;
	if (r->engine.stopping)
		_exit(128 + (int)signal);
	log_info("stopping", LOG_S("signal", strsignal((int)signal)));
	r->engine.stopping = true;
	arm(r->deadline, r->engine.options->shutdown_timeout_ms);
	notify_stopping(r->notify, r->engine.options->shutdown_timeout_ms);
	engine_turn(&r->engine);
}

/* The model, the payloads or the credentials may have been mended. */
static void on_hangup(evutil_socket_t signal, short what, void *arg)
{
	struct relay *r = arg;
	(void)signal;
	(void)what;
	fga_renew(r->engine.fga);
	on_requeued(r);
	notify_reloaded(r->notify);
}

/* The probe */

static struct status_now status_now(const struct relay *r)
{
	return (struct status_now){
	    .is_connected = any_connected(r),
	    .is_well = trust_is_well(&r->engine.trust) || !target_may_claim(&r->engine.target),
	    .is_listening = r->engine.options->no_listen || listen_is_on(r->listen),
	};
}

static bool probe_ready(void *arg, struct buf *out)
{
	const struct relay *r = arg;
	struct status_now now = status_now(r);
	return status_write(&r->status, &r->engine, &now, out);
}

static void probe_line(void *arg, struct buf *out)
{
	const struct relay *r = arg;
	struct status_now now = status_now(r);
	status_line(&r->status, &r->engine, &now, out);
}

static void refresh_gauges(void *arg)
{
	struct relay *r = arg;
	struct status_now now = status_now(r);
	status_gauges(&r->status, &r->engine, &now);
}

static void probe_metrics(void *arg, struct buf *out)
{
	struct relay *r = arg;
	refresh_gauges(r);
	metrics_write(&r->engine.metrics, out);
}

static void probe_overview(void *arg, uint64_t since, struct buf *out)
{
	const struct relay *r = arg;
	overview_write(r->overview, since, out);
}

/* Life */

static struct event *timer_new(struct relay *r, event_callback_fn fn)
{
	struct event *event = evtimer_new(r->engine.base, fn, r);
	ASSERT(event != NULL);
	return event;
}

static void make_loop(struct relay *r)
{
	struct engine *e = &r->engine;
	signal(SIGPIPE, SIG_IGN);
	e->base = event_base_new();
	ASSERT(e->base != NULL);
	e->turn = timer_new(r, on_turn);
	r->tick = timer_new(r, on_tick);
	r->sweep = timer_new(r, on_sweep);
	r->deadline = timer_new(r, on_deadline);
	for (size_t i = 0; i < SIGNALS; i++) {
		r->signals[i] = evsignal_new(e->base, signals[i].number, signals[i].fn, r);
		ASSERT(r->signals[i] != NULL);
		evsignal_add(r->signals[i], NULL);
	}
}

static void start(struct relay *r)
{
	static const struct lane_callbacks of_lane = {.lost = on_lost, .refused = on_refused};
	static const struct listen_callbacks of_listen = {
	    .listening = on_listening, .notified = on_work, .requeued = on_requeued, .lost = on_lost};
	struct engine *e = &r->engine;
	horizon_init(&e->horizon);
	limit_init(&e->limit, e->options->max_in_flight);
	canary_init(&e->canary, rng_next(&e->rng) ^ (uint64_t)getpid() << 32);
	e->is_pooled = e->options->no_prepare;
	r->lanes = xcalloc(e->options->lanes, sizeof(struct lane *));
	for (unsigned i = 0; i < e->options->lanes; i++)
		r->lanes[i] = lane_new(e, i + 1, &of_lane, r);
	if (!r->drains && !e->options->no_listen)
		r->listen = listen_new(e, &of_listen, r);
	if (!r->drains) {
		r->notify = notify_new(e->base, probe_line, r);
		on_sweep(-1, 0, r);
	}
	engine_turn(e);
}

/* What can be found wrong before anything is connected to. */
static bool set_up(struct relay *r, struct err *error)
{
	static const struct admin_callbacks with_page = {
	    .ready = probe_ready, .metrics = probe_metrics, .overview = probe_overview};
	static const struct admin_callbacks without_page = {.ready = probe_ready, .metrics = probe_metrics};
	static const struct overview_callbacks of_overview = {.refresh = refresh_gauges, .ready = probe_ready};
	struct engine *e = &r->engine;
	const struct options *o = e->options;
	struct fga_config config;
	struct address at;
	if (!pg_check_url(o->database_url, error) || !outbox_init(&e->outbox, o->table, o->channel, error))
		return false;
	fga_configure(&config, o, o->max_in_flight + 1); /* a check's */
	e->fga = fga_new(e->base, &config, error);
	if (e->fga == NULL)
		return false;
	r->check = check_new(e->fga, o, on_checked, r);
	if (r->drains)
		return true;
	if (!options_address(o->http_listen, &at, error))
		return false;
	if (!o->no_page)
		r->overview = overview_new(e, &of_overview, r);
	r->admin = admin_new(e->base, &at, o->no_page ? &without_page : &with_page, r, error);
	r->await = r->admin != NULL ? await_new(e, r->admin) : NULL;
	return r->admin != NULL;
}

static void tear_down(struct relay *r)
{
	struct engine *e = &r->engine;
	await_free(r->await);
	fga_free(e->fga); /* before what its answers would go to */
	for (unsigned i = 0; r->lanes != NULL && i < e->options->lanes; i++)
		lane_free(r->lanes[i]);
	free(r->lanes);
	listen_free(r->listen);
	check_free(r->check);
	admin_free(r->admin);
	overview_free(r->overview);
	notify_free(r->notify);
	for (size_t i = 0; i < SIGNALS; i++)
		event_free(r->signals[i]);
	event_free(e->turn);
	event_free(r->tick);
	event_free(r->sweep);
	event_free(r->deadline);
	/* Lookups that were cancelled tell so now. */
	event_base_loop(e->base, EVLOOP_NONBLOCK);
	event_base_free(e->base);
	outbox_fini(&e->outbox);
	order_free(&e->order);
	theirs_free(&e->theirs);
	park_free(&e->park);
	horizon_fini(&e->horizon);
	wake_fini(&e->wake);
	free(e->write_path);
	free(e->read_path);
}

static enum relay_end deliver(const struct options *o, bool drains)
{
	struct relay r = {
	    .engine = {.options = o, .max_tuples = o->max_tuples_per_write, .rng = {(uint64_t)clock_us()}},
	    .drains = drains,
	    .end = RELAY_STOPPED,
	};
	struct err error;
	metrics_gauge(&r.engine.metrics, GAUGE_START_TIME, (double)clock_wall_ms() / 1000);
	make_loop(&r);
	if (set_up(&r, &error)) {
		log_info("starting", LOG_S("version", RELAY_VERSION), LOG_S("table", o->table),
		         LOG_N("lanes", o->lanes));
		start(&r);
		event_base_dispatch(r.engine.base);
		log_info("stopped", LOG_N("rows_delivered", r.engine.metrics.counters[COUNTER_ROWS_DELIVERED]));
	} else {
		log_error("cannot start", LOG_S("reason", error.text));
		r.end = RELAY_WRONG;
	}
	tear_down(&r);
	return r.end;
}

enum relay_end relay_run(const struct options *o)
{
	return deliver(o, false);
}

enum relay_end relay_drain(const struct options *o)
{
	return deliver(o, true);
}
