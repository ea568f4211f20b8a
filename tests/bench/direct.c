/* What relay is compared with: an application that writes to OpenFGA by itself.
 *
 *   direct write FILE URL N                 sends the Writes, N at a time; prints how many seconds all of them took
 *   direct commit FILE DATABASE RATE [URL]  commits one row after the other, RATE a second on average; with a URL, each
 *                                           row's Write is sent right after its commit
 *
 *   direct read FILE URL                    reads the whole store, a page after the other; prints how many seconds that
 *                                           took, and how many tuples there are
 *
 * URL is OpenFGA's /stores/ID/write, or for `read` its /stores/ID/read; FILE is not looked at then. FILE has one Write
 * a line; for `commit`, the row's key and its payload stand before it, with a tab after each. The first thing that goes
 * wrong ends it with 1. */
#include <curl/curl.h>
#include <errno.h>
#include <libpq-fe.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The row, and in a table of its own the moment of its commit: what becomes of the row later leaves that alone. */
#define INSERT \
	"WITH noted AS (INSERT INTO committed (key) VALUES ($1))" \
	" INSERT INTO fga_outbox (payload) VALUES ($2::pg_catalog.jsonb)"

struct lines {
	char **text;
	size_t n;
};

static _Noreturn void fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("direct: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(EXIT_FAILURE);
}

static struct lines read_lines(const char *path)
{
	struct lines lines = {0};
	FILE *in = fopen(path, "r");
	if (in == NULL)
		fail("%s: %s", path, strerror(errno));
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	while ((length = getline(&line, &size, in)) > 0) {
		if (line[length - 1] == '\n')
			line[length - 1] = '\0';
		lines.text = reallocarray(lines.text, lines.n + 1, sizeof *lines.text);
		if (lines.text == NULL)
			fail("out of memory");
		lines.text[lines.n++] = line;
		line = NULL;
		size = 0;
	}
	free(line);
	fclose(in);
	return lines;
}

static void free_lines(struct lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		free(lines->text[i]);
	free(lines->text);
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static size_t ignore_body(const char *bytes, size_t size, size_t n, void *arg)
{
	(void)bytes;
	(void)arg;
	return size * n;
}

static CURL *connection_new(const char *url, struct curl_slist *headers)
{
	CURL *easy = curl_easy_init();
	if (easy == NULL || curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_PROXY, "") != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore_body) != CURLE_OK)
		fail("curl cannot be set up");
	return easy;
}

static void set_body(CURL *easy, const char *body)
{
	if (curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body) != CURLE_OK)
		fail("curl takes no body");
}

static void expect_accepted(CURL *easy, CURLcode code)
{
	long status = 0;
	if (code != CURLE_OK)
		fail("%s", curl_easy_strerror(code));
	if (curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status != 200)
		fail("OpenFGA answered %ld", status);
}

/* Gives every connection that is done its next Write; returns how many Writes have ended. */
static size_t go_on(CURLM *multi, const struct lines *bodies, size_t *next)
{
	CURLMsg *message;
	int left;
	size_t done = 0;
	while ((message = curl_multi_info_read(multi, &left)) != NULL) {
		CURL *easy = message->easy_handle;
		if (message->msg != CURLMSG_DONE)
			continue;
		expect_accepted(easy, message->data.result);
		curl_multi_remove_handle(multi, easy);
		done++;
		if (*next < bodies->n) {
			set_body(easy, bodies->text[(*next)++]);
			curl_multi_add_handle(multi, easy);
		}
	}
	return done;
}

static void write_all(const struct lines *bodies, const char *url, size_t in_flight, struct curl_slist *headers)
{
	CURLM *multi = curl_multi_init();
	CURL **connections = calloc(in_flight, sizeof *connections);
	size_t next = 0;
	size_t done = 0;
	double began = seconds();
	if (multi == NULL || connections == NULL)
		fail("out of memory");
	for (size_t i = 0; i < in_flight; i++) {
		connections[i] = connection_new(url, headers);
		if (next < bodies->n) {
			set_body(connections[i], bodies->text[next++]);
			curl_multi_add_handle(multi, connections[i]);
		}
	}
	while (done < bodies->n) {
		int running;
		if (curl_multi_perform(multi, &running) != CURLM_OK)
			fail("curl failed");
		size_t ended = go_on(multi, bodies, &next);
		done += ended;
		if (ended == 0 && curl_multi_poll(multi, NULL, 0, 1000, NULL) != CURLM_OK)
			fail("curl failed");
	}
	printf("%.6f\n", seconds() - began);
	for (size_t i = 0; i < in_flight; i++)
		curl_easy_cleanup(connections[i]);
	free(connections);
	curl_multi_cleanup(multi);
}

static PGconn *open_database(const char *database)
{
	PGconn *pg = PQconnectdb(database);
	if (PQstatus(pg) != CONNECTION_OK)
		fail("%s", PQerrorMessage(pg));
	PGresult *prepared = PQprepare(pg, "insert", INSERT, 2, NULL);
	if (PQresultStatus(prepared) != PGRES_COMMAND_OK)
		fail("%s", PQerrorMessage(pg));
	PQclear(prepared);
	return pg;
}

