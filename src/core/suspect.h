/* Whether the authorization model is the suspect: nearly every row of late was refused for one reason. */
#ifndef RELAY_CORE_SUSPECT_H
#define RELAY_CORE_SUSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum {
	SUSPECT_WINDOW = 100,     /* rows that are looked back on */
	SUSPECT_MIN_REFUSED = 20, /* fewer may be chance */
	SUSPECT_PERCENT = 90,     /* nearly every one */
	SUSPECT_HEALED_PERCENT = 50,
};

/* {0}: nothing is known. */
struct suspect {
	uint64_t ends[SUSPECT_WINDOW]; /* a ring: 0 for a delivered row, else the hash of why it was refused */
	size_t n;
	size_t next;
	uint64_t accused; /* the reason that was told, until it has healed; 0: none */
};

/* How the window's rows fared. */
struct suspect_counts {
	size_t refused; /* for the reason that is asked about */
	size_t delivered;
};

void suspect_delivered(struct suspect *s);

/* The first refusal of a row; tries of it that follow say nothing new. reason: a fault's; where it is empty, the model
 * has no part in it. */
void suspect_refused(struct suspect *s, struct str reason);

/* Whether to say now that the model is the suspect, for a reason that was just noted: once, until less than half of the
 * rows are refused for it, or another reason takes its place. *counts is filled in any case. */
bool suspect_accuse(struct suspect *s, struct str reason, struct suspect_counts *counts);

#endif
