/* What the rows say of a tuple, against what OpenFGA holds. */
#ifndef RELAY_CORE_DIFFERENCE_H
#define RELAY_CORE_DIFFERENCE_H

#include "core/tuple.h"

/* X(id, name): the names are part of --json. */
#define DIFFERENCES(X) \
	X(NONE, "none") \
	X(MISSING, "missing")     /* a row wrote it, and it is not there */ \
	X(SURVIVING, "surviving") /* a row deleted it, and it is there: a revoked grant that lives */ \
	X(CONDITION, "condition") /* it is there with another condition than a row gave it */ \
	X(FOREIGN, "foreign")     /* it is there, and no row has it */

enum difference {
#define X(id, name) DIFFERENCE_##id,
	DIFFERENCES(X)
#undef X
	    DIFFERENCE_COUNT
};

const char *difference_name(enum difference d);

/* The last operation on a tuple, by the rows' ids. */
enum last_word { WORD_NONE, WORD_WRITE, WORD_DELETE };

/* How they differ. said: the tuple, with the condition that a write gave it; found: what OpenFGA has, NULL: nothing. */
enum difference difference_of(enum last_word word, const struct tuple *said, const struct tuple *found);

/* Whether OpenFGA takes the conditions of both for the same one: by name, and the contexts as JSON values; none is an
 * empty one, and numbers are doubles there as well as here (google.protobuf.Struct). */
bool difference_same_condition(const struct tuple *a, const struct tuple *b);

#endif
