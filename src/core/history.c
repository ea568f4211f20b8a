#include "core/history.h"

#include <inttypes.h>
#include <math.h>

static const struct {
	const char *name;
	enum counter from;
} counters[] = {
#define X(name, what) {#name, what},
    HISTORY_COUNTERS(X)
#undef X
};
static const struct {
	const char *name;
	enum gauge from;
} gauges[] = {
#define X(name, what) {#name, what},
    HISTORY_GAUGES(X)
#undef X
};
static const struct {
	const char *name;
	enum histogram from;
} histograms[] = {
#define X(name, what) {#name, what},
    HISTORY_HISTOGRAMS(X)
#undef X
};
static const struct {
	const char *name;
	double q;
} quantiles[HISTORY_QUANTILES] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}};

void history_init(struct history *h, const struct metrics *m, int64_t now_ms)
{
	*h = (struct history){.last = *m, .last_ms = now_ms};
}

void history_take(struct history *h, const struct metrics *m, int64_t now_ms, int64_t wall_ms)
{
	struct history_sample *s = &h->samples[h->n++ % HISTORY_SAMPLES];
	*s = (struct history_sample){.at_ms = wall_ms, .span_ms = (uint32_t)(now_ms - h->last_ms)};
	for (size_t i = 0; i < HISTORY_N_COUNTERS; i++)
		s->counters[i] = (uint32_t)(m->counters[counters[i].from] - h->last.counters[counters[i].from]);
	for (size_t i = 0; i < HISTORY_N_GAUGES; i++)
		s->gauges[i] = (float)m->gauges[gauges[i].from];
	for (size_t i = 0; i < HISTORY_N_HISTOGRAMS; i++)
		for (size_t b = 0; b <= METRICS_BUCKETS; b++)
			s->buckets[i][b] = (uint32_t)(m->histograms[histograms[i].from].buckets[b] -
			                              h->last.histograms[histograms[i].from].buckets[b]);
	h->last = *m;
	h->last_ms = now_ms;
}

/* https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile */
double history_quantile(double q, const uint32_t buckets[METRICS_BUCKETS + 1])
{
	static const double bounds_us[METRICS_BUCKETS] = {METRICS_BUCKETS_US};
	double total = 0;
	for (size_t i = 0; i <= METRICS_BUCKETS; i++)
		total += buckets[i];
	if (total == 0)
		return (double)NAN;
	double rank = q * total;
	size_t i = 0;
	for (; i < METRICS_BUCKETS && rank > buckets[i]; i++)
		rank -= buckets[i];
	if (i == METRICS_BUCKETS)
		return bounds_us[METRICS_BUCKETS - 1] / 1e6;
	double from = i == 0 ? 0 : bounds_us[i - 1];
	return (from + (bounds_us[i] - from) * rank / buckets[i]) / 1e6;
}

/* Writing */

static void add_number(struct buf *out, double value)
{
	if (isnan(value))
		buf_add_text(out, "null");
	else
		buf_printf(out, "%.6g", value);
}

static void write_names(struct buf *out)
{
	buf_add_text(out, "\"at\",\"span_ms\"");
	for (size_t i = 0; i < HISTORY_N_COUNTERS; i++)
		buf_printf(out, ",\"%s\"", counters[i].name);
	for (size_t i = 0; i < HISTORY_N_GAUGES; i++)
		buf_printf(out, ",\"%s\"", gauges[i].name);
	for (size_t i = 0; i < HISTORY_N_HISTOGRAMS; i++)
		for (size_t q = 0; q < HISTORY_QUANTILES; q++)
			buf_printf(out, ",\"%s_%s\"", histograms[i].name, quantiles[q].name);
}

static void write_sample(const struct history_sample *s, struct buf *out)
{
	buf_printf(out, "[%" PRId64 ",%" PRIu32, s->at_ms, s->span_ms);
	for (size_t i = 0; i < HISTORY_N_COUNTERS; i++)
		buf_printf(out, ",%" PRIu32, s->counters[i]);
	for (size_t i = 0; i < HISTORY_N_GAUGES; i++) {
		buf_add_char(out, ',');
		add_number(out, (double)s->gauges[i]);
	}
	for (size_t i = 0; i < HISTORY_N_HISTOGRAMS; i++) {
		for (size_t q = 0; q < HISTORY_QUANTILES; q++) {
			buf_add_char(out, ',');
			add_number(out, history_quantile(quantiles[q].q, s->buckets[i]));
		}
	}
	buf_add_char(out, ']');
}

static const struct history_sample *sample(const struct history *h, uint64_t number)
{
	return &h->samples[number % HISTORY_SAMPLES];
}

void history_write(const struct history *h, uint64_t since, struct buf *out)
{
	uint64_t oldest = h->n > HISTORY_SAMPLES ? h->n - HISTORY_SAMPLES : 0;
	uint64_t first = since > h->n || since < oldest ? oldest : since;
	buf_printf(out, "{\"step_ms\":%d,\"most\":%d,\"next\":%" PRIu64 ",\"names\":[", HISTORY_STEP_MS,
	           HISTORY_SAMPLES, h->n);
	write_names(out);
	buf_add_text(out, "],\"samples\":[");
	for (uint64_t n = first; n < h->n; n++) {
		buf_add_text(out, n == first ? "" : ",");
		write_sample(sample(h, n), out);
	}
	buf_add_text(out, "]}");
}

void history_write_last(const struct history *h, size_t samples, struct buf *out)
{
	struct history_sample sum = {0};
	for (uint64_t n = h->n > samples ? h->n - samples : 0; n < h->n; n++) {
		const struct history_sample *s = sample(h, n);
		sum.span_ms += s->span_ms;
		for (size_t i = 0; i < HISTORY_N_COUNTERS; i++)
			sum.counters[i] += s->counters[i];
		for (size_t i = 0; i < HISTORY_N_HISTOGRAMS; i++)
			for (size_t b = 0; b <= METRICS_BUCKETS; b++)
				sum.buckets[i][b] += s->buckets[i][b];
	}
	buf_printf(out, "{\"span_ms\":%" PRIu32, sum.span_ms);
	for (size_t i = 0; i < HISTORY_N_COUNTERS; i++)
		buf_printf(out, ",\"%s\":%" PRIu32, counters[i].name, sum.counters[i]);
	for (size_t i = 0; i < HISTORY_N_HISTOGRAMS; i++) {
		for (size_t q = 0; q < HISTORY_QUANTILES; q++) {
			buf_printf(out, ",\"%s_%s\":", histograms[i].name, quantiles[q].name);
			add_number(out, history_quantile(quantiles[q].q, sum.buckets[i]));
		}
	}
	buf_add_char(out, '}');
}
