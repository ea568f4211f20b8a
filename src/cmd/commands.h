/* The commands, one file each; commands.def lists them. */
#ifndef RELAY_CMD_COMMANDS_H
#define RELAY_CMD_COMMANDS_H

#include "base/options.h"

/* Exit codes of every command. */
enum {
	EXIT_OK = 0,
	EXIT_REFUSED = 1,     /* drain: rows remain that OpenFGA refuses; healthcheck: not ready; doctor: warnings;
	                         reconcile: differences; nobody reads stdout */
	EXIT_WRONG = 2,       /* a wrong command line or configuration; requeue: rows that cannot be requeued; doctor:
	                         failures */
	EXIT_UNREACHABLE = 3, /* Postgres or OpenFGA could not be reached; reconcile: could not compare */
};

/* Each runs a command to its end and returns the exit code. */
#define COMMAND(name, function, commands, summary, details) int function(const struct options *o);
#include "cmd/commands.def"

/* A row of commands.def. */
struct command {
	const char *name;
	int (*run)(const struct options *o);
	unsigned options; /* its ON_ bit */
	const char *summary;
	const char *details;
};

enum {
#define COMMAND(name, function, commands, summary, details) INDEX_##function,
#include "cmd/commands.def"
	COMMANDS
};

/* The first one is what relay does without a command. */
extern const struct command command_table[COMMANDS];

/* The whole program: picks the command, reads its options, runs it. Returns the exit code. */
int commands_main(int argc, char **argv);

#endif
