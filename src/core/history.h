/* The last half hour of a relay, a sample every two seconds, in a fixed 200 KB: what the page at / shows. */
#ifndef RELAY_CORE_HISTORY_H
#define RELAY_CORE_HISTORY_H

#include "base/metrics.h"

enum {
	HISTORY_STEP_MS = 2000,
	HISTORY_SAMPLES = 900,
	HISTORY_QUANTILES = 3, /* 0.5, 0.95 and 0.99 */
};

/* X(name, what): the columns, with their names in JSON. How often something happened in the time of a sample; */
#define HISTORY_COUNTERS(X) \
	X(rows, COUNTER_ROWS_DELIVERED) \
	X(tuples, COUNTER_TUPLES) \
	X(delivered, COUNTER_REQUESTS_DELIVERED) \
	X(retry, COUNTER_REQUESTS_RETRY) \
	X(split, COUNTER_REQUESTS_SPLIT) \
	X(rejected, COUNTER_REQUESTS_REJECTED) \
	X(halt, COUNTER_REQUESTS_HALT)
/* what was so at its end; ages in seconds, ready, listening and openfga (that it can be written to) 0 or 1; */
#define HISTORY_GAUGES(X) \
	X(pending, GAUGE_ROWS_PENDING) \
	X(oldest, GAUGE_OLDEST_PENDING) \
	X(oldest_delete, GAUGE_OLDEST_PENDING_DELETE) \
	X(parked, GAUGE_ROWS_PARKED) \
	X(refused, GAUGE_ROWS_REFUSED) \
	X(ready, GAUGE_READY) \
	X(listening, GAUGE_LISTENING) \
	X(openfga, GAUGE_OPENFGA_READY)
/* and how long something took, as quantiles in seconds, age_p50 and so on. */
#define HISTORY_HISTOGRAMS(X) \
	X(age, HISTOGRAM_ROW_AGE_SECONDS) \
	X(request, HISTOGRAM_REQUEST_SECONDS)

enum history_counter {
#define X(name, what) HISTORY_COUNTER_##name,
	HISTORY_COUNTERS(X)
#undef X
	    HISTORY_N_COUNTERS
};
enum history_gauge {
#define X(name, what) HISTORY_GAUGE_##name,
	HISTORY_GAUGES(X)
#undef X
	    HISTORY_N_GAUGES
};
enum history_histogram {
#define X(name, what) HISTORY_HISTOGRAM_##name,
	HISTORY_HISTOGRAMS(X)
#undef X
	    HISTORY_N_HISTOGRAMS
};

struct history_sample {
	int64_t at_ms;    /* its end, since 1970 */
	uint32_t span_ms; /* how long it took: more than a step where the process was stopped */
	uint32_t counters[HISTORY_N_COUNTERS];
	float gauges[HISTORY_N_GAUGES];
	uint32_t buckets[HISTORY_N_HISTOGRAMS][METRICS_BUCKETS + 1];
};

struct history {
	struct history_sample samples[HISTORY_SAMPLES]; /* number n is at n % HISTORY_SAMPLES */
	uint64_t n;                                     /* taken so far; numbers begin at 0 */
	struct metrics last;                            /* at the end of the last one */
	int64_t last_ms;
};

/* Begins the first sample. now_ms: of a monotonic clock. */
void history_init(struct history *h, const struct metrics *m, int64_t now_ms);

/* Ends a sample and begins the next one. wall_ms: since 1970. The gauges are those of now. */
void history_take(struct history *h, const struct metrics *m, int64_t now_ms, int64_t wall_ms);

/* Adds {"step_ms":2000,"most":900,"next":N,"names":["at","span_ms",…],"samples":[[…],…]}: the samples from
 * number `since` on that are still known, oldest first, each with a value for every name. "next" is the number to ask
 * for next time. A quantile is null where nothing happened. A `since` above "next" is another process's, and brings
 * all. */
void history_write(const struct history *h, uint64_t since, struct buf *out);

/* Adds {"span_ms":N,"rows":N,…,"age_p50":S,…}: the counters and quantiles of so many samples, the last ones, together.
 */
void history_write_last(const struct history *h, size_t samples, struct buf *out);

/* The q-quantile, in seconds, of a histogram's buckets, which are not cumulative here: within a bucket it is
 * interpolated as by Prometheus' histogram_quantile(), and above the last bound it is that bound. NAN: nothing was
 * observed. */
double history_quantile(double q, const uint32_t buckets[METRICS_BUCKETS + 1]);

#endif
