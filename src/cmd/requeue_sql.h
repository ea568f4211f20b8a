/* The statements of `relay requeue`: templates of ident_fill_in's. $1 is the selection's parameter, if it has one. */
#ifndef RELAY_CMD_REQUEUE_SQL_H
#define RELAY_CMD_REQUEUE_SQL_H

/* Which rows. */
enum requeue_selection {
	REQUEUE_IDS,       /* pending rows; an array of ids */
	REQUEUE_REASON,    /* refused ones whose last_error contains a text */
	REQUEUE_REFUSED,   /* all refused ones; no parameter */
	REQUEUE_PROCESSED, /* delivered rows; an array of ids */
	REQUEUE_SELECTIONS,
};

struct requeue_sql {
	const char *count; /* how many there are */
	const char *list;  /* id, attempts, reason, in the order of ids, at most IDS_MAX */
	const char
	    *change; /* REQUEUE_PROCESSED: inserts copies in that order, and returns their ids; else resets them */
};
extern const struct requeue_sql requeue_sql[REQUEUE_SELECTIONS];

/* Of the ids in $1, some that have no row, that are processed, that are pending. */
extern const char requeue_missing[];
extern const char requeue_are_processed[];
extern const char requeue_are_pending[];

/* Of the ids in $1, those with a later row that is not in $1 and has one of their tuples, and the first such row. */
extern const char requeue_later[];

/* That statement reads as many rows as there are. */
extern const char requeue_take_time[];

/* $1: the channel, $2: the payload. */
extern const char requeue_notify[];

/* The GRANTs that this role lacks for a requeue, or, where $1 is true, for one of processed rows. NULL: none. */
extern const char requeue_grants[];

#endif
