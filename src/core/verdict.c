#include "core/verdict.h"

#include "base/arena.h"
#include "base/date.h"
#include "base/json.h"
#include "base/mask.h"

enum {
	SHOWN_BODY_BYTES = 120,
	SHOWN_MESSAGE_BYTES = 240,
	SHOWN_LOCATION_BYTES = 120,
	SHOWN_TRANSPORT_BYTES = 200,
};

/* What kind of body an answer has, and which a rule wants. */
enum body {
	BODY_ANY,
	BODY_JUNK,   /* not a JSON object */
	BODY_OBJECT, /* a JSON object without a code */
	BODY_EMPTY,  /* {} */
	BODY_ERROR,  /* its party's own: {"code","message"}, {"error","error_description"} */
};

/* A body, read. */
struct reading {
	enum body kind;
	struct str code;
	struct str message;
};

/* One line of a table. The first that fits holds; the last fits everything. */
struct rule {
	int status; /* 404; 5 for any 5xx; 0 for all */
	enum body body;
	const char *code;   /* NULL: any */
	const char *starts; /* how the message begins, NULL: any; what stands within it may be quoted from a tuple */
	enum verdict verdict;
	enum hint hint;
	bool unknown;
	const char *says;   /* what it means, in place of the answer itself; NULL: the answer */
	const char *advice; /* ends the reason; NULL: none */
};

#define ASK_URL "check FGA_API_URL"
#define ASK_STORE "check FGA_STORE_ID"
#define ASK_GONE \
	ASK_STORE \
	"; if the store was deleted, make one and its model, name them, restart relay, and `relay reconcile " \
	"--repair` brings the tuples back"
#define ASK_MODEL "check FGA_MODEL_ID"
#define ASK_BOTH "check FGA_STORE_ID and FGA_MODEL_ID, and that the store has a model"
#define ASK_TOKEN "check FGA_API_TOKEN, or FGA_API_TOKEN_ISSUER and FGA_API_AUDIENCE"
#define ASK_ACCESS "check FGA_API_URL, and what FGA_API_TOKEN or FGA_CLIENT_ID may do"
#define ASK_ISSUER "check FGA_API_TOKEN_ISSUER"
#define ASK_SECRET "check FGA_CLIENT_ID and FGA_CLIENT_SECRET"
#define ASK_SCOPES "check FGA_API_SCOPES"
#define ASK_AUDIENCE "check FGA_API_AUDIENCE, and what FGA_CLIENT_ID may do"
#define ASK_CLIENT "check FGA_API_TOKEN_ISSUER, FGA_CLIENT_ID, FGA_CLIENT_SECRET and FGA_API_AUDIENCE"
#define ASK_VERSION "check the version of OpenFGA: it does not take relay's options"

#define DIFFERENT_CONDITION \
	"transactional write failed due to conflict: attempted to write a tuple which already exists with a " \
	"different " \
	"condition"

#define D VERDICT_DELIVERED
#define R VERDICT_RETRY
#define S VERDICT_SPLIT
#define H VERDICT_HALT

