/* The shells' completions. */
#include "base/options_table.h"
#include "cmd/commands.h"
#include "cmd/generate.h"

static const char help_summary[] = "say what a command does and takes";

/* The next row from `i` on that has a flag which the commands take; OPTION_ROWS: there is none. */
static size_t next_flag(size_t i, unsigned commands)
{
	while (i < OPTION_ROWS && (option_table[i].flag == NULL || (option_table[i].commands & commands) == 0))
		i++;
	return i;
}

/* Adds text as it may stand between single quotes; those of `special` get a backslash. */
static void add_escaped(struct buf *out, const char *text, const char *special)
{
	for (; *text != '\0'; text++) {
		if (strchr(special, *text) != NULL)
			buf_add_char(out, '\\');
		buf_add_char(out, *text);
	}
}

static void add_choices(struct buf *out, const struct option_row *row)
{
	for (size_t i = 0; option_choice(row, i) != NULL; i++)
		buf_printf(out, "%s%s", i == 0 ? "" : " ", option_choice(row, i));
}

/* Adds the names of those commands that have one of the bits, and, where it is asked for, `help`. */
static void add_commands(struct buf *out, unsigned bits, bool with_help)
{
	const char *before = "";
	for (size_t i = 0; i < COMMANDS; i++) {
		if ((command_table[i].options & bits) == 0)
			continue;
		buf_printf(out, "%s%s", before, command_table[i].name);
		before = " ";
	}
	if (with_help)
		buf_printf(out, "%shelp", before);
}

/* bash */

static void add_bash_flags(struct buf *out, unsigned command)
{
	for (size_t i = next_flag(0, command); i < OPTION_ROWS; i = next_flag(i + 1, command))
		buf_printf(out, "--%s ", option_table[i].flag);
	buf_add_text(out, "--help --version");
}

/* What follows a flag that takes a value. */
static void add_bash_value(struct buf *out, const struct option_row *row)
{
	if (row->type == OPTION_SWITCH)
		return;
	buf_printf(out, "\t--%s)\n", row->flag);
	if (option_choice(row, 0) != NULL) {
		buf_add_text(out, "\t\twords='");
		add_choices(out, row);
		buf_add_text(out, "'\n\t\t;;\n");
		return;
	}
	if (row->type == OPTION_PATH)
		buf_add_text(out, "\t\tcompopt -o filenames\n"
		                  "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n");
	buf_add_text(out, "\t\treturn\n\t\t;;\n");
}

void generate_bash(struct buf *out)
{
	buf_add_text(out, "# bash completion for relay(1)\n\n"
	                  "_relay()\n"
	                  "{\n"
	                  "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words\n"
	                  "\tCOMPREPLY=()\n"
	                  "\t# --flag=value comes as three words.\n"
	                  "\tif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
	                  "\tif [[ $cur == = ]]; then cur=; fi\n"
	                  "\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; i < COMMANDS; i++) {
		buf_printf(out, "\t%s) words='", command_table[i].name);
		add_bash_flags(out, command_table[i].options);
		buf_add_text(out, "' ;;\n");
	}
	buf_add_text(out, "\thelp) words='");
	add_commands(out, ~0U, false);
	buf_add_text(out, "' ;;\n\t*) words='");
	add_bash_flags(out, command_table[0].options);
	buf_add_text(out, "' ;;\n\tesac\n\tif ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then words='");
	add_commands(out, ~0U, true);
	buf_add_text(out, "'; fi\n\tcase $prev in\n");
	for (size_t i = next_flag(0, ~0U); i < OPTION_ROWS; i = next_flag(i + 1, ~0U))
		add_bash_value(out, &option_table[i]);
	buf_add_text(out, "\tesac\n"
	                  "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	                  "}\n\n"
	                  "complete -F _relay relay\n");
}

/* zsh */

static const char zsh_quote[] = "'\\''";

/* Adds text inside of single quotes, with backslashes before what _arguments would take for its own. */
static void add_zsh(struct buf *out, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			buf_add_text(out, zsh_quote);
		else
			add_escaped(out, (const char[]){*text, '\0'}, "\\[]");
	}
}

