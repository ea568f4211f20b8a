#include "core/fault.h"

#include "core/tuple.h"

/* Cuts s at the first `mark`: what is before it is returned, what follows it stays. False: there is none. */
static bool cut(struct str *s, const char *mark, struct str *before)
{
	struct str m = str_of(mark);
	for (size_t i = 0; i + m.n <= s->n; i++) {
		if (!str_eq((struct str){s->p + i, m.n}, m))
			continue;
		*before = (struct str){s->p, i};
		*s = (struct str){s->p + i + m.n, s->n - i - m.n};
		return true;
	}
	return false;
}

static bool starts_with(struct str s, const char *prefix)
{
	struct str start = str_of(prefix);
	return s.n >= start.n && str_eq((struct str){s.p, start.n}, start);
}

/* What is said of types and relations of the model. Where `whole`, the sentence has no id of a tuple in it. */
static const struct {
	const char *starts;
	bool whole;
} kinds[] = {
    {"type '", true},
    {"relation '", true},
    {"the typed wildcard '", true},
    {"'", true}, /* 'group#member' is not an allowed type restriction for … */
    {"unexpected ", false},
    {"condition is missing", false},
    {"undefined condition", false},
    {"invalid condition for type restriction", false},
};

/* Whether it is the kind of the tuple that is refused. */
static bool read_reason(struct str why, struct fault *out)
{
	struct buf text = {0};
	struct str sentence = why;
	size_t i = 0;
	while (i < sizeof kinds / sizeof *kinds && !starts_with(why, kinds[i].starts))
		i++;
	bool is_kind = i < sizeof kinds / sizeof *kinds;
	if (is_kind && kinds[i].whole) {
		if (!cut(&why, " for tuple '", &sentence))
			sentence = why;
	} else {
		sentence.n = 0;
		while (sentence.n < why.n && strchr("'\":", why.p[sentence.n]) == NULL)
			sentence.n++;
		while (sentence.n > 0 && sentence.p[sentence.n - 1] == ' ')
			sentence.n--;
	}
	buf_add_clean(&text, sentence, sizeof out->reason - 1);
	if (text.n > 0)
		memcpy(out->reason, text.p, text.n + 1);
	buf_free(&text);
	return is_kind;
}

/* "object#relation@user" or "object#relation@user (condition name)". No part of a tuple has a blank, an object no #,
 * and a relation no @. */
static bool read_tuple(struct str text, struct tuple *t)
{
	if (!cut(&text, "#", &t->object) || !cut(&text, "@", &t->relation))
		return false;
	t->user = text;
	if (cut(&text, " (condition ", &t->user) && text.n > 0)
		t->condition = (struct str){text.p, text.n - 1};
	return true;
}

void fault_read(struct str message, struct fault *out)
{
	struct tuple t = {0};
	struct str before;
	struct str named;
	bool is_kind = false;
	*out = (struct fault){0};
	if (starts_with(message, "Invalid tuple '")) {
		if (!cut(&message, "'", &before) || !cut(&message, "'. Reason: ", &named) || !read_tuple(named, &t))
			return;
		is_kind = read_reason(message, out);
	} else if (!cut(&message, "different condition: user: '", &before) ||
	           !cut(&message, "', relation: '", &t.user) || !cut(&message, "', object: '", &t.relation) ||
	           !cut(&message, "'", &t.object)) {
		return;
	}
	tuple_hash(&t);
	out->tuple = t.hash;
	if (is_kind)
		out->kind = tuple_kind(&t);
}