/* clang-format off */
static const struct rule write_rules[] = {
	{200, BODY_EMPTY, NULL, NULL, D, HINT_NONE, false, NULL, NULL},
	{400, BODY_ERROR, "validation_error", "invalid WriteRequest.StoreId:", H, HINT_PROBE, false, NULL, ASK_STORE},
	{400, BODY_ERROR, "validation_error", "invalid WriteRequest.AuthorizationModelId:", H, HINT_PROBE, false, NULL, ASK_MODEL},
	{400, BODY_ERROR, "validation_error", "invalid on_", H, HINT_PROBE, false, NULL, ASK_VERSION},
	{400, BODY_ERROR, "validation_error", "invalid WriteRequest", S, HINT_BUG, false, NULL, NULL},
	{400, BODY_ERROR, "validation_error", "malformed JSON", S, HINT_BUG, false, NULL, NULL},
	{400, BODY_ERROR, "validation_error", "syntax error", S, HINT_BUG, false, NULL, NULL},
	{400, BODY_ERROR, "validation_error", "invalid character", S, HINT_BUG, false, NULL, NULL},
	{400, BODY_ERROR, "validation_error", "(line ", S, HINT_BUG, false, NULL, NULL},
	{400, BODY_ERROR, "store_id_invalid_length", NULL, H, HINT_NONE, false, NULL, ASK_STORE},
	{400, BODY_ERROR, "authorization_model_id_too_long", NULL, H, HINT_NONE, false, NULL, ASK_MODEL},
	{400, BODY_ERROR, "latest_authorization_model_not_found", NULL, H, HINT_NONE, false, NULL, ASK_BOTH},
	{400, BODY_ERROR, "authorization_model_not_found", NULL, H, HINT_NONE, false, NULL, ASK_BOTH},
	{400, BODY_ERROR, "cannot_allow_duplicate_tuples_in_one_request", NULL, S, HINT_BUG, false, NULL, NULL},
	{400, BODY_ERROR, "invalid_write_input", NULL, S, HINT_BUG, false, NULL, NULL},
	{400, BODY_ERROR, "exceeded_entity_limit", NULL, S, HINT_SIZE, false, NULL, NULL},
	{400, BODY_ERROR, "write_failed_due_to_invalid_input", NULL, S, HINT_OLD, false, NULL, NULL},
	{400, BODY_ERROR, "cancelled", NULL, R, HINT_NONE, true, NULL, NULL}, /* perhaps in the midst of its commit */
	{400, BODY_ERROR, NULL, NULL, S, HINT_NONE, false, NULL, NULL},
	{401, BODY_ERROR, "forbidden", NULL, H, HINT_NONE, false, NULL, ASK_ACCESS},
	{401, BODY_ANY, NULL, NULL, H, HINT_AUTH, false, NULL, ASK_TOKEN},
	{403, BODY_ANY, NULL, NULL, H, HINT_NONE, false, NULL, ASK_ACCESS},
	{404, BODY_ERROR, "store_id_not_found", NULL, H, HINT_NONE, false, NULL, ASK_STORE},
	{404, BODY_ANY, NULL, NULL, H, HINT_NONE, false, NULL, ASK_URL},
	{409, BODY_ERROR, "Aborted", DIFFERENT_CONDITION, S, HINT_NONE, false, NULL, NULL},
	{409, BODY_ERROR, NULL, NULL, R, HINT_RACE, false, NULL, NULL},
	{413, BODY_ANY, NULL, NULL, S, HINT_SIZE, false, NULL, NULL},
	{429, BODY_ANY, NULL, NULL, R, HINT_SLOWER, false, NULL, NULL},
	{500, BODY_ERROR, "resource_exhausted", "grpc: received message larger than max", S, HINT_SIZE, false, NULL, NULL},
	{500, BODY_ERROR, "resource_exhausted", NULL, R, HINT_SLOWER, true, NULL, NULL},
	{500, BODY_ERROR, "deadline_exceeded", NULL, R, HINT_SLOWER, true, NULL, NULL},
	{500, BODY_ERROR, "unavailable", NULL, R, HINT_NONE, true, NULL, NULL}, /* shutting down */
	{500, BODY_ERROR, NULL, NULL, R, HINT_PROBE, true, NULL, NULL},
	{5, BODY_ANY, NULL, NULL, R, HINT_NONE, true, NULL, NULL},
	{2, BODY_ANY, NULL, NULL, R, HINT_NONE, true, NULL, ASK_URL}, /* perhaps a proxy's words about a write that was done */
	{0, BODY_ERROR, NULL, NULL, R, HINT_NONE, false, NULL, NULL},
	{0, BODY_ANY, NULL, NULL, R, HINT_NONE, false, NULL, ASK_URL},
};

static const struct rule check_rules[] = {
	{200, BODY_OBJECT, NULL, NULL, D, HINT_NONE, false, NULL, NULL},
	{200, BODY_EMPTY, NULL, NULL, D, HINT_NONE, false, NULL, NULL},
	{404, BODY_ERROR, "store_id_not_found", NULL, H, HINT_NONE, false, " does not exist at this OpenFGA", ASK_GONE},
	{400, BODY_ERROR, "authorization_model_not_found", NULL, H, HINT_NONE, false, " does not exist in this store", ASK_MODEL},
	{404, BODY_ERROR, "authorization_model_not_found", NULL, H, HINT_NONE, false, " does not exist in this store", ASK_MODEL},
	{400, BODY_ERROR, "validation_error", "invalid GetStoreRequest.StoreId:", H, HINT_NONE, false, " is not what an id looks like", ASK_STORE},
	{400, BODY_ERROR, "validation_error", "invalid ReadAuthorizationModelRequest.Id:", H, HINT_NONE, false, " is not what an id looks like", ASK_MODEL},
	{400, BODY_ERROR, "cancelled", NULL, R, HINT_NONE, false, NULL, NULL},
	{400, BODY_ERROR, NULL, NULL, H, HINT_NONE, false, NULL, ASK_BOTH},
	{401, BODY_ERROR, "forbidden", NULL, H, HINT_NONE, false, NULL, ASK_ACCESS},
	{401, BODY_ANY, NULL, NULL, H, HINT_AUTH, false, NULL, ASK_TOKEN},
	{403, BODY_ANY, NULL, NULL, H, HINT_NONE, false, NULL, ASK_ACCESS},
	{404, BODY_ANY, NULL, NULL, H, HINT_NONE, false, NULL, ASK_URL},
	{429, BODY_ANY, NULL, NULL, R, HINT_SLOWER, false, NULL, NULL},
	{5, BODY_ANY, NULL, NULL, R, HINT_NONE, false, NULL, NULL},
	{0, BODY_ERROR, NULL, NULL, R, HINT_NONE, false, NULL, NULL},
	{0, BODY_ANY, NULL, NULL, R, HINT_NONE, false, NULL, ASK_URL},
};