static void add_zsh_flag(struct buf *out, const struct option_row *row)
{
	buf_printf(out, " \\\n\t\t\t'--%s%s[", row->flag, row->type == OPTION_SWITCH ? "" : "=");
	add_zsh(out, row->help);
	buf_add_char(out, ']');
	if (row->type != OPTION_SWITCH)
		buf_printf(out, ":%s:", row->argument);
	if (row->type == OPTION_PATH) {
		buf_add_text(out, "_files");
	} else if (option_choice(row, 0) != NULL) {
		buf_add_char(out, '(');
		add_choices(out, row);
		buf_add_char(out, ')');
	} else if (row->type != OPTION_SWITCH) {
		buf_add_char(out, ' ');
	}
	buf_add_char(out, '\'');
}

void generate_zsh(struct buf *out)
{
	buf_add_text(out, "#compdef relay\n"
	                  "# zsh completion for relay(1)\n\n"
	                  "_relay()\n"
	                  "{\n"
	                  "\tlocal command=run\n"
	                  "\tlocal -a commands=(\n");
	for (size_t i = 0; i < COMMANDS; i++) {
		buf_printf(out, "\t\t'%s:", command_table[i].name);
		add_zsh(out, command_table[i].summary);
		buf_add_text(out, "'\n");
	}
	buf_printf(out,
	           "\t\t'help:%s'\n"
	           "\t)\n"
	           "\tif [[ $words[2] != -* ]]; then\n"
	           "\t\tif ((CURRENT == 2)); then\n"
	           "\t\t\t_describe -t commands command commands\n"
	           "\t\t\treturn\n"
	           "\t\tfi\n"
	           "\t\tcommand=$words[2]\n"
	           "\t\tshift words\n"
	           "\t\t((CURRENT--))\n"
	           "\tfi\n"
	           "\tcase $command in\n",
	           help_summary);
	for (size_t i = 0; i < COMMANDS; i++) {
		unsigned options = command_table[i].options;
		buf_printf(out,
		           "\t%s)\n\t\t_arguments '(- *)--help[print the options]' '(- *)--version[print the version]'",
		           command_table[i].name);
		for (size_t k = next_flag(0, options); k < OPTION_ROWS; k = next_flag(k + 1, options))
			add_zsh_flag(out, &option_table[k]);
		buf_add_text(out, "\n\t\t;;\n");
	}
	buf_add_text(out, "\thelp)\n"
	                  "\t\tif ((CURRENT == 2)); then _describe -t commands command commands; fi\n"
	                  "\t\t;;\n"
	                  "\tesac\n"
	                  "}\n\n"
	                  "_relay \"$@\"\n");
}

/* fish */

static const char fish_special[] = "\\'";

static void add_fish_command(struct buf *out, const char *name, const char *summary)
{
	buf_printf(out, "complete -c relay -n __fish_use_subcommand -a %s -d '", name);
	add_escaped(out, summary, fish_special);
	buf_add_text(out, "'\n");
}

static void add_fish_flag(struct buf *out, const struct option_row *row)
{
	/* Without a command it is the first one's, so what tells is that no other one stands there. */
	bool is_default = (row->commands & command_table[0].options) != 0;
	buf_printf(out, "complete -c relay -n '%s__fish_seen_subcommand_from ", is_default ? "not " : "");
	add_commands(out, is_default ? ~row->commands : row->commands, is_default);
	buf_printf(out, "' -l %s ", row->flag);
	if (row->type == OPTION_PATH)
		buf_add_text(out, "-r -F ");
	else if (row->type != OPTION_SWITCH)
		buf_add_text(out, "-x ");
	if (option_choice(row, 0) != NULL) {
		buf_add_text(out, "-a '");
		add_choices(out, row);
		buf_add_text(out, "' ");
	}
	buf_add_text(out, "-d '");
	add_escaped(out, row->help, fish_special);
	buf_add_text(out, "'\n");
}

void generate_fish(struct buf *out)
{
	buf_add_text(out, "# fish completion for relay(1)\n\ncomplete -c relay -f\n");
	for (size_t i = 0; i < COMMANDS; i++)
		add_fish_command(out, command_table[i].name, command_table[i].summary);
	add_fish_command(out, "help", help_summary);
	buf_add_text(out, "complete -c relay -n '__fish_seen_subcommand_from help' -a '");
	add_commands(out, ~0U, false);
	buf_add_text(out, "'\n"
	                  "complete -c relay -l help -d 'print the options'\n"
	                  "complete -c relay -l version -d 'print the version'\n");
	for (size_t i = next_flag(0, ~0U); i < OPTION_ROWS; i = next_flag(i + 1, ~0U))
		add_fish_flag(out, &option_table[i]);
}
