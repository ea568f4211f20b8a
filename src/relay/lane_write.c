#include "base/clock.h"
#include "core/existing.h"
#include "core/page.h"
#include "core/probe.h"
#include "relay/apart.h"
#include "relay/lane_state.h"

enum { LOGGED_IDS = 20 };

/* A request in flight; it lives in the batch's arena. */
struct flight {
	struct lane *lane;
	struct request *request;
	size_t tuples;
	unsigned in_flight; /* with it, when it was sent */
	int64_t sent_us;
};

static void log_answer(const struct lane *l, const struct request *r, enum verdict v, const struct judgement *j)
{
	if (v == VERDICT_DELIVERED && !log_on(LOG_LEVEL_DEBUG))
		return;
	struct buf ids = {0};
	batch_request_ids(&l->batch, r, LOGGED_IDS, &ids);
	enum log_level level = j->hint == HINT_BUG ? LOG_LEVEL_ERROR : LOG_LEVEL_DEBUG;
	log_event(level, j->hint == HINT_BUG ? "bug: openfga refused the form of a request" : "answer",
	          LOG_FIELDS(LOG_S("lane", l->label), LOG_S("verdict", verdict_name(v)), LOG_V("ids", buf_str(&ids)),
	                     LOG_S("reason", j->reason)));
	buf_free(&ids);
}

/* The rows that this answer finished: how old they have become. */
static void observe_ages(struct lane *l, const struct request *r, int64_t now_ms)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct batch_row *row = &l->batch.rows[r->parts[i].row];
		if (row->state == ROW_DELIVERED)
			metrics_observe_us(&l->engine->metrics, HISTOGRAM_ROW_AGE_SECONDS,
			                   (now_ms - row->born_ms) * 1000);
	}
}

static void learn_limit(struct engine *e, const struct judgement *j)
{
	if (j->tuple_limit == 0 || j->tuple_limit >= e->max_tuples)
		return;
	e->max_tuples = j->tuple_limit;
	log_warning("openfga takes fewer tuples a request: set --max-tuples-per-write to its limit",
	            LOG_N("limit", j->tuple_limit));
}

static void judged(const struct flight *flight, const struct judgement *j)
{
	struct lane *l = flight->lane;
	struct engine *e = l->engine;
	int64_t now_ms = clock_ms();
	e->in_flight--;
	enum verdict v = batch_answer(&l->batch, flight->request, j, now_ms, &e->rng);
	metrics_count(&e->metrics, COUNTER_REQUESTS_DELIVERED + (unsigned)v, 1);
	int64_t duration_us = clock_us() - flight->sent_us;
	metrics_observe_us(&e->metrics, HISTOGRAM_REQUEST_SECONDS, duration_us);
	if (j->hint == HINT_SLOWER)
		limit_throttled(&e->limit, duration_us, now_ms);
	if (v == VERDICT_DELIVERED) {
		limit_answered(&e->limit, flight->tuples, duration_us, flight->in_flight, now_ms);
		metrics_count(&e->metrics, COUNTER_TUPLES, flight->tuples);
		observe_ages(l, flight->request, now_ms);
	}
	apart_learn(e, &l->batch, flight->request, v, j);
	log_answer(l, flight->request, v, j);
	learn_limit(e, j);
	target_wrote(&e->target, v, j, now_ms, &e->rng);
	engine_turn(e);
}

static void on_existing(void *arg, const struct answer *a)
{
	const struct flight *flight = arg;
	struct judgement j;
	existing_judge(a, batch_tuple(&flight->lane->batch, flight->request), clock_wall_ms(), &j);
	judged(flight, &j);
}

/* The request stays in flight until it is known how the tuple stands. */
static void ask_existing(struct flight *flight)
{
	const struct engine *e = flight->lane->engine;
	struct buf body = {0};
	page_body_of(batch_tuple(&flight->lane->batch, flight->request), &body);
	fga_post(e->fga, e->read_path, buf_str(&body), on_existing, flight);
	buf_free(&body);
}

static void on_answer(void *arg, const struct answer *a)
{
	struct flight *flight = arg;
	struct judgement j;
	batch_sent(&flight->lane->batch, flight->request, a);
	verdict_write(a, (unsigned)flight->tuples, clock_wall_ms(), &j);
	if (j.hint == HINT_EXISTS)
		ask_existing(flight);
	else
		judged(flight, &j);
}

static struct str model_id(const struct engine *e)
{
	return e->options->fga_model_id != NULL ? str_of(e->options->fga_model_id) : (struct str){0};
}

static void send_request(struct lane *l, struct request *r)
{
	struct engine *e = l->engine;
	struct buf body = {0};
	struct flight *flight = ARENA_NEW(&l->batch.arena, struct flight);
	size_t tuples = batch_body(&l->batch, r, model_id(e), &body);
	*flight = (struct flight){l, r, tuples, (unsigned)++e->in_flight, clock_us()};
	fga_post(e->fga, e->write_path, buf_str(&body), on_answer, flight);
	buf_free(&body);
}

static void on_probed(void *arg, const struct answer *a)
{
	struct lane *l = arg;
	struct judgement j;
	l->probing = false;
	verdict_write(a, 1, clock_wall_ms(), &j);
	batch_probed(&l->batch, j.verdict == VERDICT_DELIVERED, &j, clock_ms(), &l->engine->rng);
	target_probed(&l->engine->target, &j, clock_ms(), &l->engine->rng);
	engine_turn(l->engine);
}

static void send_probe(struct lane *l)
{
	struct buf body = {0};
	probe_body(model_id(l->engine), PROBE_WRITES, &body);
	l->probing = true;
	fga_post(l->engine->fga, l->engine->write_path, buf_str(&body), on_probed, l);
	buf_free(&body);
}

void lane_write_on(struct lane *l, int64_t now_ms)
{
	struct engine *e = l->engine;
	if (e->stopping)
		batch_stop(&l->batch);
	size_t share = turn_share(&l->turn, e);
	while (l->batch.in_flight < share && e->in_flight < limit_get(&e->limit)) {
		struct request *r = batch_next(&l->batch, now_ms);
		if (r == NULL)
			break;
		send_request(l, r);
	}
	if (!l->probing && batch_wants_probe(&l->batch))
		send_probe(l);
}