/* The error codes are RFC 6749's, section 5.2, and RFC 8707's. What a 2xx says is never shown: a token may be in it. */
static const struct rule token_rules[] = {
	{200, BODY_ERROR, NULL, NULL, H, HINT_AUTH, false, NULL, ASK_CLIENT},
	{200, BODY_OBJECT, NULL, NULL, D, HINT_NONE, false, NULL, NULL},
	{200, BODY_EMPTY, NULL, NULL, D, HINT_NONE, false, NULL, NULL},
	{2, BODY_ANY, NULL, NULL, R, HINT_NONE, false, ": what FGA_API_TOKEN_ISSUER names does not answer as an issuer of tokens does", ASK_ISSUER},
	{4, BODY_ERROR, "invalid_client", NULL, H, HINT_AUTH, false, NULL, ASK_SECRET},
	{4, BODY_ERROR, "invalid_scope", NULL, H, HINT_AUTH, false, NULL, ASK_SCOPES},
	{4, BODY_ERROR, "invalid_target", NULL, H, HINT_AUTH, false, NULL, ASK_AUDIENCE},
	{401, BODY_ANY, NULL, NULL, H, HINT_AUTH, false, NULL, ASK_SECRET},
	{403, BODY_ANY, NULL, NULL, H, HINT_AUTH, false, NULL, ASK_AUDIENCE},
	{404, BODY_ANY, NULL, NULL, H, HINT_AUTH, false, NULL, ASK_ISSUER},
	{405, BODY_ANY, NULL, NULL, H, HINT_AUTH, false, NULL, ASK_ISSUER},
	{429, BODY_ANY, NULL, NULL, R, HINT_NONE, false, NULL, NULL},
	{4, BODY_ANY, NULL, NULL, H, HINT_AUTH, false, NULL, ASK_CLIENT},
	{5, BODY_ANY, NULL, NULL, R, HINT_NONE, false, NULL, NULL},
	{0, BODY_ANY, NULL, NULL, R, HINT_NONE, false, NULL, ASK_ISSUER},
};
/* clang-format on */

/* Who answers, how it words an error, and what its answers mean. */
struct party {
	const char *name;
	const char *code;
	const char *message;
	const struct rule *rules;
};

static const struct party writes = {"OpenFGA", "code", "message", write_rules};
static const struct party checks = {"OpenFGA", "code", "message", check_rules};
static const struct party issuer = {"the issuer", "error", "error_description", token_rules};

#undef D
#undef R
#undef S
#undef H

const char *verdict_name(enum verdict v)
{
	static const char *const names[] = {
#define X(name, text) [VERDICT_##name] = (text),
	    VERDICTS(X)
#undef X
	};
	return names[v];
}

static bool starts_with(struct str s, const char *prefix)
{
	struct str start = str_of(prefix);
	return s.n >= start.n && str_eq((struct str){s.p, start.n}, start);
}

static bool is_white(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* s without the white space around it. */
static struct str trim(struct str s)
{
	while (s.n > 0 && is_white(*s.p)) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && is_white(s.p[s.n - 1]))
		s.n--;
	return s;
}

/* A body that was cut is read as far as it goes: OpenFGA's code stands at its beginning, and the message, which may
 * quote a long context, behind it. */
