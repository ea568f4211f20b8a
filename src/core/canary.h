/* Whether notifications really arrive: at every sweep one is sent from another connection, on a channel of this
 * process's own, and has to come back on the listening one. Nothing else tells a pooler in transaction mode, a
 * half-open socket or a proxy that swallows messages from a quiet evening. */
#ifndef RELAY_CORE_CANARY_H
#define RELAY_CORE_CANARY_H

#include <stdbool.h>
#include <stdint.h>

enum { CANARY_TIMEOUT_MS = 5000 };

struct canary {
	char channel[40]; /* a plain lower-case identifier */
	char payload[24]; /* of the one that is sent next, or is under way */
	uint64_t number;
	bool is_under_way;
	int64_t due_ms; /* when the one under way is lost */
	bool was_lost;  /* the last one was lost: notifications do not arrive */
};

/* random: so that no other relay on the same database has the same channel. */
void canary_init(struct canary *c, uint64_t random);

/* One is being sent, with the payload that stands there. It may be seen before its sender knows that it is committed.
 */
void canary_sent(struct canary *c);

/* What was sent last is committed: from now on it has CANARY_TIMEOUT_MS. While one is under way, another one does not
 * give it more time. */
void canary_committed(struct canary *c, int64_t now_ms);

/* A notification on the canary's channel came: true when it is the one under way. */
bool canary_seen(struct canary *c, const char *payload);

/* The listening connection is new: what was sent before may never come. */
void canary_forget(struct canary *c);

/* Whether the one under way is lost; says so once. */
bool canary_is_lost(struct canary *c, int64_t now_ms);

/* When canary_is_lost will say yes; INT64_MAX: not by time. */
int64_t canary_due_ms(const struct canary *c);

#endif
