#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>

#include "core/history.h"

/* It is a fixed part of what a relay takes, however long it runs. */
_Static_assert(sizeof(struct history) < 256 * 1024, "a few hundred kilobytes");

/* Too large for a stack. */
static struct history h;
static struct metrics m;

static int begin(void **state)
{
	(void)state;
	m = (struct metrics){0};
	history_init(&h, &m, 500);
	return 0;
}

/* The k-th sample ends at 500 + 2000k of the monotonic clock and at 1000000 + 2000k of the other one. */
static void take(void)
{
	int64_t k = (int64_t)h.n + 1;
	history_take(&h, &m, 500 + 2000 * k, 1000000 + 2000 * k);
}

static cJSON *written(uint64_t since)
{
	struct buf text = {0};
	history_write(&h, since, &text);
	cJSON *json = cJSON_ParseWithOpts(text.p, NULL, true);
	assert_non_null(json);
	buf_free(&text);
	return json;
}

static cJSON *samples_of(const cJSON *json)
{
	return cJSON_GetObjectItemCaseSensitive(json, "samples");
}

/* The value of a sample that has a name; NAN for null. */
static double value(const cJSON *json, int number, const char *name)
{
	const cJSON *names = cJSON_GetObjectItemCaseSensitive(json, "names");
	const cJSON *one = cJSON_GetArrayItem(samples_of(json), number);
	assert_int_equal(cJSON_GetArraySize(names), cJSON_GetArraySize(one));
	for (int i = 0; i < cJSON_GetArraySize(names); i++)
		if (strcmp(cJSON_GetArrayItem(names, i)->valuestring, name) == 0)
			return cJSON_IsNull(cJSON_GetArrayItem(one, i)) ? (double)NAN
			                                                : cJSON_GetArrayItem(one, i)->valuedouble;
	fail_msg("%s is not there", name);
	return 0;
}

static void each_sample_has_what_happened_in_its_time(void **state)
{
	(void)state;
	metrics_count(&m, COUNTER_ROWS_DELIVERED, 10);
	metrics_gauge(&m, GAUGE_ROWS_PENDING, 4);
	take();
	metrics_count(&m, COUNTER_ROWS_DELIVERED, 5);
	metrics_count(&m, COUNTER_REQUESTS_RETRY, 2);
	metrics_observe_us(&m, HISTOGRAM_ROW_AGE_SECONDS, 3000);
	metrics_gauge(&m, GAUGE_ROWS_PENDING, 0);
	metrics_gauge(&m, GAUGE_OLDEST_PENDING, 1.5);
	take();
	cJSON *json = written(0);
	assert_int_equal(cJSON_GetArraySize(samples_of(json)), 2);
	assert_true(value(json, 0, "rows") == 10 && value(json, 1, "rows") == 5);
	assert_true(value(json, 0, "retry") == 0 && value(json, 1, "retry") == 2);
	assert_true(value(json, 0, "pending") == 4 && value(json, 1, "pending") == 0);
	assert_true(value(json, 1, "oldest") == 1.5);
	assert_true(value(json, 0, "at") == 1002000 && value(json, 1, "span_ms") == 2000);
	assert_true(isnan(value(json, 0, "age_p50")));
	assert_true(value(json, 1, "age_p50") > 0.0025 && value(json, 1, "age_p99") < 0.005);
	cJSON_Delete(json);
}

static void a_process_that_was_stopped_has_a_long_sample(void **state)
{
	(void)state;
	take();
	history_take(&h, &m, 62500, 5000000);
	cJSON *json = written(0);
	assert_true(value(json, 1, "span_ms") == 60000 && value(json, 1, "at") == 5000000);
	cJSON_Delete(json);
}

static void only_those_that_are_asked_for(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		take();
	static const struct {
		uint64_t since;
		int n;
	} cases[] = {{0, 10}, {7, 3}, {9, 1}, {10, 0}, {11, 10}, {UINT64_MAX, 10}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		cJSON *json = written(cases[i].since);
		assert_int_equal(cJSON_GetArraySize(samples_of(json)), cases[i].n);
		assert_int_equal(cJSON_GetObjectItemCaseSensitive(json, "next")->valueint, 10);
		cJSON_Delete(json);
	}
}

static void the_oldest_ones_give_way(void **state)
{
	(void)state;
	for (int i = 1; i <= HISTORY_SAMPLES + 7; i++) {
		metrics_count(&m, COUNTER_ROWS_DELIVERED, (uint64_t)i);
		take();
	}
	cJSON *json = written(3);
	assert_int_equal(cJSON_GetArraySize(samples_of(json)), HISTORY_SAMPLES);
	assert_true(value(json, 0, "rows") == 8);
	assert_true(value(json, HISTORY_SAMPLES - 1, "rows") == HISTORY_SAMPLES + 7);
	cJSON_Delete(json);
}

static void the_last_ones_together(void **state)
{
	struct buf text = {0};
	(void)state;
	for (int i = 0; i < 3; i++) {
		metrics_count(&m, COUNTER_TUPLES, 100);
		metrics_observe_us(&m, HISTOGRAM_REQUEST_SECONDS, i == 0 ? 400000000 : 7000);
		take();
	}
	history_write_last(&h, 2, &text);
	cJSON *json = cJSON_ParseWithOpts(text.p, NULL, true);
	assert_non_null(json);
	assert_int_equal(cJSON_GetObjectItemCaseSensitive(json, "tuples")->valueint, 200);
	assert_int_equal(cJSON_GetObjectItemCaseSensitive(json, "span_ms")->valueint, 4000);
	assert_true(cJSON_GetObjectItemCaseSensitive(json, "request_p99")->valuedouble <= 0.01);
	assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json, "age_p50")));
	cJSON_Delete(json);
	buf_free(&text);
}

static void assert_quantile(double q, const uint32_t buckets[METRICS_BUCKETS + 1], double expected)
{
	assert_true(fabs(history_quantile(q, buckets) - expected) < 1e-9);
}

/* The examples were computed by Prometheus' own rule: linear between a bucket's bounds, from 0 in the first one. */
static void quantiles_are_those_of_prometheus(void **state)
{
	uint32_t buckets[METRICS_BUCKETS + 1] = {0};
	(void)state;
	assert_true(isnan(history_quantile(0.5, buckets)));
	buckets[0] = 10; /* up to 1 ms */
	assert_quantile(0.5, buckets, 0.0005);
	buckets[2] = 10; /* 2.5 to 5 ms */
	assert_quantile(0.5, buckets, 0.001);
	assert_quantile(0.75, buckets, 0.00375);
	assert_quantile(1, buckets, 0.005);
	buckets[METRICS_BUCKETS] = 1; /* above all bounds */
	assert_quantile(0.99, buckets, 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(each_sample_has_what_happened_in_its_time, begin),
	    cmocka_unit_test_setup(a_process_that_was_stopped_has_a_long_sample, begin),
	    cmocka_unit_test_setup(only_those_that_are_asked_for, begin),
	    cmocka_unit_test_setup(the_oldest_ones_give_way, begin),
	    cmocka_unit_test_setup(the_last_ones_together, begin),
	    cmocka_unit_test(quantiles_are_those_of_prometheus),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