static struct reading read_body(const struct party *p, const struct answer *a, struct arena *arena)
{
	struct reading r = {.kind = BODY_EMPTY};
	struct json j = json_start(a->body);
	struct str key;
	if (json_kind(&j) != JSON_OBJECT)
		return (struct reading){.kind = BODY_JUNK};
	json_object(&j);
	while (json_member(&j, arena, &key)) {
		if (r.kind == BODY_EMPTY)
			r.kind = BODY_OBJECT;
		bool is_text = json_kind(&j) == JSON_STRING;
		size_t start = j.at;
		if (is_text && str_eq(key, str_of(p->code)) && json_string(&j, arena, &r.code)) {
			r.kind = BODY_ERROR;
		} else if (is_text && str_eq(key, str_of(p->message))) {
			if (!json_string(&j, arena, &r.message))
				r.message = (struct str){a->body.p + start + 1, a->body.n - start - 1};
		} else {
			json_skip(&j, NULL);
		}
	}
	if (a->truncated && r.kind == BODY_EMPTY)
		r.kind = BODY_OBJECT;
	if (!json_end(&j) && !a->truncated)
		r.kind = BODY_JUNK;
	return r;
}

static bool fits(const struct rule *rule, int status, const struct reading *r)
{
	if (rule->status != 0 && rule->status != status && rule->status != status / 100)
		return false;
	if (rule->body != BODY_ANY && rule->body != r->kind)
		return false;
	if (rule->code != NULL && !str_eq(r->code, str_of(rule->code)))
		return false;
	return rule->starts == NULL || starts_with(r->message, rule->starts);
}

static const struct rule *find_rule(const struct rule *rules, int status, const struct reading *r)
{
	while (!fits(rules, status, r))
		rules++;
	return rules;
}

static bool parse_seconds(struct str s, int64_t *ms)
{
	enum { MAX_DIGITS = 12 };
	if (s.n == 0 || s.n > MAX_DIGITS)
		return false;
	int64_t seconds = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		seconds = seconds * 10 + (s.p[i] - '0');
	}
	*ms = seconds * 1000;
	return true;
}

/* RFC 9110, section 10.2.3. Nonsense says nothing, and so does a wait of more than a year. */
static int64_t retry_after_ms(struct str s, int64_t wall_ms)
{
	const int64_t absurd_ms = INT64_C(366) * 24 * 3600 * 1000;
	int64_t wait_ms;
	s = trim(s);
	if (s.n == 0)
		return 0;
	if (date_parse(s, &wait_ms))
		wait_ms -= wall_ms;
	else if (!parse_seconds(s, &wait_ms))
		return 0;
	if (wait_ms < 0 || wait_ms > absurd_ms)
		return 0;
	return wait_ms < VERDICT_MAX_RETRY_AFTER_MS ? wait_ms : VERDICT_MAX_RETRY_AFTER_MS;
}

/* "The number of write operations exceeds the allowed limit of 100". */
static unsigned tuple_limit(struct str message)
{
	enum { MAX_DIGITS = 6 };
	static const char before[] = "limit of ";
	const size_t skip = sizeof before - 1;
	if (!str_has(message, str_of(before)))
		return 0;
	while (!starts_with(message, before)) {
		message.p++;
		message.n--;
	}
	unsigned limit = 0;
	size_t n = 0;
	for (; n < message.n - skip && n < MAX_DIGITS && message.p[skip + n] >= '0' && message.p[skip + n] <= '9'; n++)
		limit = limit * 10 + (unsigned)(message.p[skip + n] - '0');
	return limit;
}

/* Adds the beginning of what came from outside, without the secrets that it may give back. */
static void add_shown(struct buf *out, const struct answer *a, struct str s, size_t max_bytes)
{
	struct buf masked = {0};
	buf_add_str(&masked, s);
	for (size_t i = 0; i < sizeof a->secrets / sizeof *a->secrets; i++)
		mask(masked.p, masked.n, a->secrets[i]);
	buf_add_clean(out, buf_str(&masked), max_bytes);
	buf_free(&masked);
}

/* "OpenFGA answered 400 validation_error: …", the start of a body that is no error of OpenFGA's, or what became of
 * the connection. */
