#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/options.h"

enum { MOST_WORDS = 16 };

/* The environment of the running test: "NAME=value" each; NULL ends it. */
static const char *const *environment;

static const char *env(const char *name)
{
	size_t n = strlen(name);
	for (const char *const *e = environment; *e != NULL; e++)
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
			return *e + n + 1;
	return NULL;
}

static const char *const no_environment[] = {NULL};
static const char *const openfga[] = {"FGA_API_URL=http://openfga:8080", "FGA_STORE_ID=01J", NULL};

/* Reads `line`, words with one blank between them, as the command line of a command. */
static enum options_result read_line(struct options *o, unsigned command, const char *line, struct err *e)
{
	static char copy[1024];
	static char name[] = "relay";
	char *argv[MOST_WORDS + 1] = {name};
	int argc = 1;
	char *rest = copy;
	snprintf(copy, sizeof copy, "%s", line);
	for (char *word; argc < MOST_WORDS && (word = strsep(&rest, " ")) != NULL;)
		if (*word != '\0')
			argv[argc++] = word;
	*e = (struct err){0};
	return options_read(o, command, argc, argv, env, e);
}

static struct options read_right(unsigned command, const char *line)
{
	struct options o;
	struct err e;
	if (read_line(&o, command, line, &e) != OPTIONS_OK)
		fail_msg("%s: %s", line, e.text);
	return o;
}

static void assert_wrong(unsigned command, const char *line, const char *text)
{
	struct options o;
	struct err e;
	assert_int_equal(read_line(&o, command, line, &e), OPTIONS_WRONG);
	options_free(&o);
	assert_string_equal(e.text, text);
	assert_int_equal(e.kind, ERR_CONFIG);
}

static void has_defaults(void **state)
{
	(void)state;
	environment = openfga;
	struct options o = read_right(ON_RUN, "");
	assert_null(o.database_url);
	assert_string_equal(o.table, "fga_outbox");
	assert_string_equal(o.http_listen, "127.0.0.1:8090");
	assert_true(o.sweep_interval_ms == 10000);
	assert_true(o.max_backoff_ms == 300000);
	assert_int_equal(o.batch_bytes, 1 << 20);
	assert_int_equal(o.max_tuples_per_write, 100);
	assert_false(o.no_listen);
	assert_int_equal(o.log_level, LOG_LEVEL_INFO);
	assert_int_equal(o.log_format, LOG_FORMAT_LOGFMT);
	options_free(&o);
	assert_null(o.table);
}

static void a_flag_wins_over_the_environment(void **state)
{
	static const char *const set[] = {"FGA_API_URL=http://openfga:8080",
	                                  "FGA_STORE_ID=from-env",
	                                  "FGA_STORE_ID_FILE=/nowhere",
	                                  "RELAY_LANES=7",
	                                  "RELAY_BATCH_ROWS=8",
	                                  "RELAY_SWEEP_INTERVAL=nonsense",
	                                  "RELAY_TABLE=",
	                                  "RELAY_NO_LISTEN=Yes",
	                                  "RELAY_LOG_FORMAT=JSON",
	                                  NULL};
	(void)state;
	environment = set;
	struct options o = read_right(ON_RUN, "--sweep-interval 2m --lanes=3 --fga-store-id from-flag --lanes 4");
	assert_true(o.sweep_interval_ms == 120000);
	assert_int_equal(o.lanes, 4);
	assert_int_equal(o.batch_rows, 8);
	assert_string_equal(o.fga_store_id, "from-flag");
	assert_string_equal(o.table, "fga_outbox");
	assert_true(o.no_listen);
	assert_int_equal(o.log_format, LOG_FORMAT_JSON);
	options_free(&o);
}

