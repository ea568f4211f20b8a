/* The statements of `relay reconcile`: templates of ident_fill_in's, in which relay_temp stands for the beginning of
 * its temporary tables' names. A tuple is u (user), r (relation), o (object). An operation's place in the order of the
 * rows is seq: twice the row's id, plus one for a write, since deletes come before writes. state: 0 processed before
 * the start, 1 touched since, 2 pending. */
#ifndef RELAY_CMD_RECONCILE_SQL_H
#define RELAY_CMD_RECONCILE_SQL_H

enum {
	RECONCILE_CHUNK = 5000, /* rows that reconcile_say takes at a time */
	RECONCILE_BLOCK = 100,  /* differences that are read at a time */
};

/* What the session is told, whatever the role or the database sets. */
extern const char reconcile_settings[];

/* The GRANTs that this role lacks; $1: with those for --repair? NULL: none. */
extern const char reconcile_grants[];

/* said: every operation of the rows; held: what OpenFGA has; last: the last operation on each tuple, and how many there
 * are; differ: what may be a difference; again: what was found of those when they were read singly. */
extern const char *const reconcile_tables[]; /* each list ends with NULL */

/* The time, the lowest and the highest id. */
extern const char reconcile_start[];

/* Puts the operations of the next rows, in the order of ids, into said. $1: above this id; $2, $3: the time and the
 * highest id at the start; $4: what an object begins with, NULL: anything. Returns how many rows there were, the
 * highest of their ids, and how many writes and deletes they had. */
extern const char reconcile_say[];

/* The same for the pending rows up to $1, all at once. */
extern const char reconcile_say_pending[];

/* A row a line: user, relation, object, condition's name, context. */
extern const char reconcile_copy_held[];

/* Statistics of said and held; of last. */
extern const char *const reconcile_analyze_loaded[];
extern const char *const reconcile_analyze_last[];

/* From said to last, without what no row has that comes after seq $1. */
extern const char reconcile_sum_up[];

/* How many tuples are in last; how many of them are pending, and touched. */
extern const char reconcile_count[];

/* Fill differ: with what differs between last and held; with what only held has; with $1 tuples of last at random.
 * PQcmdTuples tells how many. */
extern const char reconcile_compare[];
extern const char reconcile_compare_foreign[];
extern const char reconcile_pick[];

/* The block of differ behind $1: n, user, relation, object, is_write (NULL: no row has it), the condition's name, its
 * context. */
extern const char reconcile_block[];

/* A row a line: n, the difference's name, the condition that was found. */
extern const char reconcile_copy_again[];

/* Take out of differ what again has not; note in differ what was found, in so many rows; empty again. */
extern const char reconcile_drop_same[];
extern const char reconcile_note_found[];
extern const char reconcile_forget_found[];

/* Takes the tuples out of differ that somebody has touched, or that are pending, whose rows since $1 are not those that
 * were seen before: returns how many, and how many of them the rows have. And only count them. Where differ has a
 * repair, only the rows below it count. */
extern const char reconcile_leave_moved[];
extern const char reconcile_count_moved[];

/* The differences' names, and how many there are. */
extern const char reconcile_kinds[];

/* Inserts a row for each difference that puts it right, and notes its id in differ. */
extern const char reconcile_repair[];

/* The block of differ behind $1, as it is shown: n, name, user, relation, object, row, processed_at, the condition in
 * the row and in OpenFGA as JSON, the row that repairs it. */
extern const char reconcile_list[];

#endif