static void describe(struct buf *out, const struct party *p, const struct answer *a, const struct reading *r)
{
	if (a->transport != TRANSPORT_ANSWERED) {
		bool lost = a->transport == TRANSPORT_LOST;
		buf_printf(out, lost ? "no answer from %s: " : "%s cannot be reached: ", p->name);
		add_shown(out, a, str_of(a->error != NULL ? a->error : "no reason known"), SHOWN_TRANSPORT_BYTES);
		return;
	}
	buf_printf(out, "%s answered %d", p->name, a->status);
	if (a->status / 100 == 3 && a->location.n > 0) {
		struct str location = {a->location.p, 0};
		while (location.n < a->location.n && strchr("?#", location.p[location.n]) == NULL)
			location.n++; /* what follows may hold anything, tokens too */
		buf_add_text(out, ", a redirect to ");
		add_shown(out, a, location, SHOWN_LOCATION_BYTES);
	} else if (r->kind == BODY_ERROR) {
		buf_add_char(out, ' ');
		add_shown(out, a, r->code, SHOWN_BODY_BYTES);
		if (r->message.n > 0)
			buf_add_text(out, ": ");
		add_shown(out, a, r->message, SHOWN_MESSAGE_BYTES);
	} else if (trim(a->body).n == 0) {
		buf_add_text(out, " with an empty body");
	} else {
		buf_printf(out, ", not as %s does: ", p->name);
		add_shown(out, a, trim(a->body), SHOWN_BODY_BYTES);
	}
}

/* Fills out->reason, with `what` (may be NULL) at its beginning. */
static void explain(const struct party *p, const struct rule *rule, const struct answer *a, const struct reading *r,
                    const char *what, struct judgement *out)
{
	struct buf text = {0};
	struct buf clean = {0};
	if (what != NULL)
		buf_add_text(&text, what);
	if (rule != NULL && rule->says != NULL) {
		buf_printf(&text, "%s: %s", rule->says, rule->advice);
	} else {
		if (what != NULL)
			buf_add_text(&text, ": ");
		describe(&text, p, a, r);
		if (rule != NULL && rule->advice != NULL)
			buf_printf(&text, "; %s", rule->advice);
	}
	buf_add_clean(&clean, buf_str(&text), sizeof out->reason - 1);
	memcpy(out->reason, clean.p, clean.n + 1);
	buf_free(&clean);
	buf_free(&text);
}

/* Judges by a table, all but the reason of what is DELIVERED, which has none. */
static void judge(const struct party *p, const struct answer *a, const struct reading *r, const char *what,
                  int64_t wall_ms, struct judgement *out)
{
	if (a->transport == TRANSPORT_NO_TOKEN) {
		*out = *a->token;
		return;
	}
	if (a->transport != TRANSPORT_ANSWERED) {
		*out = (struct judgement){.verdict = VERDICT_RETRY, .unknown = a->transport == TRANSPORT_LOST};
		explain(p, NULL, a, r, what, out);
		return;
	}
	const struct rule *rule = find_rule(p->rules, a->status, r);
	*out = (struct judgement){.verdict = rule->verdict, .hint = rule->hint, .unknown = rule->unknown};
	if (rule->verdict == VERDICT_RETRY)
		out->retry_after_ms = retry_after_ms(a->retry_after, wall_ms);
	if (rule->verdict != VERDICT_DELIVERED)
		explain(p, rule, a, r, what, out);
}

/* A server before 1.10, which does not know the options, refuses a single tuple that is as it should be. */
static void judge_single(const struct reading *r, struct judgement *out)
{
	if (starts_with(r->message, "cannot write a tuple which already exists"))
		*out = (struct judgement){.verdict = VERDICT_DELIVERED, .hint = HINT_EXISTS};
	else if (starts_with(r->message, "cannot delete a tuple which does not exist"))
		*out = (struct judgement){.verdict = VERDICT_DELIVERED};
}

void verdict_write(const struct answer *a, unsigned tuples, int64_t wall_ms, struct judgement *out)
{
	struct arena arena = {0};
	struct reading r = read_body(&writes, a, &arena);
	judge(&writes, a, &r, NULL, wall_ms, out);
	if (out->hint == HINT_OLD && tuples == 1)
		judge_single(&r, out);
	if (out->hint == HINT_SIZE)
		out->tuple_limit = tuple_limit(r.message);
	if (out->verdict == VERDICT_SPLIT)
		fault_read(r.message, &out->fault);
	if (out->verdict == VERDICT_SPLIT && tuples == 1)
		out->verdict = VERDICT_REJECTED;
	arena_free(&arena);
}

void verdict_check(const struct answer *a, const char *what, int64_t wall_ms, struct judgement *out)
{
	struct arena arena = {0};
	struct reading r = read_body(&checks, a, &arena);
	judge(&checks, a, &r, what, wall_ms, out);
	out->unknown = false; /* a question changes nothing */
	arena_free(&arena);
}

void verdict_token(const struct answer *a, int64_t wall_ms, struct judgement *out)
{
	struct arena arena = {0};
	struct reading r = read_body(&issuer, a, &arena);
	judge(&issuer, a, &r, "no token", wall_ms, out);
	out->unknown = false; /* nothing was sent to OpenFGA */
	arena_free(&arena);
}