static void a_command_has_its_own_flags_only(void **state)
{
	static const char *const set[] = {"RELAY_LANES=nonsense", "FGA_API_URL=nonsense", "RELAY_HTTP_LISTEN=:9000",
	                                  NULL};
	(void)state;
	environment = set;
	struct options o = read_right(ON_HEALTHCHECK, "");
	assert_string_equal(o.http_listen, ":9000");
	assert_int_equal(o.lanes, 4);
	assert_null(o.fga_api_url);
	options_free(&o);
	assert_wrong(ON_HEALTHCHECK, "--role x", "--role belongs to another command");
	o = read_right(ON_INSTALL, "--print --role x");
	assert_true(o.print);
	assert_false(o.uninstall);
	assert_string_equal(o.role, "x");
	options_free(&o);
}

static void help_is_told_apart(void **state)
{
	struct options o;
	struct err e;
	(void)state;
	environment = no_environment;
	assert_int_equal(read_line(&o, ON_RUN, "--lanes 3 --help", &e), OPTIONS_HELP);
	options_free(&o);
	assert_int_equal(read_line(&o, ON_RUN, "--help --nonsense", &e), OPTIONS_HELP);
	options_free(&o);
	assert_wrong(ON_RUN, "--help=1", "--help takes no value");
}

static void a_wrong_command_line_says_what_is_right(void **state)
{
	(void)state;
	environment = openfga;
	assert_wrong(ON_RUN, "--sweep-intervall 10s", "unknown flag --sweep-intervall: did you mean --sweep-interval?");
	assert_wrong(ON_RUN, "--sweep-intervall=10s", "unknown flag --sweep-intervall: did you mean --sweep-interval?");
	assert_wrong(ON_RUN, "--lane 4", "unknown flag --lane: did you mean --lanes?"); /* getopt_long would take it */
	assert_wrong(ON_RUN, "--lane=4", "unknown flag --lane: did you mean --lanes?");
	assert_wrong(ON_RUN, "--no-liste", "unknown flag --no-liste: did you mean --no-listen?");
	assert_wrong(ON_RUN, "--quite-another-thing", "unknown flag --quite-another-thing");
	assert_wrong(ON_RUN, "-v", "unknown flag -v: every flag begins with two dashes");
	assert_wrong(ON_RUN, "--lanes", "--lanes has no value: write --lanes N");
	assert_wrong(ON_RUN, "--no-listen=false", "--no-listen takes no value: it is on when it stands there");
	assert_wrong(ON_RUN, "extra", "unexpected argument: \"extra\"");
	assert_wrong(ON_RUN, "--lanes 2 extra --no-listen", "unexpected argument: \"extra\"");
	assert_wrong(ON_RUN, "-- --lanes", "unexpected argument: \"--lanes\"");
	assert_wrong(ON_RUN, "--table=", "--table: the value is empty");
}

static void a_wrong_value_says_where_it_came_from(void **state)
{
	static const char *const set[] = {"RELAY_SWEEP_INTERVAL=10", NULL};
	static const char *const switches[] = {"RELAY_NO_LISTEN=maybe", NULL};
	(void)state;
	environment = openfga;
	assert_wrong(ON_RUN, "--sweep-interval 10", "--sweep-interval: \"10\" has no unit: write 500ms, 10s, 2m or 1h");
	assert_wrong(ON_RUN, "--lanes 0", "--lanes: \"0\" is not right: a whole number from 1 to 1000000 is");
	assert_wrong(ON_RUN, "--lanes 1000001",
	             "--lanes: \"1000001\" is not right: a whole number from 1 to 1000000 is");
	assert_wrong(ON_RUN, "--lanes -1", "--lanes: \"-1\" is not right: a whole number from 1 to 1000000 is");
	assert_wrong(ON_RUN, "--lanes 1.5", "--lanes: \"1.5\" is not right: a whole number from 1 to 1000000 is");
	assert_wrong(ON_RUN, "--log-level loud",
	             "--log-level: \"loud\" is not right: debug, info, warning or error is");
	assert_wrong(ON_RUN, "--log-format xml", "--log-format: \"xml\" is not right: logfmt or json is");
	assert_wrong(
	    ON_RUN, "--http-listen localhost",
	    "--http-listen: \"localhost\" has no port: write HOST:PORT, [IPV6]:PORT, or :PORT for every address");
	environment = set;
	assert_wrong(ON_RUN, "", "RELAY_SWEEP_INTERVAL: \"10\" has no unit: write 500ms, 10s, 2m or 1h");
	environment = switches;
	assert_wrong(ON_RUN, "", "RELAY_NO_LISTEN: \"maybe\" is not right: true, false, 1, 0, yes, no, on or off is");
}

