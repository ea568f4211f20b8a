/* What somebody may have meant who mistyped a word. */
#ifndef RELAY_BASE_SIMILAR_H
#define RELAY_BASE_SIMILAR_H

#include <stddef.h>

/* The one of n words that is nearest to `typed`: it begins with `typed`, or at most a third of its letters differ
 * (insertions, deletions and replacements). NULL when none is near. The words are at most SIMILAR_LETTERS long; a
 * longer `typed` is near nothing. */
enum { SIMILAR_LETTERS = 63 };
const char *similar(const char *typed, const char *const *words, size_t n);

#endif
