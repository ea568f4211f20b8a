/* What the log says of a batch's refused rows. */
#ifndef RELAY_RELAY_REFUSALS_H
#define RELAY_RELAY_REFUSALS_H

#include "base/log.h"
#include "core/batch.h"
#include "core/suspect.h"

/* Writes a line for the rows that were refused for the first time, with their ids and the first one's reason. That rows
 * were refused again is written from time to time, as the gate lets it. */
void refusals_log(const struct batch *b, struct log_gate *again);

/* Writes a line when nearly every row of late, the batch's among them, was refused for one reason. model: its id, NULL
 * for the latest. */
void refusals_suspect(const struct batch *b, struct suspect *suspect, const char *model);

#endif
