/* A page of stored tuples: OpenFGA's answer to POST /stores/{store}/read. */
#ifndef RELAY_CORE_PAGE_H
#define RELAY_CORE_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "core/tuple.h"

/* The most tuples that OpenFGA gives at a time (openfga.v1.ReadRequest, page_size). */
enum { PAGE_MAX_TUPLES = 100 };

struct page {
	struct tuple *tuples; /* without their hashes */
	size_t n;
	struct str token; /* where the next page begins; empty: this is the last one */
};

/* Adds the body that asks for the page behind token, of at most so many tuples; an empty token asks for the first one.
 */
void page_body(struct str token, unsigned tuples, struct buf *out);

/* Adds the body that asks for one tuple, whatever its condition: the page has it, or nothing. */
void page_body_of(const struct tuple *t, struct buf *out);

/* Reads an answer; it lives as long as body and arena. A NUL in a context, which no row can have, becomes U+FFFD. False
 * and ERR_TRANSIENT: it is no such page. */
bool page_read(struct str body, struct arena *arena, struct page *out, struct err *e) MUST_CHECK;

/* The page's token, before the page is read, so that the next one can be on its way meanwhile: it stands at the end, as
 * OpenFGA writes it. Empty where it does not, or there is none: page_read tells. Of what page_read refuses it says
 * nothing. */
struct str page_peek(struct str body);

#endif
