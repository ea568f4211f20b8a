#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/metrics.h"

/* The text, checked line by line against the format's grammar
 * (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format). */
struct family {
	char name[64];
	char type[16];
	unsigned series;
};

struct reader {
	struct family families[64];
	size_t n;
};

static size_t name_length(const char *s)
{
	size_t n = 0;
	while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == ':')
		n++;
	assert_true(n > 0 && !isdigit((unsigned char)s[0]));
	return n;
}

static void read_help(struct reader *r, const char *line)
{
	struct family *f = &r->families[r->n++];
	assert_in_range(r->n, 1, sizeof r->families / sizeof *r->families);
	size_t n = name_length(line);
	assert_int_equal(line[n], ' ');
	assert_true(strlen(line + n) > 1);
	snprintf(f->name, sizeof f->name, "%.*s", (int)n, line);
	for (size_t i = 0; i + 1 < r->n; i++)
		assert_string_not_equal(r->families[i].name, f->name); /* once a family, so its series stand together */
}

static void read_type(struct reader *r, const char *line)
{
	struct family *f = &r->families[r->n - 1];
	size_t n = name_length(line);
	assert_int_equal(strncmp(line, f->name, n), 0);
	assert_int_equal(n, strlen(f->name));
	assert_string_equal(f->type, "");
	snprintf(f->type, sizeof f->type, "%s", line + n + 1);
	if (strcmp(f->type, "counter") != 0 && strcmp(f->type, "gauge") != 0)
		assert_string_equal(f->type, "histogram");
}

static void read_sample(struct reader *r, const char *line)
{
	struct family *f = &r->families[r->n - 1];
	size_t n = name_length(line);
	const char *p = line + n;
	assert_true(r->n > 0 && *f->type != '\0');
	size_t base = strlen(f->name);
	assert_int_equal(strncmp(line, f->name, base), 0);
	if (strcmp(f->type, "histogram") == 0)
		assert_true(strncmp(line + base, "_bucket{le=\"", 12) == 0 || strncmp(line + base, "_sum ", 5) == 0 ||
		            strncmp(line + base, "_count ", 7) == 0);
	else
		assert_int_equal(n, base);
	if (*p == '{') {
		n = name_length(p + 1);
		assert_int_equal(strncmp(p + 1 + n, "=\"", 2), 0);
		p = strchr(p + n + 3, '"');
		assert_non_null(p);
		assert_int_equal(*++p, '}');
		p++;
	}
	assert_int_equal(*p++, ' ');
	assert_true(strlen(p) > 0 && strspn(p, "0123456789.-") == strlen(p));
	f->series++;
}

static void read_text(struct reader *r, const struct buf *text)
{
	char *copy = strdup(text->p);
	char *rest = copy;
	assert_int_equal(text->p[text->n - 1], '\n');
	for (char *line = strtok_r(rest, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "# HELP ", 7) == 0)
			read_help(r, line + 7);
		else if (strncmp(line, "# TYPE ", 7) == 0)
			read_type(r, line + 7);
		else
			read_sample(r, line);
	}
	free(copy);
}

/* The value of one series; fails when it is not there exactly once. */
static const char *value(const struct buf *text, const char *series)
{
	static char found[64];
	char start[128];
	snprintf(start, sizeof start, "\n%s ", series);
	const char *at = strstr(text->p, start);
	if (at == NULL || strstr(at + 1, start) != NULL)
		fail_msg("%s", series);
	at += strlen(start);
	snprintf(found, sizeof found, "%.*s", (int)strcspn(at, "\n"), at);
	return found;
}

