/* A tuple that OpenFGA before 1.10 would not write because it exists. That answer does not tell with which condition:
 * from 1.10 on, another one is a conflict, and no delivery. So the tuple is read. */
#ifndef RELAY_CORE_EXISTING_H
#define RELAY_CORE_EXISTING_H

#include <stdint.h>

#include "core/tuple.h"
#include "core/verdict.h"

/* The answer to page_body_of's question: DELIVERED when the tuple stands there with the condition that it should have,
 * REJECTED with another one or when OpenFGA cannot read it, RETRY with HINT_RACE when it is gone again; else as for any
 * question. */
void existing_judge(const struct answer *a, const struct tuple *t, int64_t wall_ms, struct judgement *out);

#endif
