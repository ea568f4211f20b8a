#include "relay/status.h"

void status_postgres(struct status *s, const struct err *e)
{
	s->postgres = *e;
}

struct complaint {
	const char *what;
	const char *why;
};

enum { MOST_COMPLAINTS = 3 };

/* What keeps it from being ready, and how many things that are. */
static size_t complaints(const struct status *s, const struct engine *e, const struct status_now *now,
                         struct complaint list[MOST_COMPLAINTS])
{
	const char *postgres = s->postgres.text[0] != '\0' ? s->postgres.text : "connecting";
	size_t n = 0;
	if (e->stopping)
		list[n++] = (struct complaint){"relay", "stopping"};
	if (!now->is_connected || !now->is_well)
		list[n++] = (struct complaint){"postgres", postgres};
	else if (!now->is_listening)
		list[n++] = (struct complaint){"listen", postgres};
	if (!target_may_claim(&e->target))
		list[n++] =
		    (struct complaint){"openfga", e->target.reason[0] != '\0' ? e->target.reason : "not asked yet"};
	return n;
}

bool status_write(const struct status *s, const struct engine *e, const struct status_now *now, struct buf *out)
{
	struct complaint list[MOST_COMPLAINTS];
	size_t n = complaints(s, e, now, list);
	struct buf text = {0};
	buf_printf(out, "{\"ready\":%s,\"reasons\":[", n == 0 ? "true" : "false");
	for (size_t i = 0; i < n; i++) {
		buf_clear(&text);
		buf_printf(&text, "%s: %s", list[i].what, list[i].why);
		buf_add_text(out, i == 0 ? "" : ",");
		buf_add_json(out, buf_str(&text));
	}
	buf_add_text(out, "],\"warnings\":[");
	if (e->server_age == SERVER_OLD)
		buf_add_json(out, STR(STATUS_OLD));
	buf_printf(out, "],\"postgres\":\"%s\",\"listening\":%s,\"openfga\":\"%s\"}",
	           now->is_connected ? "connected" : "disconnected", now->is_listening ? "true" : "false",
	           target_state_name(e->target.state));
	buf_free(&text);
	return n == 0;
}

void status_line(const struct status *s, const struct engine *e, const struct status_now *now, struct buf *out)
{
	struct complaint list[MOST_COMPLAINTS];
	size_t n = complaints(s, e, now, list);
	buf_add_text(out, n == 0 ? "ready" : "not ready: ");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s%s: %s", i == 0 ? "" : "; ", list[i].what, list[i].why);
	buf_printf(out, "; rows delivered: %llu, refused: %zu",
	           (unsigned long long)e->metrics.counters[COUNTER_ROWS_DELIVERED], park_refused(&e->park));
}

void status_gauges(const struct status *s, struct engine *e, const struct status_now *now)
{
	static const enum gauge states[] = {
#define X(name, text) [TARGET_##name] = GAUGE_OPENFGA_##name,
	    TARGET_STATES(X)
#undef X
	};
	struct buf ignored = {0};
	metrics_gauge(&e->metrics, GAUGE_READY, status_write(s, e, now, &ignored));
	buf_free(&ignored);
	for (size_t i = 0; i < sizeof states / sizeof *states; i++)
		metrics_gauge(&e->metrics, states[i], e->target.state == i);
	metrics_gauge(&e->metrics, GAUGE_ROWS_PARKED, (double)park_count(&e->park));
	metrics_gauge(&e->metrics, GAUGE_ROWS_REFUSED, (double)park_refused(&e->park));
}
