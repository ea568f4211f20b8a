#include "core/kinds.h"

/* Where the kind stands; KINDS_MAX: nowhere. */
static size_t find(const struct kinds *k, uint64_t kind)
{
	size_t i = 0;
	while (i < KINDS_MAX && k->known[i] != kind)
		i++;
	return i;
}

void kinds_note(struct kinds *k, uint64_t kind)
{
	if (kind == 0 || find(k, kind) < KINDS_MAX)
		return;
	k->known[k->next] = kind;
	k->next = (k->next + 1) % KINDS_MAX;
}

static bool is_empty(const struct kinds *k)
{
	for (size_t i = 0; i < KINDS_MAX; i++)
		if (k->known[i] != 0)
			return false;
	return true;
}

bool kinds_touch(const struct kinds *k, const struct payload *p)
{
	if (is_empty(k))
		return false;
	for (size_t i = p->n_deletes; i < p->n; i++)
		if (find(k, tuple_kind(&p->ops[i].tuple)) < KINDS_MAX)
			return true;
	return false;
}

void kinds_forget(struct kinds *k, const struct payload *p)
{
	for (size_t i = p->n_deletes; i < p->n; i++) {
		size_t at = find(k, tuple_kind(&p->ops[i].tuple));
		if (at < KINDS_MAX)
			k->known[at] = 0;
	}
}
