#include "io/outbox.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "core/ident.h"

#define MAX_PAYLOAD "8388608" /* OUTBOX_MAX_PAYLOAD */
#define MAX_THEIRS "16384"    /* OUTBOX_MAX_THEIRS */
#define MAX_COUNT "100000"    /* OUTBOX_MAX_COUNT */
#define MAX_SEARCHED "1000"   /* OUTBOX_MAX_SEARCHED */
#define MAX_SEARCHED_BYTES "8388608"
#define MAX_REASON "1024" /* characters: as many bytes of it are shown */

_Static_assert(OUTBOX_MAX_PAYLOAD == 8388608 && OUTBOX_MAX_THEIRS == 16384 && OUTBOX_MAX_COUNT == 100000 &&
                   OUTBOX_MAX_SEARCHED == 1000 && OUTBOX_MAX_SEARCHED_BYTES == 8388608,
               "the SQL says the same");

/* What is claimed: see enum column. What is cut off by the bound of bytes ($2) is above all that is returned, so the
 * claimed rows are always the first ones of the locked ones. */
#define CLAIMED \
	", sized AS (SELECT mine.*, pg_catalog.octet_length(payload) AS bytes, pg_catalog.count(*) OVER () AS locked," \
	" pg_catalog.sum(pg_catalog.octet_length(payload)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS upto FROM " \
	"mine)," \
	" claimed AS (SELECT * FROM sized WHERE upto - bytes < $2::pg_catalog.int8)" \
	" SELECT id, attempts, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - created_at) * 1000)" \
	"::pg_catalog.int8, CASE WHEN bytes <= " MAX_PAYLOAD " THEN payload END, locked, 'mine' FROM claimed"

/* The pending rows below the claimed ones that somebody else has in flight, in the claim's own snapshot: whatever was
 * committed before a claimed row was inserted is seen here unless it was processed already. $1: the rows known here;
 * $4: all rows up to it are; $5: as far as this at least; $6 and $7: whose payload is known here, in which version. */
#define THEIRS \
	" UNION ALL SELECT id, 0, 0, CASE WHEN pg_catalog.octet_length(payload) <= " MAX_THEIRS " THEN payload END," \
	" version, CASE WHEN is_seen THEN 'seen' ELSE 'theirs' END FROM (SELECT id, version, is_seen," \
	" CASE WHEN NOT is_seen THEN payload::pg_catalog.text END AS payload FROM (SELECT *, (id, version) IN" \
	" (SELECT pg_catalog.unnest($6::pg_catalog.int8[]), pg_catalog.unnest($7::pg_catalog.int8[])) AS is_seen FROM" \
	" (SELECT id, payload, xmin::pg_catalog.text::pg_catalog.int8 AS version FROM %s WHERE processed_at IS NULL" \
	" AND id > $4::pg_catalog.int8 AND id <= (SELECT GREATEST(pg_catalog.max(id), $5::pg_catalog.int8) FROM " \
	"claimed)" \
	" AND id NOT IN (SELECT id FROM mine)" \
	" AND id NOT IN (SELECT pg_catalog.unnest($1::pg_catalog.int8[])) OFFSET 0) AS found OFFSET 0) AS known" \
	" OFFSET 0) AS read"

#define MINE "WITH mine AS MATERIALIZED (SELECT id, attempts, created_at, payload::pg_catalog.text AS payload FROM %s"

#define SECONDS_SINCE "pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - pg_catalog.min(created_at)"

/* The age of the oldest of the first pending rows, and of the oldest one that deletes. What it asks of a payload fails
 * of none, whether the column is jsonb or json. */
#define OLDEST \
	"SELECT " SECONDS_SINCE ") AS age, " SECONDS_SINCE " FILTER (WHERE upto <= " MAX_SEARCHED_BYTES \
	" AND payload -> 'deletes' -> 0 IS NOT NULL)) AS age_of_delete FROM (SELECT created_at, payload," \
	" pg_catalog.sum(pg_catalog.pg_column_size(payload)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS upto" \
	" FROM (SELECT id, created_at, payload FROM %s WHERE processed_at IS NULL ORDER BY id LIMIT " MAX_SEARCHED ")" \
	" AS head) AS sized"

/* %s is the table, %l its name as a literal. The sub-selects over ids are hashed once a claim, and keep the order of
 * the index. */
