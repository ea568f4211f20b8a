/* Settings: flag over environment over default. One table, options.def, makes the struct, getopt_long's table, the
 * names in the environment, --help and the manual page. */
#ifndef RELAY_BASE_OPTIONS_H
#define RELAY_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"

/* Which commands have an option. */
enum {
	ON_RUN = 1 << 0,
	ON_DRAIN = 1 << 1,
	ON_INSTALL = 1 << 2,
	ON_HEALTHCHECK = 1 << 3,
	ON_STATUS = 1 << 4,
	ON_REQUEUE = 1 << 5,
	ON_DOCTOR = 1 << 6,
	ON_RECONCILE = 1 << 7,
	ON_DELIVERY = ON_RUN | ON_DRAIN,
	ON_OPENFGA = ON_DELIVERY | ON_DOCTOR | ON_RECONCILE,
	ON_POSTGRES = ON_DELIVERY | ON_INSTALL | ON_STATUS | ON_REQUEUE | ON_DOCTOR | ON_RECONCILE,
};

/* What the options are about: the headings of --help and of the manual page, in this order. */
#define OPTION_GROUPS(X) \
	X(ACTION, "What is done") \
	X(ROWS, "Rows") \
	X(POSTGRES, "Postgres") \
	X(OPENFGA, "OpenFGA") \
	X(CREDENTIALS, "Credentials for OpenFGA") \
	X(DELIVERY, "Delivery") \
	X(LIMITS, "Time limits and retries") \
	X(PROBE, "Probe") \
	X(LOGGING, "Logging") \
	X(OUTPUT, "Output")

#define OPTION_TYPE_STRING char *
#define OPTION_TYPE_PATH char *
#define OPTION_TYPE_ADDRESS char *
#define OPTION_TYPE_SECRET char *
#define OPTION_TYPE_COUNT unsigned
#define OPTION_TYPE_BYTES size_t
#define OPTION_TYPE_DURATION int64_t
#define OPTION_TYPE_SWITCH bool
#define OPTION_TYPE_LOG_LEVEL enum log_level
#define OPTION_TYPE_LOG_FORMAT enum log_format

struct options {
#define OPTION(field, type, flag, env, value, commands, group, argument, help) OPTION_TYPE_##type field;
#include "base/options.def"
	/* The path of the file that a value was read from; NULL: it was not. */
	struct {
#define OPTION(field, type, flag, env, value, commands, group, argument, help) char *field;
#include "base/options.def"
	} files;
};

enum options_result {
	OPTIONS_OK,
	OPTIONS_HELP,  /* --help was given */
	OPTIONS_WRONG, /* *e says what is wrong and what would be right */
};

/* Reads the command line of a command (argv[0] is not looked at) and the environment. An empty variable counts as
 * unset. `command` is one of the ON_ bits; other commands' flags are unknown here, and a variable of an option that
 * this command has not is ignored. Whatever is returned, options_free gives the strings back. */
enum options_result options_read(struct options *o, unsigned command, int argc, char **argv,
                                 const char *(*env)(const char *name), struct err *e) MUST_CHECK;
void options_free(struct options *o);

/* Reads such a file again: *value, which the caller frees, is what the option would be now. False: it cannot be read,
 * or holds what no option may hold; *e names it. */
bool options_file(const char *path, char **value, struct err *e) MUST_CHECK;

/* Adds the list of a command's options for --help, by groups: flag, argument, what it does, default, name in the
 * environment. */
void options_help(unsigned command, struct buf *out);

/* The same for the manual page, in mdoc(7) (one .Ss a group, one .It an option), all commands together. */
void options_man(struct buf *out);

/* The same as a file for systemd's EnvironmentFile= (systemd.exec(5)): what a command takes from the environment, all
 * of it commented out. */
void options_env(unsigned command, struct buf *out);

/* Adds text in lines that are no longer than those of options_help, and ends the last one. Its own line breaks stay. */
void options_wrap(const char *text, struct buf *out);

/* "500ms", "10s", "2m", "1h": digits and a unit, from 1ms to 30 days. */
bool options_duration(const char *text, int64_t *ms, struct err *e) MUST_CHECK;

/* "HOST:PORT", "[IPV6]:PORT": splits it; host (without brackets) and port are at most 255 and 5 characters. An empty
 * host means every address. */
struct address {
	char host[256];
	uint16_t port;
};
bool options_address(const char *text, struct address *out, struct err *e) MUST_CHECK;

#endif
