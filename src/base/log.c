#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"

enum { VALUE_BYTES = 2048 };

static enum log_level least_level = LOG_LEVEL_INFO;
static enum log_format line_format = LOG_FORMAT_LOGFMT;

static const char *level_name(enum log_level level)
{
	switch (level) {
	case LOG_LEVEL_DEBUG:
		return "debug";
	case LOG_LEVEL_INFO:
		return "info";
	case LOG_LEVEL_WARNING:
		return "warning";
	case LOG_LEVEL_ERROR:
		return "error";
	}
	return "error";
}

void log_setup(enum log_level least, enum log_format format)
{
	least_level = least;
	line_format = format;
}

bool log_on(enum log_level level)
{
	return level >= least_level;
}

/* Whether a logfmt reader would take the value for something else without quotes. */
static bool needs_quotes(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] <= ' ' || s.p[i] == '=' || s.p[i] == '"' || s.p[i] == '\\')
			return true;
	return s.n == 0;
}

static void add_key(struct buf *line, const char *key)
{
	if (line_format == LOG_FORMAT_JSON) {
		buf_add_char(line, line->n == 0 ? '{' : ',');
		buf_add_json(line, str_of(key));
		buf_add_char(line, ':');
		return;
	}
	if (line->n > 0)
		buf_add_char(line, ' ');
	buf_add_text(line, key);
	buf_add_char(line, '=');
}

static void add_text(struct buf *line, const char *key, struct str value)
{
	struct buf clean = {0};
	add_key(line, key);
	buf_add_clean(&clean, value, VALUE_BYTES);
	if (line_format == LOG_FORMAT_JSON || needs_quotes(buf_str(&clean)))
		buf_add_json(line, buf_str(&clean));
	else
		buf_add_str(line, buf_str(&clean));
	buf_free(&clean);
}

static void add_time(struct buf *line)
{
	int64_t now_ms = clock_wall_ms();
	time_t seconds = (time_t)(now_ms / 1000);
	struct tm utc;
	char date[32];
	char text[40];
	gmtime_r(&seconds, &utc);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text, sizeof text, "%s.%03dZ", date, (int)(now_ms % 1000));
	add_text(line, "time", str_of(text));
}

/* One write for a whole line, so that the lines of several processes do not mix. What stderr does not take is lost: a
 * log that cannot be written must not stop the delivery. */
static void write_line(struct str line)
{
	while (line.n > 0) {
		ssize_t n = write(STDERR_FILENO, line.p, line.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		line.p += n;
		line.n -= (size_t)n;
	}
}

void log_event(enum log_level level, const char *msg, const struct log_field *fields)
{
	struct buf line = {0};
	int saved = errno;
	if (!log_on(level))
		return;
	add_time(&line);
	add_text(&line, "level", str_of(level_name(level)));
	add_text(&line, "msg", str_of(msg));
	for (const struct log_field *f = fields; f->key != NULL; f++) {
		if (!f->is_number) {
			add_text(&line, f->key, f->text);
			continue;
		}
		add_key(&line, f->key);
		buf_printf(&line, "%" PRId64, f->number);
	}
	buf_add_text(&line, line_format == LOG_FORMAT_JSON ? "}\n" : "\n");
	write_line(buf_str(&line));
	buf_free(&line);
	errno = saved;
}

bool log_gate_pass(struct log_gate *gate, struct str what, int64_t now_ms, uint64_t *held_back)
{
	uint64_t key = hash_str(HASH_START, what);
	if (key == gate->key && now_ms < gate->open_at_ms) {
		gate->held_back++;
		return false;
	}
	*held_back = gate->held_back;
	*gate = (struct log_gate){.open_at_ms = now_ms + LOG_GATE_MS, .key = key};
	return true;
}
