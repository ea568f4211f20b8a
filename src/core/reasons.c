#include "core/reasons.h"

#include <stdlib.h>

/* From the first `mark` on; all of it where there is none. */
static struct str from(struct str s, struct str mark)
{
	for (size_t i = 0; i + mark.n <= s.n; i++)
		if (str_eq((struct str){s.p + i, mark.n}, mark))
			return (struct str){s.p + i, s.n - i};
	return s;
}

void reasons_read(struct str last_error, char text[FAULT_REASON_BYTES])
{
	struct fault fault;
	struct buf line = {0};
	fault_read(from(last_error, STR("Invalid tuple '")), &fault);
	if (fault.reason[0] != '\0')
		buf_add_text(&line, fault.reason);
	else
		buf_add_clean(&line, last_error.n > 0 ? last_error : STR("no reason is given"), FAULT_REASON_BYTES - 1);
	memcpy(text, line.p, line.n + 1);
	buf_free(&line);
}

void reasons_add(struct reasons *r, int64_t id, struct str last_error)
{
	char text[FAULT_REASON_BYTES];
	size_t i = 0;
	reasons_read(last_error, text);
	while (i < r->n && strcmp(r->list[i].text, text) != 0)
		i++;
	if (i == REASONS_MAX) {
		r->others++;
		return;
	}
	struct reason *found = &r->list[i];
	if (i == r->n) {
		r->n++;
		memcpy(found->text, text, sizeof text);
	}
	if (found->rows < REASONS_IDS)
		found->ids[found->rows] = id;
	found->rows++;
}

static int by_rows(const void *a, const void *b)
{
	const struct reason *x = a;
	const struct reason *y = b;
	if (x->rows != y->rows)
		return x->rows < y->rows ? 1 : -1;
	return (x->ids[0] > y->ids[0]) - (x->ids[0] < y->ids[0]);
}

void reasons_sort(struct reasons *r)
{
	qsort(r->list, r->n, sizeof *r->list, by_rows);
}