static void switches_are_read_from_the_environment(void **state)
{
	static const struct {
		const char *value;
		bool on;
	} cases[] = {{"true", true}, {"1", true},  {"yes", true}, {"on", true},   {"ON", true},
	             {"", false},    {"0", false}, {"no", false}, {"off", false}, {"false", false}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[64];
		const char *const set[] = {openfga[0], openfga[1], text, NULL};
		snprintf(text, sizeof text, "RELAY_NO_LISTEN=%s", cases[i].value);
		environment = set;
		struct options o = read_right(ON_RUN, "");
		assert_int_equal(o.no_listen, cases[i].on);
		options_free(&o);
	}
}

static void sizes(void **state)
{
	static const struct {
		const char *value;
		size_t bytes;
	} cases[] = {{"1", 1}, {"65536", 65536}, {"100B", 100}, {"64KiB", 65536}, {"1MiB", 1 << 20}, {"1GiB", 1 << 30}};
	static const char *const wrong[] = {"", "KiB", "1KB", "1kib", "1.5MiB", "-1", "+1", "0x10"};
	static const char *const outside[] = {
	    "0", "0KiB", "2GiB", "1073741825", "99999999999999999999999", "99999999999GiB"};
	char line[128];
	char text[128];
	(void)state;
	environment = openfga;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(line, sizeof line, "--batch-bytes %s", cases[i].value);
		struct options o = read_right(ON_RUN, line);
		assert_int_equal(o.batch_bytes, cases[i].bytes);
		options_free(&o);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		snprintf(line, sizeof line, "--batch-bytes=%s", wrong[i]);
		snprintf(text, sizeof text, "--batch-bytes: \"%s\" is not a size: write 65536, 64KiB or 1MiB",
		         wrong[i]);
		assert_wrong(ON_RUN, line, text);
	}
	for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
		snprintf(line, sizeof line, "--batch-bytes=%s", outside[i]);
		snprintf(text, sizeof text, "--batch-bytes: \"%s\" is out of range: from 1 byte to 1GiB", outside[i]);
		assert_wrong(ON_RUN, line, text);
	}
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
		const char *error;
	} cases[] = {
	    {"1ms", 1, NULL},
	    {"500ms", 500, NULL},
	    {"10s", 10000, NULL},
	    {"2m", 120000, NULL},
	    {"1h", 3600000, NULL},
	    {"720h", INT64_C(2592000000), NULL},
	    {"010s", 10000, NULL},
	    {"10", 0, "\"10\" has no unit: write 500ms, 10s, 2m or 1h"},
	    {"", 0, "\"\" is not a time: write 500ms, 10s, 2m or 1h"},
	    {"s", 0, "\"s\" is not a time: write 500ms, 10s, 2m or 1h"},
	    {"-1s", 0, "\"-1s\" is not a time: write 500ms, 10s, 2m or 1h"},
	    {" 1s", 0, "\" 1s\" is not a time: write 500ms, 10s, 2m or 1h"},
	    {"1 s", 0, "\"1 s\" is not a time: write 500ms, 10s, 2m or 1h"},
	    {"1.5s", 0, "\"1.5s\" is not a time: write 500ms, 10s, 2m or 1h"},
	    {"1S", 0, "\"1S\" is not a time: write 500ms, 10s, 2m or 1h"},
	    {"1d", 0, "\"1d\" is not a time: write 500ms, 10s, 2m or 1h"},
	    {"0s", 0, "\"0s\" is too short: from 1ms to 720h (30 days)"},
	    {"721h", 0, "\"721h\" is too long: from 1ms to 720h (30 days)"},
	    {"2592000001ms", 0, "\"2592000001ms\" is too long: from 1ms to 720h (30 days)"},
	    {"99999999999999999999s", 0, "\"99999999999999999999s\" is too long: from 1ms to 720h (30 days)"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err e = {0};
		int64_t ms = 0;
		assert_int_equal(options_duration(cases[i].text, &ms, &e), cases[i].error == NULL);
		assert_true(ms == cases[i].ms);
		assert_string_equal(e.text, cases[i].error == NULL ? "" : cases[i].error);
	}
}

