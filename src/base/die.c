#include "base/die.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void die(const char *file, int line, const char *what)
{
	fprintf(stderr, "relay: %s:%d: %s\n", file, line, what);
	abort();
}

void *xmalloc(size_t size)
{
	void *p = malloc(size ? size : 1);
	if (p == NULL)
		die(__FILE__, __LINE__, "out of memory");
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);
	if (p == NULL)
		die(__FILE__, __LINE__, "out of memory");
	return p;
}

void *xrealloc(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (p == NULL)
		die(__FILE__, __LINE__, "out of memory");
	return p;
}

char *xstrdup(const char *s)
{
	size_t size = strlen(s) + 1;
	return memcpy(xmalloc(size), s, size);
}
