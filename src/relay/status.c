#include "relay/status.h"

void status_postgres(struct status *s, const struct err *e)
{
	s->postgres = *e;
}

static void add_reason(struct buf *reasons, const char *what, const char *why)
{
	struct buf text = {0};
	buf_printf(&text, "%s: %s", what, why);
	if (reasons->n > 0)
		buf_add_char(reasons, ',');
	buf_add_json(reasons, buf_str(&text));
	buf_free(&text);
}

bool status_write(const struct status *s, const struct engine *e, const struct status_now *now, struct buf *out)
{
	struct buf reasons = {0};
	const char *postgres = s->postgres.text[0] != '\0' ? s->postgres.text : "connecting";
	if (e->stopping)
		add_reason(&reasons, "relay", "stopping");
	if (!now->is_connected || !now->is_well)
		add_reason(&reasons, "postgres", postgres);
	else if (!now->is_listening)
		add_reason(&reasons, "listen", postgres);
	if (!target_may_claim(&e->target))
		add_reason(&reasons, "openfga", e->target.reason[0] != '\0' ? e->target.reason : "not asked yet");
	bool ready = reasons.n == 0;
	buf_printf(out, "{\"ready\":%s,\"reasons\":[", ready ? "true" : "false");
	buf_add_str(out, buf_str(&reasons));
	buf_add_text(out, "],\"warnings\":[");
	if (e->server_age == SERVER_OLD)
		buf_add_json(out, STR(STATUS_OLD));
	buf_printf(out, "],\"postgres\":\"%s\",\"listening\":%s,\"openfga\":\"%s\"}",
	           now->is_connected ? "connected" : "disconnected", now->is_listening ? "true" : "false",
	           target_state_name(e->target.state));
	buf_free(&reasons);
	return ready;
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
