/* Rows' ids as an operator writes them: "1,2,5-9". */
#ifndef RELAY_CORE_IDS_H
#define RELAY_CORE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* The most that a list may name. */
enum { IDS_MAX = 10000 };

/* Reads a list of ids and of ranges, whose ends count. Adds it to out as an array literal of Postgres's, in the order
 * in which it stands there; *n is how many it names. ERR_CONFIG for anything else, also for more than IDS_MAX. */
bool ids_parse(const char *text, struct buf *out, size_t *n, struct err *e) MUST_CHECK;

/* Reads one id. */
bool ids_parse_one(const char *text, int64_t *id, struct err *e) MUST_CHECK;

#endif
