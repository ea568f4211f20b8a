/* relay reconcile: what it shows, meanwhile and at the end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cmd/reconcile.h"
#include "cmd/reconcile_sql.h"
#include "cmd/shell.h"
#include "core/pace.h"

enum { EVERY_MS = 250, SHOWN_BYTES = 600, MOST_IN_A_TABLE = 1000 };

/* Progress */

void progress_begin(struct progress *p, const char *what, int64_t expected)
{
	p->what = what;
	p->begun_ms = clock_ms();
	p->done = 0;
	p->expected = expected;
}

void progress_tick(struct progress *p)
{
	const int64_t now_ms = p->is_on ? clock_ms() : 0;
	struct buf text = {0};
	if (!p->is_on || p->what == NULL || now_ms - p->shown_ms < EVERY_MS)
		return;
	p->shown_ms = now_ms;
	pace_add(&text, p->what, p->done, p->expected, now_ms - p->begun_ms);
	fprintf(stderr, "\r%s\033[K", text.p);
	buf_free(&text);
}

void progress_end(struct progress *p)
{
	if (p->is_on && p->shown_ms > 0)
		fputs("\r\033[K", stderr);
	p->what = NULL;
	p->shown_ms = 0;
}

/* The list */

/* The columns of reconcile_list. */
enum { N, KIND, USER, RELATION, OBJECT, ROW, PROCESSED_AT, CONDITION, FOUND, REPAIR };

static const char *text_of(const PGresult *list, int row, int column)
{
	return PQgetisnull(list, row, column) ? NULL : PQgetvalue(list, row, column);
}

typedef void add_fn(struct buf *out, const PGresult *list, int row, bool is_first);

/* Prints at most so many differences, a block after another. */
static bool print_list(struct reconcile *r, add_fn *add, int64_t most, struct err *e)
{
	char above[24] = "0";
	int n = RECONCILE_BLOCK;
	for (int64_t shown = 0; n == RECONCILE_BLOCK && shown < most;) {
		struct buf text = {0};
		PGresult *list = rows_ask(r, reconcile_list, 1, (const char *const[]){above}, e);
		if (list == NULL)
			return false;
		n = PQntuples(list);
		for (int i = 0; i < n && shown < most; i++)
			add(&text, list, i, shown++ == 0);
		if (n > 0)
			snprintf(above, sizeof above, "%s", PQgetvalue(list, n - 1, N));
		if (text.n > 0)
			fwrite(text.p, 1, text.n, stdout);
		buf_free(&text);
		PQclear(list);
	}
	return true;
}

/* JSON */

static void add_text_json(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, "\"%s\":", name);
	if (text == NULL)
		buf_add_text(out, "null");
	else
		buf_add_json(out, str_of(text));
	buf_add_char(out, ',');
}

/* A number, or what is JSON already. */
static void add_raw_json(struct buf *out, const char *name, const char *text, char end)
{
	buf_printf(out, "\"%s\":%s%c", name, text != NULL ? text : "null", end);
}

static void add_difference_json(struct buf *out, const PGresult *list, int row, bool is_first)
{
	buf_add_text(out, is_first ? "\n{" : ",\n{");
	add_text_json(out, "difference", text_of(list, row, KIND));
	add_text_json(out, "user", text_of(list, row, USER));
	add_text_json(out, "relation", text_of(list, row, RELATION));
	add_text_json(out, "object", text_of(list, row, OBJECT));
	add_raw_json(out, "row", text_of(list, row, ROW), ',');
	add_text_json(out, "processed_at", text_of(list, row, PROCESSED_AT));
	add_raw_json(out, "condition", text_of(list, row, CONDITION), ',');
	add_raw_json(out, "found_condition", text_of(list, row, FOUND), ',');
	add_raw_json(out, "repair", text_of(list, row, REPAIR), '}');
}

static void print_number(const char *name, int64_t n)
{
	if (n < 0)
		printf("\"%s\":null,", name);
	else
		printf("\"%s\":%" PRId64 ",", name, n);
}

bool show_json(struct reconcile *r, struct err *e)
{
	const struct totals *t = &r->totals;
	printf("{\"in_step\":%s,", totals_differences(t) == 0 ? "true" : "false");
	print_number("rows", t->rows);
	print_number("store_tuples", t->store);
	print_number("compared", t->tuples);
	print_number("pending", t->pending);
	print_number("touched", t->touched);
	print_number("missing", t->differences[DIFFERENCE_MISSING]);
	print_number("surviving", t->differences[DIFFERENCE_SURVIVING]);
	print_number("condition", t->differences[DIFFERENCE_CONDITION]);
	print_number("foreign", r->o->foreign ? t->differences[DIFFERENCE_FOREIGN] : -1);
	print_number("repairs", t->repairs);
	printf("\"differences\":[");
	const bool ok = totals_differences(t) == 0 || print_list(r, add_difference_json, INT64_MAX, e);
	printf("]}\n");
	return ok;
}

