/* A finished batch: what its rows' ends mean in the table, and for what is known of them. */
#ifndef RELAY_RELAY_ACK_H
#define RELAY_RELAY_ACK_H

#include "core/batch.h"
#include "relay/engine.h"

/* Parks what was refused or held. Before the marks are sent: a claim behind them leaves parked rows out. */
void ack_park(struct engine *e, const struct batch *b, int64_t now_ms);

/* Sends the marks and COMMIT, without the end of the round trip; fn gets COMMIT's result. Returns whether there was a
 * row to be marked. */
bool ack_send(const struct engine *e, struct pg *pg, const struct batch *b, pg_result_fn *fn, void *arg);

/* Whether COMMIT did commit: in a failed transaction it answers ROLLBACK. */
bool ack_is_commit(const PGresult *result);

/* The marks are committed: delivered rows are finished, and whoever waited for them is due. */
void ack_finish(struct engine *e, const struct batch *b, int64_t now_ms);

/* The connection was lost, with the marks on their way or before: rows that are still pending are claimed again. */
void ack_abandon(struct engine *e, const struct batch *b, bool was_parked, int64_t now_ms);

#endif
