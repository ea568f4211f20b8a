#include "core/ids.h"

#include <ctype.h>

/* Reads the id at *p and moves *p behind it. False when there is none, or it is beyond bigint. */
static bool read_id(const char **p, int64_t *id)
{
	const char *start = *p;
	for (*id = 0; isdigit((unsigned char)**p); ++*p)
		if (__builtin_mul_overflow(*id, 10, id) || __builtin_add_overflow(*id, **p - '0', id))
			return false;
	return *p != start;
}

/* "7" or "5-9" */
static bool read_range(const char **p, int64_t *first, int64_t *last)
{
	if (!read_id(p, first))
		return false;
	*last = *first;
	if (**p != '-')
		return true;
	++*p;
	return read_id(p, last) && *last >= *first;
}

bool ids_parse(const char *text, struct buf *out, size_t *n, struct err *e)
{
	const char *p = text;
	*n = 0;
	buf_add_char(out, '{');
	for (;; p++) {
		int64_t first;
		int64_t last;
		if (!read_range(&p, &first, &last) || (*p != ',' && *p != '\0'))
			return err_set(e, ERR_CONFIG, "\"%.80s\" is not a list of ids: write 1,2,5-9", text);
		if (last - first >= (int64_t)(IDS_MAX - *n))
			return err_set(e, ERR_CONFIG, "more than %d ids: give them in parts", IDS_MAX);
		for (int64_t i = 0; i <= last - first; i++) {
			buf_add_text(out, (*n)++ > 0 ? "," : "");
			buf_add_number(out, first + i);
		}
		if (*p == '\0')
			break;
	}
	buf_add_char(out, '}');
	return true;
}

bool ids_parse_one(const char *text, int64_t *id, struct err *e)
{
	const char *p = text;
	return (read_id(&p, id) && *p == '\0') || err_set(e, ERR_CONFIG, "\"%.80s\" is not an id: write 42", text);
}
