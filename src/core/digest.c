#include "core/digest.h"

static void add_id(struct digest_group *g, int64_t id)
{
	size_t n = g->rows < DIGEST_IDS ? g->rows : DIGEST_IDS;
	size_t at = n;
	while (at > 0 && g->ids[at - 1] > id)
		at--;
	if (at < DIGEST_IDS) {
		size_t last = n < DIGEST_IDS ? n : DIGEST_IDS - 1;
		memmove(&g->ids[at + 1], &g->ids[at], (last - at) * sizeof g->ids[0]);
		g->ids[at] = id;
	}
	g->rows++;
}

/* Keeps the lowest ones. */
static void note_blocker(struct digest *d, int64_t id)
{
	size_t at = d->n_behind;
	while (at > 0 && d->behind[at - 1].id > id)
		at--;
	if (at == DIGEST_BEHIND || (at > 0 && d->behind[at - 1].id == id))
		return;
	if (d->n_behind < DIGEST_BEHIND)
		d->n_behind++;
	memmove(&d->behind[at + 1], &d->behind[at], (d->n_behind - 1 - at) * sizeof d->behind[0]);
	d->behind[at].id = id;
}

static void on_blocker(void *arg, const struct park_row *row)
{
	if (!row->was_refused && row->behind != 0)
		note_blocker(arg, row->behind);
}

static void on_row(void *arg, const struct park_row *row)
{
	struct digest *d = arg;
	if (row->was_refused) {
		d->refused++;
		add_id(&d->causes[row->cause], row->id);
		return;
	}
	d->held++;
	for (size_t i = 0; i < d->n_behind; i++)
		if (d->behind[i].id == row->behind)
			add_id(&d->behind[i].held, row->id);
}

void digest_read(const struct park *p, struct digest *out)
{
	*out = (struct digest){0};
	park_each(p, on_blocker, out);
	park_each(p, on_row, out);
}

static void write_group(const struct digest_group *g, struct buf *out)
{
	buf_printf(out, "\"rows\":%zu,\"ids\":[", g->rows);
	for (size_t i = 0; i < DIGEST_IDS && i < g->rows; i++) {
		buf_add_text(out, i == 0 ? "" : ",");
		buf_add_number(out, g->ids[i]);
	}
	buf_add_text(out, "]}");
}

static void write_cause(const struct park *p, const struct digest *d, size_t cause, struct buf *out)
{
	buf_add_text(out, "{\"reason\":");
	if (cause == CAUSE_NONE || cause == CAUSE_OTHER)
		buf_add_text(out, "null");
	else
		buf_add_json(out, str_of(park_causes(p)->list[cause].text));
	buf_add_char(out, ',');
	write_group(&d->causes[cause], out);
}

void digest_write(const struct park *p, struct buf *out)
{
	struct digest d;
	bool written[CAUSES_END] = {false};
	digest_read(p, &d);
	buf_printf(out, "{\"refused\":%zu,\"reasons\":[", d.refused);
	for (size_t n = 0; n < CAUSES_END; n++) {
		size_t most = CAUSES_END;
		for (size_t i = 0; i < CAUSES_END; i++)
			if (!written[i] && (most == CAUSES_END || d.causes[i].rows > d.causes[most].rows))
				most = i;
		written[most] = true;
		if (d.causes[most].rows == 0)
			break;
		buf_add_text(out, n == 0 ? "" : ",");
		write_cause(p, &d, most, out);
	}
	buf_printf(out, "],\"held\":%zu,\"behind\":[", d.held);
	for (size_t i = 0; i < d.n_behind; i++) {
		buf_printf(out, i == 0 ? "{\"id\":%lld," : ",{\"id\":%lld,", (long long)d.behind[i].id);
		write_group(&d.behind[i].held, out);
	}
	buf_add_text(out, "]}");
}
