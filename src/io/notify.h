/* The service manager, systemd or one that does as it does: over the datagram socket that $NOTIFY_SOCKET names it is
 * told that relay has begun, how it goes, and that its loop turns. The protocol is sd_notify(3)'s; without libsystemd.
 */
#ifndef RELAY_IO_NOTIFY_H
#define RELAY_IO_NOTIFY_H

#include <event2/event.h>
#include <stdint.h>

#include "base/str.h"

struct notify;

/* The longest time between two looks at the status. */
enum { NOTIFY_STATUS_MS = 5000 };

/* Adds one line that says how it goes, for people. Called on the loop. */
typedef void notify_status_fn(void *arg, struct buf *out);

/* From the loop's first turn on, says READY=1, the status, and then WATCHDOG=1 at half of $WATCHDOG_USEC or more often,
 * and the status when it has changed: a loop that turns no more falls silent. What cannot be sent, because nobody
 * reads, is sent again later, and holds nothing up. NULL: nobody wants to be told; or $NOTIFY_SOCKET cannot be used,
 * and the log says why. The functions below take NULL. */
struct notify *notify_new(struct event_base *base, notify_status_fn *status, void *arg);

/* A reload was asked for and is done: RELOADING=1, READY=1. Not while stopping. */
void notify_reloaded(struct notify *n);

/* The end has begun, and may take up to most_ms: STOPPING=1. */
void notify_stopping(struct notify *n, int64_t most_ms);

void notify_free(struct notify *n);

#endif
