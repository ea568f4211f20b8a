#include "core/suspect.h"

#include "base/hash.h"

static uint64_t key_of(struct str reason)
{
	return hash_str(HASH_START, reason);
}

static size_t count(const struct suspect *s, uint64_t key)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++)
		n += s->ends[i] == key;
	return n;
}

static void note(struct suspect *s, uint64_t key)
{
	s->ends[s->next] = key;
	s->next = (s->next + 1) % SUSPECT_WINDOW;
	if (s->n < SUSPECT_WINDOW)
		s->n++;
	if (s->accused != 0 && count(s, s->accused) * 100 < s->n * SUSPECT_HEALED_PERCENT)
		s->accused = 0;
}

void suspect_delivered(struct suspect *s)
{
	note(s, 0);
}

void suspect_refused(struct suspect *s, struct str reason)
{
	note(s, key_of(reason));
}

bool suspect_accuse(struct suspect *s, struct str reason, struct suspect_counts *counts)
{
	uint64_t key = key_of(reason);
	*counts = (struct suspect_counts){count(s, key), count(s, 0)};
	if (reason.n == 0 || key == s->accused || counts->refused < SUSPECT_MIN_REFUSED ||
	    counts->refused * 100 < s->n * SUSPECT_PERCENT)
		return false;
	s->accused = key;
	return true;
}
