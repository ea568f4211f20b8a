/* Ends the process where going on would be half-blind: the outbox is durable, so dying loses nothing. */
#ifndef RELAY_BASE_DIE_H
#define RELAY_BASE_DIE_H

#include <stddef.h>

/* Writes a line to stderr and aborts. Never returns. */
_Noreturn void die(const char *file, int line, const char *what);

/* An assertion that stays compiled in. */
#define ASSERT(cond) ((cond) ? (void)0 : die(__FILE__, __LINE__, "assertion failed: " #cond))

/* malloc, calloc, realloc and strdup that abort when memory is out; the caller frees with free(). A size of 0
 * gives a valid pointer. */
void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);

#endif
