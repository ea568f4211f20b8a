#include "core/copy_text.h"

static const char *escape_of(char c)
{
	switch (c) {
	case '\\':
		return "\\\\";
	case '\t':
		return "\\t";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	default:
		return NULL;
	}
}

void copy_text_add(struct buf *out, struct str field, char end)
{
	size_t copied = 0;
	for (size_t i = 0; i < field.n; i++) {
		const char *escape = escape_of(field.p[i]);
		if (escape == NULL)
			continue;
		buf_add(out, field.p + copied, i - copied);
		buf_add_text(out, escape);
		copied = i + 1;
	}
	if (copied < field.n)
		buf_add(out, field.p + copied, field.n - copied);
	buf_add_char(out, end);
}

void copy_text_add_null(struct buf *out, char end)
{
	buf_add_text(out, "\\N");
	buf_add_char(out, end);
}
