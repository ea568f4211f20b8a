/* A relationship tuple and what OpenFGA allows in one. */
#ifndef RELAY_CORE_TUPLE_H
#define RELAY_CORE_TUPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* Decoded text (no JSON escapes), except the context. The bytes belong to whoever made the tuple. */
struct tuple {
	struct str user;
	struct str relation;
	struct str object;
	struct str condition; /* its name; empty: none */
	struct str context;   /* the JSON object as the text it was; "{}" where a condition came without one */
	uint64_t hash;        /* of user, relation and object: equal for the same tuple, whatever its condition */
};

/* Fills t->hash. */
void tuple_hash(struct tuple *t);

/* Order by object, relation, user: the order of the tuples in every request, so that two servers' transactions
 * lock the same tuples in the same order. 0: the same tuple, whatever its condition. */
int tuple_cmp(const struct tuple *a, const struct tuple *b);

/* Whether the conditions are the same to the letter. */
bool tuple_same_condition(const struct tuple *a, const struct tuple *b);

/* What a model looks at, besides the relation and the condition. */
struct tuple_parts {
	struct str object_type;
	struct str user_type;
	struct str user_relation; /* of a userset, type:id#relation; empty: it is none */
	bool is_everybody;        /* type:* */
};

/* Takes a tuple apart that tuple_check lets pass; views of its own bytes. */
void tuple_split(const struct tuple *t, struct tuple_parts *out);

/* A hash of what a model looks at: the types, the relation, the kind of user (one, a userset, everybody) and the
 * condition's name, but no id. What a model refuses for it, it refuses for every tuple of that kind. Never 0. */
uint64_t tuple_kind(const struct tuple *t);

/* Refuses (ERR_REJECTED) what OpenFGA would refuse whatever the model: see "limit" in its documentation of
 * relationship tuples, and the protobuf rules of openfga.v1.TupleKey. The text names the field, "object: …". */
bool tuple_check(const struct tuple *t, struct err *e) MUST_CHECK;

#endif
