/* How far long work has come, for a terminal. */
#ifndef RELAY_CORE_PACE_H
#define RELAY_CORE_PACE_H

#include <stdint.h>

#include "base/str.h"

/* Adds "120000 of about 1000000 tuples, 30000/s, 0:29 left": what is done, the rate, and what remains, as far as they
 * are known. expected: 0 where nobody knows; what is beyond it does not count as a remainder. */
void pace_add(struct buf *out, const char *what, int64_t done, int64_t expected, int64_t elapsed_ms);

#endif
