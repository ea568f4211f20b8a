#include "core/ident.h"

#include <stddef.h>

static bool starts_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool continues_name(char c)
{
	return starts_name(c) || (c >= '0' && c <= '9') || c == '$';
}

/* Only ASCII is folded: what Postgres does in every multi-byte encoding. */
static char fold(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool add_char(char part[IDENT_BYTES], size_t *n, char c)
{
	if (*n == IDENT_BYTES - 1)
		return false;
	part[(*n)++] = c;
	part[*n] = '\0';
	return true;
}

static bool too_long(const char *text, struct err *e)
{
	return err_set(e, ERR_CONFIG, "name %s: a part is longer than %d bytes, which Postgres would cut", text,
	               IDENT_BYTES - 1);
}

/* Reads one part that begins at *p, and moves *p behind it. */
static bool read_part(const char *text, const char **p, char part[IDENT_BYTES], struct err *e)
{
	size_t n = 0;
	if (**p == '"') {
		for ((*p)++;; (*p)++) {
			if (**p == '\0')
				return err_set(e, ERR_CONFIG, "name %s: a double quote is never closed", text);
			if (**p == '"' && *++*p != '"')
				break;
			if (!add_char(part, &n, **p))
				return too_long(text, e);
		}
		if (n == 0)
			return err_set(e, ERR_CONFIG, "name %s: a part between double quotes is empty", text);
		return true;
	}
	if (!starts_name(**p))
		return err_set(e, ERR_CONFIG,
		               "name %s: must be name or schema.name, each of them beginning with a letter or _ (or "
		               "in double quotes, then anything goes)",
		               *text ? text : "\"\"");
	for (; continues_name(**p); (*p)++)
		if (!add_char(part, &n, fold(**p)))
			return too_long(text, e);
	return true;
}

bool ident_parse(const char *text, struct qualified_name *out, struct err *e)
{
	*out = (struct qualified_name){0};
	if (!str_is_utf8(str_of(text)))
		return err_set(e, ERR_CONFIG, "a name of Postgres's must be UTF-8");
	const char *p = text;
	if (!read_part(text, &p, out->name, e))
		return false;
	if (*p == '.') {
		p++;
		memcpy(out->schema, out->name, sizeof out->schema);
		out->name[0] = '\0';
		if (!read_part(text, &p, out->name, e))
			return false;
	}
	if (*p == '.')
		return err_set(e, ERR_CONFIG, "name %s: has more parts than schema.name", text);
	if (*p != '\0')
		return err_set(e, ERR_CONFIG, "name %s: only letters, digits, _ and $ can stand outside double quotes",
		               text);
	return true;
}

void ident_add(struct buf *out, const char *name)
{
	buf_add_char(out, '"');
	for (; *name != '\0'; name++) {
		if (*name == '"')
			buf_add_char(out, '"');
		buf_add_char(out, *name);
	}
	buf_add_char(out, '"');
}

void ident_add_qualified(struct buf *out, const struct qualified_name *name)
{
	if (name->schema[0] != '\0') {
		ident_add(out, name->schema);
		buf_add_char(out, '.');
	}
	ident_add(out, name->name);
}

void ident_add_literal(struct buf *out, const char *text)
{
	/* Inside E'' a backslash always escapes; inside '' it depends on standard_conforming_strings. */
	if (strchr(text, '\\') != NULL)
		buf_add_char(out, 'E');
	buf_add_char(out, '\'');
	for (; *text != '\0'; text++) {
		if (*text == '\'' || *text == '\\')
			buf_add_char(out, *text);
		buf_add_char(out, *text);
	}
	buf_add_char(out, '\'');
}

char *ident_fill_in(const char *template, const char *table)
{
	struct buf out = {0};
	for (; *template != '\0'; template ++) {
		if (template[0] == '%' && template[1] == 's')
			buf_add_text(&out, table), template ++;
		else if (template[0] == '%' && template[1] == 'l')
			ident_add_literal(&out, table), template ++;
		else
			buf_add_char(&out, *template);
	}
	return out.p;
}
