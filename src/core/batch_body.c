/* A request's body. */
#include "core/batch.h"

#include <stdlib.h>

#include "base/die.h"

static int by_tuple(const void *a, const void *b)
{
	const struct op *x = *(const struct op *const *)a;
	const struct op *y = *(const struct op *const *)b;
	if (x->kind != y->kind)
		return x->kind == OP_DELETE ? -1 : 1;
	return tuple_cmp(&x->tuple, &y->tuple);
}

/* All operations of the request: deletes first, each kind sorted, repetitions left out. */
static size_t gather(const struct batch *b, const struct request *r, const struct op **ops)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++) {
		struct part part = r->parts[i];
		for (uint32_t k = 0; k < part.n; k++)
			ops[n++] = &b->rows[part.row].payload.ops[part.first + k];
	}
	if (n == 0)
		return 0;
	qsort(ops, n, sizeof(const struct op *), by_tuple);
	size_t kept = 1;
	for (size_t i = 1; i < n; i++)
		if (by_tuple(&ops[i], &ops[kept - 1]) != 0)
			ops[kept++] = ops[i];
	return kept;
}

static void add_tuple(const struct op *op, struct buf *out)
{
	const struct tuple *t = &op->tuple;
	buf_add_text(out, "{\"user\":");
	buf_add_json(out, t->user);
	buf_add_text(out, ",\"relation\":");
	buf_add_json(out, t->relation);
	buf_add_text(out, ",\"object\":");
	buf_add_json(out, t->object);
	if (op->kind == OP_WRITE && t->condition.n > 0) {
		buf_add_text(out, ",\"condition\":{\"name\":");
		buf_add_json(out, t->condition);
		buf_add_text(out, ",\"context\":");
		buf_add_str(out, t->context);
		buf_add_char(out, '}');
	}
	buf_add_char(out, '}');
}

static void add_ops(const struct op **ops, size_t n, const char *head, const char *tail, struct buf *out)
{
	buf_add_text(out, head);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			buf_add_char(out, ',');
		add_tuple(ops[i], out);
	}
	buf_add_text(out, tail);
}

const struct tuple *batch_tuple(const struct batch *b, const struct request *r)
{
	ASSERT(r->n > 0);
	return &b->rows[r->parts[0].row].payload.ops[r->parts[0].first].tuple;
}

size_t batch_body(const struct batch *b, const struct request *r, struct str model, struct buf *out)
{
	const struct op **ops = xmalloc(r->tuples * sizeof(const struct op *));
	size_t n = gather(b, r, ops);
	size_t deletes = 0;
	while (deletes < n && ops[deletes]->kind == OP_DELETE)
		deletes++;
	const char *comma = "{";
	if (model.n > 0) {
		buf_add_text(out, "{\"authorization_model_id\":");
		buf_add_json(out, model);
		comma = ",";
	}
	if (deletes > 0) {
		buf_add_text(out, comma);
		add_ops(ops, deletes, "\"deletes\":{\"tuple_keys\":[", "],\"on_missing\":\"ignore\"}", out);
		comma = ",";
	}
	if (n > deletes) {
		buf_add_text(out, comma);
		add_ops(ops + deletes, n - deletes, "\"writes\":{\"tuple_keys\":[", "],\"on_duplicate\":\"ignore\"}",
		        out);
	}
	buf_add_char(out, '}');
	free(ops);
	return n;
}
