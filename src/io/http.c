#include "io/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/die.h"

struct http {
	struct event_base *base;
	struct event *timer;
	CURLM *multi;
	struct http_config config;
	int64_t distrust_ms; /* connections that are older are not used again; 0: none is distrusted */
	LIST_HEAD(, call) calls;
	SLIST_HEAD(, call) spare;
};

/* One request; its easy handle, with curl's buffers, is used again. */
struct call {
	LIST_ENTRY(call) link;
	SLIST_ENTRY(call) spare_link;
	struct http *http;
	CURL *easy;
	struct curl_slist *headers;
	char *bearer; /* what was sent that nobody may see; NULL: nothing */
	char *secret; /* the same */
	int64_t begun_ms;
	int64_t sent_ms; /* the last time; 0: not yet */
	unsigned sent;   /* how often */
	struct buf answer;
	bool truncated;
	http_answer_fn *fn;
	void *arg;
	char error[CURL_ERROR_SIZE];
};

static void check(CURLcode code)
{
	if (code == CURLE_OUT_OF_MEMORY)
		die(__FILE__, __LINE__, "out of memory");
	if (code != CURLE_OK)
		die(__FILE__, __LINE__, curl_easy_strerror(code));
}

static void check_multi(CURLMcode code)
{
	if (code != CURLM_OK)
		die(__FILE__, __LINE__, curl_multi_strerror(code));
}

/* Keeps the beginning of a body; past the bound the transfer is ended. */
static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct call *c = arg;
	size_t room = HTTP_MAX_BODY - c->answer.n;
	size_t length = size * n;
	if (length > room) {
		buf_add(&c->answer, bytes, room);
		c->truncated = true;
		return 0;
	}
	buf_add(&c->answer, bytes, length);
	return length;
}

/* Whether the server has certainly not got any of the request. */
static enum transport transport_of(const struct call *c, CURLcode code)
{
	long sent = 0;
	if (code == CURLE_OK || (c->truncated && code == CURLE_WRITE_ERROR))
		return TRANSPORT_ANSWERED;
	check(curl_easy_getinfo(c->easy, CURLINFO_REQUEST_SIZE, &sent));
	return sent > 0 ? TRANSPORT_LOST : TRANSPORT_NOT_SENT;
}

static struct str header(const struct call *c, const char *name)
{
	struct curl_header *found;
	if (curl_easy_header(c->easy, name, 0, CURLH_HEADER, -1, &found) != CURLHE_OK)
		return (struct str){0};
	return str_of(found->value);
}

static void forget(char **secret)
{
	if (*secret != NULL)
		explicit_bzero(*secret, strlen(*secret));
	free(*secret);
	*secret = NULL;
}

/* Drops what belonged to one request only. */
static void clear(struct call *c)
{
	curl_slist_free_all(c->headers);
	c->headers = NULL;
	forget(&c->bearer);
	forget(&c->secret);
	buf_clear(&c->answer);
	c->truncated = false;
	c->error[0] = '\0';
}

static void finish(struct call *c, CURLcode code)
{
	struct http *h = c->http;
	struct answer a = {
	    .transport = transport_of(c, code),
	    .sent_ms = c->sent_ms,
	    .resent = c->sent > 1,
	    .secrets = {c->bearer, c->secret},
	};
	if (a.transport == TRANSPORT_ANSWERED) {
		long status = 0;
		check(curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status));
		a.status = (int)status;
		a.body = buf_str(&c->answer);
		a.truncated = c->truncated;
		a.location = header(c, "Location");
		a.retry_after = header(c, "Retry-After");
		a.date = header(c, "Date");
	} else {
		a.error = c->error[0] != '\0' ? c->error : curl_easy_strerror(code);
	}
	check_multi(curl_multi_remove_handle(h->multi, c->easy));
	LIST_REMOVE(c, link);
	if (code == CURLE_OPERATION_TIMEDOUT && a.transport == TRANSPORT_LOST && c->begun_ms > h->distrust_ms)
		h->distrust_ms = c->begun_ms;
	c->fn(c->arg, &a);
	clear(c);
	SLIST_INSERT_HEAD(&h->spare, c, spare_link);
}

