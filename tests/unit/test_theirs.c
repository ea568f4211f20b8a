#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/theirs.h"

enum { A_LOT = 1000 };

/* A row's marks tell which row and which version they are of. */
static struct mark mark_of(int64_t id, int64_t version)
{
	return (struct mark){(uint64_t)id * A_LOT + (uint64_t)version, 1};
}

static void note(struct theirs *t, uint64_t claim, int64_t id, int64_t version)
{
	struct mark mark = mark_of(id, version);
	theirs_note(t, claim, id, version, &mark, 1);
}

static bool seen(struct theirs *t, uint64_t claim, int64_t id, int64_t version)
{
	size_t n;
	const struct mark *marks = theirs_seen(t, claim, id, version, &n);
	if (marks == NULL)
		return false;
	assert_int_equal(n, 1);
	assert_true(marks[0].tuple == mark_of(id, version).tuple);
	return true;
}

static void assert_told(const struct theirs *t, int64_t above, const char *ids, const char *versions)
{
	struct buf told_ids = {0};
	struct buf told_versions = {0};
	theirs_told(t, above, &told_ids, &told_versions);
	assert_string_equal(told_ids.p, ids);
	assert_string_equal(told_versions.p, versions);
	buf_free(&told_ids);
	buf_free(&told_versions);
}

static void an_empty_one(void **state)
{
	struct theirs t = {0};
	(void)state;
	assert_told(&t, 0, "{}", "{}");
	assert_false(seen(&t, 1, 5, 1));
	theirs_returned(&t, 1, 1);
	theirs_reset(&t, 1);
	theirs_forget(&t, UINT64_MAX);
	assert_int_equal(theirs_count(&t), 0);
	theirs_free(&t);
}

static void the_next_claim_is_told(void **state)
{
	struct theirs t = {0};
	(void)state;
	note(&t, 1, 5, 71);
	note(&t, 1, 8, 72);
	theirs_returned(&t, 1, 1);
	assert_told(&t, 0, "{5,8}", "{71,72}");
	assert_told(&t, 5, "{8}", "{72}");
	assert_true(seen(&t, 2, 5, 71));
	note(&t, 2, 8, 75); /* it was mended in between */
	theirs_returned(&t, 2, 2);
	assert_told(&t, 0, "{5,8}", "{71,75}");
	assert_false(seen(&t, 2, 8, 72));
	theirs_free(&t);
}

static void a_row_that_does_not_come_again_is_kept_for_those_who_were_told(void **state)
{
	struct theirs t = {0};
	(void)state;
	note(&t, 1, 5, 1);
	theirs_returned(&t, 1, 3); /* 2 and 3 are under way */
	theirs_returned(&t, 3, 4); /* 3 did not bring it; 2 and 4 are under way */
	assert_told(&t, 0, "{}", "{}");
	theirs_forget(&t, 2);
	assert_true(seen(&t, 2, 5, 1)); /* it comes again */
	assert_told(&t, 0, "{5}", "{1}");
	theirs_returned(&t, 4, 4);
	theirs_forget(&t, 4);
	assert_int_equal(theirs_count(&t), 1);
	theirs_forget(&t, UINT64_MAX);
	assert_int_equal(theirs_count(&t), 0);
	theirs_free(&t);
}

static void a_claim_that_comes_back_late_takes_nothing_away(void **state)
{
	struct theirs t = {0};
	(void)state;
	note(&t, 2, 5, 1);
	theirs_returned(&t, 2, 2);
	theirs_returned(&t, 1, 2);
	assert_told(&t, 0, "{5}", "{1}");
	note(&t, 1, 5, 0);
	assert_told(&t, 0, "{5}", "{1}");
	theirs_free(&t);
}

static void what_is_gone_is_forgotten_one_by_one(void **state)
{
	struct theirs t = {0};
	(void)state;
	note(&t, 1, 5, 1);
	note(&t, 3, 8, 1);
	note(&t, 2, 9, 1);
	theirs_returned(&t, 2, 10); /* 5 is gone */
	theirs_returned(&t, 3, 20); /* 9 too */
	theirs_returned(&t, 4, 30); /* and 8 */
	static const uint64_t oldest[] = {10, 11, 20, 21, 30, 31};
	static const size_t left[] = {3, 2, 2, 1, 1, 0};
	for (size_t i = 0; i < sizeof oldest / sizeof *oldest; i++) {
		theirs_forget(&t, oldest[i]);
		assert_int_equal(theirs_count(&t), left[i]);
	}
	theirs_free(&t);
}

