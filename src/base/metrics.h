/* Counters, gauges and histograms in Prometheus' text format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). The table is metrics.def. */
#ifndef RELAY_BASE_METRICS_H
#define RELAY_BASE_METRICS_H

#include <stdint.h>

#include "base/str.h"

enum counter {
#define COUNTER(id, name, label, value, help) COUNTER_##id,
#define GAUGE(id, name, label, value, help)
#define HISTOGRAM(id, name, help)
#include "base/metrics.def"
	COUNTER_COUNT
};

enum gauge {
#define COUNTER(id, name, label, value, help)
#define GAUGE(id, name, label, value, help) GAUGE_##id,
#define HISTOGRAM(id, name, help)
#include "base/metrics.def"
	GAUGE_COUNT
};

enum histogram {
#define COUNTER(id, name, label, value, help)
#define GAUGE(id, name, label, value, help)
#define HISTOGRAM(id, name, help) HISTOGRAM_##id,
#include "base/metrics.def"
	HISTOGRAM_COUNT
};

/* Upper bounds of all histograms, in microseconds: 1 ms to 5 minutes. */
#define METRICS_BUCKETS_US \
	1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, \
	    60000000, 300000000
enum { METRICS_BUCKETS = 16 };

/* All of a process's figures; {0} at the start. */
struct metrics {
	uint64_t counters[COUNTER_COUNT];
	double gauges[GAUGE_COUNT];
	struct {
		uint64_t buckets[METRICS_BUCKETS + 1]; /* the last: above all bounds; not cumulative here */
		uint64_t sum_us;
	} histograms[HISTOGRAM_COUNT];
};

static inline void metrics_count(struct metrics *m, enum counter c, uint64_t n)
{
	m->counters[c] += n;
}

static inline void metrics_gauge(struct metrics *m, enum gauge g, double value)
{
	m->gauges[g] = value;
}

/* One observation; a negative one (clocks differ) counts as 0. */
void metrics_observe_us(struct metrics *m, enum histogram h, int64_t us);

/* Adds all of it to out, each family with its HELP and TYPE once; series of one family stand together. */
void metrics_write(const struct metrics *m, struct buf *out);

#endif
