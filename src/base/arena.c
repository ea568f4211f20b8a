#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/die.h"

struct arena_block {
	struct arena_block *next;
	size_t size;
	size_t used;
	alignas(max_align_t) char bytes[];
};

static struct arena_block *block_new(struct arena *a, size_t size)
{
	struct arena_block *spare = a->spare;
	if (size <= ARENA_BLOCK_BYTES && spare != NULL) {
		a->spare = spare->next;
		return spare;
	}
	if (size < ARENA_BLOCK_BYTES)
		size = ARENA_BLOCK_BYTES;
	ASSERT(size < SIZE_MAX - sizeof(struct arena_block));
	struct arena_block *block = xmalloc(sizeof *block + size);
	*block = (struct arena_block){.size = size};
	return block;
}

void *arena_alloc(struct arena *a, size_t size)
{
	const size_t align = alignof(max_align_t);
	ASSERT(size < SIZE_MAX - align);
	size = (size + align - 1) / align * align;
	struct arena_block *block = a->blocks;
	if (block == NULL || block->size - block->used < size) {
		block = block_new(a, size);
		block->next = a->blocks;
		a->blocks = block;
	}
	void *p = block->bytes + block->used;
	block->used += size;
	return memset(p, 0, size);
}

struct str arena_str(struct arena *a, struct str s)
{
	char *p = arena_alloc(a, s.n + 1);
	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return (struct str){p, s.n};
}

static void free_all(struct arena_block *block)
{
	while (block != NULL) {
		struct arena_block *next = block->next;
		free(block);
		block = next;
	}
}

void arena_reset(struct arena *a)
{
	size_t kept = 0;
	for (const struct arena_block *block = a->spare; block != NULL; block = block->next)
		kept++;
	while (a->blocks != NULL) {
		struct arena_block *block = a->blocks;
		a->blocks = block->next;
		if (block->size != ARENA_BLOCK_BYTES || kept == ARENA_SPARE) {
			free(block);
			continue;
		}
		block->used = 0;
		block->next = a->spare;
		a->spare = block;
		kept++;
	}
}

void arena_free(struct arena *a)
{
	free_all(a->blocks);
	free_all(a->spare);
	*a = (struct arena){0};
}
