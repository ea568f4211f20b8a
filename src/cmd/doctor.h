/* relay doctor: its checks, and what the files that make them share. */
#ifndef RELAY_CMD_DOCTOR_H
#define RELAY_CMD_DOCTOR_H

#include <libpq-fe.h>

#include "base/arena.h"
#include "base/options.h"
#include "base/str.h"

/* X(id, name, what it finds out), in the order in which they are made and shown. The names are part of --json. */
#define DOCTOR_CHECKS(X) \
	X(POSTGRES, "postgres", "whether Postgres lets relay in and takes writes") \
	X(VERSION, "version", "whether Postgres is of a version that relay supports, 14 or later") \
	X(POOLER, "pooler", "whether a pooler in between gives each transaction another session") \
	X(LISTEN, "listen", "whether a notification of its own arrives on a connection that listens") \
	X(TABLE, "table", "whether the outbox is there, has its columns, and takes relay's statements") \
	X(INDEX, "index", "whether the index on pending rows is there, valid and of use, and id unique") \
	X(TRIGGER, "trigger", "whether the trigger is there, enabled, current, and notifies the right channel") \
	X(PRIVILEGES, "privileges", "whether this role may do what delivering takes") \
	X(TWO_PHASE, "two-phase", "whether transactions may be prepared, which the trigger prevents") \
	X(SNAPSHOTS, "snapshots", "whether an old snapshot keeps vacuum from removing dead rows") \
	X(PREPARED, "prepared", "whether a prepared transaction that nobody ends keeps vacuum from it") \
	X(DEAD_ROWS, "dead-rows", "whether the outbox has many dead rows") \
	X(QUEUE, "queue", "how full the queue of notifications is") \
	X(CLOCK, "clock", "whether Postgres's clock and this machine's agree") \
	X(OPENFGA, "openfga", "whether OpenFGA answers") \
	X(OPENFGA_CLOCK, "openfga-clock", "whether OpenFGA's clock and this machine's agree") \
	X(CREDENTIALS, "credentials", "whether OpenFGA, and the issuer of tokens, take the credentials") \
	X(STORE, "store", "whether the store is there") \
	X(MODEL, "model", "whether the store has the authorization model") \
	X(ON_DUPLICATE, "on-duplicate", "whether OpenFGA knows on_duplicate, as it does from 1.10 on") \
	X(WRITES, "writes", "whether OpenFGA can write; it is asked to delete a tuple that no model can have") \
	X(TUPLE_LIMIT, "tuple-limit", "whether OpenFGA takes --max-tuples-per-write tuples in a request") \
	X(ROWS, "rows", "whether the tuples of the oldest 100 pending rows fit the model")

enum doctor_check {
#define X(id, name, about) DOCTOR_##id,
	DOCTOR_CHECKS(X)
#undef X
	    DOCTOR_COUNT
};

#define DOCTOR_STATUSES(X) \
	X(SKIPPED, "skipped", "2") \
	X(OK, "ok", "32") \
	X(WARNING, "warning", "33") \
	X(FAILURE, "failure", "31")

enum doctor_status {
#define X(id, name, colour) DOCTOR_##id,
	DOCTOR_STATUSES(X)
#undef X
};

struct finding {
	enum doctor_status status;
	struct buf summary; /* empty: the check was not made yet */
	struct buf remedy;  /* empty: there is nothing to mend */
};

/* A pending row; its payload is empty where it is larger than is looked at. */
struct doctor_row {
	const char *id;
	struct str payload;
};

struct doctor {
	const struct options *options;
	struct finding findings[DOCTOR_COUNT];
	struct arena arena;
	PGconn *conn;
	char table_id[24];     /* its oid; empty: there is none */
	const char *full_name; /* "schema"."table" */
	const char *owner;     /* the role that owns it */
	const char *new_index; /* the name for an index on pending rows, with a blank; empty: Postgres finds one */
	bool has_trigger;      /* enabled */
	bool is_pooled;        /* each transaction has another session */
	struct doctor_row *rows;
	size_t n_rows;
};

/* Says what a check has found. */
__attribute__((format(printf, 4, 5))) void doctor_say(struct doctor *d, enum doctor_check check,
                                                      enum doctor_status status, const char *format, ...);

/* Says what mends it. */
__attribute__((format(printf, 3, 4))) void doctor_remedy(struct doctor *d, enum doctor_check check, const char *format,
                                                         ...);

/* Says that a check has failed, for a reason that may end in its remedy, as those of pg_params and verdict do;
 * `otherwise` is the remedy where it does not. */
void doctor_fail(struct doctor *d, enum doctor_check check, const char *reason, const char *otherwise);

/* Says of every check from `first` to `last` that was not made yet that it cannot be made. */
void doctor_skip(struct doctor *d, enum doctor_check first, enum doctor_check last, const char *why);

/* Compares the other side's clock with this machine's, which was read before and after the question. */
void doctor_clock(struct doctor *d, enum doctor_check check, int64_t theirs_ms, int64_t before_ms, int64_t after_ms);

/* `relay install` with the table and the channel as they are given here. It lives as long as the arena. */
const char *doctor_install(struct doctor *d);

/* The checks up to CLOCK, and those behind it. */
void doctor_postgres(struct doctor *d);
void doctor_openfga(struct doctor *d);

/* Asks on d->conn in a transaction that only reads and finds Postgres's own objects alone. NULL: the check has failed,
 * and that is said. */
PGresult *doctor_look(struct doctor *d, enum doctor_check check, const char *sql, size_t n,
                      const char *const *values) MUST_CHECK;

/* Parts of doctor_postgres, in files of their own: POOLER and LISTEN; TABLE to PRIVILEGES, DEAD_ROWS, and the pending
 * rows. */
void doctor_sessions(struct doctor *d);
void doctor_table(struct doctor *d);

/* Adds the list of checks to --help, and, in mdoc(7), to the manual page. */
void doctor_help(struct buf *out);
void doctor_man(struct buf *out);

#endif
