/* The payload of one outbox row: what to delete and what to write. */
#ifndef RELAY_CORE_PAYLOAD_H
#define RELAY_CORE_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "core/tuple.h"

enum op_kind { OP_DELETE, OP_WRITE };

struct op {
	enum op_kind kind;
	struct tuple tuple;
};

struct payload {
	struct op *ops; /* deletes first, then writes; no operation on the same tuple twice within deletes or writes */
	size_t n;       /* 0: nothing to do */
	size_t n_deletes;
	bool rewrites; /* a tuple stands in deletes and in writes: that needs two requests, deletes first */
};

/* Reads a payload strictly. Refused (ERR_REJECTED), with the field named as in "writes[3].condition.name: …": a value
 * of another type than the spec gives it, an unknown key (a misspelt one would lose a tuple or a condition unseen),
 * what tuple_check refuses, one tuple written twice with different conditions. An identical repetition counts once.
 * `null` for an optional field is its absence, as in OpenFGA's own API, and a condition in a delete is not looked at,
 * likewise: a revocation must not fail for it. The operations point into `text` and `arena`
 * and live as long as both. */
bool payload_parse(struct str text, struct arena *arena, struct payload *out, struct err *e) MUST_CHECK;

#endif