static void addresses(void **state)
{
	static const struct {
		const char *text;
		const char *host;
		uint16_t port;
	} right[] = {
	    {"127.0.0.1:8090", "127.0.0.1", 8090},
	    {":1", "", 1},
	    {"localhost:65535", "localhost", 65535},
	    {"[::1]:8090", "::1", 8090},
	    {"[::]:80", "::", 80},
	    {"[::ffff:10.0.0.1]:80", "::ffff:10.0.0.1", 80},
	};
	static const char *const wrong[] = {"",         ":",           "host",    "host:",  "host:0",   "host:65536",
	                                    "host:-1",  "host:x",      "host:1x", "::1:80", "[::1]",    "[::1]80",
	                                    "[]:80",    "[::1:80",     "a/b:80",  "u@h:80", "[host]:1", "h:80:90",
	                                    "host: 80", "http://h:80", "a b:80"};
	char long_host[300];
	struct address a;
	struct err e;
	(void)state;
	for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
		assert_true(options_address(right[i].text, &a, &e));
		assert_string_equal(a.host, right[i].host);
		assert_int_equal(a.port, right[i].port);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (options_address(wrong[i], &a, &e))
			fail_msg("%s was accepted", wrong[i]);
	memset(long_host, 'a', sizeof long_host);
	memcpy(long_host + 255, ":80", 4);
	assert_true(options_address(long_host, &a, &e));
	assert_int_equal(strlen(a.host), 255);
	memcpy(long_host + 256, ":80", 4);
	long_host[255] = 'a';
	assert_false(options_address(long_host, &a, &e));
}

static void urls(void **state)
{
	static const char *const right[] = {"http://openfga:8080", "https://api.example.com", "HTTP://127.0.0.1:1/",
	                                    "http://[::1]:8080",   "https://h/prefix/fga",    "http://a_b.c-d/"};
	static const char *const wrong[] = {
	    "openfga:8080", "ftp://h",       "http://",         "http:///x",       "http://:80",
	    "http://h:0",   "http://h:x",    "http://h:99999",  "http://h:80x",    "http://h?x=1",
	    "http://h#f",   "http://h:80?x", "http://[::1",     "http://[host]:1", "http://h/a{b",
	    "http://h:",    "http://u@h",    "http://u:p@h:80", "http://h,i/"};
	char line[128];
	struct options o;
	struct err e;
	(void)state;
	for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
		environment = openfga;
		snprintf(line, sizeof line, "--fga-api-url %s", right[i]);
		o = read_right(ON_DRAIN, line);
		assert_string_equal(o.fga_api_url, right[i]);
		options_free(&o);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		snprintf(line, sizeof line, "--fga-api-url %s", wrong[i]);
		if (read_line(&o, ON_DRAIN, line, &e) != OPTIONS_WRONG)
			fail_msg("%s was accepted", wrong[i]);
		assert_memory_equal(e.text, "--fga-api-url: ", 15);
		options_free(&o);
	}
	assert_wrong(ON_RUN, "--fga-api-url ftp://h",
	             "--fga-api-url: \"ftp://h\" does not begin with http:// or https://: write http://HOST:PORT or "
	             "https://HOST, as in http://openfga:8080");
}

static void openfga_must_be_named(void **state)
{
	static const char *const no_store[] = {"FGA_API_URL=http://h", NULL};
	static const char *const by_name[] = {"FGA_API_URL=http://h", "FGA_STORE_NAME=ledger", NULL};
	(void)state;
	environment = no_environment;
	assert_wrong(ON_RUN, "",
	             "OpenFGA's address is missing: give --fga-api-url or FGA_API_URL, such as "
	             "http://openfga:8080");
	environment = no_store;
	assert_wrong(ON_DRAIN, "",
	             "OpenFGA's store is missing: give --fga-store-id or FGA_STORE_ID, or its name in "
	             "--fga-store-name or FGA_STORE_NAME");
	environment = by_name;
	struct options o = read_right(ON_DRAIN, "");
	assert_string_equal(o.fga_store_name, "ledger");
	options_free(&o);
	assert_wrong(ON_DRAIN, "--fga-store-id 01J",
	             "--fga-store-id and FGA_STORE_NAME are both given: give one of them");
	environment = no_environment;
	o = read_right(ON_INSTALL, "");
	options_free(&o);
}

