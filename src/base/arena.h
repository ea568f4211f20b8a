/* Memory that dies all at once: what belongs to a batch is allocated in its arena. */
#ifndef RELAY_BASE_ARENA_H
#define RELAY_BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

struct arena_block;

enum { ARENA_BLOCK_BYTES = 32 * 1024, ARENA_SPARE = 8 };

/* {0} is empty and valid. */
struct arena {
	struct arena_block *blocks; /* the newest first */
	struct arena_block *spare;
};

/* Zeroed, aligned for any type; lives until arena_reset or arena_free. Never NULL. */
void *arena_alloc(struct arena *a, size_t size);

/* A copy of s, followed by a NUL that does not count. */
struct str arena_str(struct arena *a, struct str s);

/* Frees everything but the blocks of ordinary size, at most ARENA_SPARE of them, which are kept for the next use. */
void arena_reset(struct arena *a);

/* Frees everything; *a is {0} again. */
void arena_free(struct arena *a);

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (n)))

#endif
