/* relay drain --dry-run: plans what is pending as a lane does, batch by batch, in one snapshot, and takes every request
 * for accepted. */
#include "cmd/preview.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/commands.h"
#include "cmd/session.h"
#include "core/batch.h"
#include "core/order.h"
#include "io/outbox.h"

const char drain_details[] =
    "Reads, writes and needs what `run` does, and ends with 1 when rows remain that OpenFGA refuses: they are printed, "
    "one a line: id, tab, reason.\n"
    "With --dry-run: prints the requests that would be sent, in order, and changes nothing; OpenFGA is not asked, and "
    "may refuse what is shown. Rows whose payload relay itself refuses are named, and it ends with 1. Needs SELECT "
    "only. With --json, one object a line: ids (the rows), request (the body of the Write; null: none is sent) and "
    "reason (why the row is refused; null: it is not).";

/* $1: above this id; $2, $3: so many rows and bytes at most, as a claim takes them. */
static const char page[] =
    "SELECT id, attempts, CASE WHEN bytes <= $4::pg_catalog.int4 THEN payload END FROM (SELECT *,"
    " pg_catalog.sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS upto FROM (SELECT id, attempts, payload,"
    " pg_catalog.octet_length(payload) AS bytes FROM (SELECT id, attempts, payload::pg_catalog.text AS payload FROM %s"
    " WHERE processed_at IS NULL AND id > $1::pg_catalog.int8 ORDER BY id LIMIT $2::pg_catalog.int8) AS head) AS sized)"
    " AS found WHERE upto - bytes < $3::pg_catalog.int8 ORDER BY id";

enum { PARAMETERS = 4, ANY_TIME_MS = 1 };

struct preview {
	const struct options *o;
	PGconn *conn;
	struct buf table;
	struct rng rng;     /* nothing fails, so nothing is drawn */
	struct order order; /* of the batch */
	int64_t above;      /* the last row that was shown */
	uint64_t rows;
	uint64_t requests;
	uint64_t refused;
	bool is_broken; /* nobody reads stdout */
};

static void put(struct preview *p, struct buf *text)
{
	if (text->p != NULL)
		p->is_broken |= fwrite(text->p, 1, text->n, stdout) != text->n;
	buf_free(text);
}

static void show_json(struct preview *p, const char *ids, const char *request, struct str reason)
{
	struct buf text = {0};
	buf_printf(&text, "{\"ids\":[%s],\"request\":%s,\"reason\":", ids, request);
	if (reason.p != NULL)
		buf_add_json(&text, reason);
	else
		buf_add_text(&text, "null");
	buf_add_text(&text, "}\n");
	put(p, &text);
}

static void show_request(struct preview *p, const struct batch *b, const struct request *r)
{
	struct buf ids = {0};
	struct buf body = {0};
	struct buf text = {0};
	const char *model = p->o->fga_model_id != NULL ? p->o->fga_model_id : "";
	const size_t tuples = batch_body(b, r, str_of(model), &body);
	p->requests++;
	batch_request_ids(b, r, b->n, &ids);
	if (p->o->json) {
		show_json(p, ids.p, body.p, (struct str){0});
	} else {
		buf_printf(&text, "%zu tuple%s of row%s %s\n  %s\n", tuples, tuples == 1 ? "" : "s",
		           r->n == 1 ? "" : "s", ids.p, body.p);
		put(p, &text);
	}
	buf_free(&ids);
	buf_free(&body);
}

/* A row that makes no request. */
static void show_row(struct preview *p, const struct batch_row *row)
{
	struct buf text = {0};
	char id[24];
	const struct str error = row->state == ROW_REJECTED ? row->error : (struct str){0};
	p->refused += row->state == ROW_REJECTED;
	snprintf(id, sizeof id, "%" PRId64, row->id);
	if (p->o->json) {
		show_json(p, id, "null", error);
		return;
	}
	buf_printf(&text, "row %s %s", id, error.p != NULL ? "is refused: " : "is empty: it needs no request");
	buf_add_clean(&text, error, error.n);
	buf_add_char(&text, '\n');
	put(p, &text);
}