static const char *const sql[OUTBOX_STATEMENTS] = {
    [OUTBOX_CLAIM] =
        MINE " WHERE processed_at IS NULL AND id > $4::pg_catalog.int8 AND id NOT IN (SELECT "
             "pg_catalog.unnest($1::pg_catalog.int8[]))"
             " ORDER BY id LIMIT $3::pg_catalog.int8 FOR NO KEY UPDATE SKIP LOCKED)" CLAIMED THEIRS " ORDER BY 1",
    [OUTBOX_CLAIM_THESE] = MINE " WHERE processed_at IS NULL AND id = ANY ($3::pg_catalog.int8[]) ORDER BY id"
                                " FOR NO KEY UPDATE SKIP LOCKED)" CLAIMED THEIRS
                                " UNION ALL SELECT id, 0, 0, NULL, 0, 'taken' FROM %s WHERE processed_at IS NULL"
                                " AND id = ANY ($3::pg_catalog.int8[]) AND id NOT IN (SELECT id FROM mine) ORDER BY 1",
    [OUTBOX_DELIVERED] = "UPDATE %s SET processed_at = pg_catalog.now() WHERE id = ANY ($1::pg_catalog.int8[])"
                         " AND processed_at IS NULL",
    [OUTBOX_REJECTED] =
        "UPDATE %s AS o SET attempts = o.attempts + 1, last_error = r.reason"
        " FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.int8[]), pg_catalog.unnest($2::pg_catalog.text[]))"
        " AS r (id, reason) WHERE o.id = r.id AND o.processed_at IS NULL",
    [OUTBOX_BACKLOG] =
        "SELECT (SELECT pg_catalog.count(*) FROM (SELECT FROM %s WHERE processed_at IS NULL ORDER BY id"
        " LIMIT " MAX_COUNT ") AS counted), age, age_of_delete, CASE WHEN $1::pg_catalog.text IS NOT NULL"
        " THEN pg_catalog.pg_notify($1, $2) END FROM (" OLDEST ") AS oldest",
    [OUTBOX_WRITERS] =
        "SELECT (SELECT pg_catalog.string_agg(virtualtransaction, ' ') FROM pg_catalog.pg_locks WHERE locktype = "
        "'relation' AND relation = %l::pg_catalog.regclass AND mode = 'RowExclusiveLock' AND granted AND database ="
        " (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())),"
        " EXISTS (SELECT FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_sequence AS s ON s.seqrelid = d.objid"
        " JOIN pg_catalog.pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid"
        " WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid"
        " AND d.refobjid = %l::pg_catalog.regclass AND d.deptype IN ('a', 'i') AND a.attname = 'id'"
        " AND s.seqincrement > 0 AND s.seqcache = 1 AND NOT s.seqcycle)",
    [OUTBOX_AWAITED] =
        "SELECT id, processed_at IS NOT NULL, processed_at IS NULL AND attempts > 0 AND last_error IS NOT NULL,"
        " CASE WHEN processed_at IS NULL THEN pg_catalog.left(last_error, " MAX_REASON ") END"
        " FROM %s WHERE id = ANY ($1::pg_catalog.int8[])",
};

/* Advisory lock K is the table's: sql/trigger.sql says the same. */
#define HUSH_KEY "8243113856839188480 + %l::pg_catalog.regclass::pg_catalog.oid::pg_catalog.int8"
static const char hush[] = "SELECT pg_catalog.pg_try_advisory_lock(" HUSH_KEY ")";
static const char unhush[] = "SELECT pg_catalog.pg_advisory_unlock(" HUSH_KEY ")";

#define SESSION_STARTED "(pg_catalog.date_part('epoch', backend_start)::pg_catalog.numeric * 1000000)::pg_catalog.int8"
static const char session[] =
    "SELECT pid, " SESSION_STARTED ", pg_catalog.set_config('tcp_keepalives_idle', '10', false),"
    " pg_catalog.set_config('tcp_keepalives_interval', '5', false), pg_catalog.set_config('tcp_keepalives_count', '3', "
    "false) FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()";
static const char end_session[] = "SELECT pg_catalog.pg_terminate_backend(pid, 2000) FROM pg_catalog.pg_stat_activity "
                                  "WHERE pid = %d AND " SESSION_STARTED " = %" PRId64 " AND usename = CURRENT_USER";

static const char *const names[OUTBOX_STATEMENTS] = {
    [OUTBOX_CLAIM] = "relay_claim",         [OUTBOX_CLAIM_THESE] = "relay_claim_these",
    [OUTBOX_DELIVERED] = "relay_delivered", [OUTBOX_REJECTED] = "relay_rejected",
    [OUTBOX_BACKLOG] = "relay_backlog",     [OUTBOX_WRITERS] = "relay_writers",
    [OUTBOX_AWAITED] = "relay_awaited",
};

