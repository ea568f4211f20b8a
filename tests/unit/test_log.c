#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <regex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

static int saved_stderr;
static int captured;

static int setup(void **state)
{
	(void)state;
	saved_stderr = dup(STDERR_FILENO);
	captured = memfd_create("stderr", 0);
	dup2(captured, STDERR_FILENO);
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(captured);
	return 0;
}

/* What was logged since the last call; each time one whole line or nothing. */
static const char *logged(void)
{
	static char text[64 * 1024];
	ssize_t n = pread(captured, text, sizeof text - 1, 0);
	assert_true(n >= 0);
	text[n] = '\0';
	assert_int_equal(ftruncate(captured, 0), 0);
	lseek(captured, 0, SEEK_SET);
	assert_true(str_is_utf8(str_of(text)));
	if (n > 0)
		assert_ptr_equal(strchr(text, '\n'), text + n - 1);
	return text;
}

/* The line without its time, which is checked here. */
static const char *logfmt(void)
{
	static const char time_pattern[] =
	    "^time=[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}Z ";
	const char *line = logged();
	regex_t pattern;
	regmatch_t match;
	assert_int_equal(regcomp(&pattern, time_pattern, REG_EXTENDED), 0);
	assert_int_equal(regexec(&pattern, line, 1, &match, 0), 0);
	regfree(&pattern);
	return line + match.rm_eo;
}

static void writes_logfmt(void **state)
{
	(void)state;
	log_info("delivered", LOG_N("rows", 3), LOG_S("store", "01J"));
	assert_string_equal(logfmt(), "level=info msg=delivered rows=3 store=01J\n");
	log_warning("no fields");
	assert_string_equal(logfmt(), "level=warning msg=\"no fields\"\n");
	log_error("numbers", LOG_N("least", INT64_MIN), LOG_N("most", INT64_MAX));
	assert_string_equal(logfmt(), "level=error msg=numbers least=-9223372036854775808 most=9223372036854775807\n");
}

static void quotes_what_needs_it(void **state)
{
	static const struct {
		struct str in;
		const char *out;
	} cases[] = {
	    {STR("plain-1.2:3/x"), "plain-1.2:3/x"},
	    {{0}, "\"\""},
	    {STR("a b"), "\"a b\""},
	    {STR("a=b"), "\"a=b\""},
	    {STR("say \"no\""), "\"say \\\"no\\\"\""},
	    {STR("\"no\""), "\"\\\"no\\\"\""},
	    {STR("back\\slash"), "\"back\\\\slash\""},
	    {STR("two\nlines"), "\"two lines\""},
	    {STR("nul\0byte"), "\"nul byte\""},
	    {STR("\x1b[31mred"), "\" [31mred\""},
	    {STR("\xc3\xa4"), "\xc3\xa4"},
	    {STR("\xff"), "\xef\xbf\xbd"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char expected[128];
		snprintf(expected, sizeof expected, "level=info msg=m v=%s\n", cases[i].out);
		log_info("m", LOG_V("v", cases[i].in));
		assert_string_equal(logfmt(), expected);
	}
}

static void writes_json(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
	log_info("two\nwords", LOG_N("rows", -3), LOG_V("text", STR("a \"b\" \\ \xff \x01 \xc3\xa4")),
	         LOG_S("empty", ""));
	cJSON *line = cJSON_Parse(logged());
	assert_non_null(line);
	assert_int_equal(cJSON_GetArraySize(line), 6);
	assert_int_equal(strlen(cJSON_GetObjectItemCaseSensitive(line, "time")->valuestring), 24);
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(line, "level")->valuestring, "info");
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(line, "msg")->valuestring, "two words");
	assert_true(cJSON_GetObjectItemCaseSensitive(line, "rows")->valuedouble == -3);
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(line, "text")->valuestring,
	                    "a \"b\" \\ \xef\xbf\xbd   \xc3\xa4");
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(line, "empty")->valuestring, "");
	cJSON_Delete(line);
}

