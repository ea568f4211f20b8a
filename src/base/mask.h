/* Secrets in texts from outside: a proxy or an issuer may give back what it was sent. */
#ifndef RELAY_BASE_MASK_H
#define RELAY_BASE_MASK_H

#include <stddef.h>

/* Overwrites `secret` with asterisks wherever it stands in the n bytes at text, also in the escapes of JSON (RFC 8259,
 * section 7) or of a URL or a form (RFC 3986, section 2.1). The length stays, and JSON stays JSON. An empty secret, or
 * NULL, is nothing. */
void mask(char *text, size_t n, const char *secret);

#endif
