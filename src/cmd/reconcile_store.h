/* relay reconcile: what OpenFGA holds, one question after the other. Nothing is ever written there. */
#ifndef RELAY_CMD_RECONCILE_STORE_H
#define RELAY_CMD_RECONCILE_STORE_H

#include <stddef.h>

#include "base/err.h"
#include "base/options.h"
#include "core/page.h"

struct store;

/* NULL and ERR_CONFIG when curl cannot work with the options, which have to live as long as it. */
struct store *store_open(const struct options *o, struct err *e) MUST_CHECK;
void store_close(struct store *s);

/* Asks whether the store is there, since one that is not reads as empty; every time but the first, whether it still is.
 * Goes before all that follows, and after it, before what was read is believed. */
bool store_check(struct store *s, struct err *e) MUST_CHECK;

/* Reads the whole store, in an order in which a tuple that stays is met for certain. fn is called for each page while
 * the next one is on its way; what it points to lives until fn returns, and false from it ends the reading. */
typedef bool store_page_fn(void *arg, const struct page *page, struct err *e);
bool store_read(struct store *s, store_page_fn *fn, void *arg, struct err *e) MUST_CHECK;

/* Reads tuples singly, several at a time. fn is called once for each, in any order: found is NULL where OpenFGA has it
 * not, and lives until fn returns. */
typedef void store_found_fn(void *arg, size_t which, const struct tuple *found);
bool store_find(struct store *s, const struct tuple *tuples, size_t n, store_found_fn *fn, void *arg,
                struct err *e) MUST_CHECK;

#endif
