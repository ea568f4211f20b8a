/* Rows that would take their request down with them: they go by themselves from the start. */
#ifndef RELAY_RELAY_APART_H
#define RELAY_RELAY_APART_H

#include "core/batch.h"
#include "relay/engine.h"

/* Sets rows of a batch that is not planned yet apart: those with a kind of tuple that the model was seen not to have.
 */
void apart_set(const struct engine *e, struct batch *b);

/* What the answer to a request says of the model: what it does not have, and what it has after all. `carried_out`: the
 * verdict of batch_answer. */
void apart_learn(struct engine *e, const struct batch *b, const struct request *r, enum verdict carried_out,
                 const struct judgement *j);

#endif
