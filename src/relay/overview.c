#include "relay/overview.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "core/digest.h"
#include "core/history.h"

enum { MINUTE_SAMPLES = 60 * 1000 / HISTORY_STEP_MS };

struct overview {
	struct engine *engine;
	const struct overview_callbacks *callbacks;
	void *arg;
	struct event *step;
	struct history history;
};

static void on_step(evutil_socket_t fd, short what, void *arg)
{
	struct overview *o = arg;
	(void)fd;
	(void)what;
	o->callbacks->refresh(o->arg);
	history_take(&o->history, &o->engine->metrics, clock_ms(), clock_wall_ms());
}

struct overview *overview_new(struct engine *e, const struct overview_callbacks *callbacks, void *arg)
{
	static const struct timeval step = {HISTORY_STEP_MS / 1000, HISTORY_STEP_MS % 1000 * 1000L};
	struct overview *o = xcalloc(1, sizeof *o);
	o->engine = e;
	o->callbacks = callbacks;
	o->arg = arg;
	history_init(&o->history, &e->metrics, clock_ms());
	o->step = event_new(e->base, -1, EV_PERSIST, on_step, o);
	ASSERT(o->step != NULL);
	event_add(o->step, &step);
	return o;
}

static void write_now(const struct engine *e, struct buf *out)
{
	const double *gauges = e->metrics.gauges;
	buf_printf(out, "\"version\":\"%s\",\"started_ms\":%.0f,\"now_ms\":%" PRId64 ",\"table\":", RELAY_VERSION,
	           gauges[GAUGE_START_TIME] * 1000, clock_wall_ms());
	buf_add_json(out, str_of(e->options->table));
	buf_printf(out, ",\"sweep_interval_ms\":%" PRId64 ",\"counted_ms\":%" PRId64, e->options->sweep_interval_ms,
	           e->counted_ms);
	buf_printf(out, ",\"pending\":%.0f,\"oldest\":%.3f,\"oldest_delete\":%.3f", gauges[GAUGE_ROWS_PENDING],
	           gauges[GAUGE_OLDEST_PENDING], gauges[GAUGE_OLDEST_PENDING_DELETE]);
	buf_printf(out, ",\"in_flight\":%zu,\"limit\":%u,\"lanes\":%u,\"no_listen\":%s", e->in_flight,
	           limit_get(&e->limit), e->options->lanes, e->options->no_listen ? "true" : "false");
}

void overview_write(const struct overview *o, uint64_t since, struct buf *out)
{
	buf_add_char(out, '{');
	write_now(o->engine, out);
	buf_add_text(out, ",\"probe\":");
	(void)o->callbacks->ready(o->arg, out);
	buf_add_text(out, ",\"parked\":");
	digest_write(&o->engine->park, out);
	buf_add_text(out, ",\"minute\":");
	history_write_last(&o->history, MINUTE_SAMPLES, out);
	buf_add_text(out, ",\"history\":");
	history_write(&o->history, since, out);
	buf_add_char(out, '}');
}

void overview_free(struct overview *o)
{
	if (o == NULL)
		return;
	event_free(o->step);
	free(o);
}
