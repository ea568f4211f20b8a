#include "core/model.h"

#include <cjson/cJSON.h>

/* One of a relation's type restrictions: user, user:*, group#member, each perhaps with a condition. */
struct restriction {
	struct str type;
	struct str relation;
	struct str condition;
	bool is_everybody;
};

struct relation {
	struct str name;
	const struct restriction *restrictions;
	size_t n; /* 0: nobody can be written */
};

struct model_type {
	struct str name;
	struct relation *relations;
	size_t n;
};

static struct str copy(struct arena *arena, const char *text)
{
	return text != NULL ? arena_str(arena, str_of(text)) : (struct str){0};
}

static struct str text_of(const cJSON *object, const char *key, struct arena *arena)
{
	return copy(arena, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key)));
}

static size_t size_of(const cJSON *list)
{
	int n = cJSON_GetArraySize(list);
	return n > 0 ? (size_t)n : 0;
}

static void read_restrictions(const cJSON *list, struct arena *arena, struct relation *out)
{
	struct restriction *restrictions = ARENA_ARRAY(arena, struct restriction, size_of(list));
	const cJSON *item;
	cJSON_ArrayForEach(item, list)
	{
		restrictions[out->n++] = (struct restriction){
		    .type = text_of(item, "type", arena),
		    .relation = text_of(item, "relation", arena),
		    .condition = text_of(item, "condition", arena),
		    .is_everybody = cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(item, "wildcard")),
		};
	}
	out->restrictions = restrictions;
}

static struct model_type read_type(const cJSON *item, struct arena *arena)
{
	const cJSON *relations = cJSON_GetObjectItemCaseSensitive(item, "relations");
	const cJSON *metadata =
	    cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(item, "metadata"), "relations");
	struct model_type type = {.name = text_of(item, "type", arena)};
	const cJSON *named;
	type.relations = ARENA_ARRAY(arena, struct relation, size_of(relations));
	cJSON_ArrayForEach(named, relations)
	{
		struct relation *relation = &type.relations[type.n++];
		const cJSON *list = cJSON_GetObjectItemCaseSensitive(
		    cJSON_GetObjectItemCaseSensitive(metadata, named->string), "directly_related_user_types");
		relation->name = copy(arena, named->string);
		read_restrictions(list, arena, relation);
	}
	return type;
}

static void read_conditions(const cJSON *all, struct arena *arena, struct model *out)
{
	struct str *conditions = ARENA_ARRAY(arena, struct str, size_of(all));
	const cJSON *named;
	cJSON_ArrayForEach(named, all) conditions[out->n_conditions++] = copy(arena, named->string);
	out->conditions = conditions;
}

static const cJSON *find_model(const cJSON *body)
{
	const cJSON *one = cJSON_GetObjectItemCaseSensitive(body, "authorization_model");
	return one != NULL ? one
	                   : cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(body, "authorization_models"), 0);
}

bool model_read(struct str body, struct arena *arena, struct model *out, struct err *e)
{
	cJSON *root = cJSON_ParseWithLengthOpts(body.p, body.n, NULL, false);
	const cJSON *model = find_model(root);
	const cJSON *types = cJSON_GetObjectItemCaseSensitive(model, "type_definitions");
	const cJSON *item;
	bool is_model = cJSON_IsArray(types);
	*out = (struct model){0};
	if (is_model) {
		struct model_type *read = ARENA_ARRAY(arena, struct model_type, size_of(types));
		cJSON_ArrayForEach(item, types) read[out->n++] = read_type(item, arena);
		out->types = read;
		out->id = text_of(model, "id", arena);
		read_conditions(cJSON_GetObjectItemCaseSensitive(model, "conditions"), arena, out);
	}
	cJSON_Delete(root);
	return is_model || err_set(e, ERR_CONFIG, "the answer holds no authorization model");
}

static int length(struct str s)
{
	return (int)s.n;
}

static const struct model_type *find_type(const struct model *m, struct str name, struct err *e)
{
	for (size_t i = 0; i < m->n; i++)
		if (str_eq(m->types[i].name, name))
			return &m->types[i];
	(void)err_set(e, ERR_REJECTED, "the model has no type %.*s", length(name), name.p);
	return NULL;
}

static const struct relation *find_relation(const struct model_type *type, struct str name, struct err *e)
{
	for (size_t i = 0; i < type->n; i++)
		if (str_eq(type->relations[i].name, name))
			return &type->relations[i];
	(void)err_set(e, ERR_REJECTED, "type %.*s of the model has no relation %.*s", length(type->name), type->name.p,
	              length(name), name.p);
	return NULL;
}

/* Whether some restriction is for this kind of user, whatever its condition. */
static bool allows_user(const struct relation *r, const struct tuple_parts *p)
{
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(r->restrictions[i].type, p->user_type) &&
		    str_eq(r->restrictions[i].relation, p->user_relation) &&
		    r->restrictions[i].is_everybody == p->is_everybody)
			return true;
	return false;
}

/* By the type alone: not every version looks at the kind of user here. */
static bool allows_condition(const struct relation *r, const struct tuple_parts *p, struct str condition)
{
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(r->restrictions[i].type, p->user_type) && str_eq(r->restrictions[i].condition, condition))
			return true;
	return false;
}

static bool has_condition(const struct model *m, struct str name)
{
	for (size_t i = 0; i < m->n_conditions; i++)
		if (str_eq(m->conditions[i], name))
			return true;
	return false;
}

static bool check_condition(const struct model *m, const struct relation *r, const struct tuple_parts *p,
                            const struct tuple *t, struct err *e)
{
	struct str name = t->condition;
	/* OpenFGA's own, such as $expression, stand in no model. */
	if (name.n > 0 && name.p[0] == '$')
		return true;
	if (name.n > 0 && !has_condition(m, name))
		return err_set(e, ERR_REJECTED, "the model has no condition %.*s", length(name), name.p);
	if (allows_condition(r, p, name))
		return true;
	if (name.n == 0)
		return err_set(e, ERR_REJECTED, "relation %.*s#%.*s takes %.*s with a condition only",
		               length(p->object_type), p->object_type.p, length(t->relation), t->relation.p,
		               length(p->user_type), p->user_type.p);
	return err_set(e, ERR_REJECTED, "relation %.*s#%.*s does not take %.*s with condition %.*s",
	               length(p->object_type), p->object_type.p, length(t->relation), t->relation.p,
	               length(p->user_type), p->user_type.p, length(name), name.p);
}

bool model_takes(const struct model *m, const struct tuple *t, struct err *e)
{
	struct tuple_parts p;
	tuple_split(t, &p);
	const struct model_type *object_type = find_type(m, p.object_type, e);
	const struct relation *relation = object_type != NULL ? find_relation(object_type, t->relation, e) : NULL;
	const struct model_type *user_type = relation != NULL ? find_type(m, p.user_type, e) : NULL;
	if (user_type == NULL || (p.user_relation.n > 0 && find_relation(user_type, p.user_relation, e) == NULL))
		return false;
	if (!allows_user(relation, &p))
		return err_set(e, ERR_REJECTED, "relation %.*s#%.*s does not take %.*s%s%.*s", length(p.object_type),
		               p.object_type.p, length(t->relation), t->relation.p, length(p.user_type), p.user_type.p,
		               p.is_everybody          ? ":*"
		               : p.user_relation.n > 0 ? "#"
		                                       : "",
		               length(p.user_relation), p.user_relation.n > 0 ? p.user_relation.p : "");
	return check_condition(m, relation, &p, t, e);
}
