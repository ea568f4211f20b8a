/* relay drain --dry-run: the requests that would be sent. */
#ifndef RELAY_CMD_PREVIEW_H
#define RELAY_CMD_PREVIEW_H

#include "base/options.h"

/* What --help says of it. */
extern const char drain_details[];

/* Prints, in order, the requests that the pending rows make, and changes nothing. Returns the exit code. */
int preview(const struct options *o);

#endif
