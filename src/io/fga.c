#include "io/fga.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/die.h"

TAILQ_HEAD(calls, call);

struct fga {
	struct http *http;
	struct credentials *credentials;
	char *api_url;
	struct calls waiting; /* for a token */
	struct calls sent;
};

struct call {
	TAILQ_ENTRY(call) link;
	struct fga *fga;
	struct buf url;
	struct buf body;
	bool is_post;
	bool again;          /* its first token was refused */
	uint64_t generation; /* of the token that it was sent with */
	fga_answer_fn *fn;
	void *arg;
};

static void call_free(struct call *c)
{
	buf_free(&c->url);
	buf_free(&c->body);
	free(c);
}

/* The call is in no list any more. */
static void finish(struct call *c, const struct answer *a)
{
	c->fn(c->arg, a);
	call_free(c);
}

static void go(struct call *c);

static void on_answer(void *arg, const struct answer *a)
{
	struct call *c = arg;
	struct fga *f = c->fga;
	bool stale = credentials_answered(f->credentials, c->generation, a);
	TAILQ_REMOVE(&f->sent, c, link);
	if (stale && !c->again) {
		c->again = true;
		go(c);
	} else {
		finish(c, a);
	}
}

static void send_with(struct call *c, const struct credential *credential)
{
	static const char *const plain[] = {NULL};
	static const char *const json[] = {"Content-Type: application/json", NULL};
	struct str body = buf_str(&c->body);
	struct http_request r = {
	    .url = c->url.p,
	    .body = c->is_post ? &body : NULL,
	    .headers = c->is_post ? json : plain,
	    .bearer = credential->token,
	};
	c->generation = credential->generation;
	TAILQ_INSERT_TAIL(&c->fga->sent, c, link);
	http_send(c->fga->http, &r, on_answer, c);
}

/* Sends it, or has it wait for a token. It is in no list. */
static void go(struct call *c)
{
	struct credential credential;
	if (credentials_get(c->fga->credentials, &credential))
		send_with(c, &credential);
	else
		TAILQ_INSERT_TAIL(&c->fga->waiting, c, link);
}

/* A fetch has ended, well or not: whoever waited for it goes on, or is told. Those that an answer's receiver begins
 * meanwhile wait for the next one. */
static void on_fetched(void *arg, const struct judgement *failure)
{
	struct fga *f = arg;
	struct calls waited = TAILQ_HEAD_INITIALIZER(waited);
	struct call *c;
	TAILQ_CONCAT(&waited, &f->waiting, link);
	while ((c = TAILQ_FIRST(&waited)) != NULL) {
		TAILQ_REMOVE(&waited, c, link);
		if (failure != NULL)
			finish(c, &(struct answer){.transport = TRANSPORT_NO_TOKEN, .token = failure});
		else
			go(c);
	}
}

static void start(struct fga *f, const char *path, const struct str *body, fga_answer_fn *fn, void *arg)
{
	struct call *c = xcalloc(1, sizeof *c);
	c->fga = f;
	c->fn = fn;
	c->arg = arg;
	buf_add_text(&c->url, f->api_url);
	buf_add_text(&c->url, path);
	c->is_post = body != NULL;
	if (body != NULL)
		buf_add_str(&c->body, *body);
	go(c);
}

void fga_post(struct fga *f, const char *path, struct str body, fga_answer_fn *fn, void *arg)
{
	start(f, path, &body, fn, arg);
}

void fga_get(struct fga *f, const char *path, fga_answer_fn *fn, void *arg)
{
	start(f, path, NULL, fn, arg);
}

void fga_renew(struct fga *f)
{
	credentials_renew(f->credentials);
}

void fga_add_escaped(struct buf *path, const char *text, const char *value)
{
	char *escaped = curl_easy_escape(NULL, value, 0);
	if (escaped == NULL)
		die(__FILE__, __LINE__, "out of memory");
	buf_add_text(path, text);
	buf_add_text(path, escaped);
	curl_free(escaped);
}

void fga_configure(struct fga_config *config, const struct options *o, unsigned max_requests)
{
	*config = (struct fga_config){
	    .api_url = o->fga_api_url,
	    .credentials = {.key = o->fga_api_token,
	                    .key_file = o->files.fga_api_token,
	                    .client = {.issuer = o->fga_api_token_issuer,
	                               .id = o->fga_client_id,
	                               .secret = o->fga_client_secret,
	                               .audience = o->fga_api_audience,
	                               .scopes = o->fga_api_scopes},
	                    .secret_file = o->files.fga_client_secret},
	    .http = {.ca_file = o->fga_ca_file,
	             .connect_timeout_ms = o->connect_timeout_ms,
	             .request_timeout_ms = o->request_timeout_ms,
	             .max_connections = max_requests + 1}, /* the issuer's */
	};
}

struct fga *fga_new(struct event_base *base, const struct fga_config *config, struct err *e)
{
	struct http *http = http_new(base, &config->http, e);
	if (http == NULL)
		return NULL;
	struct fga *f = xcalloc(1, sizeof *f);
	f->http = http;
	f->credentials = credentials_new(base, http, &config->credentials, on_fetched, f);
	f->api_url = xstrdup(config->api_url);
	for (size_t n = strlen(f->api_url); n > 0 && f->api_url[n - 1] == '/'; n--)
		f->api_url[n - 1] = '\0';
	TAILQ_INIT(&f->waiting);
	TAILQ_INIT(&f->sent);
	return f;
}

static void free_calls(struct calls *calls)
{
	struct call *c;
	while ((c = TAILQ_FIRST(calls)) != NULL) {
		TAILQ_REMOVE(calls, c, link);
		call_free(c);
	}
}

void fga_free(struct fga *f)
{
	if (f == NULL)
		return;
	http_free(f->http); /* before what it still reads from */
	credentials_free(f->credentials);
	free_calls(&f->waiting);
	free_calls(&f->sent);
	free(f->api_url);
	free(f);
}
