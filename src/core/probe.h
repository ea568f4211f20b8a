/* A Write that changes nothing: it deletes a tuple that no model can have. It tells whether OpenFGA can write at all,
 * and how old it is. */
#ifndef RELAY_CORE_PROBE_H
#define RELAY_CORE_PROBE_H

#include "base/str.h"
#include "core/verdict.h"

/* on_missing: what every Write of relay's says, and what no version knows. */
#define PROBE_WRITES "ignore"
#define PROBE_AGE "probe-invalid"

/* Whether the server knows the options that make redelivery harmless: OpenFGA does from 1.10 on, and before that it
 * silently leaves them out of account. */
enum server_age { SERVER_UNKNOWN, SERVER_CURRENT, SERVER_OLD };

/* The body of the probe. model: empty for the store's latest. */
void probe_body(struct str model, const char *on_missing, struct buf *out);

/* The body of a request of so many tuples that no server carries out, as by PROBE_AGE: one that takes so many tuples in
 * a request answers as it does to that, and one that does not names its limit (HINT_SIZE). At most PROBE_MAX_TUPLES. */
enum { PROBE_MAX_TUPLES = 5000 };
void probe_tuples_body(unsigned tuples, struct buf *out);

/* What the answer to a probe with PROBE_AGE says: a server that knows the option refuses its value, and an older one
 * says that the tuple is not there. UNKNOWN where it says neither. */
enum server_age probe_age(const struct answer *a);

#endif