static void commit_row(PGconn *pg, const char *key, const char *payload)
{
	PGresult *inserted = PQexecPrepared(pg, "insert", 2, (const char *const[]){key, payload}, NULL, NULL, 0);
	if (PQresultStatus(inserted) != PGRES_COMMAND_OK)
		fail("%s", PQerrorMessage(pg));
	PQclear(inserted);
}

static void wait_for(double moment)
{
	struct timespec at = {.tv_sec = (time_t)moment};
	at.tv_nsec = (long)((moment - (double)at.tv_sec) * 1e9);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

/* The part of a line up to the next tab. */
static char *part(char **rest)
{
	char *found = strsep(rest, "\t");
	if (*rest == NULL)
		fail("a line is not KEY, PAYLOAD and BODY");
	return found;
}

/* Rows come as from many independent users: the gaps between them are exponential. Keys are hexadecimal, and the first
 * one is the seed, so the same rows come at the same moments. */
static void commit_all(const struct lines *rows, const char *database, double rate, const char *url,
                       struct curl_slist *headers)
{
	PGconn *pg = open_database(database);
	CURL *easy = url != NULL ? connection_new(url, headers) : NULL;
	double due = seconds();
	if (rows->n > 0)
		srand48((long)strtoul(rows->text[0], NULL, 16));
	for (size_t i = 0; i < rows->n; i++) {
		char *body = rows->text[i];
		const char *key = part(&body);
		const char *payload = part(&body);
		due -= log(1 - drand48()) / rate;
		wait_for(due);
		commit_row(pg, key, payload);
		if (easy != NULL) {
			set_body(easy, body);
			expect_accepted(easy, curl_easy_perform(easy));
		}
	}
	curl_easy_cleanup(easy);
	PQfinish(pg);
}

struct body {
	char *text;
	size_t n;
};

static size_t keep_body(const char *bytes, size_t size, size_t n, void *arg)
{
	struct body *body = arg;
	body->text = realloc(body->text, body->n + size * n + 1);
	if (body->text == NULL)
		fail("out of memory");
	memcpy(body->text + body->n, bytes, size * n);
	body->n += size * n;
	body->text[body->n] = '\0';
	return size * n;
}

/* The page's tuples; *token, of so many bytes, becomes that of the next page, empty after the last one. Nobody's id has
 * a quotation mark in it here. */
static size_t read_page(const char *page, char *token, size_t size)
{
	static const char before[] = "\"continuation_token\":\"";
	const char *found = strstr(page, before);
	size_t n = 0;
	if (found == NULL)
		fail("a page has no continuation_token");
	found += sizeof before - 1;
	snprintf(token, size, "%.*s", (int)strcspn(found, "\""), found);
	for (const char *key = page; (key = strstr(key, "\"key\":")) != NULL; key++)
		n++;
	return n;
}

static void read_all(const char *url, struct curl_slist *headers)
{
	CURL *easy = connection_new(url, headers);
	struct body page = {0};
	char token[1024] = "";
	size_t tuples = 0;
	double began = seconds();
	if (curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep_body) != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &page) != CURLE_OK)
		fail("curl cannot be set up");
	do {
		char question[sizeof token + 100];
		snprintf(question, sizeof question,
		         "{\"page_size\":100,\"continuation_token\":\"%s\",\"consistency\":\"HIGHER_CONSISTENCY\"}",
		         token);
		set_body(easy, question);
		page.n = 0;
		expect_accepted(easy, curl_easy_perform(easy));
		tuples += read_page(page.text, token, sizeof token);
	} while (token[0] != '\0');
	printf("%.6f %zu\n", seconds() - began, tuples);
	free(page.text);
	curl_easy_cleanup(easy);
}

/* 0 when it is not a positive number. */
static double positive(const char *text)
{
	char *end;
	double value = strtod(text, &end);
	return *end == '\0' && isfinite(value) && value > 0 ? value : 0;
}

int main(int argc, char **argv)
{
	double number = argc >= 5 ? positive(argv[4]) : 0;
	bool writes = argc == 5 && strcmp(argv[1], "write") == 0 && number >= 1;
	bool commits = (argc == 5 || argc == 6) && strcmp(argv[1], "commit") == 0 && number > 0;
	bool reads = argc == 4 && strcmp(argv[1], "read") == 0;
	if (!writes && !commits && !reads)
		fail("usage: direct write FILE URL N | direct commit FILE DATABASE RATE [URL] | direct read FILE URL");
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		fail("curl cannot be set up");
	struct lines lines = read_lines(argv[2]);
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	headers = curl_slist_append(headers, "Expect:");
	if (writes)
		write_all(&lines, argv[3], (size_t)number, headers);
	else if (reads)
		read_all(argv[3], headers);
	else
		commit_all(&lines, argv[3], number, argv[5], headers);
	curl_slist_free_all(headers);
	free_lines(&lines);
	curl_global_cleanup();
}