/* The columns of a claim, as CLAIMED has them. */
enum column {
	COLUMN_ID,
	COLUMN_ATTEMPTS,
	COLUMN_AGE_MS,
	COLUMN_PAYLOAD,
	COLUMN_LOCKED, /* of theirs: the version */
	COLUMN_WHOSE
};

bool outbox_check_channel(const char *channel, struct err *e)
{
	const size_t length = strlen(channel);
	if (length > 0 && length < IDENT_BYTES)
		return true;
	return err_set(e, ERR_CONFIG, "--channel: \"%.80s\" has %zu bytes; Postgres takes 1 to %d", channel, length,
	               IDENT_BYTES - 1);
}

bool outbox_init(struct outbox *o, const char *table, const char *channel, struct err *e)
{
	struct qualified_name name;
	struct buf quoted = {0};
	*o = (struct outbox){0};
	if (!ident_parse(table, &name, e))
		return err_prefix(e, "--table");
	if (!outbox_check_channel(channel, e))
		return false;
	ident_add_qualified(&quoted, &name);
	for (size_t i = 0; i < OUTBOX_STATEMENTS; i++) {
		o->sql[i] = ident_fill_in(sql[i], quoted.p);
		o->statements[i] = (struct pg_statement){names[i], o->sql[i]};
	}
	o->hush = ident_fill_in(hush, quoted.p);
	o->unhush = ident_fill_in(unhush, quoted.p);
	buf_clear(&quoted);
	ident_add_literal(&quoted, channel);
	o->share = ident_fill_in("SELECT pg_catalog.pg_notify(%s, '')", quoted.p);
	buf_clear(&quoted);
	buf_add_text(&quoted, "LISTEN ");
	ident_add(&quoted, channel);
	o->listen = quoted.p;
	return true;
}

void outbox_fini(struct outbox *o)
{
	for (size_t i = 0; i < OUTBOX_STATEMENTS; i++)
		free(o->sql[i]);
	free(o->listen);
	free(o->hush);
	free(o->unhush);
	free(o->share);
	*o = (struct outbox){0};
}

static void ignore_result(void *arg, const PGresult *result)
{
	(void)arg;
	(void)result;
}

void outbox_claim(const struct outbox *o, struct pg *pg, const struct outbox_bounds *bounds, pg_result_fn *fn,
                  void *arg)
{
	char rows[24];
	char bytes[24];
	char above[24];
	char upto[24];
	snprintf(rows, sizeof rows, "%u", bounds->max_rows);
	snprintf(bytes, sizeof bytes, "%zu", bounds->max_bytes);
	snprintf(above, sizeof above, "%" PRId64, bounds->above);
	snprintf(upto, sizeof upto, "%" PRId64, bounds->upto);
	const char *values[] = {
	    bounds->known,        bytes, bounds->these != NULL ? bounds->these : rows, above, upto, bounds->seen_ids,
	    bounds->seen_versions};
	pg_begin(pg);
	pg_execute(pg, &o->statements[bounds->these != NULL ? OUTBOX_CLAIM_THESE : OUTBOX_CLAIM],
	           (int)(sizeof values / sizeof *values), values, fn, arg);
}

