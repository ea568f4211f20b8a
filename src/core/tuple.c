#include "core/tuple.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/json.h"

/* The limits of openfga.v1.TupleKey and openfga.v1.RelationshipCondition (github.com/openfga/api,
 * openfga/v1/openfga.proto): bytes for a user, characters for the rest. The context's is OpenFGA's
 * DefaultWriteContextByteLimit. */
enum {
	MAX_USER_BYTES = 512,
	MAX_OBJECT_CHARACTERS = 256,
	MAX_RELATION_CHARACTERS = 50,
	MIN_CONDITION_CHARACTERS = 2,
	MAX_CONDITION_CHARACTERS = 256,
	MAX_CONTEXT_BYTES = 32 * 1024,
};

void tuple_hash(struct tuple *t)
{
	/* No field can hold a NUL, so one between them keeps "a"+"bc" and "ab"+"c" apart. */
	uint64_t hash = hash_str(HASH_START, t->object);
	hash = hash_str(hash_str(hash, STR("\0")), t->relation);
	t->hash = hash_str(hash_str(hash, STR("\0")), t->user);
}

int tuple_cmp(const struct tuple *a, const struct tuple *b)
{
	int order = str_cmp(a->object, b->object);
	if (order == 0)
		order = str_cmp(a->relation, b->relation);
	if (order == 0)
		order = str_cmp(a->user, b->user);
	return order;
}

bool tuple_same_condition(const struct tuple *a, const struct tuple *b)
{
	return str_eq(a->condition, b->condition) && str_eq(a->context, b->context);
}

static size_t characters(struct str s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++)
		n += (s.p[i] & 0xc0) != 0x80;
	return n;
}

static bool has(struct str s, char c)
{
	return s.n > 0 && memchr(s.p, c, s.n) != NULL;
}

/* What comes before the first c, and what after it. False: there is no c. */
static bool cut(struct str s, char c, struct str *before, struct str *after)
{
	const char *at = s.n > 0 ? memchr(s.p, c, s.n) : NULL;
	if (at == NULL)
		return false;
	*before = (struct str){s.p, (size_t)(at - s.p)};
	*after = (struct str){at + 1, s.n - before->n - 1};
	return true;
}

/* A blank, or what Unicode calls a control character (U+0000 to U+001F, U+007F to U+009F). Other white space, such as
 * U+00A0, is as good as a letter to OpenFGA. */
static bool has_blank(struct str s)
{
	for (size_t i = str_plain(s); i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c <= ' ' || c == 0x7f)
			return true;
		if (c == 0xc2 && i + 1 < s.n && (unsigned char)s.p[i + 1] < 0xa0)
			return true;
	}
	return false;
}

static bool check_text(const char *field, struct str s, struct err *e)
{
	if (s.n == 0)
		return err_set(e, ERR_REJECTED, "%s: is empty", field);
	if (has_blank(s))
		return err_set(e, ERR_REJECTED, "%s: must have no white space and no control characters", field);
	return true;
}

static bool check_length(const char *field, struct str s, size_t max, struct err *e)
{
	size_t n = s.n <= max ? s.n : characters(s);
	if (n <= max)
		return true;
	return err_set(e, ERR_REJECTED, "%s: is %zu characters long, must be at most %zu", field, n, max);
}

static bool check_object(const struct tuple *t, struct err *e)
{
	struct str type;
	struct str id;
	if (!check_text("object", t->object, e) || !check_length("object", t->object, MAX_OBJECT_CHARACTERS, e))
		return false;
	if (!cut(t->object, ':', &type, &id) || type.n == 0 || id.n == 0 || has(id, ':') || has(t->object, '#'))
		return err_set(e, ERR_REJECTED, "object: must be type:id, with one : and no #");
	if (str_eq(id, STR("*")))
		return err_set(e, ERR_REJECTED, "object: must be a single one; type:* can only be a user");
	return true;
}

static bool check_relation(const struct tuple *t, struct err *e)
{
	if (!check_text("relation", t->relation, e) ||
	    !check_length("relation", t->relation, MAX_RELATION_CHARACTERS, e))
		return false;
	if (has(t->relation, ':') || has(t->relation, '#') || has(t->relation, '@'))
		return err_set(e, ERR_REJECTED, "relation: must have none of : # @");
	return true;
}

static bool check_user(const struct tuple *t, struct err *e)
{
	struct str type;
	struct str id;
	struct str object = t->user;
	struct str relation = {0};
	if (!check_text("user", t->user, e))
		return false;
	if (t->user.n > MAX_USER_BYTES)
		return err_set(e, ERR_REJECTED, "user: is %zu bytes long, must be at most %d", t->user.n,
		               MAX_USER_BYTES);
	bool userset = cut(t->user, '#', &object, &relation);
	if (!cut(object, ':', &type, &id) || type.n == 0 || id.n == 0 || has(id, ':') ||
	    (userset && (relation.n == 0 || has(relation, ':') || has(relation, '#'))))
		return err_set(e, ERR_REJECTED, "user: must be type:id, type:id#relation or type:*");
	if (userset && (has(id, '*') || has(relation, '*')))
		return err_set(e, ERR_REJECTED, "user: must have no * in type:id#relation");
	if (userset && str_eq(object, t->object) && str_eq(relation, t->relation))
		return err_set(e, ERR_REJECTED, "user: is the object's own relation, which holds without a tuple");
	return true;
}