static void keeps_to_the_grammar(void **state)
{
	struct metrics m = {0};
	struct reader r = {0};
	struct buf text = {0};
	(void)state;
	metrics_write(&m, &text);
	read_text(&r, &text);
	unsigned series = 0;
	for (size_t i = 0; i < r.n; i++) {
		series += r.families[i].series;
		if (strcmp(r.families[i].type, "histogram") == 0)
			assert_int_equal(r.families[i].series, METRICS_BUCKETS + 3);
		else if (strcmp(r.families[i].name, "relay_requests_total") == 0)
			assert_int_equal(r.families[i].series, 5);
		else if (strcmp(r.families[i].name, "relay_canaries_total") == 0)
			assert_int_equal(r.families[i].series, 2);
		else if (strcmp(r.families[i].name, "relay_openfga_state") == 0)
			assert_int_equal(r.families[i].series, 4);
		else
			assert_int_equal(r.families[i].series, 1);
		if (strcmp(r.families[i].type, "counter") == 0)
			assert_string_equal(r.families[i].name + strlen(r.families[i].name) - 6, "_total");
	}
	assert_int_equal(series, COUNTER_COUNT + GAUGE_COUNT + HISTOGRAM_COUNT * (METRICS_BUCKETS + 3));
	buf_free(&text);
}

static void prints_counters_and_gauges(void **state)
{
	struct metrics m = {0};
	struct buf text = {0};
	(void)state;
	metrics_count(&m, COUNTER_ROWS_DELIVERED, 3);
	metrics_count(&m, COUNTER_ROWS_DELIVERED, 4);
	metrics_count(&m, COUNTER_REQUESTS_RETRY, UINT64_MAX);
	metrics_gauge(&m, GAUGE_OLDEST_PENDING, 12.3456);
	metrics_gauge(&m, GAUGE_ROWS_PENDING, 100000);
	metrics_gauge(&m, GAUGE_ROWS_PARKED, 1e15);
	metrics_gauge(&m, GAUGE_READY, 1);
	metrics_write(&m, &text);
	assert_string_equal(value(&text, "relay_rows_delivered_total"), "7");
	assert_string_equal(value(&text, "relay_requests_total{verdict=\"retry\"}"), "18446744073709551615");
	assert_string_equal(value(&text, "relay_requests_total{verdict=\"halt\"}"), "0");
	assert_string_equal(value(&text, "relay_oldest_pending_age_seconds"), "12.346");
	assert_string_equal(value(&text, "relay_rows_pending"), "100000");
	assert_string_equal(value(&text, "relay_rows_parked"), "1000000000000000");
	assert_string_equal(value(&text, "relay_ready"), "1");
	assert_string_equal(value(&text, "relay_listening"), "0");
	assert_string_equal(value(&text, "relay_build_info{version=\"" RELAY_VERSION "\"}"), "1");
	buf_free(&text);
}

static void sums_up_a_histogram(void **state)
{
	static const int64_t observed_us[] = {-5, 0, 1000, 1001, 2500, 700000, 300000000, 300000001};
	struct metrics m = {0};
	struct buf text = {0};
	(void)state;
	for (size_t i = 0; i < sizeof observed_us / sizeof *observed_us; i++)
		metrics_observe_us(&m, HISTOGRAM_ROW_AGE_SECONDS, observed_us[i]);
	metrics_write(&m, &text);
	assert_string_equal(value(&text, "relay_row_age_seconds_bucket{le=\"0.001\"}"), "3"); /* a bound is inclusive */
	assert_string_equal(value(&text, "relay_row_age_seconds_bucket{le=\"0.0025\"}"), "5");
	assert_string_equal(value(&text, "relay_row_age_seconds_bucket{le=\"0.5\"}"), "5");
	assert_string_equal(value(&text, "relay_row_age_seconds_bucket{le=\"1\"}"), "6");
	assert_string_equal(value(&text, "relay_row_age_seconds_bucket{le=\"60\"}"), "6");
	assert_string_equal(value(&text, "relay_row_age_seconds_bucket{le=\"300\"}"), "7");
	assert_string_equal(value(&text, "relay_row_age_seconds_bucket{le=\"+Inf\"}"), "8");
	assert_string_equal(value(&text, "relay_row_age_seconds_count"), "8");
	assert_string_equal(value(&text, "relay_row_age_seconds_sum"), "600.704502");
	assert_string_equal(value(&text, "relay_request_duration_seconds_count"), "0");
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keeps_to_the_grammar),
	    cmocka_unit_test(prints_counters_and_gauges),
	    cmocka_unit_test(sums_up_a_histogram),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