static int64_t number(const PGresult *result, int row, int column)
{
	return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

static enum outbox_whose whose(const PGresult *result, int row)
{
	static const char *const words[] = {
	    [OUTBOX_MINE] = "mine", [OUTBOX_THEIRS] = "theirs", [OUTBOX_SEEN] = "seen", [OUTBOX_TAKEN] = "taken"};
	const char *text = PQgetvalue(result, row, COLUMN_WHOSE);
	enum outbox_whose of = OUTBOX_MINE;
	while (strcmp(text, words[of]) != 0)
		ASSERT(++of < sizeof words / sizeof *words);
	return of;
}

static void read_row(const PGresult *result, int at, struct outbox_row *row)
{
	*row = (struct outbox_row){
	    .id = number(result, at, COLUMN_ID),
	    .whose = whose(result, at),
	    .is_too_large = PQgetisnull(result, at, COLUMN_PAYLOAD) == 1,
	    .payload = {PQgetvalue(result, at, COLUMN_PAYLOAD), (size_t)PQgetlength(result, at, COLUMN_PAYLOAD)},
	};
	if (row->whose == OUTBOX_THEIRS || row->whose == OUTBOX_SEEN)
		row->version = number(result, at, COLUMN_LOCKED);
	if (row->whose != OUTBOX_MINE)
		return;
	int64_t attempts = number(result, at, COLUMN_ATTEMPTS);
	row->attempts = attempts > 0 ? (unsigned)attempts : 0;
	row->age_ms = number(result, at, COLUMN_AGE_MS);
}

void outbox_read(const PGresult *result, struct outbox_rows *found)
{
	int last = -1; /* of mine */
	*found = (struct outbox_rows){.n = (size_t)PQntuples(result)};
	found->rows = xcalloc(found->n, sizeof *found->rows);
	for (size_t i = 0; i < found->n; i++) {
		read_row(result, (int)i, &found->rows[i]);
		if (found->rows[i].whose != OUTBOX_MINE)
			continue;
		found->mine++;
		last = (int)i;
	}
	if (last >= 0)
		found->locked = (size_t)number(result, last, COLUMN_LOCKED);
}

void outbox_forget(struct outbox_rows *found)
{
	free(found->rows);
	*found = (struct outbox_rows){0};
}

void outbox_ack(const struct outbox *o, struct pg *pg, const struct outbox_ack *ack, pg_result_fn *fn, void *arg)
{
	if (ack->delivered != NULL)
		pg_execute(pg, &o->statements[OUTBOX_DELIVERED], 1, (const char *const[]){ack->delivered},
		           ignore_result, NULL);
	if (ack->rejected != NULL)
		pg_execute(pg, &o->statements[OUTBOX_REJECTED], 2, (const char *const[]){ack->rejected, ack->reasons},
		           ignore_result, NULL);
	pg_commit(pg, fn, arg);
}

void outbox_backlog(const struct outbox *o, struct pg *pg, const char *channel, const char *payload, pg_result_fn *fn,
                    void *arg)
{
	pg_execute(pg, &o->statements[OUTBOX_BACKLOG], 2, (const char *const[]){channel, payload}, fn, arg);
	/* Without an end of its own it would be in the claim's transaction, and the notification would wait for that.
	 */
	pg_sync(pg);
}

void outbox_read_backlog(const PGresult *result, struct outbox_pending *pending)
{
	*pending = (struct outbox_pending){
	    .rows = number(result, 0, 0),
	    /* "", which is 0, where there is none */
	    .oldest_age_seconds = strtod(PQgetvalue(result, 0, 1), NULL),
	    .oldest_delete_age_seconds = strtod(PQgetvalue(result, 0, 2), NULL),
	};
}

void outbox_writers(const struct outbox *o, struct pg *pg, pg_result_fn *fn, void *arg)
{
	pg_execute(pg, &o->statements[OUTBOX_WRITERS], 0, NULL, fn, arg);
	pg_sync(pg);
}

void outbox_read_writers(const PGresult *result, const char **list, bool *in_order)
{
	*list = PQgetvalue(result, 0, 0);
	*in_order = *PQgetvalue(result, 0, 1) == 't';
}

void outbox_awaited(const struct outbox *o, struct pg *pg, const char *ids, pg_result_fn *fn, void *arg)
{
	pg_execute(pg, &o->statements[OUTBOX_AWAITED], 1, &ids, fn, arg);
	pg_sync(pg);
}

void outbox_read_awaited(const PGresult *result, int row, struct outbox_awaited *found)
{
	*found = (struct outbox_awaited){
	    .id = number(result, row, 0),
	    .is_delivered = *PQgetvalue(result, row, 1) == 't',
	    .was_refused = *PQgetvalue(result, row, 2) == 't',
	    .reason = str_of(PQgetvalue(result, row, 3)),
	};
}

void outbox_say(struct pg *pg, const char *text, pg_result_fn *fn, void *arg)
{
	pg_query(pg, text, fn, arg);
	pg_sync(pg);
}

void outbox_session(struct pg *pg, pg_result_fn *fn, void *arg)
{
	outbox_say(pg, session, fn, arg);
}

void outbox_read_session(const PGresult *result, struct outbox_session *of)
{
	*of = (struct outbox_session){0};
	if (PQntuples(result) == 1)
		*of = (struct outbox_session){(int)number(result, 0, 0), number(result, 0, 1)};
}

void outbox_end_session(struct pg *pg, const struct outbox_session *of, pg_result_fn *fn, void *arg)
{
	char text[sizeof end_session + 48];
	snprintf(text, sizeof text, end_session, of->pid, of->started_us);
	outbox_say(pg, text, fn, arg);
}

bool outbox_read_hush(const PGresult *result)
{
	return PQntuples(result) == 1 && *PQgetvalue(result, 0, 0) == 't';
}

void outbox_add_element(struct buf *array, struct str s)
{
	buf_add_char(array, '"');
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			buf_add_char(array, '\\');
		buf_add_char(array, s.p[i]);
	}
	buf_add_char(array, '"');
}