/* The table */

static void add_condition(struct buf *out, const char *condition)
{
	buf_add_clean(out, str_of(condition != NULL ? condition : "no condition"), SHOWN_BYTES);
}

static void add_difference(struct buf *out, const PGresult *list, int row, bool is_first)
{
	const char *kind = PQgetvalue(list, row, KIND);
	const char *at = text_of(list, row, PROCESSED_AT);
	(void)is_first;
	buf_printf(out, "%-9s  ", kind);
	for (int column = USER; column <= OBJECT; column++) {
		buf_add_clean(out, str_of(PQgetvalue(list, row, column)), SHOWN_BYTES);
		buf_add_char(out, ' ');
	}
	if (PQgetisnull(list, row, ROW)) {
		buf_add_text(out, " OpenFGA has it, and no row ever did\n");
		return;
	}
	buf_printf(out, " %s by row %s",
	           strcmp(kind, difference_name(DIFFERENCE_SURVIVING)) == 0 ? "deleted" : "written",
	           PQgetvalue(list, row, ROW));
	if (at != NULL)
		buf_printf(out, ", delivered %s", at);
	if (strcmp(kind, difference_name(DIFFERENCE_MISSING)) == 0) {
		buf_add_text(out, "; absent in OpenFGA\n");
	} else if (strcmp(kind, difference_name(DIFFERENCE_SURVIVING)) == 0) {
		buf_add_text(out, "; OpenFGA still has it\n");
	} else {
		buf_add_text(out, " with ");
		add_condition(out, text_of(list, row, CONDITION));
		buf_add_text(out, "; OpenFGA has it with ");
		add_condition(out, text_of(list, row, FOUND));
		buf_add_char(out, '\n');
	}
}

bool show_differences(struct reconcile *r, struct err *e)
{
	const int64_t n = totals_differences(&r->totals);
	if (n == 0)
		return true;
	if (!print_list(r, add_difference, MOST_IN_A_TABLE, e))
		return false;
	if (n > MOST_IN_A_TABLE)
		printf("… and %" PRId64 " more: --json has them all\n", n - MOST_IN_A_TABLE);
	printf("\n");
	return true;
}

static void print_line(const char *label, int64_t n, const char *what)
{
	printf("%-12s%12" PRId64 "  %s\n", label, n, what);
}

/* The command that repairs what this one has found. */
static void print_repair(const struct reconcile *r, const char *more, int64_t repairs, const char *what)
{
	const struct options *o = r->o;
	struct buf command = {0};
	buf_printf(&command, "relay reconcile --repair%s", more);
	if (repairs > o->max_repairs)
		buf_printf(&command, " --max-repairs %" PRId64, repairs);
	if (o->object_type != NULL)
		shell_add_flag(&command, "--object-type", o->object_type);
	if (o->since_id != NULL)
		shell_add_flag(&command, "--since-id", o->since_id);
	if (strcmp(o->table, "fga_outbox") != 0)
		shell_add_flag(&command, "--table", o->table);
	printf("`%s` %s\n", command.p, what);
	buf_free(&command);
}

static void show_remedy(const struct reconcile *r)
{
	const int64_t all = totals_differences(&r->totals);
	const int64_t foreign = r->totals.differences[DIFFERENCE_FOREIGN];
	if (all > foreign)
		print_repair(r, "", all - foreign, "inserts rows that put it right, once you have said yes");
	if (foreign > 0)
		print_repair(r, " --foreign", all, "also has those deleted that no row ever had");
}

void show_totals(const struct reconcile *r)
{
	const struct totals *t = &r->totals;
	print_line("rows", t->rows, "were read");
	if (t->store >= 0)
		print_line("store", t->store, "tuples are in OpenFGA");
	print_line("compared", t->tuples, "tuples of the rows");
	print_line("left out", t->pending, "tuples have a pending row");
	print_line("", t->touched, "were touched since the start");
	print_line("missing", t->differences[DIFFERENCE_MISSING], "a row wrote them, and OpenFGA has them not");
	print_line("surviving", t->differences[DIFFERENCE_SURVIVING], "a row deleted them, and OpenFGA still has them");
	print_line("condition", t->differences[DIFFERENCE_CONDITION], "OpenFGA has them with another condition");
	if (r->o->foreign)
		print_line("foreign", t->differences[DIFFERENCE_FOREIGN], "OpenFGA has them, and no row ever did");
	if (totals_differences(t) == 0)
		printf("in step\n");
	else if (t->repairs > 0)
		printf("%" PRId64 "%s inserted: once relay has delivered them, reconcile again\n", t->repairs,
		       t->repairs == 1 ? " row was" : " rows were");
	else
		show_remedy(r);
}

int64_t totals_differences(const struct totals *t)
{
	int64_t n = 0;
	for (int kind = DIFFERENCE_NONE + 1; kind < DIFFERENCE_COUNT; kind++)
		n += t->differences[kind];
	return n;
}