static void credentials_are_whole_and_of_one_kind(void **state)
{
	static const struct {
		const char *variables[4];
		const char *line;
		const char *error;
	} cases[] = {
	    {{"FGA_API_TOKEN=k"}, "", NULL},
	    {{"FGA_CLIENT_SECRET=s"}, "--fga-client-id i --fga-api-token-issuer issuer.example", NULL},
	    {{"FGA_CLIENT_ID=i", "FGA_CLIENT_SECRET=s", "FGA_API_TOKEN_ISSUER=http://h:80/x", "FGA_API_SCOPES=a b"},
	     "--fga-api-audience a",
	     NULL},
	    {{"FGA_API_TOKEN=k", "FGA_CLIENT_SECRET=s"},
	     "--fga-client-id i --fga-api-token-issuer h",
	     "FGA_API_TOKEN and --fga-client-id are both given: give a preshared key, or a client's id and secret"},
	    {{"FGA_API_TOKEN_ISSUER=h"},
	     "--fga-client-id i",
	     "--fga-client-id is given without the client's secret: set FGA_CLIENT_SECRET or FGA_CLIENT_SECRET_FILE"},
	    {{"FGA_CLIENT_ID=i", "FGA_CLIENT_SECRET=s"},
	     "",
	     "FGA_CLIENT_ID is given without who issues its tokens: give --fga-api-token-issuer or "
	     "FGA_API_TOKEN_ISSUER, such as https://issuer.example"},
	    {{"FGA_CLIENT_SECRET=s"},
	     "",
	     "FGA_CLIENT_SECRET is given without a client's id: give --fga-client-id or FGA_CLIENT_ID too"},
	    {{NULL},
	     "--fga-api-token-issuer h",
	     "--fga-api-token-issuer is given without a client's id: give --fga-client-id or FGA_CLIENT_ID too"},
	    {{"FGA_API_AUDIENCE=a"},
	     "",
	     "FGA_API_AUDIENCE is given without a client's id: give --fga-client-id or FGA_CLIENT_ID too"},
	    {{NULL},
	     "--fga-api-scopes a",
	     "--fga-api-scopes is given without a client's id: give --fga-client-id or FGA_CLIENT_ID too"},
	    {{"FGA_CLIENT_SECRET=s"},
	     "--fga-client-id i --fga-api-token-issuer ftp://h",
	     "--fga-api-token-issuer: \"ftp://h\" does not begin with http:// or https://: write http://HOST:PORT or "
	     "https://HOST, as in http://openfga:8080"},
	    {{"FGA_CLIENT_SECRET=s", "FGA_API_TOKEN_ISSUER=h:0"},
	     "--fga-client-id i",
	     "FGA_API_TOKEN_ISSUER: \"https://h:0\" has a wrong port: from 1 to 65535"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *set[7] = {openfga[0], openfga[1]};
		for (size_t k = 0; k < 4 && cases[i].variables[k] != NULL; k++)
			set[k + 2] = cases[i].variables[k];
		environment = set;
		if (cases[i].error != NULL) {
			assert_wrong(ON_RUN, cases[i].line, cases[i].error);
			continue;
		}
		struct options o = read_right(ON_RUN, cases[i].line);
		options_free(&o);
	}
}

static void backoffs_are_in_order(void **state)
{
	(void)state;
	environment = openfga;
	assert_wrong(ON_RUN, "--min-backoff 10m",
	             "--min-backoff is above the default of --max-backoff: make it 300000ms or less");
	assert_wrong(ON_RUN, "--min-backoff 3s --max-backoff 2s",
	             "--min-backoff is above --max-backoff: make it 2000ms or less");
	struct options o = read_right(ON_RUN, "--min-backoff 2s --max-backoff 2s");
	options_free(&o);
}

/* Reads with FGA_API_TOKEN_FILE naming a file of these bytes. */
static enum options_result read_token(struct options *o, struct str bytes, struct err *e)
{
	char text[64];
	const char *const set[] = {openfga[0], openfga[1], text, NULL};
	int fd = memfd_create("token", 0);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes.p, bytes.n), bytes.n);
	snprintf(text, sizeof text, "FGA_API_TOKEN_FILE=/proc/self/fd/%d", fd);
	environment = set;
	enum options_result result = read_line(o, ON_RUN, "", e);
	close(fd);
	return result;
}

