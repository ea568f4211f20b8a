/* An authorization model, as far as it says which tuples OpenFGA refuses. */
#ifndef RELAY_CORE_MODEL_H
#define RELAY_CORE_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "core/tuple.h"

struct model_type;

struct model {
	struct str id;
	const struct model_type *types;
	size_t n;
	const struct str *conditions;
	size_t n_conditions;
};

/* Reads OpenFGA's answer to a question for one model or for the list of them, of which the first counts. It lives as
 * long as the arena. ERR_CONFIG: there is no model in it. */
bool model_read(struct str body, struct arena *arena, struct model *out, struct err *e) MUST_CHECK;

/* False: OpenFGA certainly refuses to write the tuple, and *e (ERR_REJECTED) says what the model has not. What takes
 * more than the model's types, relations, type restrictions and names of conditions to tell is taken for right. The
 * rules are ValidateTupleForWrite's (github.com/openfga/openfga, internal/validation). */
bool model_takes(const struct model *m, const struct tuple *t, struct err *e) MUST_CHECK;

#endif
