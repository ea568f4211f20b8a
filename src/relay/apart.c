#include "relay/apart.h"

void apart_set(const struct engine *e, struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		struct batch_row *row = &b->rows[i];
		if (row->state == ROW_PENDING && !row->alone && kinds_touch(&e->kinds, &row->payload))
			batch_set_apart(row);
	}
}

void apart_learn(struct engine *e, const struct batch *b, const struct request *r, enum verdict carried_out,
                 const struct judgement *j)
{
	const struct batch_row *row = &b->rows[r->parts[0].row];
	kinds_note(&e->kinds, j->fault.kind);
	if (carried_out == VERDICT_DELIVERED && row->alone)
		kinds_forget(&e->kinds, &row->payload);
}
