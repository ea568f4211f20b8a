/* The connection that listens, and holds the hush (core/wake.h): its session is proved by the canary to be one of its
 * own. It never opens a transaction. */
#ifndef RELAY_RELAY_LISTEN_H
#define RELAY_RELAY_LISTEN_H

#include "relay/engine.h"

struct listen;

struct listen_callbacks {
	void (*listening)(void *arg);                 /* LISTEN is in force: drain what was missed */
	void (*notified)(void *arg);                  /* something was committed */
	void (*requeued)(void *arg);                  /* refused rows were made as new */
	void (*lost)(void *arg, const struct err *e); /* it connects anew by itself */
};

struct listen *listen_new(struct engine *e, const struct listen_callbacks *callbacks, void *arg);

/* NULL is nothing. */
void listen_free(struct listen *l);

/* Whether LISTEN is in force, and the last canary came back. */
bool listen_is_on(const struct listen *l);

/* Looks after the canary, of which a lost one replaces the connection, and says on the connection what the hush asks
 * for. */
void listen_go(struct listen *l, int64_t now_ms);

#endif
