/* The rows of options.def as data: for the options_*.c files, and for what is generated from them. */
#ifndef RELAY_BASE_OPTIONS_TABLE_H
#define RELAY_BASE_OPTIONS_TABLE_H

#include "base/options.h"

enum option_type {
	OPTION_STRING,
	OPTION_PATH,
	OPTION_ADDRESS,
	OPTION_COUNT,
	OPTION_BYTES,
	OPTION_DURATION,
	OPTION_SWITCH,
	OPTION_LOG_LEVEL,
	OPTION_LOG_FORMAT,
	OPTION_SECRET,
};

enum option_group {
#define X(id, name) GROUP_##id,
	OPTION_GROUPS(X)
#undef X
	    GROUPS
};

struct option_row {
	enum option_type type;
	size_t offset;      /* in struct options */
	size_t file_offset; /* there too: the path that it was read from */
	const char *flag;
	const char *env;
	const char *value; /* the default */
	unsigned commands;
	enum option_group group;
	const char *argument;
	const char *help;
};

enum option_index {
#define OPTION(field, type, flag, env, value, commands, group, argument, help) INDEX_##field,
#include "base/options.def"
	OPTION_ROWS
};

extern const struct option_row option_table[OPTION_ROWS];

/* Whether the variable has a twin NAME_FILE. */
bool option_has_twin(const struct option_row *row);

/* The i-th of the values that the row can have, where these are few and have names; NULL: there are no more. */
const char *option_choice(const struct option_row *row, size_t i);

/* Reads `text` as the row's type into its field. *e does not say which option it was: that is the caller's part. */
bool option_set(struct options *o, const struct option_row *row, const char *text, struct err *e) MUST_CHECK;

/* A copy of a value that may be text: neither empty nor with control characters. Frees what *out was. */
bool option_copy_text(const char *text, char **out, struct err *e) MUST_CHECK;

/* OpenFGA's address: http or https, a host, perhaps a port and a path, and nothing else. */
bool option_check_url(const char *url, struct err *e) MUST_CHECK;

/* A value as an error may show it: in quotes, shortened; hidden where it may hold a password. */
struct shown {
	char text[128];
};
struct shown option_show(const char *value);

#endif
