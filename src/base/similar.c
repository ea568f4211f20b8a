#include "base/similar.h"

#include <string.h>

#include "base/die.h"

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Levenshtein's distance, one row of the table at a time. */
static size_t distance(const char *a, const char *b)
{
	size_t row[SIMILAR_LETTERS + 1];
	size_t na = strlen(a);
	size_t nb = strlen(b);
	ASSERT(nb <= SIMILAR_LETTERS);
	for (size_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[nb];
}

const char *similar(const char *typed, const char *const *words, size_t n)
{
	const char *best = NULL;
	size_t best_distance = SIMILAR_LETTERS;
	size_t letters = strlen(typed);
	if (letters == 0 || letters > SIMILAR_LETTERS)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t d = strncmp(words[i], typed, letters) == 0 ? 1 : distance(typed, words[i]);
		if (d <= (strlen(words[i]) + 2) / 3 && d < best_distance) {
			best = words[i];
			best_distance = d;
		}
	}
	return best;
}
