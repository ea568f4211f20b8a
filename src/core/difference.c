#include "core/difference.h"

#include <cjson/cJSON.h>

const char *difference_name(enum difference d)
{
	static const char *const names[] = {
#define X(id, name) (name),
	    DIFFERENCES(X)
#undef X
	};
	return names[d];
}

static cJSON *read_context(struct str context)
{
	return context.n > 0 ? cJSON_ParseWithLength(context.p, context.n) : cJSON_CreateObject();
}

bool difference_same_condition(const struct tuple *a, const struct tuple *b)
{
	if (!str_eq(a->condition, b->condition) || a->condition.n == 0)
		return str_eq(a->condition, b->condition);
	if (str_eq(a->context, b->context))
		return true;
	cJSON *left = read_context(a->context);
	cJSON *right = read_context(b->context);
	const bool same = cJSON_Compare(left, right, true);
	cJSON_Delete(left);
	cJSON_Delete(right);
	return same;
}

enum difference difference_of(enum last_word word, const struct tuple *said, const struct tuple *found)
{
	switch (word) {
	case WORD_NONE:
		return found != NULL ? DIFFERENCE_FOREIGN : DIFFERENCE_NONE;
	case WORD_DELETE:
		return found != NULL ? DIFFERENCE_SURVIVING : DIFFERENCE_NONE;
	case WORD_WRITE:
		if (found == NULL)
			return DIFFERENCE_MISSING;
		return difference_same_condition(said, found) ? DIFFERENCE_NONE : DIFFERENCE_CONDITION;
	}
	return DIFFERENCE_NONE;
}
