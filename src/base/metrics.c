#include "base/metrics.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>

static const int64_t bounds_us[METRICS_BUCKETS] = {METRICS_BUCKETS_US};

enum series_kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM };

static const struct series {
	enum series_kind kind;
	unsigned index; /* in the array of its kind */
	const char *name;
	const char *label; /* NULL: none */
	const char *value;
	const char *help;
} series[] = {
#define COUNTER(id, name, label, value, help) {KIND_COUNTER, COUNTER_##id, name, label, value, help},
#define GAUGE(id, name, label, value, help) {KIND_GAUGE, GAUGE_##id, name, label, value, help},
#define HISTOGRAM(id, name, help) {KIND_HISTOGRAM, HISTOGRAM_##id, name, NULL, NULL, help},
#include "base/metrics.def"
};

void metrics_observe_us(struct metrics *m, enum histogram h, int64_t us)
{
	size_t bucket = 0;
	if (us < 0)
		us = 0;
	while (bucket < METRICS_BUCKETS && us > bounds_us[bucket])
		bucket++;
	m->histograms[h].buckets[bucket]++;
	m->histograms[h].sum_us += (uint64_t)us;
}

/* Adds a decimal number without the zeros at its end. */
static void add_trimmed(struct buf *out, const char *number)
{
	size_t n = strlen(number);
	while (n > 0 && number[n - 1] == '0')
		n--;
	if (n > 0 && number[n - 1] == '.')
		n--;
	buf_add(out, number, n);
}

static void add_seconds(struct buf *out, uint64_t us)
{
	char text[32];
	snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
	add_trimmed(out, text);
}

static void add_gauge(struct buf *out, double value)
{
	char text[DBL_MAX_10_EXP + 8]; /* the longest double, its sign, point, decimals and NUL */
	snprintf(text, sizeof text, "%.3f", value);
	add_trimmed(out, text);
}

static void add_histogram(struct buf *out, const struct metrics *m, const struct series *s)
{
	uint64_t count = 0;
	for (size_t i = 0; i < METRICS_BUCKETS; i++) {
		count += m->histograms[s->index].buckets[i];
		buf_printf(out, "%s_bucket{le=\"", s->name);
		add_seconds(out, (uint64_t)bounds_us[i]);
		buf_printf(out, "\"} %" PRIu64 "\n", count);
	}
	count += m->histograms[s->index].buckets[METRICS_BUCKETS];
	buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum ", s->name, count, s->name);
	add_seconds(out, m->histograms[s->index].sum_us);
	buf_printf(out, "\n%s_count %" PRIu64 "\n", s->name, count);
}

static void add_series(struct buf *out, const struct metrics *m, const struct series *s)
{
	if (s->kind == KIND_HISTOGRAM) {
		add_histogram(out, m, s);
		return;
	}
	buf_add_text(out, s->name);
	if (s->label != NULL)
		buf_printf(out, "{%s=\"%s\"}", s->label, s->value);
	buf_add_char(out, ' ');
	if (s->kind == KIND_COUNTER)
		buf_printf(out, "%" PRIu64, m->counters[s->index]);
	else
		add_gauge(out, s->index == GAUGE_INFO ? 1 : m->gauges[s->index]);
	buf_add_char(out, '\n');
}

void metrics_write(const struct metrics *m, struct buf *out)
{
	static const char *const types[] = {
	    [KIND_COUNTER] = "counter", [KIND_GAUGE] = "gauge", [KIND_HISTOGRAM] = "histogram"};
	const char *family = "";
	for (size_t i = 0; i < sizeof series / sizeof *series; i++) {
		const struct series *s = &series[i];
		if (strcmp(s->name, family) != 0)
			buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", s->name, s->help, s->name, types[s->kind]);
		family = s->name;
		add_series(out, m, s);
	}
}
