/* relay reconcile: what its files share. */
#ifndef RELAY_CMD_RECONCILE_H
#define RELAY_CMD_RECONCILE_H

#include <libpq-fe.h>
#include <stdint.h>

#include "base/options.h"
#include "cmd/reconcile_store.h"
#include "core/difference.h"

/* What --help says of it. */
extern const char reconcile_details[];

/* What a terminal shows meanwhile. */
struct progress {
	bool is_on;
	const char *what; /* of `done`; NULL: nothing is shown */
	int64_t begun_ms;
	int64_t shown_ms;
	int64_t done;
	int64_t expected; /* 0: nobody knows */
};

/* The rows and the store on their way into Postgres's temporary tables. */
struct load {
	enum { LOAD_RESTS, LOAD_READS, LOAD_COPIES } doing; /* on the session: nothing, a chunk of rows, COPY */
	struct buf waiting;                                 /* lines for COPY that came while rows were read */
	unsigned pages;                                     /* since the last chunk of rows */
	int64_t above;                                      /* rows up to this id are read */
	bool has_all;                                       /* the last chunk was not full */
	int64_t writes;                                     /* operations of the rows */
	int64_t deletes;
};

struct totals {
	int64_t rows;   /* that were read */
	int64_t store;  /* tuples that OpenFGA has; -1: it was not read whole */
	int64_t tuples; /* that are compared */
	int64_t pending;
	int64_t touched;
	int64_t differences[DIFFERENCE_COUNT];
	int64_t repairs; /* rows that were inserted */
};

struct reconcile {
	const struct options *o;
	struct buf table;   /* as SQL has it */
	struct buf prefix;  /* what objects begin with; empty: anything */
	int64_t since;      /* only rows from this id on; INT64_MIN: all */
	struct buf temp;    /* how the names of the temporary tables begin */
	char started[64];   /* Postgres's time */
	int64_t first;      /* the lowest id then; 0: there is no row */
	int64_t last;       /* the highest id then */
	int64_t candidates; /* rows of differ */
	PGconn *conn;
	struct store *store;
	struct load load;
	struct totals totals;
	struct progress progress;
};

/* reconcile_rows.c: the session, and what Postgres is asked. Each is false with *e where it cannot be done. */

/* Asks a statement of reconcile_sql.h's in r->conn, and shows the progress meanwhile. The caller clears the result. */
PGresult *rows_ask(struct reconcile *r, const char *template, int n, const char *const *values,
                   struct err *e) MUST_CHECK;

/* The same for one that returns nothing; *n, unless NULL, is how many rows it was about. */
bool rows_run(struct reconcile *r, const char *template, int n, const char *const *values, int64_t *about,
              struct err *e) MUST_CHECK;

/* The same in two steps. */
bool rows_send(struct reconcile *r, const char *template, int n, const char *const *values, struct err *e) MUST_CHECK;
PGresult *rows_take(struct reconcile *r, struct err *e) MUST_CHECK;

/* Puts lines of text into a table by COPY, and ends that. */
bool rows_copy(struct reconcile *r, const char *template, const struct buf *lines, struct err *e) MUST_CHECK;

bool rows_open(struct reconcile *r, struct err *e) MUST_CHECK;

/* After the loading: what may differ, from the tables or, with --sample, at random. */
bool rows_compare(struct reconcile *r, struct err *e) MUST_CHECK;

/* Reads those singly, and leaves the ones that do differ. */
bool rows_read_again(struct reconcile *r, struct err *e) MUST_CHECK;

/* Leaves out those that somebody has touched meanwhile, and counts what is left. */
bool rows_settle(struct reconcile *r, struct err *e) MUST_CHECK;

/* reconcile_load.c */

bool load_begin(struct reconcile *r, struct err *e) MUST_CHECK;

/* A page of the store's: a store_page_fn whose arg is the struct reconcile. */
bool load_page(void *arg, const struct page *page, struct err *e) MUST_CHECK;

/* Ends what is on its way, and reads all rows that are left, those too that came meanwhile. */
bool load_end(struct reconcile *r, struct err *e) MUST_CHECK;

/* reconcile_repair.c: within --max-repairs, and asking unless --yes. True where nothing was inserted because somebody
 * did not want it or there are too many; that is said. */
bool repair(struct reconcile *r, struct err *e) MUST_CHECK;

/* reconcile_show.c */

/* Begins to show what is done of something. */
void progress_begin(struct progress *p, const char *what, int64_t expected);

/* Shows it anew when the last time was a while ago. */
void progress_tick(struct progress *p);

/* Takes it off the screen. */
void progress_end(struct progress *p);

/* Print the differences, all of them or those that a table has room for, and the totals. False: *e says why they cannot
 * be read; a reader that went away is seen by ferror(stdout). */
bool show_json(struct reconcile *r, struct err *e) MUST_CHECK;
bool show_differences(struct reconcile *r, struct err *e) MUST_CHECK;
void show_totals(const struct reconcile *r);

/* The totals' number of differences of every kind. */
int64_t totals_differences(const struct totals *t);

#endif
