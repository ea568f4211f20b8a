#include "core/existing.h"

#include <stdio.h>
#include <string.h>

#include "core/difference.h"
#include "core/page.h"

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
	struct arena arena = {0};
	struct page page;
	struct err e;
	if (!page_read(a->body, &arena, &page, &e) || page.n == 0) {
		*out = (struct judgement){.verdict = VERDICT_RETRY, .hint = HINT_RACE};
		snprintf(out->reason, sizeof out->reason, "OpenFGA says that a tuple exists, and does not have it");
	} else if (!difference_same_condition(t, &page.tuples[0])) {
		reject(t, out);
	}
	arena_free(&arena);
}
