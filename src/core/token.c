#include "core/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/arena.h"
#include "base/die.h"
#include "base/json.h"
#include "core/backoff.h"

enum { MAX_LIFETIME_S = 1000 * 1000 * 1000 };

/* What an issuer grants (RFC 6749, section 5.1). */
struct grant {
	struct str value;
	int64_t lifetime_ms;
};

void token_url(const char *issuer, struct buf *out)
{
	const char *scheme_end = strstr(issuer, "://");
	const char *host = scheme_end != NULL ? scheme_end + 3 : issuer;
	size_t host_length = strcspn(host, "/");
	bool has_path = host[host_length] == '/' && host[host_length + 1] != '\0';
	if (scheme_end == NULL)
		buf_add_text(out, "https://");
	if (has_path)
		buf_add_text(out, issuer);
	else
		buf_printf(out, "%.*s/oauth/token", (int)(host + host_length - issuer), issuer);
}

static void add_field(struct buf *out, const char *name, const char *value)
{
	static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	if (value == NULL)
		return;
	buf_printf(out, "%s%s=", out->n > 0 ? "&" : "", name);
	for (; *value != '\0'; value++) {
		if (strchr(unreserved, *value) != NULL)
			buf_add_char(out, *value);
		else
			buf_printf(out, "%%%02X", (unsigned)(unsigned char)*value);
	}
}

void token_form(const struct token_client *client, struct buf *out)
{
	struct buf form = {0};
	add_field(&form, "grant_type", "client_credentials");
	add_field(&form, "client_id", client->id);
	add_field(&form, "client_secret", client->secret);
	add_field(&form, "audience", client->audience);
	add_field(&form, "scope", client->scopes);
	buf_add_str(out, buf_str(&form));
	explicit_bzero(form.p, form.n);
	buf_free(&form);
}

static void forget_value(struct token *t)
{
	if (t->value != NULL)
		explicit_bzero(t->value, strlen(t->value));
	free(t->value);
	t->value = NULL;
}

void token_fini(struct token *t)
{
	forget_value(t);
}

void token_drop(struct token *t)
{
	forget_value(t);
	t->refused = 0;
}

/* A new value; when it ends is the caller's part. */
static void replace(struct token *t, struct str value)
{
	forget_value(t);
	t->value = xmalloc(value.n + 1);
	memcpy(t->value, value.p, value.n);
	t->value[value.n] = '\0';
	t->generation++;
	t->failures = 0;
}

void token_set(struct token *t, const char *key)
{
	replace(t, str_of(key));
	t->expires_ms = INT64_MAX;
	t->renew_ms = INT64_MAX;
}

bool token_is_good(const struct token *t, int64_t now_ms)
{
	return t->value != NULL && now_ms < t->expires_ms;
}

int64_t token_due_ms(const struct token *t)
{
	return t->value != NULL && !t->fetching ? t->renew_ms : INT64_MAX;
}

void token_asked(struct token *t, int64_t now_ms)
{
	ASSERT(!t->fetching);
	t->fetching = true;
	t->asked_ms = now_ms;
}

/* The issuer's answer */

/* A number, or, as some issuers write it, its text. */
static bool read_lifetime(struct json *j, struct arena *arena, int64_t *ms)
{
	char text[24];
	char *end;
	struct str number;
	bool ok = json_kind(j) == JSON_STRING ? json_string(j, arena, &number)
	                                      : json_kind(j) == JSON_NUMBER && json_skip(j, &number);
	if (!ok || number.n == 0 || number.n >= sizeof text || number.p[0] < '0' || number.p[0] > '9')
		return false;
	memcpy(text, number.p, number.n);
	text[number.n] = '\0';
	double seconds = strtod(text, &end);
	if (*end != '\0' || !(seconds >= 1 && seconds <= MAX_LIFETIME_S))
		return false;
	*ms = (int64_t)(seconds * 1000);
	return true;
}

/* What a header takes: RFC 6750, section 2.1, and what RFC 6749, appendix A.12, allows beyond it, but for blanks. */
static bool can_be_sent(struct str value)
{
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] <= ' ' || value.p[i] > '~')
			return false;
	return value.n > 0;
}

