/* Values as people write them. */
#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#include "base/die.h"
#include "base/options_table.h"

enum { MOST_COUNT = 1000000, SHOWN_BYTES = 80 };
static const uint64_t most_bytes = UINT64_C(1) << 30;
static const uint64_t most_ms = UINT64_C(30) * 24 * 3600 * 1000;

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit durations[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
static const struct unit sizes[] = {{"", 1}, {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

struct shown option_show(const char *value)
{
	struct shown shown = {"a value (not shown: it may hold a password)"};
	struct buf text = {0};
	if (strchr(value, '@') != NULL || strcasestr(value, "password") != NULL)
		return shown;
	buf_add_char(&text, '"');
	buf_add_clean(&text, str_of(value), SHOWN_BYTES);
	buf_add_char(&text, '"');
	memcpy(shown.text, text.p, text.n + 1);
	buf_free(&text);
	return shown;
}

/* Reads the digits at *p and moves it behind them. False when there are none, or the number is beyond `most`. */
static bool read_number(const char **p, uint64_t most, uint64_t *n)
{
	const char *start = *p;
	*n = 0;
	for (; isdigit((unsigned char)**p); ++*p) {
		*n = *n * 10 + (uint64_t)(**p - '0');
		if (*n > most)
			return false;
	}
	return *p != start;
}

static const struct unit *find_unit(const struct unit *units, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

bool options_duration(const char *text, int64_t *ms, struct err *e)
{
	static const char right[] = "write 500ms, 10s, 2m or 1h";
	static const char range[] = "from 1ms to 720h (30 days)";
	const char *p = text;
	uint64_t n;
	if (!isdigit((unsigned char)*p))
		return err_set(e, ERR_CONFIG, "%s is not a time: %s", option_show(text).text, right);
	if (!read_number(&p, most_ms, &n))
		return err_set(e, ERR_CONFIG, "%s is too long: %s", option_show(text).text, range);
	if (*p == '\0')
		return err_set(e, ERR_CONFIG, "%s has no unit: %s", option_show(text).text, right);
	const struct unit *unit = find_unit(durations, sizeof durations / sizeof *durations, p);
	if (unit == NULL)
		return err_set(e, ERR_CONFIG, "%s is not a time: %s", option_show(text).text, right);
	if (n == 0 || n * unit->factor > most_ms)
		return err_set(e, ERR_CONFIG, "%s is too %s: %s", option_show(text).text, n ? "long" : "short", range);
	*ms = (int64_t)(n * unit->factor);
	return true;
}

static bool read_bytes(const char *text, size_t *bytes, struct err *e)
{
	const char *p = text;
	uint64_t n;
	bool in_range = read_number(&p, most_bytes, &n);
	const struct unit *unit = find_unit(sizes, sizeof sizes / sizeof *sizes, p);
	if (!isdigit((unsigned char)*text) || (in_range && unit == NULL))
		return err_set(e, ERR_CONFIG, "%s is not a size: write 65536, 64KiB or 1MiB", option_show(text).text);
	if (!in_range || n == 0 || n * unit->factor > most_bytes)
		return err_set(e, ERR_CONFIG, "%s is out of range: from 1 byte to 1GiB", option_show(text).text);
	*bytes = (size_t)(n * unit->factor);
	return true;
}

static bool read_count(const char *text, unsigned *count, struct err *e)
{
	const char *p = text;
	uint64_t n;
	if (!read_number(&p, MOST_COUNT, &n) || *p != '\0' || n == 0)
		return err_set(e, ERR_CONFIG, "%s is not right: a whole number from 1 to %d is", option_show(text).text,
		               MOST_COUNT);
	*count = (unsigned)n;
	return true;
}

/* A name and what it stands for; the name NULL ends the list. */
struct choice {
	const char *name;
	int value;
};

static const struct choice switches[] = {{"true", 1}, {"false", 0}, {"1", 1},   {"0", 0}, {"yes", 1},
                                         {"no", 0},   {"on", 1},    {"off", 0}, {NULL, 0}};
static const struct choice levels[] = {{"debug", LOG_LEVEL_DEBUG},
                                       {"info", LOG_LEVEL_INFO},
                                       {"warning", LOG_LEVEL_WARNING},
                                       {"error", LOG_LEVEL_ERROR},
                                       {NULL, 0}};
static const struct choice formats[] = {{"logfmt", LOG_FORMAT_LOGFMT}, {"json", LOG_FORMAT_JSON}, {NULL, 0}};

const char *option_choice(const struct option_row *row, size_t i)
{
	switch (row->type) {
	case OPTION_LOG_LEVEL:
		return levels[i].name;
	case OPTION_LOG_FORMAT:
		return formats[i].name;
	case OPTION_STRING:
	case OPTION_PATH:
	case OPTION_ADDRESS:
	case OPTION_COUNT:
	case OPTION_BYTES:
	case OPTION_DURATION:
	case OPTION_SWITCH:
	case OPTION_SECRET:
		break;
	}
	return NULL;
}

static bool read_choice(const char *text, const struct choice *choices, int *value, struct err *e)
{
	struct buf names = {0};
	for (const struct choice *c = choices; c->name != NULL; c++) {
		if (strcasecmp(text, c->name) == 0) {
			*value = c->value;
			return true;
		}
	}
	for (const struct choice *c = choices; c->name != NULL; c++)
		buf_printf(&names, "%s%s", c == choices ? "" : c[1].name == NULL ? " or " : ", ", c->name);
	(void)err_set(e, ERR_CONFIG, "%s is not right: %s is", option_show(text).text, names.p);
	buf_free(&names);
	return false;
}

/* The length of the host at the start of text, brackets included; 0 where there is no right one. */
static size_t host_length(const char *text)
{
	size_t n;
	if (*text == '[') {
		n = strcspn(text, "]");
		if (text[n] != ']' || n == 1 || strspn(text + 1, "0123456789abcdefABCDEF:.") != n - 1)
			return 0;
		return n + 1;
	}
	n = strcspn(text, ":/?#");
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && strchr("-._", text[i]) == NULL)
			return 0;
	return n;
}

/* Reads a port, up to one of the characters in `end` or the end of text. NULL when it is not one. */
static const char *read_port(const char *text, const char *end, uint16_t *port)
{
	uint64_t n;
	if (!read_number(&text, UINT16_MAX, &n) || n == 0 || (*text != '\0' && strchr(end, *text) == NULL))
		return NULL;
	*port = (uint16_t)n;
	return text;
}

bool options_address(const char *text, struct address *out, struct err *e)
{
	static const char right[] = "write HOST:PORT, [IPV6]:PORT, or :PORT for every address";
	size_t n = host_length(text);
	size_t brackets = *text == '[';
	if ((n == 0 && *text != ':') || (text[n] != ':' && text[n] != '\0') ||
	    strchr(text + n + (text[n] == ':'), ':') != NULL)
		return err_set(e, ERR_CONFIG, "%s is not an address: %s", option_show(text).text, right);
	if (text[n] == '\0')
		return err_set(e, ERR_CONFIG, "%s has no port: %s", option_show(text).text, right);
	if (n - 2 * brackets >= sizeof out->host)
		return err_set(e, ERR_CONFIG, "%s has too long a host: at most 255 characters", option_show(text).text);
	if (read_port(text + n + 1, "", &out->port) == NULL)
		return err_set(e, ERR_CONFIG, "%s has a wrong port: from 1 to 65535", option_show(text).text);
	memcpy(out->host, text + brackets, n - 2 * brackets);
	out->host[n - 2 * brackets] = '\0';
	return true;
}

bool option_check_url(const char *url, struct err *e)
{
	static const char right[] = "write http://HOST:PORT or https://HOST, as in http://openfga:8080";
	const char *p = url;
	uint16_t port;
	if (strncasecmp(p, "http://", 7) == 0)
		p += 7;
	else if (strncasecmp(p, "https://", 8) == 0)
		p += 8;
	else
		return err_set(e, ERR_CONFIG, "%s does not begin with http:// or https://: %s", option_show(url).text,
		               right);
	if (memchr(p, '@', strcspn(p, "/?#")) != NULL)
		return err_set(e, ERR_CONFIG,
		               "the URL holds a user or a password: leave them out, and give a preshared key "
		               "in FGA_API_TOKEN, or a client's id and secret in FGA_CLIENT_ID and FGA_CLIENT_SECRET");
	for (const char *c = p; *c != '\0'; c++)
		if (*c <= ' ' || *c == 0x7f || strchr("?#\\\"<>^`{|}", *c) != NULL)
			return err_set(e, ERR_CONFIG, "%s has a character that does not belong there: %s",
			               option_show(url).text, right);
	size_t n = host_length(p);
	if (n == 0)
		return err_set(e, ERR_CONFIG, "%s has no right host: %s", option_show(url).text, right);
	p += n;
	if (*p == ':' && p[1] != '\0' && (p = read_port(p + 1, "/", &port)) == NULL)
		return err_set(e, ERR_CONFIG, "%s has a wrong port: from 1 to 65535", option_show(url).text);
	if (*p != '\0' && *p != '/')
		return err_set(e, ERR_CONFIG, "%s is not right: %s", option_show(url).text, right);
	return true;
}

bool option_copy_text(const char *text, char **out, struct err *e)
{
	if (*text == '\0')
		return err_set(e, ERR_CONFIG, "the value is empty");
	for (size_t i = 0; text[i] != '\0'; i++)
		if (iscntrl((unsigned char)text[i]))
			return err_set(e, ERR_CONFIG,
			               "the value has a line break or another control character at byte %zu", i + 1);
	free(*out);
	*out = xstrdup(text);
	return true;
}

bool option_set(struct options *o, const struct option_row *row, const char *text, struct err *e)
{
	void *field = (char *)o + row->offset;
	struct address address;
	int value = 0;
	switch (row->type) {
	case OPTION_STRING:
	case OPTION_PATH:
	case OPTION_SECRET:
		return option_copy_text(text, field, e);
	case OPTION_ADDRESS:
		return options_address(text, &address, e) && option_copy_text(text, field, e);
	case OPTION_COUNT:
		return read_count(text, field, e);
	case OPTION_BYTES:
		return read_bytes(text, field, e);
	case OPTION_DURATION:
		return options_duration(text, field, e);
	case OPTION_SWITCH:
		if (!read_choice(text, switches, &value, e))
			return false;
		*(bool *)field = value != 0;
		return true;
	case OPTION_LOG_LEVEL:
		if (!read_choice(text, levels, &value, e))
			return false;
		*(enum log_level *)field = (enum log_level)value;
		return true;
	case OPTION_LOG_FORMAT:
		if (!read_choice(text, formats, &value, e))
			return false;
		*(enum log_format *)field = (enum log_format)value;
		return true;
	}
	return err_set(e, ERR_BUG, "an option of no known type");
}
