/* Why the parked rows were refused: equal reasons once, each with the number of rows that it is the reason of, in a
 * fixed amount of memory however many rows there are. */
#ifndef RELAY_CORE_CAUSES_H
#define RELAY_CORE_CAUSES_H

#include <stddef.h>
#include <stdint.h>

#include "core/fault.h"

enum {
	CAUSES_MAX = 20,              /* reasons at a time */
	CAUSE_NONE = 0,               /* it is not known */
	CAUSE_OTHER = CAUSES_MAX + 1, /* one that found no room */
	CAUSES_END,
};

/* By number, from 1 to CAUSES_END - 1. A text may be replaced by another one when no row has it. {0} is empty. */
struct causes {
	struct {
		char text[FAULT_REASON_BYTES]; /* one line of valid UTF-8 */
		size_t rows;
	} list[CAUSES_END];
};

/* Counts a row; returns the number of its reason. last_error: as for reasons_read (core/reasons.h). */
uint8_t causes_add(struct causes *c, struct str last_error);

/* The row that was counted there is gone, or has another reason. Right also for CAUSE_NONE. */
void causes_remove(struct causes *c, uint8_t cause);

#endif