/* Reads a member of the answer; returns what is wrong with it, or NULL. */
static const char *read_member(struct json *j, struct str key, struct arena *arena, struct grant *g)
{
	struct str type;
	bool is_text = json_kind(j) == JSON_STRING;
	if (str_eq(key, STR("access_token")) && is_text)
		return json_string(j, arena, &g->value) && can_be_sent(g->value)
		           ? NULL
		           : "an access_token that cannot be sent";
	if (str_eq(key, STR("token_type")) && is_text)
		return json_string(j, arena, &type) && type.n == 6 && strncasecmp(type.p, "bearer", 6) == 0
		           ? NULL
		           : "a token_type other than Bearer";
	if (str_eq(key, STR("expires_in")) && json_kind(j) != JSON_NULL)
		return read_lifetime(j, arena, &g->lifetime_ms)
		           ? NULL
		           : "an expires_in that is not a number of seconds, from 1 on";
	json_skip(j, NULL);
	return NULL;
}

/* Returns what is wrong with the answer, or NULL. */
static const char *read_grant(struct str body, struct arena *arena, struct grant *g)
{
	struct json j = json_start(body);
	struct str key;
	const char *wrong = NULL;
	*g = (struct grant){.lifetime_ms = TOKEN_DEFAULT_LIFETIME_MS};
	json_object(&j);
	while (wrong == NULL && json_member(&j, arena, &key))
		wrong = read_member(&j, key, arena, g);
	if (wrong != NULL)
		return wrong;
	return json_end(&j) && g->value.n > 0 ? NULL : "no access_token";
}

/* The new token; false: it came too late to serve. */
static bool take(struct token *t, const struct grant *g, int64_t now_ms, struct rng *rng)
{
	int64_t tenth_ms = g->lifetime_ms / 10;
	int64_t expires_ms = t->asked_ms + g->lifetime_ms;
	if (expires_ms <= now_ms)
		return false;
	replace(t, g->value);
	t->expires_ms = expires_ms;
	t->renew_ms = expires_ms - (tenth_ms < TOKEN_MAX_MARGIN_MS ? tenth_ms : TOKEN_MAX_MARGIN_MS);
	t->kept_to_ms = now_ms;
	if (t->refused > 0)
		t->kept_to_ms += backoff_ms(t->refused, TOKEN_KEEP_MIN_MS, TOKEN_KEEP_MAX_MS, rng);
	return true;
}

/* A token that still serves is renewed a little later; one that has ended is fetched when somebody wants it. */
static void fail(struct token *t, const struct judgement *j, int64_t now_ms, struct rng *rng)
{
	if (!token_is_good(t, now_ms)) {
		forget_value(t);
		return;
	}
	int64_t wait_ms = backoff_ms(++t->failures, TOKEN_RETRY_MIN_MS, TOKEN_RETRY_MAX_MS, rng);
	t->renew_ms = now_ms + (wait_ms > j->retry_after_ms ? wait_ms : j->retry_after_ms);
}

void token_answered(struct token *t, const struct answer *a, int64_t now_ms, int64_t wall_ms, struct rng *rng,
                    struct judgement *out)
{
	struct arena arena = {0};
	struct grant g;
	ASSERT(t->fetching);
	t->fetching = false;
	verdict_token(a, wall_ms, out);
	if (out->verdict == VERDICT_DELIVERED) {
		const char *wrong = read_grant(a->body, &arena, &g);
		if (wrong != NULL) {
			*out = (struct judgement){.verdict = VERDICT_HALT, .hint = HINT_AUTH};
			snprintf(out->reason, sizeof out->reason,
			         "no token: the issuer's answer holds %s; check FGA_API_TOKEN_ISSUER", wrong);
		} else if (!take(t, &g, now_ms, rng)) {
			*out = (struct judgement){.verdict = VERDICT_RETRY};
			snprintf(out->reason, sizeof out->reason,
			         "no token: the issuer's answer took longer than the token lives");
		}
	}
	if (out->verdict != VERDICT_DELIVERED)
		fail(t, out, now_ms, rng);
	arena_free(&arena);
}

/* OpenFGA's answers */

void token_accepted(struct token *t, uint64_t generation)
{
	if (generation == t->generation)
		t->refused = 0;
}

bool token_refused(struct token *t, uint64_t generation, int64_t now_ms)
{
	if (generation != t->generation || t->value == NULL)
		return true;
	if (t->refused > 0 && now_ms < t->kept_to_ms)
		return false;
	forget_value(t);
	t->refused++;
	return true;
}
