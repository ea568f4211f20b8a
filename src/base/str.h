/* Text: a view of somebody else's bytes, and a buffer that grows. */
#ifndef RELAY_BASE_STR_H
#define RELAY_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A view: not terminated, not owned. {0} is the empty one. */
struct str {
	const char *p;
	size_t n;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})

static inline struct str str_of(const char *s)
{
	return (struct str){s, strlen(s)};
}

static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Byte order, shorter first on a tie: <0, 0, >0. */
int str_cmp(struct str a, struct str b);

/* Whether `part` stands somewhere in `s`. */
bool str_has(struct str s, struct str part);

/* How many bytes it begins with that are nothing special anywhere: ASCII that can be printed, no blank, no quotation
 * mark and no backslash. */
size_t str_plain(struct str s);

/* Whether the bytes are UTF-8 as RFC 3629 defines it (no surrogates, no overlong forms). */
bool str_is_utf8(struct str s);

/* A buffer owned by its holder: {0} is empty and valid; buf_free gives its memory back and makes it {0} again. The
 * bytes are always followed by a NUL that does not count, once anything was added. */
struct buf {
	char *p;
	size_t n;
	size_t capacity;
};

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_add_str(struct buf *b, struct str s);
void buf_add_text(struct buf *b, const char *s);
void buf_add_char(struct buf *b, char c);

/* Adds a number in decimal. */
void buf_add_number(struct buf *b, int64_t n);

__attribute__((format(printf, 2, 3))) void buf_printf(struct buf *b, const char *format, ...);

/* Adds s as a JSON string, with its quotes (RFC 8259, section 7). s should be UTF-8; bytes that are not become U+FFFD.
 */
void buf_add_json(struct buf *b, struct str s);

/* Adds at most max_bytes of s: what is not UTF-8 becomes U+FFFD, control characters become blanks, and a cut falls
 * between characters and is shown by "…" within the bound. For error texts from outside. */
void buf_add_clean(struct buf *b, struct str s, size_t max_bytes);

/* Empties it and keeps its memory. */
void buf_clear(struct buf *b);
void buf_free(struct buf *b);

static inline struct str buf_str(const struct buf *b)
{
	return (struct str){b->p, b->n};
}

#endif
