/* What a request to /wait asks for: id=41&id=42&timeout=2s. */
#ifndef RELAY_CORE_WAIT_QUERY_H
#define RELAY_CORE_WAIT_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	WAIT_QUERY_IDS = 100,
	WAIT_QUERY_DEFAULT_MS = 5000,
	WAIT_QUERY_LONGEST_MS = 30 * 1000,
};

struct wait_query {
	int64_t ids[WAIT_QUERY_IDS]; /* above 0, each once */
	size_t n;                    /* of them: at least 1 */
	int64_t timeout_ms;
};

/* Reads the part of a URL behind its question mark; NULL: there is none. Numbers and times are expected as they are,
 * not percent-encoded. False and ERR_REJECTED: the text says what would be right. */
bool wait_query_read(struct wait_query *q, const char *text, struct err *e) MUST_CHECK;

#endif
