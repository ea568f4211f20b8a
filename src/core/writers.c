#include "core/writers.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/die.h"

/* Reads one virtual transaction, backend/number, at *p and moves *p behind it; false at the end. */
static bool next(const char **p, uint64_t *id)
{
	char *end;
	if (*p == NULL)
		return false;
	long backend = strtol(*p, &end, 10);
	if (end == *p)
		return false;
	unsigned long number = *end == '/' ? strtoul(end + 1, &end, 10) : 0;
	*p = end;
	*id = (uint64_t)(uint32_t)backend << 32 | (uint32_t)number;
	return true;
}

static bool names(const char *list, uint64_t wanted)
{
	uint64_t id;
	while (next(&list, &id))
		if (id == wanted)
			return true;
	return false;
}

void writers_note(struct writers *w, const char *list)
{
	uint64_t id;
	size_t room = 0;
	writers_free(w);
	while (next(&list, &id)) {
		if (w->n == room) {
			room = room == 0 ? 16 : 2 * room;
			w->ids = xrealloc(w->ids, room * sizeof *w->ids);
		}
		w->ids[w->n++] = id;
	}
}

size_t writers_keep(struct writers *w, const char *list)
{
	size_t kept = 0;
	for (size_t i = 0; i < w->n; i++)
		if (names(list, w->ids[i]))
			w->ids[kept++] = w->ids[i];
	w->n = kept;
	return kept;
}

void writers_free(struct writers *w)
{
	free(w->ids);
	*w = (struct writers){0};
}