static void after_a_reset_nobody_is_told(void **state)
{
	struct theirs t = {0};
	(void)state;
	note(&t, 1, 5, 1);
	theirs_returned(&t, 1, 2);
	theirs_reset(&t, 2);
	assert_told(&t, 0, "{}", "{}");
	theirs_forget(&t, 2);
	assert_true(seen(&t, 2, 5, 1));
	theirs_free(&t);
}

static void it_is_bounded(void **state)
{
	struct theirs t = {0};
	(void)state;
	for (int64_t id = 1; id <= THEIRS_MAX + 10; id++)
		note(&t, 1, id, 1);
	assert_int_equal(theirs_count(&t), THEIRS_MAX);
	note(&t, 2, 1, 2);
	assert_true(seen(&t, 2, 1, 2));
	theirs_free(&t);
}

/* Random histories. Others have rows in flight, which come, go and are mended; claims are sent with what they are told,
 * and come back in any order with what was true at some moment between. */
enum { ROWS = 12, CLAIMS = 4, STEPS = 20000 };

struct claim {
	uint64_t number; /* 0: none */
	bool was_read;
	int64_t told[ROWS];     /* the version, 0: it was not */
	int64_t found[ROWS];    /* the version in the claim's snapshot; 0: the row is not there */
	bool noted_since[ROWS]; /* with another version than this claim was told */
};

static void read_told(const struct theirs *t, struct claim *c)
{
	struct buf ids = {0};
	struct buf versions = {0};
	theirs_told(t, 0, &ids, &versions);
	char *id = ids.p + 1;
	char *version = versions.p + 1;
	while (*id != '\0' && *id != '}') {
		int64_t row = strtoll(id, &id, 10);
		assert_in_range(row, 1, ROWS - 1);
		c->told[row] = strtoll(version, &version, 10);
		assert_int_equal(*id, *version);
		id += *id == ',';
		version += *version == ',';
	}
	buf_free(&ids);
	buf_free(&versions);
}

static void come_back(struct theirs *t, struct claim *claims, struct claim *c, uint64_t sent)
{
	for (int64_t id = 1; id < ROWS; id++) {
		if (c->found[id] == 0)
			continue;
		if (c->told[id] == c->found[id]) {
			if (!seen(t, c->number, id, c->found[id]))
				assert_true(c->noted_since[id]);
			continue;
		}
		note(t, c->number, id, c->found[id]);
		for (int i = 0; i < CLAIMS; i++)
			claims[i].noted_since[id] |= claims[i].told[id] != c->found[id];
	}
	theirs_returned(t, c->number, sent);
	*c = (struct claim){0};
}

static uint64_t oldest(const struct claim *claims)
{
	uint64_t found = UINT64_MAX;
	for (int i = 0; i < CLAIMS; i++)
		if (claims[i].number != 0 && claims[i].number < found)
			found = claims[i].number;
	return found;
}

static void what_a_claim_was_told_of_is_there_when_it_comes_back(void **state)
{
	struct rng rng = {5};
	struct theirs t = {0};
	struct claim claims[CLAIMS] = {0};
	int64_t rows[ROWS] = {0}; /* the version; 0: nobody has it in flight */
	int64_t version = 0;
	uint64_t sent = 0;
	(void)state;
	for (int step = 0; step < STEPS; step++) {
		struct claim *c = &claims[rng_upto(&rng, CLAIMS - 1)];
		int64_t id = 1 + rng_upto(&rng, ROWS - 2);
		if (rng_upto(&rng, 2) == 0) {
			rows[id] = rng_upto(&rng, 2) == 0 ? 0 : 1 + ++version % (A_LOT - 1);
		} else if (c->number == 0) {
			read_told(&t, c);
			c->number = ++sent;
		} else if (!c->was_read) {
			memcpy(c->found, rows, sizeof rows);
			c->was_read = true;
		} else {
			come_back(&t, claims, c, sent);
		}
		if (rng_upto(&rng, 200) == 0)
			theirs_reset(&t, sent);
		theirs_forget(&t, oldest(claims));
		assert_true(theirs_count(&t) < ROWS);
	}
	theirs_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_empty_one),
	    cmocka_unit_test(the_next_claim_is_told),
	    cmocka_unit_test(a_row_that_does_not_come_again_is_kept_for_those_who_were_told),
	    cmocka_unit_test(a_claim_that_comes_back_late_takes_nothing_away),
	    cmocka_unit_test(what_is_gone_is_forgotten_one_by_one),
	    cmocka_unit_test(after_a_reset_nobody_is_told),
	    cmocka_unit_test(it_is_bounded),
	    cmocka_unit_test(what_a_claim_was_told_of_is_there_when_it_comes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