static void a_file_holds_a_value(void **state)
{
	static const struct {
		struct str bytes;
		const char *value;
	} right[] = {{STR("token"), "token"},
	             {STR("token\n"), "token"},
	             {STR("token\r\n"), "token"},
	             {STR(" to ken \n"), " to ken "}};
	static const struct {
		struct str bytes;
		const char *error; /* its end */
	} wrong[] = {
	    {STR(""), " is empty"},
	    {STR("\n"), " is empty"},
	    {STR("token\n\n"), "FGA_API_TOKEN_FILE: the value has a line break or another control character at byte 6"},
	    {STR("to\0ken"), " holds a NUL byte"},
	};
	struct options o;
	struct err e;
	(void)state;
	for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
		assert_int_equal(read_token(&o, right[i].bytes, &e), OPTIONS_OK);
		assert_string_equal(o.fga_api_token, right[i].value);
		options_free(&o);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(read_token(&o, wrong[i].bytes, &e), OPTIONS_WRONG);
		assert_memory_equal(e.text, "FGA_API_TOKEN_FILE: ", 20);
		assert_string_equal(e.text + strlen(e.text) - strlen(wrong[i].error), wrong[i].error);
		options_free(&o);
	}
}

static void a_file_is_read_again(void **state)
{
	char text[96];
	char path[48];
	const char *const set[] = {openfga[0], openfga[1], text, NULL};
	int fd = memfd_create("token", 0);
	struct err e;
	char *value;
	(void)state;
	assert_true(fd >= 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	snprintf(text, sizeof text, "FGA_API_TOKEN_FILE=%s", path);
	assert_int_equal(pwrite(fd, "one\n", 4, 0), 4);
	environment = set;
	struct options o = read_right(ON_RUN, "");
	assert_string_equal(o.fga_api_token, "one");
	assert_string_equal(o.files.fga_api_token, path);
	assert_null(o.files.fga_store_id);
	assert_int_equal(pwrite(fd, "two\n", 4, 0), 4);
	assert_true(options_file(o.files.fga_api_token, &value, &e));
	assert_string_equal(value, "two");
	free(value);
	assert_int_equal(pwrite(fd, "t\to\n", 4, 0), 4);
	assert_false(options_file(path, &value, &e));
	assert_null(value);
	assert_memory_equal(e.text, path, strlen(path));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_false(options_file(path, &value, &e));
	assert_false(options_file("/nonexistent/token", &value, &e));
	assert_string_equal(e.text, "cannot open /nonexistent/token: No such file or directory");
	close(fd);
	options_free(&o);
	assert_null(o.files.fga_api_token);
}

static void a_file_that_is_too_large_is_refused(void **state)
{
	static char bytes[64 * 1024 + 1];
	struct options o;
	struct err e;
	(void)state;
	memset(bytes, 'x', sizeof bytes);
	assert_int_equal(read_token(&o, (struct str){bytes, sizeof bytes - 1}, &e), OPTIONS_OK);
	assert_int_equal(strlen(o.fga_api_token), sizeof bytes - 1);
	options_free(&o);
	assert_int_equal(read_token(&o, (struct str){bytes, sizeof bytes}, &e), OPTIONS_WRONG);
	options_free(&o);
}

static void a_twin_is_refused_when_it_cannot_be_right(void **state)
{
	static const char *const missing[] = {"DATABASE_URL_FILE=/nonexistent/url", NULL};
	static const char *const directory[] = {"DATABASE_URL_FILE=/", NULL};
	static const char *const both[] = {"DATABASE_URL=a", "DATABASE_URL_FILE=b", NULL};
	static const char *const others[] = {
	    "FGA_API_URL=http://h",          "FGA_STORE_ID=01J",   "RELAY_TABLE_FILE=/nonexistent",
	    "FGA_CA_FILE_FILE=/nonexistent", "DATABASE_URL_FILE=", NULL};
	(void)state;
	environment = missing;
	assert_wrong(ON_INSTALL, "", "DATABASE_URL_FILE: cannot open /nonexistent/url: No such file or directory");
	environment = directory;
	assert_wrong(ON_INSTALL, "", "DATABASE_URL_FILE: cannot read /: Is a directory");
	environment = both;
	assert_wrong(ON_INSTALL, "", "DATABASE_URL and DATABASE_URL_FILE are both set: set one of them");
	environment = others; /* only FGA_* and DATABASE_URL have twins */
	struct options o = read_right(ON_RUN, "");
	options_free(&o);
}

/* Whatever is wrong, and wherever it stands. */
static void no_error_shows_a_secret(void **state)
{
	static const char *const lines[] = {
	    "--fga-api-token=geheim",
	    "--fga-api-token geheim",
	    "--fga-client-secret geheim",
	    "--fga-client-id x --fga-api-token-issuer https://u:geheim@h",
	    "--database-url postgres://u:geheim@h/d",
	    "--databse-url=postgres://u:geheim@h/d",
	    "postgres://u:geheim@h/d",
	    "password=geheim",
	    "--fga-api-url http://u:geheim@h",
	    "--fga-api-url ftp://u:geheim@h",
	    "--fga-api-url http://h?u:geheim@h",
	    "--http-listen u:geheim@h:80",
	    "--unknown=geheim",
	};
	static const char *const set[] = {"FGA_API_URL=http://h", "FGA_STORE_ID=1", "FGA_API_TOKEN=geheim\n", NULL};
	struct options o;
	struct err e;
	(void)state;
	environment = openfga;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		assert_int_equal(read_line(&o, ON_RUN, lines[i], &e), OPTIONS_WRONG);
		if (strstr(e.text, "geheim") != NULL)
			fail_msg("%s: %s", lines[i], e.text);
		options_free(&o);
	}
	assert_wrong(ON_RUN, "--fga-api-token=geheim",
	             "--fga-api-token is no flag, because other users see a command line: set FGA_API_TOKEN or "
	             "FGA_API_TOKEN_FILE in the environment");
	environment = set;
	assert_wrong(ON_RUN, "", "FGA_API_TOKEN: the value has a line break or another control character at byte 7");
}

