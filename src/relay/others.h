/* What others have in flight, for the time of one claim's result, and which of the claimed rows have to wait. */
#ifndef RELAY_RELAY_OTHERS_H
#define RELAY_RELAY_OTHERS_H

#include "core/batch.h"
#include "relay/engine.h"

struct others {
	struct order order;
	int64_t unseen; /* the lowest row whose tuples are not known, INT64_MAX when there is none */
};

void others_init(struct others *o);
void others_fini(struct others *o);

/* Notes one of a claim's OUTBOX_THEIRS or OUTBOX_SEEN rows. claim: the claim's number. */
void others_note(struct others *o, struct engine *e, uint64_t claim, const struct outbox_row *row);

/* Holds what has to wait for a lower row: of others, of this relay, of this batch too; and makes the batch's rows known
 * to the engine. Two rows that change a tuple differently never go in one transaction: if its end is lost, what it did
 * is done again from its beginning, and the first row would undo the second one's word for a while. */
void others_hold(const struct others *o, struct engine *e, struct batch *b);

#endif
