/* What `relay status` shows. figures.def makes the struct, the JSON, the table for people, and what --help and the
 * manual page say of the fields. */
#ifndef RELAY_CMD_FIGURES_H
#define RELAY_CMD_FIGURES_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"
#include "core/reasons.h"

/* What may be looked at, so that asking costs the same however large the table is. */
enum {
	FIGURES_MAX_ROWS = 100000,  /* pending ones */
	FIGURES_MAX_WALKED = 20000, /* of the newest, delivered or not */
	FIGURES_MAX_DELETES = 10000,
	FIGURES_MAX_REFUSED = 10000,
	FIGURES_MAX_SESSIONS = 50,
};

struct figure_count {
	int64_t rows;
	bool at_least;
};

struct figure_row {
	bool found;
	bool complete;
	int64_t id;
	double age_seconds;
};

struct figure_session {
	char application_name[64]; /* NAMEDATALEN of Postgres, with its NUL */
	char user[64];
	int64_t sessions;
	bool listens;
};

struct figure_sessions {
	struct figure_session list[FIGURES_MAX_SESSIONS];
	size_t n;
};

#define FIGURE_TYPE_TEXT struct buf
#define FIGURE_TYPE_NUMBER double /* negative: not known */
#define FIGURE_TYPE_COUNT struct figure_count
#define FIGURE_TYPE_ROW struct figure_row
#define FIGURE_TYPE_REASONS struct reasons
#define FIGURE_TYPE_SESSIONS struct figure_sessions

struct figures {
#define FIGURE(field, type, label, help) FIGURE_TYPE_##type field;
#include "cmd/figures.def"
};

/* What --help says of the command. */
extern const char figures_details[];

/* Reads all that Postgres tells, in one snapshot. table: as SQL has it. */
bool figures_read(struct figures *f, PGconn *conn, const char *table, struct err *e) MUST_CHECK;

/* Reads what a relay's probe tells. */
void figures_probe(struct figures *f, const struct address *at);

/* Adds them as one line of JSON, or as a table. */
void figures_add_json(const struct figures *f, struct buf *out);
void figures_add_table(const struct figures *f, struct buf *out);

void figures_free(struct figures *f);

#endif