/* Called outside of curl's callbacks, where handles may be removed and added. */
static void reap(struct http *h)
{
	CURLMsg *message;
	int left;
	while ((message = curl_multi_info_read(h->multi, &left)) != NULL) {
		if (message->msg != CURLMSG_DONE)
			continue;
		struct call *c;
		CURLcode code = message->data.result;
		check(curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &c));
		finish(c, code);
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct http *h = arg;
	int running;
	(void)fd;
	(void)what;
	check_multi(curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running));
	reap(h);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct http *h = arg;
	int running;
	int action = ((what & EV_READ) ? CURL_CSELECT_IN : 0) | ((what & EV_WRITE) ? CURL_CSELECT_OUT : 0);
	check_multi(curl_multi_socket_action(h->multi, fd, action, &running));
	reap(h);
}

static int want_timer(CURLM *multi, long ms, void *arg)
{
	struct http *h = arg;
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};
	(void)multi;
	if (ms < 0)
		evtimer_del(h->timer);
	else
		evtimer_add(h->timer, &tv);
	return 0;
}

static int want_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *of_socket)
{
	struct http *h = arg;
	struct event *event = of_socket;
	short events = EV_PERSIST;
	(void)easy;
	if (event != NULL)
		event_free(event);
	event = NULL;
	if (what & CURL_POLL_IN)
		events |= EV_READ;
	if (what & CURL_POLL_OUT)
		events |= EV_WRITE;
	if (what != CURL_POLL_REMOVE) {
		event = event_new(h->base, fd, events, on_socket, h);
		ASSERT(event != NULL);
		event_add(event, NULL);
	}
	check_multi(curl_multi_assign(h->multi, fd, event));
	return 0;
}

/* A connection that is closed takes what it has not sent with it, and so does one that the end of this process closes.
 * Else the kernel goes on sending: a request that was given up in an outage would arrive after the outage, behind later
 * rows (socket(7), SO_LINGER). */
static int on_connection(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	(void)arg;
	(void)purpose;
	return setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0 ? CURL_SOCKOPT_OK
	                                                                            : CURL_SOCKOPT_ERROR;
}

/* A connection is made and the request goes out: perhaps long after it was begun, and perhaps anew, since curl itself
 * sends again what went out on a kept connection that then ended without an answer (CURLOPT_PREREQFUNCTION(3)). */
/* NOLINTNEXTLINE(readability-non-const-parameter): curl's type says so */
static int on_sending(void *arg, char *address, char *local_address, int port, int local_port)
{
	struct call *c = arg;
	(void)address;
	(void)local_address;
	(void)port;
	(void)local_port;
	c->sent_ms = clock_ms();
	c->sent++;
	return CURL_PREREQFUNC_OK;
}

/* What all requests have in common. */
static void set_up(struct call *c)
{
	struct http *h = c->http;
	CURL *easy = c->easy;
	check(curl_easy_setopt(easy, CURLOPT_PRIVATE, c));
	check(curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, c->error));
	check(curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body));
	check(curl_easy_setopt(easy, CURLOPT_WRITEDATA, c));
	check(curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_connection));
	check(curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_sending));
	check(curl_easy_setopt(easy, CURLOPT_PREREQDATA, c));
	check(curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L));
	/* A name is resolved in a thread. Without this, giving up waits for it: seconds in which the loop stands still.
	 */
	check(curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L));
	/* Whoever connects anew does so because an address is dead, perhaps: it is looked up, not remembered. */
	check(curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L));
	check(curl_easy_setopt(easy, CURLOPT_PROXY, ""));
	check(curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https"));
	check(curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L));
	check(curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1));
	check(curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L));
	check(curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L));
	check(curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)h->config.connect_timeout_ms));
	check(curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)h->config.request_timeout_ms));
	check(curl_easy_setopt(easy, CURLOPT_USERAGENT, "relay/" RELAY_VERSION));
	if (h->config.ca_file != NULL) {
		check(curl_easy_setopt(easy, CURLOPT_CAINFO, h->config.ca_file));
		check(curl_easy_setopt(easy, CURLOPT_CAPATH, NULL));
	}
}

static struct call *call_new(struct http *h)
{
	struct call *c = SLIST_FIRST(&h->spare);
	if (c != NULL) {
		SLIST_REMOVE_HEAD(&h->spare, spare_link);
		return c;
	}
	c = xcalloc(1, sizeof *c);
	c->http = h;
	c->easy = curl_easy_init();
	if (c->easy == NULL)
		die(__FILE__, __LINE__, "out of memory");
	set_up(c);
	return c;
}

