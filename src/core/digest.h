/* The parked rows for people: how many there are for each reason, and behind which row, with examples. */
#ifndef RELAY_CORE_DIGEST_H
#define RELAY_CORE_DIGEST_H

#include "core/park.h"

enum {
	DIGEST_IDS = 5,     /* examples of each */
	DIGEST_BEHIND = 20, /* rows that others are held behind; held rows behind a further one are only counted */
};

struct digest_group {
	size_t rows;
	int64_t ids[DIGEST_IDS]; /* the lowest ones, in order: as many of them as there are rows */
};

struct digest {
	size_t refused;                         /* rows that were refused, or are set apart to be tried alone */
	struct digest_group causes[CAUSES_END]; /* those, by the number of their reason */
	size_t held;                            /* the other ones: they wait for an earlier row */
	struct {
		int64_t id; /* the row that they wait for, lowest first */
		struct digest_group held;
	} behind[DIGEST_BEHIND];
	size_t n_behind;
};

void digest_read(const struct park *p, struct digest *out);

/* Adds {"refused":N,"reasons":[{"reason":"…","rows":N,"ids":[…]},…],"held":N,"behind":[{"id":N,"rows":N,"ids":[…]},…]};
 * the reason with the most rows comes first, and is null where it is not known: the rows are set apart, or there are
 * too many reasons. */
void digest_write(const struct park *p, struct buf *out);

#endif
