#include "core/existing.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

void existing_body(const struct tuple *t, struct buf *out)
{
	buf_add_text(out, "{\"tuple_key\":{\"user\":");
	buf_add_json(out, t->user);
	buf_add_text(out, ",\"relation\":");
	buf_add_json(out, t->relation);
	buf_add_text(out, ",\"object\":");
	buf_add_json(out, t->object);
	buf_add_text(out, "},\"page_size\":1,\"consistency\":\"HIGHER_CONSISTENCY\"}");
}

/* No context is an empty one; numbers are doubles there as well as here (google.protobuf.Struct). */
static bool same_context(struct str wanted, const cJSON *found)
{
	cJSON *ours = cJSON_ParseWithLength(wanted.p, wanted.n);
	bool same =
	    cJSON_IsObject(found) ? cJSON_Compare(ours, found, true) : cJSON_IsObject(ours) && ours->child == NULL;
	cJSON_Delete(ours);
	return same;
}

static bool same_condition(const struct tuple *t, const cJSON *condition)
{
	const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(condition, "name"));
	if (t->condition.n == 0 || name == NULL)
		return t->condition.n == 0 && name == NULL;
	return str_eq(t->condition, str_of(name)) &&
	       same_context(t->context, cJSON_GetObjectItemCaseSensitive(condition, "context"));
}

static void reject(const struct tuple *t, struct judgement *out)
{
	struct buf text = {0};
	struct buf clean = {0};
	buf_printf(&text,
	           "OpenFGA has this tuple with a different condition, which the row has to delete as well: user: "
	           "'%.*s', relation: '%.*s', object: '%.*s'",
	           (int)t->user.n, t->user.p, (int)t->relation.n, t->relation.p, (int)t->object.n, t->object.p);
	buf_add_clean(&clean, buf_str(&text), sizeof out->reason - 1);
	*out = (struct judgement){.verdict = VERDICT_REJECTED};
	memcpy(out->reason, clean.p, clean.n + 1);
	buf_free(&clean);
	buf_free(&text);
}

void existing_judge(const struct answer *a, const struct tuple *t, int64_t wall_ms, struct judgement *out)
{
	verdict_check(a, "a tuple that exists", wall_ms, out);
	/* The Write before has shown that store and model are in order. */
	if (out->verdict == VERDICT_HALT && a->transport == TRANSPORT_ANSWERED && a->status == 400)
		out->verdict = VERDICT_REJECTED;
	if (out->verdict != VERDICT_DELIVERED)
		return;
	cJSON *body = cJSON_ParseWithLength(a->body.p, a->body.n);
	const cJSON *found = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(body, "tuples"), 0);
	const cJSON *key = cJSON_GetObjectItemCaseSensitive(found, "key");
	if (key == NULL) {
		*out = (struct judgement){.verdict = VERDICT_RETRY, .hint = HINT_RACE};
		snprintf(out->reason, sizeof out->reason, "OpenFGA says that a tuple exists, and does not have it");
	} else if (!same_condition(t, cJSON_GetObjectItemCaseSensitive(key, "condition"))) {
		reject(t, out);
	}
	cJSON_Delete(body);
}
