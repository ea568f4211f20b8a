#include "cmd/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/similar.h"
#include "cmd/doctor.h"
#include "cmd/figures.h"
#include "cmd/preview.h"
#include "cmd/reconcile.h"
#include "cmd/requeue.h"

const struct command command_table[COMMANDS] = {
#define COMMAND(name, function, options, summary, details) {name, function, options, summary, details},
#include "cmd/commands.def"
};

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(command_table[i].name, name) == 0)
			return &command_table[i];
	return NULL;
}

static const char *environment(const char *name)
{
	return getenv(name);
}

/* Prints and frees. A reader that went away is a failure too. */
static int print(struct buf *text)
{
	bool ok = fwrite(text->p, 1, text->n, stdout) == text->n && fflush(stdout) == 0;
	buf_free(text);
	return ok ? EXIT_OK : EXIT_REFUSED;
}

static int print_version(void)
{
	struct buf text = {0};
	buf_add_text(&text, "relay " RELAY_VERSION "\n");
	return print(&text);
}

static void add_options(struct buf *text, unsigned command)
{
	buf_add_text(text, "\nOptions; a flag wins over the variable in brackets.\n");
	options_help(command, text);
	buf_add_text(text, "\nOther:\n"
	                   "  --help                    print this\n"
	                   "  --version                 print the version\n");
}

static int print_overview(void)
{
	struct buf text = {0};
	buf_add_text(&text, "Usage: relay [COMMAND] [OPTIONS]\n\n"
	                    "Delivers the rows of a Postgres transactional outbox to OpenFGA.\n\nCommands:\n");
	for (size_t i = 0; i < COMMANDS; i++)
		buf_printf(&text, "  %-13s%s%s\n", command_table[i].name, command_table[i].summary,
		           i == 0 ? " (what relay alone does)" : "");
	buf_add_text(&text,
	             "\n`relay COMMAND --help` lists a command's options, `relay --version` prints the version, and\n"
	             "relay(1) is the manual page. Most settings can come from the environment as well.\n");
	return print(&text);
}

static int print_help(const struct command *c)
{
	struct buf text = {0};
	buf_printf(&text, c == command_table ? "Usage: relay [%s] [OPTIONS]\n" : "Usage: relay %s [OPTIONS]\n",
	           c->name);
	buf_printf(&text, "\n%s\n\n", c->summary);
	options_wrap(c->details, &text);
	if (c->run == cmd_doctor)
		doctor_help(&text);
	add_options(&text, c->options);
	return print(&text);
}

static int refuse_command(const char *name)
{
	const char *names[COMMANDS + 1];
	struct buf text = {0};
	size_t n = 0;
	for (size_t i = 0; i < COMMANDS; i++)
		names[n++] = command_table[i].name;
	names[n++] = "help";
	const char *near = similar(name, names, n);
	/* What is no plain word may be anything, a URL with its password too: it is not repeated. */
	if (strspn(name, "abcdefghijklmnopqrstuvwxyz-") == strlen(name))
		buf_printf(&text, "unknown command %s: ", name);
	else
		buf_add_text(&text, "the first argument is no command: ");
	if (near != NULL)
		buf_printf(&text, "did you mean %s?", near);
	else
		buf_add_text(&text, "there are");
	for (size_t i = 0; near == NULL && i < n; i++)
		buf_printf(&text, "%s %s", i == 0 ? "" : i + 1 == n ? " and" : ",", names[i]);
	fprintf(stderr, "relay: %s\nSee `relay --help`.\n", text.p);
	buf_free(&text);
	return EXIT_WRONG;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct options o;
	struct err e;
	int code = EXIT_WRONG;
	switch (options_read(&o, c->options, argc, argv, environment, &e)) {
	case OPTIONS_OK:
		log_setup(o.log_level, o.log_format);
		code = c->run(&o);
		break;
	case OPTIONS_HELP:
		code = print_help(c);
		break;
	case OPTIONS_WRONG:
		fprintf(stderr, "relay %s: %s\nSee `relay %s --help`.\n", c->name, e.text, c->name);
		break;
	}
	options_free(&o);
	return code;
}

/* `relay help`, `relay help drain`. */
static int help(int argc, char **argv)
{
	if (argc < 2)
		return print_overview();
	const struct command *c = find(argv[1]);
	return c != NULL ? print_help(c) : refuse_command(argv[1]);
}

int commands_main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--version") == 0)
			return print_version();
	if (argc < 2)
		return run(&command_table[0], argc, argv);
	if (strcmp(argv[1], "--help") == 0)
		return print_overview();
	if (argv[1][0] == '-')
		return run(&command_table[0], argc, argv);
	if (strcmp(argv[1], "help") == 0)
		return help(argc - 1, argv + 1);
	const struct command *c = find(argv[1]);
	return c != NULL ? run(c, argc - 1, argv + 1) : refuse_command(argv[1]);
}
