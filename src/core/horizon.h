/* Where a claim starts, so that its cost stays flat: above the highest id at or below which every pending row is known
 * here, in flight in a lane or parked. Without it each claim steps over every entry of the index that vacuum could not
 * remove yet, and over every parked row.
 *
 * An id is drawn before its commit, so a lower one can appear later. Hence, in this order: a claim has reached id F;
 * then the writers are noted (whoever drew a lower id is among them, or has ended); they are waited for; the next claim
 * from the old horizon that reaches F, or comes back short, has seen whatever they left below F: now the horizon is F.
 * Rows that others hold, and rows that are let go here, keep it down: `theirs` of a claim starts there too, so a row
 * below it that is not known would be overtaken. */
#ifndef RELAY_CORE_HORIZON_H
#define RELAY_CORE_HORIZON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/writers.h"

/* Below every id: a claim from here starts at the head. */
#define HORIZON_NONE INT64_MIN

enum {
	HORIZON_STEP_MS = 200,   /* from one step to the next */
	HORIZON_STEP_ROWS = 500, /* fewer are not worth one: stepping over them costs less */
	HORIZON_MIN_WAIT_MS = 5, /* for writers; doubled from try to try */
	HORIZON_MAX_WAIT_MS = 2000,
};

struct horizon {
	int64_t at;      /* claims start above it */
	int64_t reached; /* the highest id that a claim has brought */
	size_t rows;     /* brought above the last goal */
	size_t below;    /* brought below the goal under way */
	int64_t goal;    /* of the step under way; HORIZON_NONE: none is */
	bool is_asking;  /* who writes is on its way */
	bool is_noted;   /* the writers below the goal */
	bool is_clear;   /* and gone: a claim sent from now on confirms the goal */
	bool is_off;     /* ids are not drawn in order; until the next reset */
	int64_t due_ms;
	int64_t wait_ms;
	struct writers writers;
	uint64_t resets;
};

void horizon_init(struct horizon *h);
void horizon_fini(struct horizon *h);

/* Back to the head: a row that was known is known no more, or there is another server. What is under way confirms
 * nothing. */
void horizon_reset(struct horizon *h);

/* What a claim is sent with; to be given back with its result. */
struct horizon_claim {
	int64_t above; /* it starts above this id */
	int64_t goal;  /* `theirs` reaches to this id at least; HORIZON_NONE: just below the claimed ones */
	uint64_t resets;
};

/* from_head: a sweep's claim, which starts at the head whatever is known. */
void horizon_claim(const struct horizon *h, bool from_head, struct horizon_claim *c);

/* What a claim has brought. */
struct horizon_seen {
	size_t rows;          /* claimed */
	int64_t lowest;       /* of them */
	int64_t highest;      /* of them: no pending row below it went unseen */
	int64_t lowest_other; /* the lowest row of `theirs` that is not known here by now; INT64_MAX: none */
	bool is_short;        /* it left nothing behind that could be claimed */
};
void horizon_claimed(struct horizon *h, const struct horizon_claim *c, const struct horizon_seen *seen, int64_t now_ms);

/* Whether it is time to ask who writes. horizon_ask says that it was asked; what it returns is to be given back with
 * the answer. */
bool horizon_wants_writers(const struct horizon *h, int64_t now_ms);
uint64_t horizon_ask(struct horizon *h);

/* The answer: the writers as writers_note takes them; in_order: ids are drawn one by one, under the table's lock.
 * Returns whether a claim would confirm now what is under way. */
bool horizon_writers(struct horizon *h, uint64_t asked, const char *list, bool in_order, int64_t now_ms);

/* When horizon_wants_writers will say yes; INT64_MAX: not by time. */
int64_t horizon_due_ms(const struct horizon *h);

#endif
