/* /wait: the requests that wait for rows (core/wait.h), their answers, and the connection on which Postgres is asked.
 *
 * That connection is there only while something is to be asked, and for a short while after it: it holds up neither a
 * lane nor the listening connection, and what it meets is no matter for /readyz. */
#ifndef RELAY_RELAY_AWAIT_H
#define RELAY_RELAY_AWAIT_H

#include "io/admin.h"
#include "relay/engine.h"

struct await;

/* Takes the admin's requests to /wait from now on. */
struct await *await_new(struct engine *e, struct admin *admin);

/* Answers all that are open: the relay stops. The loop makes one more turn, so that the answers leave. NULL is nothing.
 * Before anything else of the engine is freed. */
void await_free(struct await *a);

/* Answers what has come to its end, and asks what is to be asked. NULL is nothing. */
void await_go(struct await *a, int64_t now_ms);

/* When await_go is due again though nothing happened; INT64_MAX: not by time. */
int64_t await_due_ms(const struct await *a);

#endif