static void call_free(struct call *c)
{
	curl_easy_cleanup(c->easy);
	clear(c);
	buf_free(&c->answer);
	free(c);
}

static void add_header(struct call *c, const char *text)
{
	struct curl_slist *longer = curl_slist_append(c->headers, text);
	if (longer == NULL)
		die(__FILE__, __LINE__, "out of memory");
	c->headers = longer;
}

static void add_headers(struct call *c, const struct http_request *r)
{
	add_header(c, "Expect:"); /* no 100-continue: it costs a round trip */
	for (const char *const *text = r->headers; *text != NULL; text++)
		add_header(c, *text);
	if (r->bearer != NULL) {
		struct buf authorization = {0};
		buf_printf(&authorization, "Authorization: Bearer %s", r->bearer);
		add_header(c, authorization.p);
		buf_free(&authorization);
	}
	check(curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers));
}

/* Where a request got no answer, the idle connections from before it are as dead, perhaps: a firewall may have
 * forgotten them all. Each would cost a time-out of its own. */
static void set_oldest_connection(struct call *c)
{
	int64_t distrust_ms = c->http->distrust_ms;
	int64_t seconds = distrust_ms > 0 ? (c->begun_ms - distrust_ms) / 1000 : 0; /* 0: any */
	check(
	    curl_easy_setopt(c->easy, CURLOPT_MAXLIFETIME_CONN, (long)(distrust_ms > 0 && seconds < 1 ? 1 : seconds)));
}

void http_send(struct http *h, const struct http_request *r, http_answer_fn *fn, void *arg)
{
	struct call *c = call_new(h);
	c->fn = fn;
	c->arg = arg;
	c->begun_ms = clock_ms();
	c->sent_ms = 0;
	c->sent = 0;
	c->bearer = r->bearer != NULL ? xstrdup(r->bearer) : NULL;
	c->secret = r->secret != NULL ? xstrdup(r->secret) : NULL;
	add_headers(c, r);
	set_oldest_connection(c);
	check(curl_easy_setopt(c->easy, CURLOPT_URL, r->url));
	if (r->body != NULL) {
		check(curl_easy_setopt(c->easy, CURLOPT_POST, 1L));
		check(curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, r->body->p));
		check(curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body->n));
	} else {
		check(curl_easy_setopt(c->easy, CURLOPT_HTTPGET, 1L));
	}
	LIST_INSERT_HEAD(&h->calls, c, link);
	check_multi(curl_multi_add_handle(h->multi, c->easy));
}

/* A CA file that is not there would otherwise show only as a failed connection, again and again. */
static bool check_ca_file(const char *path, struct err *e)
{
	FILE *file = path != NULL ? fopen(path, "re") : NULL;
	if (path != NULL && file == NULL)
		return err_set(e, ERR_CONFIG, "--fga-ca-file: %.200s cannot be read: %s", path, strerror(errno));
	if (file != NULL)
		fclose(file);
	return true;
}

struct http *http_new(struct event_base *base, const struct http_config *config, struct err *e)
{
	if (!check_ca_file(config->ca_file, e))
		return NULL;
	struct http *h = xcalloc(1, sizeof *h);
	check(curl_global_init(CURL_GLOBAL_DEFAULT));
	h->base = base;
	h->config = *config;
	LIST_INIT(&h->calls);
	SLIST_INIT(&h->spare);
	h->timer = evtimer_new(base, on_timer, h);
	h->multi = curl_multi_init();
	ASSERT(h->timer != NULL && h->multi != NULL);
	check_multi(curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, want_socket));
	check_multi(curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h));
	check_multi(curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, want_timer));
	check_multi(curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h));
	check_multi(curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)config->max_connections));
	check_multi(curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING));
	return h;
}

void http_free(struct http *h)
{
	if (h == NULL)
		return;
	while (!LIST_EMPTY(&h->calls)) {
		struct call *c = LIST_FIRST(&h->calls);
		LIST_REMOVE(c, link);
		check_multi(curl_multi_remove_handle(h->multi, c->easy));
		call_free(c);
	}
	while (!SLIST_EMPTY(&h->spare)) {
		struct call *c = SLIST_FIRST(&h->spare);
		SLIST_REMOVE_HEAD(&h->spare, spare_link);
		call_free(c);
	}
	check_multi(curl_multi_cleanup(h->multi));
	event_free(h->timer);
	free(h);
	curl_global_cleanup();
}
