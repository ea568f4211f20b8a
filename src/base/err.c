#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

bool err_set(struct err *e, enum err_kind kind, const char *format, ...)
{
	char raw[2 * sizeof e->text]; /* longer than what stays, so that its own cut is never seen */
	struct buf clean = {0};
	va_list args;
	va_start(args, format);
	vsnprintf(raw, sizeof raw, format, args);
	va_end(args);
	buf_add_clean(&clean, str_of(raw), sizeof e->text - 1);
	while (clean.n > 0 && clean.p[clean.n - 1] == ' ')
		clean.n--;
	e->kind = kind;
	memcpy(e->text, clean.p, clean.n);
	e->text[clean.n] = '\0';
	buf_free(&clean);
	return false;
}

bool err_prefix(struct err *e, const char *format, ...)
{
	char context[sizeof e->text];
	va_list args;
	va_start(args, format);
	vsnprintf(context, sizeof context, format, args);
	va_end(args);
	return err_set(e, e->kind, "%s: %s", context, e->text);
}
