/* What --help says of `relay requeue`. */
#ifndef RELAY_CMD_REQUEUE_H
#define RELAY_CMD_REQUEUE_H

extern const char requeue_details[];

#endif