/* Adds a row, unless it changes a tuple otherwise than one before it: then the batch ends before it. */
static bool add(struct preview *p, struct batch *b, const PGresult *found, int i)
{
	const int64_t id = session_number(found, i, 0);
	const unsigned attempts = (unsigned)session_number(found, i, 1);
	struct batch_row *row;
	if (PQgetisnull(found, i, 2))
		row = batch_add_rejected(b, id, attempts, OUTBOX_TOO_LARGE);
	else
		row = batch_add(b, id, attempts, ANY_TIME_MS,
		                (struct str){PQgetvalue(found, i, 2), (size_t)PQgetlength(found, i, 2)});
	row->alone = attempts > 0;
	if (row->state == ROW_PENDING) {
		const int64_t behind = order_blocker(&p->order, id, row->marks, row->payload.n);
		if (behind != 0) {
			batch_hold(row, behind);
			return false;
		}
		order_add(&p->order, id, row->marks, row->payload.n);
	} else {
		show_row(p, row);
	}
	p->above = id;
	p->rows++;
	return true;
}

static void show_batch(struct preview *p, const PGresult *found)
{
	static const struct judgement accepted = {.verdict = VERDICT_DELIVERED};
	const struct batch_limits limits = {
	    .max_tuples = p->o->max_tuples_per_write,
	    .max_bytes = BATCH_MAX_BODY,
	    .deadline_ms = INT64_MAX,
	};
	struct batch b = {0};
	struct request *r;
	batch_init(&b, (size_t)PQntuples(found), &limits);
	for (int i = 0; i < PQntuples(found) && add(p, &b, found, i); i++)
		;
	batch_plan(&b);
	while ((r = batch_next(&b, ANY_TIME_MS)) != NULL) {
		show_request(p, &b, r);
		batch_answer(&b, r, &accepted, ANY_TIME_MS, &p->rng);
	}
	batch_fini(&b);
	order_free(&p->order);
}

/* False: *e says why not. */
static bool show_page(struct preview *p, bool *is_last, struct err *e)
{
	char above[24];
	char rows[24];
	char bytes[24];
	char most[24];
	const char *const values[PARAMETERS] = {above, rows, bytes, most};
	snprintf(above, sizeof above, "%" PRId64, p->above);
	snprintf(rows, sizeof rows, "%u", p->o->batch_rows);
	snprintf(bytes, sizeof bytes, "%zu", p->o->batch_bytes);
	snprintf(most, sizeof most, "%d", OUTBOX_MAX_PAYLOAD);
	PGresult *found = session_query(p->conn, page, p->table.p, PARAMETERS, values, e);
	if (found == NULL)
		return false;
	*is_last = PQntuples(found) == 0;
	show_batch(p, found);
	PQclear(found);
	return true;
}

static bool show_all(struct preview *p, struct err *e)
{
	bool is_last = false;
	if (!session_begin(p->conn, "REPEATABLE READ, READ ONLY", e))
		return false;
	while (!is_last && !p->is_broken)
		if (!show_page(p, &is_last, e))
			return false;
	return session_commit(p->conn, e);
}

static void show_sum(struct preview *p)
{
	struct buf text = {0};
	buf_printf(&text, "%" PRIu64 " row%s, %" PRIu64 " request%s; nothing was sent, and nothing was changed\n",
	           p->rows, p->rows == 1 ? "" : "s", p->requests, p->requests == 1 ? "" : "s");
	put(p, &text);
}

static bool run(struct preview *p, struct err *e)
{
	if (!session_table(p->o, &p->table, e))
		return false;
	p->conn = session_open(p->o, "drain", e);
	const bool ok = p->conn != NULL && show_all(p, e);
	PQfinish(p->conn);
	return ok;
}

int preview(const struct options *o)
{
	struct preview p = {.o = o, .above = INT64_MIN};
	struct err e = {0};
	int code;
	if (run(&p, &e)) {
		if (!o->json)
			show_sum(&p);
		code = p.is_broken || fflush(stdout) != 0 || p.refused > 0 ? EXIT_REFUSED : EXIT_OK;
	} else {
		fprintf(stderr, "relay drain: %s\n", e.text);
		code = session_exit(&e);
	}
	buf_free(&p.table);
	return code;
}
