#include "base/mask.h"

#include <stdbool.h>
#include <string.h>

/* How a character may be written. Reads one at p, which is before end; returns its length and stores it in *c. */
typedef size_t read_fn(const char *p, const char *end, char *c);

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *found = c != '\0' ? strchr(digits, c) : NULL;
	return found != NULL ? (int)((found - digits) % 16) : -1;
}

static bool read_hex(const char *p, char *c)
{
	int high = hex_digit(p[0]);
	int low = hex_digit(p[1]);
	if (high < 0 || low < 0)
		return false;
	*c = (char)(high * 16 + low);
	return true;
}

static size_t read_plain(const char *p, const char *end, char *c)
{
	(void)end;
	*c = *p;
	return 1;
}

static size_t read_json(const char *p, const char *end, char *c)
{
	if (*p != '\\' || end - p < 2)
		return read_plain(p, end, c);
	if (end - p >= 6 && p[1] == 'u' && p[2] == '0' && p[3] == '0' && read_hex(p + 4, c))
		return 6;
	*c = p[1];
	return 2;
}

static size_t read_form(const char *p, const char *end, char *c)
{
	if (*p == '%' && end - p >= 3 && read_hex(p + 1, c))
		return 3;
	*c = *p == '+' ? ' ' : *p;
	return 1;
}

/* The length of the secret where it stands at p, written in this way; else 0. */
static size_t match(const char *p, const char *end, const char *secret, read_fn *read)
{
	const char *start = p;
	for (char c; *secret != '\0'; secret++) {
		if (p == end)
			return 0;
		p += read(p, end, &c);
		if (c != *secret)
			return 0;
	}
	return (size_t)(p - start);
}

void mask(char *text, size_t n, const char *secret)
{
	static read_fn *const ways[] = {read_plain, read_json, read_form};
	const char *end = text + n;
	if (n == 0 || secret == NULL || *secret == '\0')
		return;
	for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
		for (char *p = text; p < end; p++)
			memset(p, '*', match(p, end, secret, ways[way]));
}
