#include <inttypes.h>
#include <stdio.h>

#include "cmd/figures.h"

enum { LABEL_COLUMNS = 24 };

#define FIGURE(field, type, label, help) "\n" #field " (" #type "): " help "."
const char figures_details[] =
    "Shows how the outbox fares. Reads the table, by its indexes only and up to a bound that the counts name, the "
    "sessions in pg_stat_activity, and a relay's probe. Writes nothing. Needs SELECT on the table; what sessions of "
    "other roles do is seen by members of pg_read_all_stats only. Ends with 0 whether a relay is ready or not.\n"
    "Delivered rows are found by walking the rows from the newest one back, since no index is on processed_at: a row "
    "far back that was processed late is not counted, and where the walk ends before the time does, the count says "
    "at least.\n"
    "With --json, in this order (COUNT: rows, at_least; ROW: id and age_seconds, null where there is none, and "
    "complete, false when not all pending rows were looked at; NUMBER: null when it is not known; REASONS: a list of "
    "reason, rows, ids; SESSIONS: a list of application_name, user, sessions, listens):"
#include "cmd/figures.def"
    ;

/* JSON */

static void json_TEXT(struct buf *out, const struct buf *text)
{
	struct buf clean = {0};
	buf_add_clean(&clean, buf_str(text), text->n);
	buf_add_json(out, buf_str(&clean));
	buf_free(&clean);
}

static void json_NUMBER(struct buf *out, const double *number)
{
	if (*number < 0)
		buf_add_text(out, "null");
	else
		buf_printf(out, "%.0f", *number);
}

static void json_COUNT(struct buf *out, const struct figure_count *count)
{
	buf_printf(out, "{\"rows\":%" PRId64 ",\"at_least\":%s}", count->rows, count->at_least ? "true" : "false");
}

static void json_ROW(struct buf *out, const struct figure_row *row)
{
	if (row->found)
		buf_printf(out, "{\"id\":%" PRId64 ",\"age_seconds\":%.3f", row->id, row->age_seconds);
	else
		buf_add_text(out, "{\"id\":null,\"age_seconds\":null");
	buf_printf(out, ",\"complete\":%s}", row->complete ? "true" : "false");
}

static void add_ids(struct buf *out, const struct reason *reason, const char *between)
{
	for (size_t i = 0; i < reason->rows && i < REASONS_IDS; i++) {
		buf_add_text(out, i > 0 ? between : "");
		buf_add_number(out, reason->ids[i]);
	}
}

static void json_REASONS(struct buf *out, const struct reasons *reasons)
{
	buf_add_char(out, '[');
	for (size_t i = 0; i < reasons->n; i++) {
		const struct reason *reason = &reasons->list[i];
		buf_add_text(out, i > 0 ? ",{\"reason\":" : "{\"reason\":");
		buf_add_json(out, str_of(reason->text));
		buf_printf(out, ",\"rows\":%zu,\"ids\":[", reason->rows);
		add_ids(out, reason, ",");
		buf_add_text(out, "]}");
	}
	buf_add_char(out, ']');
}

static void json_SESSIONS(struct buf *out, const struct figure_sessions *sessions)
{
	buf_add_char(out, '[');
	for (size_t i = 0; i < sessions->n; i++) {
		const struct figure_session *session = &sessions->list[i];
		buf_add_text(out, i > 0 ? ",{\"application_name\":" : "{\"application_name\":");
		buf_add_json(out, str_of(session->application_name));
		buf_add_text(out, ",\"user\":");
		buf_add_json(out, str_of(session->user));
		buf_printf(out, ",\"sessions\":%" PRId64 ",\"listens\":%s}", session->sessions,
		           session->listens ? "true" : "false");
	}
	buf_add_char(out, ']');
}

void figures_add_json(const struct figures *f, struct buf *out)
{
	const char *before = "{";
#define FIGURE(field, type, label, help) \
	buf_printf(out, "%s\"" #field "\":", before); \
	json_##type(out, &f->field); \
	before = ",";
#include "cmd/figures.def"
	buf_add_text(out, "}\n");
}

/* The table */

static void add_label(struct buf *out, const char *label)
{
	if (label != NULL)
		buf_printf(out, "%-*s", LABEL_COLUMNS, label);
}

static void table_TEXT(struct buf *out, const struct buf *text)
{
	buf_add_clean(out, text->n > 0 ? buf_str(text) : STR("none"), text->n + sizeof "none");
	buf_add_char(out, '\n');
}

static void table_NUMBER(struct buf *out, const double *number)
{
	if (*number < 0)
		buf_add_text(out, "unknown\n");
	else
		buf_printf(out, "%.0f\n", *number);
}

static void table_COUNT(struct buf *out, const struct figure_count *count)
{
	buf_printf(out, count->at_least ? "at least %" PRId64 "\n" : "%" PRId64 "\n", count->rows);
}

/* "12.3 s", "4 min 10 s", "2 h 5 min", "3 d 7 h" */
static void add_age(struct buf *out, double seconds)
{
	const int64_t s = (int64_t)seconds;
	if (s < 60)
		buf_printf(out, "%.1f s", seconds);
	else if (s < 3600)
		buf_printf(out, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
	else if (s < 86400)
		buf_printf(out, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
	else
		buf_printf(out, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
}

static void table_ROW(struct buf *out, const struct figure_row *row)
{
	if (row->found) {
		add_age(out, row->age_seconds);
		buf_printf(out, ", id %" PRId64 "\n", row->id);
	} else {
		buf_add_text(out, row->complete ? "none\n" : "none among the first ones\n");
	}
}

static void table_REASONS(struct buf *out, const struct reasons *reasons)
{
	for (size_t i = 0; i < reasons->n; i++) {
		const struct reason *reason = &reasons->list[i];
		buf_printf(out, "%*zu  %s (id ", LABEL_COLUMNS + 6, reason->rows, reason->text);
		add_ids(out, reason, ", ");
		buf_add_text(out, reason->rows > REASONS_IDS ? ", …)\n" : ")\n");
	}
	if (reasons->others > 0)
		buf_printf(out, "%*zu  for further reasons\n", LABEL_COLUMNS + 6, reasons->others);
}

static void table_SESSIONS(struct buf *out, const struct figure_sessions *sessions)
{
	for (size_t i = 0; i < sessions->n; i++) {
		const struct figure_session *session = &sessions->list[i];
		buf_printf(out, "%*" PRId64 "  ", LABEL_COLUMNS + 6, session->sessions);
		buf_add_clean(out, str_of(session->application_name), sizeof session->application_name);
		buf_add_text(out, " of ");
		buf_add_clean(out, str_of(session->user), sizeof session->user);
		buf_add_text(out, session->listens ? ", listens\n" : "\n");
	}
}

void figures_add_table(const struct figures *f, struct buf *out)
{
#define FIGURE(field, type, label, help) \
	add_label(out, label); \
	table_##type(out, &f->field);
#include "cmd/figures.def"
}
