#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdalign.h>

#include "base/arena.h"

static void is_zeroed_and_aligned(void **state)
{
	struct arena a = {0};
	(void)state;
	for (size_t size = 0; size < 300; size++) {
		unsigned char *p = arena_alloc(&a, size);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % alignof(max_align_t), 0);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xff, size);
	}
	arena_free(&a);
	assert_null(a.blocks);
}

static void keeps_what_it_gave(void **state)
{
	enum { PIECES = 500, SIZE = 333 };
	struct arena a = {0};
	unsigned char *pieces[PIECES];
	(void)state;
	for (int i = 0; i < PIECES; i++) {
		pieces[i] = arena_alloc(&a, SIZE);
		memset(pieces[i], i % 256, SIZE);
	}
	unsigned char *large = arena_alloc(&a, 1 << 20);
	memset(large, 7, 1 << 20);
	for (int i = 0; i < PIECES; i++)
		for (int j = 0; j < SIZE; j++)
			assert_int_equal(pieces[i][j], i % 256);
	arena_free(&a);
}

static void copies_text(void **state)
{
	struct arena a = {0};
	char text[] = "a\0b";
	(void)state;
	struct str copy = arena_str(&a, (struct str){text, 3});
	text[0] = 'x';
	assert_true(str_eq(copy, STR("a\0b")));
	assert_int_equal(copy.p[3], '\0');
	assert_int_equal(arena_str(&a, (struct str){0}).n, 0);
	assert_string_equal(arena_str(&a, (struct str){0}).p, "");
	arena_free(&a);
}

/* Fills as many ordinary blocks; their first bytes, the last one first. */
static void fill(struct arena *a, unsigned char **first, int blocks)
{
	for (int i = blocks - 1; i >= 0; i--) {
		first[i] = arena_alloc(a, ARENA_BLOCK_BYTES);
		for (int k = 0; k < ARENA_BLOCK_BYTES; k++)
			assert_int_equal(first[i][k], 0); /* used before, and zeroed all the same */
		memset(first[i], 0xff, ARENA_BLOCK_BYTES);
	}
}

static void reset_keeps_ordinary_blocks(void **state)
{
	struct arena a = {0};
	unsigned char *before[ARENA_SPARE + 1];
	unsigned char *after[ARENA_SPARE];
	(void)state;
	arena_reset(&a);
	assert_null(a.spare);
	fill(&a, before, ARENA_SPARE + 1);
	for (int round = 0; round < 3; round++) {
		arena_reset(&a);
		assert_null(a.blocks);
		assert_non_null(a.spare);
		fill(&a, after, ARENA_SPARE);
		assert_null(a.spare);
		for (int i = 0; i < ARENA_SPARE; i++)
			assert_ptr_equal(after[i], before[i]);
	}
	arena_free(&a);
	assert_null(a.blocks);
}

static void reset_drops_a_large_block(void **state)
{
	struct arena a = {0};
	(void)state;
	arena_alloc(&a, 1 << 20);
	arena_reset(&a);
	assert_null(a.blocks);
	assert_null(a.spare);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(is_zeroed_and_aligned),
	    cmocka_unit_test(keeps_what_it_gave),
	    cmocka_unit_test(copies_text),
	    cmocka_unit_test(reset_keeps_ordinary_blocks),
	    cmocka_unit_test(reset_drops_a_large_block),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
