#include "core/payload.h"

#include "base/die.h"
#include "base/json.h"

enum { SHOWN_KEY_BYTES = 64 };

/* Below the two arrays, an error's text begins with where it is seen from there (".user: is missing", ": is null");
 * read_list puts "writes[3]" before it. */

/* The keys that one kind of object may have. */
struct keys {
	size_t n;
	const char *names[4];
	const char *listed; /* the same, for a message */
};

/* One of the two arrays. */
struct list {
	const char *name;
	struct json items; /* the reader, stepped into the array */
	size_t n;          /* items, repetitions counted */
};

/* Operations by their tuples: open addressing, at most half full. */
struct table {
	uint32_t *slots; /* an operation's index, plus one; 0: free */
	size_t mask;
};

static bool of_kind(struct json *j, enum json_kind kind, const char *prefix, const char *name, struct err *e)
{
	enum json_kind is = json_kind(j);
	if (is == kind)
		return true;
	return err_set(e, ERR_REJECTED, "%s%s: is %s, must be %s", prefix, name, json_kind_name(is),
	               json_kind_name(kind));
}

static bool refuse_syntax(const struct json *j, struct err *e)
{
	return err_set(e, ERR_REJECTED, "payload: is not the JSON it must be at byte %zu: %s", j->at, j->wrong);
}

/* Which key of an object it is. Refused: one that is not known, and one that stands twice; *seen has a bit a key. */
static bool find_key(const struct keys *keys, struct str key, const char *where, unsigned *seen, size_t *which,
                     struct err *e)
{
	for (size_t i = 0; i < keys->n; i++) {
		if (!str_eq(key, str_of(keys->names[i])))
			continue;
		if (*seen & 1U << i)
			return err_set(e, ERR_REJECTED, "%s: the key \"%s\" stands twice", where, keys->names[i]);
		*seen |= 1U << i;
		*which = i;
		return true;
	}
	struct buf shown = {0};
	buf_add_clean(&shown, key, SHOWN_KEY_BYTES);
	err_set(e, ERR_REJECTED, "%s: unknown key \"%s\": only %s are known", where, shown.p, keys->listed);
	buf_free(&shown);
	return false;
}

static bool read_text(struct json *j, struct arena *arena, const char *prefix, const char *name, struct str *out,
                      struct err *e)
{
	return of_kind(j, JSON_STRING, prefix, name, e) && json_string(j, arena, out);
}

static bool read_condition(struct json *j, struct arena *arena, struct tuple *t, struct err *e)
{
	enum { NAME, CONTEXT };
	static const struct keys keys = {2, {"name", "context"}, "name and context"};
	static const char prefix[] = ".condition.";
	unsigned seen = 0;
	size_t which;
	struct str key;
	if (json_kind(j) == JSON_NULL)
		return json_skip(j, NULL);
	if (!of_kind(j, JSON_OBJECT, ".", "condition", e))
		return false;
	t->context = STR("{}");
	json_object(j);
	while (json_member(j, arena, &key)) {
		if (!find_key(&keys, key, ".condition", &seen, &which, e))
			return false;
		if (which == NAME) {
			if (!read_text(j, arena, prefix, "name", &t->condition, e))
				return false;
		} else if (json_kind(j) == JSON_NULL) {
			json_skip(j, NULL);
		} else if (!of_kind(j, JSON_OBJECT, prefix, "context", e) || !json_skip(j, &t->context)) {
			return false;
		}
	}
	if (!(seen & 1U << NAME))
		return err_set(e, ERR_REJECTED, ".condition.name: is missing");
	if (t->condition.n == 0)
		return err_set(e, ERR_REJECTED, ".condition.name: is empty");
	return true;
}

static bool read_tuple(struct json *j, struct arena *arena, struct op *op, struct err *e)
{
	enum { USER, RELATION, OBJECT, CONDITION };
	static const struct keys keys = {
	    4, {"user", "relation", "object", "condition"}, "user, relation, object and condition"};
	struct tuple *t = &op->tuple;
	struct str *const fields[] = {[USER] = &t->user, [RELATION] = &t->relation, [OBJECT] = &t->object};
	unsigned seen = 0;
	size_t which;
	struct str key;
	if (!of_kind(j, JSON_OBJECT, "", "", e))
		return false;
	json_object(j);
	while (json_member(j, arena, &key)) {
		if (!find_key(&keys, key, "", &seen, &which, e))
			return false;
		if (which != CONDITION) {
			if (!read_text(j, arena, ".", keys.names[which], fields[which], e))
				return false;
		} else if (op->kind == OP_DELETE) {
			/* OpenFGA does not look at it, whatever it is, and a revocation must not fail for it. */
			json_skip(j, NULL);
		} else if (!read_condition(j, arena, t, e)) {
			return false;
		}
	}
	for (size_t i = 0; i < CONDITION; i++)
		if (!(seen & 1U << i))
			return err_set(e, ERR_REJECTED, ".%s: is missing", keys.names[i]);
	struct err found;
	if (!tuple_check(t, &found))
		return err_set(e, found.kind, ".%s", found.text);
	tuple_hash(t);
	return true;
}

