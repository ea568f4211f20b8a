/* The options for people: --help, the manual page and the environment file. */
#include <ctype.h>

#include "base/options_table.h"

enum { TEXT_COLUMN = 28, LAST_COLUMN = 96 };

static const char *const groups[GROUPS] = {
#define X(id, name) [GROUP_##id] = (name),
    OPTION_GROUPS(X)
#undef X
};

/* The first row from `i` on that the group and one of the commands have; OPTION_ROWS: there is none. */
static size_t next_row(size_t i, enum option_group group, unsigned commands)
{
	while (i < OPTION_ROWS && (option_table[i].group != group || (option_table[i].commands & commands) == 0))
		i++;
	return i;
}

static void add_blanks(struct buf *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_add_char(out, ' ');
}

/* Adds `text` in lines that begin at column `start`; the cursor stands at `column` now. Ends the line. */
static void wrap(struct buf *out, size_t column, size_t start, const char *text)
{
	while (*text != '\0') {
		size_t n = strcspn(text, " ");
		bool first = column <= start;
		if (!first && column + 1 + n > LAST_COLUMN) {
			buf_add_char(out, '\n');
			column = 0;
			first = true;
		}
		if (first) {
			add_blanks(out, start - column);
			column = start;
		} else {
			buf_add_char(out, ' ');
			column++;
		}
		buf_add(out, text, n);
		column += n;
		text += n + (text[n] == ' ');
	}
	buf_add_char(out, '\n');
}

static void add_wrapped(struct buf *out, size_t column, const char *text)
{
	if (column >= TEXT_COLUMN) {
		buf_add_char(out, '\n');
		column = 0;
	}
	wrap(out, column, TEXT_COLUMN, text);
}

void options_wrap(const char *text, struct buf *out)
{
	struct buf line = {0};
	for (size_t n; n = strcspn(text, "\n"), n > 0; text += n + (text[n] == '\n')) {
		buf_clear(&line);
		buf_add(&line, text, n);
		wrap(out, 0, 0, line.p);
	}
	buf_free(&line);
}

/* "[default 10s, RELAY_SWEEP_INTERVAL]" */
static void add_origins(struct buf *out, const struct option_row *row)
{
	struct buf text = {0};
	buf_add_char(&text, '[');
	if (row->value != NULL)
		buf_printf(&text, "default %s; ", row->value);
	buf_printf(&text, "%s%s", row->flag == NULL ? "environment only: " : "", row->env);
	if (option_has_twin(row))
		buf_printf(&text, " or %s_FILE", row->env);
	buf_add_char(&text, ']');
	add_wrapped(out, 0, text.p);
	buf_free(&text);
}

static void add_option(struct buf *out, const struct option_row *row)
{
	size_t start = out->n;
	buf_printf(out, row->flag == NULL ? "  %s" : "  --%s", row->flag == NULL ? row->env : row->flag);
	if (row->argument != NULL)
		buf_printf(out, row->flag == NULL ? "=%s" : " %s", row->argument);
	add_wrapped(out, out->n - start, row->help);
	if (row->env != NULL)
		add_origins(out, row);
}

void options_help(unsigned command, struct buf *out)
{
	for (enum option_group g = 0; g < GROUPS; g++) {
		size_t i = next_row(0, g, command);
		if (i < OPTION_ROWS)
			buf_printf(out, "\n%s:\n", groups[g]);
		for (; i < OPTION_ROWS; i = next_row(i + 1, g, command))
			add_option(out, &option_table[i]);
	}
}

/* A help text as a sentence. Nothing in the table needs an escape of roff's: no backslash, no dot or apostrophe at its
 * start. */
static void add_sentence(struct buf *out, const char *text)
{
	buf_printf(out, "%c%s.\n", toupper((unsigned char)text[0]), text + 1);
}

static void add_item(struct buf *out, const struct option_row *row)
{
	if (row->flag == NULL)
		buf_printf(out, ".It Ev %s Ns = Ns Ar %s\n", row->env, row->argument);
	else if (row->argument == NULL)
		buf_printf(out, ".It Fl -%s\n", row->flag);
	else
		buf_printf(out, ".It Fl -%s Ar %s\n", row->flag, row->argument);
	add_sentence(out, row->help);
	if (row->value != NULL)
		buf_printf(out, "The default is\n.Ql %s .\n", row->value);
	if (row->env != NULL && row->flag != NULL)
		buf_printf(out, "In the environment:\n.Ev %s%s\n", row->env, option_has_twin(row) ? "" : " .");
	if (option_has_twin(row))
		buf_printf(out, "%s\n.Ev %s_FILE .\n",
		           row->flag == NULL ? "Or the path of a file that holds it:" : "or", row->env);
}

void options_man(struct buf *out)
{
	for (enum option_group g = 0; g < GROUPS; g++) {
		buf_printf(out, ".Ss %s\n.Bl -tag -width Ds\n", groups[g]);
		for (size_t i = next_row(0, g, ~0U); i < OPTION_ROWS; i = next_row(i + 1, g, ~0U))
			add_item(out, &option_table[i]);
		buf_add_text(out, ".El\n");
	}
}

static void add_variable(struct buf *out, const struct option_row *row)
{
	const char *unset = row->type == OPTION_SWITCH ? "false" : "";
	buf_add_text(out, "# ");
	add_sentence(out, row->help);
	buf_printf(out, "#%s=%s\n", row->env, row->value != NULL ? row->value : unset);
	if (row->type == OPTION_SECRET)
		buf_printf(out, "#%s_FILE=\n", row->env);
}

void options_env(unsigned command, struct buf *out)
{
	for (enum option_group g = 0; g < GROUPS; g++) {
		size_t i = next_row(0, g, command);
		if (i < OPTION_ROWS)
			buf_printf(out, "\n## %s\n\n", groups[g]);
		for (; i < OPTION_ROWS; i = next_row(i + 1, g, command))
			if (option_table[i].env != NULL)
				add_variable(out, &option_table[i]);
	}
}
