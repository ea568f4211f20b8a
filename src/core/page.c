#include "core/page.h"

#include "base/json.h"

static const char consistency[] = ",\"consistency\":\"HIGHER_CONSISTENCY\"}";

void page_body(struct str token, unsigned tuples, struct buf *out)
{
	buf_printf(out, "{\"page_size\":%u", tuples);
	if (token.n > 0) {
		buf_add_text(out, ",\"continuation_token\":");
		buf_add_json(out, token);
	}
	buf_add_text(out, consistency);
}

void page_body_of(const struct tuple *t, struct buf *out)
{
	buf_add_text(out, "{\"tuple_key\":{\"user\":");
	buf_add_json(out, t->user);
	buf_add_text(out, ",\"relation\":");
	buf_add_json(out, t->relation);
	buf_add_text(out, ",\"object\":");
	buf_add_json(out, t->object);
	buf_add_text(out, "},\"page_size\":1");
	buf_add_text(out, consistency);
}

/* Puts U+FFFD, in an escape of the same length, where a NUL's escape stands: base/json takes none. */
static struct str without_nuls(struct str body, struct arena *arena)
{
	static const char nul[] = "\\u0000";
	enum { LENGTH = sizeof nul - 1 };
	if (!str_has(body, STR(nul)))
		return body;
	char *p = arena_alloc(arena, body.n);
	memcpy(p, body.p, body.n);
	for (size_t i = 0; i + LENGTH <= body.n; i++) {
		if (p[i] != '\\')
			continue;
		if (memcmp(p + i, nul, LENGTH) == 0)
			memcpy(p + i, "\\ufffd", LENGTH);
		i++; /* what is escaped, a backslash too */
	}
	return (struct str){p, body.n};
}

static bool read_text(struct json *j, struct arena *arena, struct str *out)
{
	return json_kind(j) == JSON_NULL ? json_skip(j, NULL) : json_string(j, arena, out);
}

static void read_condition(struct json *j, struct arena *arena, struct tuple *t)
{
	struct str key;
	t->context = STR("{}");
	json_object(j);
	while (json_member(j, arena, &key)) {
		if (str_eq(key, STR("name")))
			(void)read_text(j, arena, &t->condition);
		else if (str_eq(key, STR("context")) && json_kind(j) == JSON_OBJECT)
			json_skip(j, &t->context);
		else
			json_skip(j, NULL);
	}
}

static void read_key(struct json *j, struct arena *arena, struct tuple *t)
{
	struct str key;
	json_object(j);
	while (json_member(j, arena, &key)) {
		if (str_eq(key, STR("user")))
			(void)read_text(j, arena, &t->user);
		else if (str_eq(key, STR("relation")))
			(void)read_text(j, arena, &t->relation);
		else if (str_eq(key, STR("object")))
			(void)read_text(j, arena, &t->object);
		else if (str_eq(key, STR("condition")) && json_kind(j) == JSON_OBJECT)
			read_condition(j, arena, t);
		else
			json_skip(j, NULL);
	}
	if (t->condition.n == 0)
		t->context = (struct str){0};
}

/* One of the list: its key, and when it was written, which does not matter. */
static bool read_tuple(struct json *j, struct arena *arena, struct tuple *t)
{
	struct str key;
	json_object(j);
	while (json_member(j, arena, &key)) {
		if (str_eq(key, STR("key")))
			read_key(j, arena, t);
		else
			json_skip(j, NULL);
	}
	return t->user.n > 0 && t->relation.n > 0 && t->object.n > 0;
}

/* False: one of them has no key. */
static bool read_tuples(struct json *j, struct arena *arena, struct page *out)
{
	bool whole = true;
	struct json count = *j;
	json_array(&count);
	while (json_item(&count) && json_skip(&count, NULL))
		out->n++;
	if (count.wrong != NULL) {
		*j = count;
		return true;
	}
	out->tuples = ARENA_ARRAY(arena, struct tuple, out->n);
	json_array(j);
	for (size_t i = 0; json_item(j); i++)
		whole = read_tuple(j, arena, &out->tuples[i]) && whole;
	return whole;
}

bool page_read(struct str body, struct arena *arena, struct page *out, struct err *e)
{
	struct json j = json_start(without_nuls(body, arena));
	struct str key;
	bool has_tuples = false;
	bool whole = true;
	*out = (struct page){0};
	json_object(&j);
	while (json_member(&j, arena, &key)) {
		if (str_eq(key, STR("tuples")) && !has_tuples) {
			has_tuples = true;
			whole = read_tuples(&j, arena, out);
		} else if (str_eq(key, STR("continuation_token"))) {
			(void)read_text(&j, arena, &out->token);
		} else {
			json_skip(&j, NULL);
		}
	}
	if (!json_end(&j))
		return err_set(e, ERR_TRANSIENT, "OpenFGA's page of tuples is not the JSON it must be at byte %zu: %s",
		               j.at, j.wrong != NULL ? j.wrong : "it does not end there");
	if (!has_tuples || !whole)
		return err_set(e, ERR_TRANSIENT, "OpenFGA's page of tuples has no tuples, or some without their key");
	return true;
}

static size_t without_white(struct str s)
{
	while (s.n > 0 && strchr(" \t\r\n", s.p[s.n - 1]) != NULL)
		s.n--;
	return s.n;
}

/* Takes this byte, and white space behind it, off the end. */
static bool take_off(struct str *s, char c)
{
	s->n = without_white(*s);
	if (s->n == 0 || s->p[s->n - 1] != c)
		return false;
	s->n--;
	return true;
}

struct str page_peek(struct str body)
{
	const struct str name = STR("\"continuation_token\"");
	if (!take_off(&body, '}') || !take_off(&body, '"'))
		return (struct str){0};
	struct str token = {body.p + body.n, 0};
	while (body.n > 0 && strchr("\"\\", body.p[body.n - 1]) == NULL) {
		body.n--;
		token.p--;
		token.n++;
	}
	if (!take_off(&body, '"') || !take_off(&body, ':'))
		return (struct str){0};
	body.n = without_white(body);
	if (body.n < name.n || !str_eq((struct str){body.p + body.n - name.n, name.n}, name))
		return (struct str){0};
	body.n -= name.n;
	/* A member of the page itself: within a text its quotation marks would be escaped, and deeper more would
	 * follow. */
	return take_off(&body, ',') || take_off(&body, '{') ? token : (struct str){0};
}