static bool has(const struct buf *text, const char *part)
{
	return strstr(text->p, part) != NULL;
}

static void help_lists_a_commands_options(void **state)
{
	struct buf text = {0};
	size_t width = 0;
	(void)state;
	options_help(ON_RUN, &text);
	assert_true(has(&text, "  --sweep-interval TIME     look for pending rows this often"));
	assert_true(has(&text, "[default 10s; RELAY_SWEEP_INTERVAL]\n"));
	assert_true(has(&text, "[FGA_STORE_ID or FGA_STORE_ID_FILE]\n"));
	assert_true(has(&text, "  FGA_API_TOKEN=TOKEN       a preshared key\n"));
	assert_true(has(&text, "[environment only: FGA_API_TOKEN or FGA_API_TOKEN_FILE]\n"));
	assert_false(has(&text, "--uninstall"));
	for (const char *line = text.p; *line != '\0'; line += strcspn(line, "\n") + 1)
		width = strcspn(line, "\n") > width ? strcspn(line, "\n") : width;
	assert_in_range(width, 80, 100);
	buf_clear(&text);
	options_help(ON_INSTALL, &text);
	assert_true(has(&text, "  --uninstall               remove the trigger"));
	assert_false(has(&text, "--sweep-interval"));
	buf_free(&text);
}

