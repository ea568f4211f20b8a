/* What stands between relay and Postgres. */
#ifndef RELAY_CMD_POOLER_H
#define RELAY_CMD_POOLER_H

#include <libpq-fe.h>
#include <stdint.h>

#include "base/err.h"

enum pooler {
	POOLER_UNKNOWN,     /* Postgres did not answer: *e */
	POOLER_NONE,        /* nothing */
	POOLER_SESSION,     /* a pooler that gives each connection a session of its own */
	POOLER_TRANSACTION, /* one that gives each transaction another session */
};

/* Finds out for a connection, with the help of another one to the same address. Neither may be in a transaction. Each
 * question has timeout_ms. */
enum pooler pooler_find(PGconn *conn, PGconn *other, int64_t timeout_ms, struct err *e) MUST_CHECK;

#endif
