#include "cmd/shell.h"

void shell_add_flag(struct buf *out, const char *flag, const char *value)
{
	buf_printf(out, " %s '", flag);
	for (; *value != '\0'; value++) {
		if (*value == '\'')
			buf_add_text(out, "'\\'");
		buf_add_char(out, *value);
	}
	buf_add_char(out, '\'');
}
