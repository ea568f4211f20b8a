/* The kinds of tuples that the model was seen not to have, so that rows with one need not take a request down with them
 * to be found. A hint only: such a row is tried by itself, and when it is accepted the kind is forgotten. */
#ifndef RELAY_CORE_KINDS_H
#define RELAY_CORE_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/payload.h"

/* More are hardly found in one outbox; the oldest makes room. */
enum { KINDS_MAX = 32 };

/* {0}: none is known. */
struct kinds {
	uint64_t known[KINDS_MAX]; /* tuple_kind; 0: none */
	size_t next;
};

/* Notes a kind (0: nothing). */
void kinds_note(struct kinds *k, uint64_t kind);

/* Whether the payload writes a tuple of a known kind. */
bool kinds_touch(const struct kinds *k, const struct payload *p);

/* The payload was accepted: what it writes is known no more. */
void kinds_forget(struct kinds *k, const struct payload *p);

#endif
