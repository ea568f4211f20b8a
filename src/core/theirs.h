/* What is remembered of the rows that others have in flight, so that a claim need not bring their payloads again: with
 * several relays at work each claim meets hundreds of them, and most were met by the claim before.
 *
 * A claim is told which rows are remembered, and in which version (the transaction that wrote it: a payload that was
 * mended since is another one). What such a claim brings without a payload must still be remembered when it comes back,
 * so what is no longer brought is kept until no claim is under way that was told of it. */
#ifndef RELAY_CORE_THEIRS_H
#define RELAY_CORE_THEIRS_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "core/order.h"

/* More rows than this are not remembered, but brought each time. */
enum { THEIRS_MAX = 20000 };

struct theirs_row;

/* {0} is empty and valid. Claims are numbered from 1, in the order in which they are sent. */
struct theirs {
	struct theirs_row *rows; /* by id */
	uint64_t next_gone;      /* the least claim that a gone row is kept for, or a lower one; 0: none is gone */
};

/* A claim has brought a row with its payload: remembers its marks. */
void theirs_note(struct theirs *t, uint64_t claim, int64_t id, int64_t version, const struct mark *marks, size_t n);

/* A claim has brought a row without a payload since it was told of it: its marks, n of them, which live until the row
 * is noted again, or theirs_forget. NULL: this version is not remembered, since another claim has brought another one.
 */
const struct mark *theirs_seen(struct theirs *t, uint64_t claim, int64_t id, int64_t version, size_t *n);

/* All of a claim's rows were noted, and it reached as far as it should: what it did not bring is gone. `sent`: the last
 * claim that was sent. */
void theirs_returned(struct theirs *t, uint64_t claim, uint64_t sent);

/* Nothing is certain any more: there may be another server. */
void theirs_reset(struct theirs *t, uint64_t sent);

/* Adds what the next claim is told, two Postgres array literals of the same length: the ids above `above`, and their
 * versions. */
void theirs_told(const struct theirs *t, int64_t above, struct buf *ids, struct buf *versions);

/* Forgets what is gone and what no claim is under way for: `oldest` is the oldest one that is. */
void theirs_forget(struct theirs *t, uint64_t oldest);

size_t theirs_count(const struct theirs *t);

void theirs_free(struct theirs *t);

#endif
