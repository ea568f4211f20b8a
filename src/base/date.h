/* Dates as HTTP has them. */
#ifndef RELAY_BASE_DATE_H
#define RELAY_BASE_DATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* RFC 9110, section 5.6.7: the form that is sent, and the two that must be understood. Milliseconds since 1970. False:
 * it is none of them. Names of days and months are English as long as nobody calls setlocale. */
bool date_parse(struct str s, int64_t *ms);

#endif
