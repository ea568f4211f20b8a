#include "core/probe.h"

#include <cjson/cJSON.h>
#include <string.h>

void probe_body(struct str model, const char *on_missing, struct buf *out)
{
	buf_add_char(out, '{');
	if (model.n > 0) {
		buf_add_text(out, "\"authorization_model_id\":");
		buf_add_json(out, model);
		buf_add_char(out, ',');
	}
	buf_printf(out,
	           "\"deletes\":{\"tuple_keys\":[{\"user\":\"probe:x\",\"relation\":\"probe\",\"object\":\"probe:x\"}],"
	           "\"on_missing\":\"%s\"}}",
	           on_missing);
}

void probe_tuples_body(unsigned tuples, struct buf *out)
{
	buf_add_text(out, "{\"deletes\":{\"tuple_keys\":[");
	for (unsigned i = 0; i < tuples && i < PROBE_MAX_TUPLES; i++)
		buf_printf(out, "%s{\"user\":\"probe:x\",\"relation\":\"probe\",\"object\":\"probe:%u\"}",
		           i > 0 ? "," : "", i);
	buf_add_text(out, "],\"on_missing\":\"" PROBE_AGE "\"}}");
}

enum server_age probe_age(const struct answer *a)
{
	enum server_age age = SERVER_UNKNOWN;
	if (a->transport != TRANSPORT_ANSWERED || a->status != 400)
		return age;
	cJSON *body = cJSON_ParseWithLength(a->body.p, a->body.n);
	const char *code = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(body, "code"));
	const char *message = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(body, "message"));
	if (code != NULL && strcmp(code, "write_failed_due_to_invalid_input") == 0)
		age = SERVER_OLD;
	else if (code != NULL && strcmp(code, "validation_error") == 0 && message != NULL &&
	         str_has(str_of(message), str_of("on_missing")))
		age = SERVER_CURRENT;
	cJSON_Delete(body);
	return age;
}