static void the_manual_has_every_option_once(void **state)
{
	struct buf text = {0};
	size_t items = 0;
	(void)state;
	options_man(&text);
	for (const char *at = text.p; (at = strstr(at, ".It ")) != NULL; at++)
		items++;
	size_t rows = 0;
#define OPTION(field, type, flag, env, value, commands, group, argument, help) rows++;
#include "base/options.def"
	assert_int_equal(items, rows);
	assert_true(has(&text,
	                ".It Fl -sweep-interval Ar TIME\nLook for pending rows this often, in case a notification was "
	                "missed.\nThe default is\n.Ql 10s .\nIn the environment:\n.Ev RELAY_SWEEP_INTERVAL .\n"));
	assert_true(has(&text, ".It Ev FGA_API_TOKEN Ns = Ns Ar TOKEN\nA preshared key.\n"));
	assert_true(has(&text, ".It Fl -print\n"));
	for (const char *line = text.p; *line != '\0'; line += strcspn(line, "\n") + 1)
		assert_true(*line != '\'' && (*line != '.' || line[1] >= 'A'));
	buf_free(&text);
}

static void help_is_grouped(void **state)
{
	struct buf text = {0};
	(void)state;
	options_help(ON_RUN, &text);
	const char *postgres = strstr(text.p, "\nPostgres:\n  DATABASE_URL=URL ");
	const char *openfga_too = strstr(text.p, "\n\nOpenFGA:\n  --fga-api-url URL ");
	const char *logging = strstr(text.p, "\n\nLogging:\n  --log-level LEVEL ");
	assert_true(postgres == text.p && openfga_too > postgres && logging > openfga_too);
	assert_false(has(&text, "Output:"));
	buf_clear(&text);
	options_help(ON_HEALTHCHECK, &text);
	assert_memory_equal(text.p, "\nProbe:\n  --http-listen", 23);
	buf_free(&text);
}

static void the_environment_file_shows_defaults(void **state)
{
	struct buf text = {0};
	(void)state;
	options_env(ON_RUN, &text);
	assert_true(has(&text,
	                "\n## Delivery\n\n# Look for pending rows this often, in case a notification was missed.\n"
	                "#RELAY_SWEEP_INTERVAL=10s\n"));
	assert_true(has(&text, "\n#FGA_API_TOKEN=\n#FGA_API_TOKEN_FILE=\n"));
	assert_true(has(&text, "\n#RELAY_NO_LISTEN=false\n"));
	assert_false(has(&text, "RELAY_ROLE"));
	for (const char *line = text.p; *line != '\0'; line += strcspn(line, "\n") + 1)
		assert_true(*line == '#' || *line == '\n');
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(has_defaults),
	    cmocka_unit_test(a_flag_wins_over_the_environment),
	    cmocka_unit_test(a_command_has_its_own_flags_only),
	    cmocka_unit_test(help_is_told_apart),
	    cmocka_unit_test(a_wrong_command_line_says_what_is_right),
	    cmocka_unit_test(a_wrong_value_says_where_it_came_from),
	    cmocka_unit_test(switches_are_read_from_the_environment),
	    cmocka_unit_test(sizes),
	    cmocka_unit_test(durations),
	    cmocka_unit_test(addresses),
	    cmocka_unit_test(urls),
	    cmocka_unit_test(openfga_must_be_named),
	    cmocka_unit_test(credentials_are_whole_and_of_one_kind),
	    cmocka_unit_test(backoffs_are_in_order),
	    cmocka_unit_test(a_file_holds_a_value),
	    cmocka_unit_test(a_file_is_read_again),
	    cmocka_unit_test(a_file_that_is_too_large_is_refused),
	    cmocka_unit_test(a_twin_is_refused_when_it_cannot_be_right),
	    cmocka_unit_test(no_error_shows_a_secret),
	    cmocka_unit_test(help_lists_a_commands_options),
	    cmocka_unit_test(help_is_grouped),
	    cmocka_unit_test(the_manual_has_every_option_once),
	    cmocka_unit_test(the_environment_file_shows_defaults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
