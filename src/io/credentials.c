#include "io/credentials.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/log.h"
#include "base/options.h"
#include "base/rng.h"

struct credentials {
	struct http *http;
	struct credentials_config config;
	struct token token; /* the key, too */
	char *secret;       /* the client's, as its file holds it by now; NULL: as configured */
	struct buf form;    /* of the fetch under way */
	struct event *renewal;
	struct rng rng;
	struct log_gate failed;
	struct log_gate unreadable;
	credentials_fn *fn;
	void *arg;
};

static bool is_client(const struct credentials *c)
{
	return c->config.client.id != NULL;
}

/* What a secret's file holds by now, which the caller frees; NULL when it cannot be read: what was known before goes on
 * being used. */
static char *read_secret(struct credentials *c, const char *path)
{
	struct err e;
	char *value;
	uint64_t repeated;
	if (options_file(path, &value, &e))
		return value;
	if (log_gate_pass(&c->unreadable, str_of(e.text), clock_ms(), &repeated))
		log_warning("cannot read a secret's file again", LOG_S("reason", e.text), LOG_N("repeated", repeated));
	return NULL;
}

/* Fetching */

static void arm_renewal(struct credentials *c)
{
	int64_t now_ms = clock_ms();
	int64_t due_ms = token_due_ms(&c->token);
	if (due_ms == INT64_MAX) {
		evtimer_del(c->renewal);
		return;
	}
	int64_t wait_ms = due_ms > now_ms ? due_ms - now_ms : 0;
	struct timeval tv = {wait_ms / 1000, wait_ms % 1000 * 1000};
	evtimer_add(c->renewal, &tv);
}

/* Who waits for a token is told why there is none; a token that still serves is not missed by anybody. */
static void tell_failure(struct credentials *c, const struct judgement *j)
{
	int64_t now_ms = clock_ms();
	uint64_t repeated;
	if (token_is_good(&c->token, now_ms) && log_gate_pass(&c->failed, str_of(j->reason), now_ms, &repeated))
		log_warning("cannot renew the token", LOG_S("reason", j->reason), LOG_N("repeated", repeated));
	c->fn(c->arg, j);
}

static void on_answer(void *arg, const struct answer *a)
{
	struct credentials *c = arg;
	struct judgement j;
	token_answered(&c->token, a, clock_ms(), clock_wall_ms(), &c->rng, &j);
	arm_renewal(c);
	if (j.verdict == VERDICT_DELIVERED) {
		log_debug("fetched a token", LOG_N("lifetime_ms", c->token.expires_ms - c->token.asked_ms));
		c->fn(c->arg, NULL);
	} else {
		tell_failure(c, &j);
	}
}

static void fetch(struct credentials *c)
{
	static const char *const headers[] = {"Content-Type: application/x-www-form-urlencoded",
	                                      "Accept: application/json", NULL};
	struct token_client client = c->config.client;
	struct buf url = {0};
	char *secret = c->config.secret_file != NULL ? read_secret(c, c->config.secret_file) : NULL;
	if (secret != NULL) {
		free(c->secret);
		c->secret = secret;
	}
	if (c->secret != NULL)
		client.secret = c->secret;
	buf_clear(&c->form);
	token_form(&client, &c->form);
	token_url(client.issuer, &url);
	struct str body = buf_str(&c->form);
	struct http_request r = {.url = url.p, .body = &body, .headers = headers, .secret = client.secret};
	token_asked(&c->token, clock_ms());
	http_send(c->http, &r, on_answer, c);
	buf_free(&url);
}

static void on_renewal(evutil_socket_t fd, short what, void *arg)
{
	struct credentials *c = arg;
	(void)fd;
	(void)what;
	if (token_due_ms(&c->token) <= clock_ms())
		fetch(c);
	arm_renewal(c);
}

bool credentials_get(struct credentials *c, struct credential *out)
{
	if (is_client(c) && !token_is_good(&c->token, clock_ms())) {
		if (!c->token.fetching)
			fetch(c);
		return false;
	}
	*out = (struct credential){.token = c->token.value, .generation = c->token.generation};
	return true;
}

/* Refusals */

/* Whether the key's file holds another one than before. */
static bool read_key(struct credentials *c)
{
	char *key = c->config.key_file != NULL ? read_secret(c, c->config.key_file) : NULL;
	bool is_new = key != NULL && strcmp(key, c->token.value) != 0;
	if (is_new) {
		log_info("the preshared key has changed", LOG_S("file", c->config.key_file));
		token_set(&c->token, key);
	}
	free(key);
	return is_new;
}

bool credentials_answered(struct credentials *c, uint64_t generation, const struct answer *a)
{
	struct judgement j;
	if (c->token.generation == 0 || a->transport != TRANSPORT_ANSWERED)
		return false;
	verdict_check(a, "", clock_wall_ms(), &j);
	if (j.verdict == VERDICT_DELIVERED)
		token_accepted(&c->token, generation);
	if (j.hint != HINT_AUTH)
		return false;
	if (!is_client(c))
		return generation != c->token.generation || read_key(c);
	bool stale = token_refused(&c->token, generation, clock_ms());
	arm_renewal(c);
	return stale;
}

void credentials_renew(struct credentials *c)
{
	if (is_client(c))
		token_drop(&c->token);
	else
		read_key(c);
	arm_renewal(c);
}

struct credentials *credentials_new(struct event_base *base, struct http *http, const struct credentials_config *config,
                                    credentials_fn *fn, void *arg)
{
	struct credentials *c = xcalloc(1, sizeof *c);
	c->http = http;
	c->config = *config;
	c->rng = (struct rng){(uint64_t)clock_us()};
	c->fn = fn;
	c->arg = arg;
	if (config->key != NULL)
		token_set(&c->token, config->key);
	c->renewal = evtimer_new(base, on_renewal, c);
	ASSERT(c->renewal != NULL);
	return c;
}

void credentials_free(struct credentials *c)
{
	if (c == NULL)
		return;
	event_free(c->renewal);
	token_fini(&c->token);
	free(c->secret);
	buf_free(&c->form);
	free(c);
}
