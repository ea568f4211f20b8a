/* What OpenFGA's refusal of a write names: the tuple at fault, and why. A hint only, that tells where to look first: a
 * row is REJECTED by the answer to a request of its own. */
#ifndef RELAY_CORE_FAULT_H
#define RELAY_CORE_FAULT_H

#include <stdint.h>

#include "base/str.h"

enum { FAULT_REASON_BYTES = 160 };

struct fault {
	uint64_t tuple; /* the hash of the tuple that is named; 0: none is */
	uint64_t kind;  /* its tuple_kind, where the model has no such tuples: all of them are refused; else 0 */
	char reason[FAULT_REASON_BYTES]; /* without ids, so that it is equal for equal faults; "": the model has no part
	                                    in it */
};

/* Reads the message of an error: "Invalid tuple 'object#relation@user'. Reason: …" (tuple_errors.go in OpenFGA's
 * pkg/tuple), or "… a different condition: user: '…', relation: '…', object: '…'" (errors.go in pkg/storage). */
void fault_read(struct str message, struct fault *out);

#endif
