#include "base/str.h"

#include <endian.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"

int str_cmp(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int order = n ? memcmp(a.p, b.p, n) : 0;
	if (order != 0)
		return order;
	return (a.n > b.n) - (a.n < b.n);
}

bool str_has(struct str s, struct str part)
{
	return part.n == 0 || (s.n >= part.n && memmem(s.p, s.n, part.p, part.n) != NULL);
}

static bool is_plain(char c)
{
	return c > ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* A word, all bytes of it c. */
#define EACH(c) (UINT64_C(0x0101010101010101) * (uint64_t)(c))

/* The highest bit of each byte that is not plain. Sums and differences go beyond such a byte only into later ones, so
 * the first bit is right (after "Determine if a word has a zero byte",
 * https://graphics.stanford.edu/~seander/bithacks.html).
 */
static uint64_t not_plain(uint64_t word)
{
	uint64_t quotes = word ^ EACH('"');
	uint64_t backslashes = word ^ EACH('\\');
	uint64_t too_high = word | (word + EACH(0x80 - 0x7f));
	uint64_t too_low = word - EACH(' ' + 1);
	return (too_high | too_low | (quotes - EACH(1)) | (backslashes - EACH(1))) & EACH(0x80);
}

size_t str_plain(struct str s)
{
	size_t n = 0;
	for (; s.n - n >= sizeof(uint64_t); n += sizeof(uint64_t)) {
		uint64_t word;
		memcpy(&word, s.p + n, sizeof word);
		uint64_t found = not_plain(le64toh(word));
		if (found != 0)
			return n + (size_t)__builtin_ctzll(found) / 8;
	}
	while (n < s.n && is_plain(s.p[n]))
		n++;
	return n;
}

/* The length in bytes of the UTF-8 character at p, or 0 when there is none (RFC 3629, section 4). */
static size_t utf8_length(const unsigned char *p, size_t n)
{
	unsigned char c = p[0];
	unsigned char low = 0x80;
	unsigned char high = 0xbf;
	size_t length;
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		length = 2;
	else if (c >= 0xe0 && c <= 0xef)
		length = 3;
	else if (c >= 0xf0 && c <= 0xf4)
		length = 4;
	else
		return 0;
	if (n < length)
		return 0;
	if (c == 0xe0)
		low = 0xa0;
	else if (c == 0xed)
		high = 0x9f;
	else if (c == 0xf0)
		low = 0x90;
	else if (c == 0xf4)
		high = 0x8f;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return length;
}

bool str_is_utf8(struct str s)
{
	for (size_t i = 0; i < s.n;) {
		size_t length = utf8_length((const unsigned char *)s.p + i, s.n - i);
		if (length == 0)
			return false;
		i += length;
	}
	return true;
}

static void reserve(struct buf *b, size_t more)
{
	ASSERT(more < SIZE_MAX / 2 - b->n); /* so that doubling cannot overflow */
	size_t want = b->n + more + 1;
	if (want <= b->capacity)
		return;
	size_t capacity = b->capacity ? b->capacity : 64;
	while (capacity < want)
		capacity *= 2;
	b->p = xrealloc(b->p, capacity);
	b->capacity = capacity;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
	reserve(b, n);
	if (n > 0)
		memcpy(b->p + b->n, bytes, n);
	b->n += n;
	b->p[b->n] = '\0';
}

void buf_add_str(struct buf *b, struct str s)
{
	buf_add(b, s.p, s.n);
}

void buf_add_text(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_add_char(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_add_number(struct buf *b, int64_t n)
{
	char digits[20];
	size_t at = sizeof digits;
	uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
	do
		digits[--at] = (char)('0' + left % 10);
	while ((left /= 10) > 0);
	if (n < 0)
		digits[--at] = '-';
	buf_add(b, digits + at, sizeof digits - at);
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list args;
	va_list again;
	va_start(args, format);
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	ASSERT(n >= 0);
	reserve(b, (size_t)n);
	vsnprintf(b->p + b->n, (size_t)n + 1, format, again);
	va_end(again);
	b->n += (size_t)n;
}

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

void buf_add_json(struct buf *b, struct str s)
{
	reserve(b, s.n + 2);
	buf_add_char(b, '"');
	size_t plain = 0; /* from here on nothing needed an escape */
	for (size_t i = str_plain(s); i < s.n;) {
		unsigned char c = (unsigned char)s.p[i];
		size_t length = utf8_length((const unsigned char *)s.p + i, s.n - i);
		if (length > 0 && c >= ' ' && c != '"' && c != '\\') {
			i += length;
			continue;
		}
		buf_add(b, s.p + plain, i - plain);
		if (length == 0)
			buf_add_text(b, replacement);
		else if (c == '"' || c == '\\')
			buf_add(b, (char[]){'\\', (char)c}, 2);
		else
			buf_printf(b, "\\u%04x", c);
		plain = ++i;
	}
	if (plain < s.n)
		buf_add(b, s.p + plain, s.n - plain);
	buf_add_char(b, '"');
}

/* Whether the UTF-8 character at p is a control character: C0, DEL or C1 (a terminal obeys U+009B like ESC [). */
static bool is_control(const unsigned char *p)
{
	return p[0] < ' ' || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
}

void buf_add_clean(struct buf *b, struct str s, size_t max_bytes)
{
	static const char ellipsis[] = "\xe2\x80\xa6";
	const size_t mark = sizeof ellipsis - 1;
	size_t start = b->n;
	size_t fits = start; /* the end of what leaves room for the ellipsis */
	for (size_t i = 0; i < s.n;) {
		const char *from = s.p + i;
		size_t length = utf8_length((const unsigned char *)from, s.n - i);
		size_t step = length ? length : 1;
		if (length == 0) {
			from = replacement;
			length = sizeof replacement - 1;
		} else if (is_control((const unsigned char *)from)) {
			from = " ";
			length = 1;
		}
		if (b->n - start + length > max_bytes) {
			b->n = fits;
			buf_add(b, ellipsis, max_bytes >= mark ? mark : 0);
			return;
		}
		buf_add(b, from, length);
		if (b->n - start + mark <= max_bytes)
			fits = b->n;
		i += step;
	}
	buf_add(b, "", 0);
}

void buf_clear(struct buf *b)
{
	b->n = 0;
	if (b->p != NULL)
		b->p[0] = '\0';
}

void buf_free(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}
