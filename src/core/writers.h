/* The transactions that may still bring rows which no claim has seen.
 *
 * A transaction that inserts into a table holds RowExclusiveLock on it from before its row's id is drawn and its
 * trigger runs until after its commit is visible, and pg_locks shows it, prepared ones too. So: note who holds it now;
 * once all of those are gone, the next statement sees whatever they inserted. Long transactions elsewhere do not
 * matter. (Postgres's CommitTransaction: ProcArrayEndTransaction, then ResourceOwnerRelease.) */
#ifndef RELAY_CORE_WRITERS_H
#define RELAY_CORE_WRITERS_H

#include <stddef.h>
#include <stdint.h>

/* {0} is empty and valid. */
struct writers {
	uint64_t *ids; /* virtual transactions */
	size_t n;
};

/* Notes those that `list` names, and forgets the rest. list: pg_locks.virtualtransaction with blanks between, "3/12
 * -1/55"; NULL or empty: nobody. */
void writers_note(struct writers *w, const char *list);

/* Forgets the noted ones that `list` does not name any more; returns how many are left. */
size_t writers_keep(struct writers *w, const char *list);

void writers_free(struct writers *w);

#endif