static void stays_whole_whatever_the_bytes(void **state)
{
	(void)state;
	for (int format = LOG_FORMAT_LOGFMT; format <= LOG_FORMAT_JSON; format++) {
		log_setup(LOG_LEVEL_INFO, (enum log_format)format);
		for (int high = 0; high < 256; high++) {
			for (int low = 0; low < 256; low += 5) {
				const char bytes[] = {(char)high, (char)low, (char)high};
				log_info("m", LOG_V("v", ((struct str){bytes, sizeof bytes})));
				const char *line = logged();
				if (format == LOG_FORMAT_LOGFMT)
					continue;
				cJSON *parsed = cJSON_Parse(line);
				assert_non_null(parsed);
				cJSON_Delete(parsed);
			}
		}
	}
}

static void cuts_long_values(void **state)
{
	static char text[10000];
	(void)state;
	memset(text, 'x', sizeof text - 1);
	log_info("m", LOG_S("v", text));
	const char *value = strstr(logfmt(), " v=") + 3;
	assert_int_equal(strlen(value), 2048 + 1);
	assert_string_equal(value + 2045, "\xe2\x80\xa6\n");
}

static void leaves_out_lower_levels(void **state)
{
	(void)state;
	log_debug("quiet");
	assert_string_equal(logged(), "");
	assert_false(log_on(LOG_LEVEL_DEBUG));
	assert_true(log_on(LOG_LEVEL_INFO));
	log_setup(LOG_LEVEL_DEBUG, LOG_FORMAT_LOGFMT);
	log_debug("loud");
	assert_string_equal(logfmt(), "level=debug msg=loud\n");
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	log_warning("quiet");
	assert_string_equal(logged(), "");
	log_error("loud");
	assert_string_equal(logfmt(), "level=error msg=loud\n");
}

static void a_broken_stderr_is_survived(void **state)
{
	(void)state;
	close(STDERR_FILENO);
	log_error("nobody reads this");
	dup2(captured, STDERR_FILENO);
	assert_string_equal(logged(), "");
}

static void a_gate_holds_back_repetitions(void **state)
{
	struct log_gate gate = {0};
	uint64_t held_back = 99;
	const int64_t start = 5;
	(void)state;
	assert_true(log_gate_pass(&gate, STR("refused"), start, &held_back));
	assert_int_equal(held_back, 0);
	assert_false(log_gate_pass(&gate, STR("refused"), start, &held_back));
	assert_false(log_gate_pass(&gate, STR("refused"), start + LOG_GATE_MS - 1, &held_back));
	assert_true(log_gate_pass(&gate, STR("refused"), start + LOG_GATE_MS, &held_back));
	assert_int_equal(held_back, 2);
	assert_false(log_gate_pass(&gate, STR("refused"), start + 2 * LOG_GATE_MS - 1, &held_back));
	assert_true(log_gate_pass(&gate, STR("timeout"), start + 2 * LOG_GATE_MS - 1, &held_back)); /* another one */
	assert_int_equal(held_back, 1);
	assert_true(log_gate_pass(&gate, STR("refused"), start + 2 * LOG_GATE_MS - 1, &held_back));
	assert_int_equal(held_back, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(writes_logfmt, setup, teardown),
	    cmocka_unit_test_setup_teardown(quotes_what_needs_it, setup, teardown),
	    cmocka_unit_test_setup_teardown(writes_json, setup, teardown),
	    cmocka_unit_test_setup_teardown(stays_whole_whatever_the_bytes, setup, teardown),
	    cmocka_unit_test_setup_teardown(cuts_long_values, setup, teardown),
	    cmocka_unit_test_setup_teardown(leaves_out_lower_levels, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_broken_stderr_is_survived, setup, teardown),
	    cmocka_unit_test(a_gate_holds_back_repetitions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
