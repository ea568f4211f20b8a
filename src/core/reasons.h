/* Why rows are refused, one entry for equal reasons: OpenFGA's messages name the tuple at fault, and so differ from row
 * to row. */
#ifndef RELAY_CORE_REASONS_H
#define RELAY_CORE_REASONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "core/fault.h"

enum {
	REASONS_MAX = 20, /* entries; rows with a further one are only counted */
	REASONS_IDS = 5,  /* examples of each */
};

struct reason {
	char text[FAULT_REASON_BYTES]; /* one line of valid UTF-8 */
	size_t rows;
	int64_t ids[REASONS_IDS]; /* of the first of them */
};

/* {0}: none. */
struct reasons {
	struct reason list[REASONS_MAX];
	size_t n;
	size_t others; /* rows with a reason that found no room */
};

/* The part of a last_error that is equal for equal faults; the whole of it, cut to a line, where no fault is read from
 * it. text: one line of valid UTF-8. */
void reasons_read(struct str last_error, char text[FAULT_REASON_BYTES]);

/* Counts a row. last_error as relay, or somebody else, wrote it; empty: nothing was said. */
void reasons_add(struct reasons *r, int64_t id, struct str last_error);

/* Puts the most frequent one first. */
void reasons_sort(struct reasons *r);

#endif