void tuple_split(const struct tuple *t, struct tuple_parts *out)
{
	struct str id = {0};
	struct str object = t->user;
	*out = (struct tuple_parts){0};
	(void)cut(t->object, ':', &out->object_type, &id);
	(void)cut(t->user, '#', &object, &out->user_relation);
	(void)cut(object, ':', &out->user_type, &id);
	out->is_everybody = str_eq(id, STR("*"));
}

uint64_t tuple_kind(const struct tuple *t)
{
	struct tuple_parts parts;
	tuple_split(t, &parts);
	uint64_t hash = hash_str(HASH_START, parts.object_type);
	hash = hash_str(hash_str(hash, STR("#")), t->relation);
	hash = hash_str(hash_str(hash, STR("@")), parts.user_type);
	hash = hash_str(hash, parts.is_everybody ? STR(":*#") : STR(":#"));
	hash = hash_str(hash_str(hash_str(hash, parts.user_relation), STR(" ")), t->condition);
	return hash != 0 ? hash : 1;
}

/* The size of a google.protobuf.Struct, which is what OpenFGA measures a context by. Sizes in the wire format
 * (https://protobuf.dev/programming-guides/encoding/); all tags here take one byte. */
static size_t field_bytes(size_t n)
{
	size_t length_bytes = 1;
	for (size_t rest = n; rest > 0x7f; rest >>= 7)
		length_bytes++;
	return 1 + length_bytes + n;
}

static bool struct_bytes(struct json *j, struct arena *scratch, size_t *bytes);

/* A number must fit a double: a larger one makes OpenFGA call the whole request malformed. The text of a
 * number ends before a character that cannot be part of one, since it stands in an object. */
static bool number_bytes(struct json *j, size_t *bytes)
{
	struct str raw;
	if (!json_skip(j, &raw))
		return false;
	if (!isfinite(strtod(raw.p, NULL)))
		return false;
	*bytes = 1 + sizeof(double);
	return true;
}

/* One google.protobuf.Value. */
static bool value_bytes(struct json *j, struct arena *scratch, size_t *bytes)
{
	struct str text;
	size_t inner = 0;
	switch (json_kind(j)) {
	case JSON_WRONG:
		return false;
	case JSON_NULL:
	case JSON_BOOLEAN:
		*bytes = 2;
		return json_skip(j, NULL);
	case JSON_NUMBER:
		return number_bytes(j, bytes);
	case JSON_STRING:
		if (!json_string(j, scratch, &text))
			return false;
		*bytes = field_bytes(text.n);
		return true;
	case JSON_OBJECT:
		if (!struct_bytes(j, scratch, &inner))
			return false;
		*bytes = field_bytes(inner);
		return true;
	case JSON_ARRAY:
		json_array(j);
		while (json_item(j)) {
			size_t item;
			if (!value_bytes(j, scratch, &item))
				return false;
			inner += field_bytes(item);
		}
		*bytes = field_bytes(inner);
		return j->wrong == NULL;
	}
	return false;
}

/* A struct is a map: each member a field with the key and the value as fields in it. */
static bool struct_bytes(struct json *j, struct arena *scratch, size_t *bytes)
{
	struct str key;
	*bytes = 0;
	if (!json_object(j))
		return false;
	while (json_member(j, scratch, &key)) {
		size_t value;
		if (!value_bytes(j, scratch, &value))
			return false;
		*bytes += field_bytes(field_bytes(key.n) + field_bytes(value));
	}
	return j->wrong == NULL;
}

static bool check_context(const struct tuple *t, struct err *e)
{
	struct arena scratch = {0};
	struct json j = json_start(t->context);
	size_t bytes;
	bool measured = struct_bytes(&j, &scratch, &bytes);
	arena_free(&scratch);
	if (!measured && j.wrong == NULL)
		return err_set(e, ERR_REJECTED, "condition.context: has a number that is too large for a double");
	if (!measured || !json_end(&j))
		return err_set(e, ERR_REJECTED, "condition.context: must be an object: %s at byte %zu", j.wrong, j.at);
	if (bytes > MAX_CONTEXT_BYTES)
		return err_set(e, ERR_REJECTED, "condition.context: is %zu bytes long as protobuf, must be at most %d",
		               bytes, MAX_CONTEXT_BYTES);
	return true;
}

static bool check_condition(const struct tuple *t, struct err *e)
{
	static const char field[] = "condition.name";
	if (t->condition.n == 0)
		return true;
	if (!check_text(field, t->condition, e) || !check_length(field, t->condition, MAX_CONDITION_CHARACTERS, e))
		return false;
	if (characters(t->condition) < MIN_CONDITION_CHARACTERS)
		return err_set(e, ERR_REJECTED, "%s: must be at least %d characters long", field,
		               MIN_CONDITION_CHARACTERS);
	return check_context(t, e);
}

bool tuple_check(const struct tuple *t, struct err *e)
{
	return check_user(t, e) && check_relation(t, e) && check_object(t, e) && check_condition(t, e);
}