static struct table table_new(struct arena *arena, size_t n)
{
	ASSERT(n < UINT32_MAX / 4);
	size_t size = 1;
	while (size < 2 * n)
		size *= 2;
	return (struct table){.slots = ARENA_ARRAY(arena, uint32_t, size), .mask = size - 1};
}

/* The slot of the same tuple, or the free one where it belongs. */
static uint32_t *table_slot(const struct table *table, const struct op *ops, const struct tuple *t)
{
	for (size_t i = t->hash & table->mask;; i = (i + 1) & table->mask) {
		uint32_t *slot = &table->slots[i];
		if (*slot == 0)
			return slot;
		const struct tuple *other = &ops[*slot - 1].tuple;
		if (other->hash == t->hash && tuple_cmp(other, t) == 0)
			return slot;
	}
}

/* Reads a list's items behind the operations already there. */
static bool read_list(struct list *list, enum op_kind kind, struct arena *arena, const struct table *table,
                      struct payload *out, struct err *e)
{
	struct err found;
	for (size_t i = 0; i < list->n && json_item(&list->items); i++) {
		struct op op = {.kind = kind};
		if (!read_tuple(&list->items, arena, &op, &found))
			return err_set(e, found.kind, "%s[%zu]%s", list->name, i, found.text);
		uint32_t *slot = table_slot(table, out->ops, &op.tuple);
		if (*slot == 0) {
			out->ops[out->n++] = op;
			*slot = (uint32_t)out->n;
		} else if (!tuple_same_condition(&out->ops[*slot - 1].tuple, &op.tuple)) {
			return err_set(e, ERR_REJECTED, "%s[%zu]: is written before with another condition", list->name,
			               i);
		}
	}
	return true;
}

/* Finds and counts the lists, and checks that the whole text is JSON. */
static bool find_lists(struct str text, struct arena *arena, struct list lists[2], struct err *e)
{
	static const struct keys keys = {2, {[OP_DELETE] = "deletes", [OP_WRITE] = "writes"}, "writes and deletes"};
	struct json j = json_start(text);
	unsigned seen = 0;
	size_t which;
	struct str key;
	if (json_kind(&j) == JSON_WRONG)
		return refuse_syntax(&j, e);
	if (!of_kind(&j, JSON_OBJECT, "", "payload", e))
		return false;
	json_object(&j);
	while (json_member(&j, arena, &key)) {
		if (!find_key(&keys, key, "payload", &seen, &which, e))
			return false;
		struct list *list = &lists[which];
		list->name = keys.names[which];
		if (json_kind(&j) == JSON_NULL) {
			json_skip(&j, NULL);
			continue;
		}
		if (json_kind(&j) == JSON_WRONG)
			break;
		if (!of_kind(&j, JSON_ARRAY, "", list->name, e))
			return false;
		json_array(&j);
		list->items = j;
		while (json_item(&j) && json_skip(&j, NULL))
			list->n++;
	}
	return json_end(&j) || refuse_syntax(&j, e);
}

bool payload_parse(struct str text, struct arena *arena, struct payload *out, struct err *e)
{
	struct list lists[2] = {0};
	*out = (struct payload){0};
	if (!find_lists(text, arena, lists, e))
		return false;
	out->ops = ARENA_ARRAY(arena, struct op, lists[OP_DELETE].n + lists[OP_WRITE].n);
	struct table deleted = table_new(arena, lists[OP_DELETE].n);
	struct table written = table_new(arena, lists[OP_WRITE].n);
	if (!read_list(&lists[OP_DELETE], OP_DELETE, arena, &deleted, out, e))
		return false;
	out->n_deletes = out->n;
	if (!read_list(&lists[OP_WRITE], OP_WRITE, arena, &written, out, e))
		return false;
	for (size_t i = out->n_deletes; i < out->n && !out->rewrites; i++)
		out->rewrites = *table_slot(&deleted, out->ops, &out->ops[i].tuple) != 0;
	return true;
}
