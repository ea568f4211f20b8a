#include "io/admin.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/die.h"
#include "core/wait.h"
#include "io/page.h"
#include "io/policy.h"

enum {
	FEW_CONNECTIONS = 32, /* beside those that wait */
	MOST_CONNECTIONS = WAIT_MOST + FEW_CONNECTIONS,
	MOST_HEADER_BYTES = 8 * 1024,
	MOST_BODY_BYTES = 1024,
	MOST_READ_AHEAD_BYTES = 16 * 1024, /* above both: a request still fits */
	TIMEOUT_S = 5,
	BACKLOG = MOST_CONNECTIONS,
};

struct connection {
	struct bufferevent *bev;
	struct evhttp_request *open; /* to /wait, and not answered yet; NULL: there is none */
	uint64_t number;             /* its own */
};

struct admin {
	const struct admin_callbacks *callbacks;
	void *arg;
	const struct admin_wait_callbacks *wait_callbacks;
	void *wait_arg;
	uint64_t waits; /* requests so far */
	struct evhttp *http;
	struct buf policy;  /* of the page */
	struct event *reap; /* pending while there are connections */
	/* evhttp neither counts nor limits its connections. So this holds a second reference to each one's
	 * bufferevent, the oldest first: when dropping it frees the bufferevent, evhttp had closed the connection. */
	struct connection connections[MOST_CONNECTIONS];
	size_t n;
	size_t reap_at; /* that many, and it is time to look which ones were closed: else that is done once a second */
};

struct reply {
	int code;
	const char *type;
	const char *policy; /* Content-Security-Policy; NULL: none */
	struct buf body;
};

static const char text_plain[] = "text/plain; charset=utf-8";
static const char application_json[] = "application/json";

static void answer_page(struct admin *a, const char *query, struct reply *r)
{
	(void)query;
	*r = (struct reply){.code = HTTP_OK, .type = "text/html; charset=utf-8", .policy = a->policy.p};
	buf_add_text(&r->body, probe_page);
}

/* Nothing, or since=N. */
static bool read_since(const char *query, uint64_t *since)
{
	static const char name[] = "since=";
	*since = 0;
	if (query == NULL)
		return true;
	if (strncmp(query, name, strlen(name)) != 0)
		return false;
	const char *number = query + strlen(name);
	size_t digits = strspn(number, "0123456789");
	errno = 0;
	*since = strtoull(number, NULL, 10);
	return digits > 0 && number[digits] == '\0' && errno == 0;
}

static void answer_overview(struct admin *a, const char *query, struct reply *r)
{
	uint64_t since;
	if (read_since(query, &since)) {
		*r = (struct reply){.code = HTTP_OK, .type = application_json};
		a->callbacks->overview(a->arg, since, &r->body);
		buf_add_char(&r->body, '\n');
	} else {
		*r = (struct reply){.code = HTTP_BADREQUEST, .type = text_plain};
		buf_add_text(&r->body, "write since=42, the number that the answer before calls next, or nothing\n");
	}
}

static void answer_live(struct admin *a, const char *query, struct reply *r)
{
	(void)a;
	(void)query;
	*r = (struct reply){.code = HTTP_OK, .type = text_plain};
	buf_add_text(&r->body, "ok\n");
}

static void answer_ready(struct admin *a, const char *query, struct reply *r)
{
	(void)query;
	*r = (struct reply){.code = HTTP_OK, .type = application_json};
	if (!a->callbacks->ready(a->arg, &r->body))
		r->code = HTTP_SERVUNAVAIL;
	buf_add_char(&r->body, '\n');
}

/* https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format */
static void answer_metrics(struct admin *a, const char *query, struct reply *r)
{
	(void)query;
	*r = (struct reply){.code = HTTP_OK, .type = "text/plain; version=0.0.4; charset=utf-8"};
	a->callbacks->metrics(a->arg, &r->body);
}

static const char wait_path[] = "/wait"; /* is answered later */

static const struct {
	const char *path;
	void (*answer)(struct admin *a, const char *query, struct reply *r);
	bool of_page;
} paths[] = {
    {"/", answer_page, true},         {"/overview.json", answer_overview, true}, {"/livez", answer_live, false},
    {"/readyz", answer_ready, false}, {"/healthz", answer_ready, false},         {"/metrics", answer_metrics, false},
};
enum { PATHS = sizeof paths / sizeof *paths };

static bool has_path(const struct admin *a, size_t i)
{
	return !paths[i].of_page || a->callbacks->overview != NULL;
}

static void answer_not_found(const struct admin *a, struct reply *r)
{
	*r = (struct reply){.code = HTTP_NOTFOUND, .type = text_plain};
	buf_add_text(&r->body, "there are:\n");
	for (size_t i = 0; i < PATHS; i++)
		if (has_path(a, i))
			buf_printf(&r->body, "%s\n", paths[i].path);
	buf_printf(&r->body, "%s\n", wait_path);
}

static void answer_path(struct admin *a, const struct evhttp_uri *uri, struct reply *r)
{
	const char *path = evhttp_uri_get_path(uri);
	for (size_t i = 0; path != NULL && i < PATHS; i++) {
		if (has_path(a, i) && strcmp(paths[i].path, path) == 0) {
			paths[i].answer(a, evhttp_uri_get_query(uri), r);
			return;
		}
	}
	answer_not_found(a, r);
}

/* Sends the reply, and frees its body. */
static void reply(struct evhttp_request *request, struct reply *r)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
	bool is_head = evhttp_request_get_command(request) == EVHTTP_REQ_HEAD;
	char length[24];
	/* evhttp would give a HEAD neither of these, but the body that it is handed. */
	snprintf(length, sizeof length, "%zu", r->body.n);
	evhttp_add_header(headers, "Content-Type", r->type);
	evhttp_add_header(headers, "Content-Length", length);
	evhttp_add_header(headers, "Cache-Control", "no-store");
	evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
	if (r->policy != NULL) {
		evhttp_add_header(headers, "Content-Security-Policy", r->policy);
		evhttp_add_header(headers, "Referrer-Policy", "no-referrer");
	}
	struct evbuffer *body = evbuffer_new();
	if (body == NULL || (!is_head && evbuffer_add(body, r->body.p, r->body.n) != 0))
		die(__FILE__, __LINE__, "out of memory");
	evhttp_send_reply(request, r->code, NULL, body);
	evbuffer_free(body);
	buf_free(&r->body);
}

/* Requests that are answered later */

static void on_gone(struct bufferevent *bev, short what, void *arg)
{
	struct admin *a = arg;
	(void)what;
	for (size_t i = 0; i < a->n; i++) {
		struct connection *c = &a->connections[i];
		if (c->bev != bev || c->open == NULL)
			continue;
		evhttp_connection_free(evhttp_request_get_connection(c->open));
		c->open = NULL;
		a->wait_callbacks->gone(a->wait_arg, c->number);
		return;
	}
}

/* evhttp reads nothing before the answer, so that it would not see the client go. */
static void keep_open(struct admin *a, struct evhttp_request *request, uint64_t number)
{
	struct bufferevent *bev = evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
	for (size_t i = 0; i < a->n; i++) {
		struct connection *c = &a->connections[i];
		if (c->bev != bev)
			continue;
		c->open = request;
		c->number = number;
	}
	bufferevent_set_timeouts(bev, NULL, NULL);
	bufferevent_setcb(bev, NULL, NULL, on_gone, a);
	bufferevent_enable(bev, EV_READ);
}

static void begin_wait(struct admin *a, struct evhttp_request *request)
{
	struct wait_query query;
	struct err e;
	struct reply r = {.type = application_json};
	uint64_t number = ++a->waits;
	if (!wait_query_read(&query, evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request)), &e)) {
		wait_write_error("wrong", e.text, &r.body);
		r.code = HTTP_BADREQUEST;
	} else if (!a->wait_callbacks->wait(a->wait_arg, number, &query, &r.body)) {
		r.code = HTTP_SERVUNAVAIL;
	} else {
		keep_open(a, request, number);
		return;
	}
	reply(request, &r);
}

void admin_answer(struct admin *a, uint64_t number, int code, struct str body)
{
	static const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	struct reply r = {.code = code, .type = application_json};
	for (size_t i = 0; i < a->n; i++) {
		struct connection *c = &a->connections[i];
		struct evhttp_request *request = c->open;
		if (request == NULL || c->number != number)
			continue;
		c->open = NULL;
		bufferevent_set_timeouts(c->bev, &timeout, &timeout);
		buf_add_str(&r.body, body);
		reply(request, &r); /* which takes the connection's callbacks back */
		return;
	}
}

void admin_on_wait(struct admin *a, const struct admin_wait_callbacks *callbacks, void *arg)
{
	a->wait_callbacks = callbacks;
	a->wait_arg = arg;
}

static void on_request(struct evhttp_request *request, void *arg)
{
	struct admin *a = arg;
	enum evhttp_cmd_type method = evhttp_request_get_command(request);
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
	const char *path = evhttp_uri_get_path(uri);
	struct reply r;
	if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD) {
		r = (struct reply){.code = HTTP_BADMETHOD, .type = text_plain};
		buf_add_text(&r.body, "GET and HEAD only\n");
		evhttp_add_header(evhttp_request_get_output_headers(request), "Allow", "GET, HEAD");
	} else if (path != NULL && strcmp(path, wait_path) == 0) {
		begin_wait(a, request);
		return;
	} else {
		answer_path(a, uri, &r);
	}
	reply(request, &r);
}

/* Lets go of the connections that evhttp has closed. */
static void reap(struct admin *a)
{
	size_t kept = 0;
	for (size_t i = 0; i < a->n; i++) {
		struct connection c = a->connections[i];
		if (bufferevent_decref(c.bev))
			continue;
		bufferevent_incref(c.bev);
		a->connections[kept++] = c;
	}
	a->n = kept;
	a->reap_at = kept + FEW_CONNECTIONS;
	if (a->n == 0)
		event_del(a->reap);
}

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	reap(arg);
}

/* The oldest one that has no open request gives way, as if it had timed out. */
static void make_room(struct admin *a)
{
	size_t i = 0;
	while (a->connections[i].open != NULL)
		i++;
	bufferevent_trigger_event(a->connections[i].bev, BEV_EVENT_READING | BEV_EVENT_TIMEOUT, 0);
	reap(a);
}

/* evhttp asks for the bufferevent of a new connection. Where there are too many, another one gives way: a crowd of idle
 * ones cannot keep the next health check from its answer. */
static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
	static const struct timeval second = {.tv_sec = 1};
	struct admin *a = arg;
	if (a->n >= a->reap_at || a->n == MOST_CONNECTIONS)
		reap(a);
	if (a->n == MOST_CONNECTIONS)
		make_room(a);
	ASSERT(a->n < MOST_CONNECTIONS);
	struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (bev == NULL)
		die(__FILE__, __LINE__, "out of memory");
	bufferevent_setwatermark(bev, EV_READ, 0, MOST_READ_AHEAD_BYTES);
	bufferevent_incref(bev);
	a->connections[a->n++] = (struct connection){.bev = bev};
	event_add(a->reap, &second);
	return bev;
}

/* A listening socket, or -1 and errno. */
static int listen_at(const struct sockaddr *address, socklen_t length)
{
	const int yes = 1;
	const int no = 0;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (address->sa_family == AF_INET6) /* [::] takes IPv4 as well (ipv6(7)) */
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
	if (bind(fd, address, length) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int reason = errno;
	close(fd);
	errno = reason;
	return -1;
}

/* Listens at the first address of the host that can be had; -1 and *e when none can. */
static int listen_on(const struct address *at, const char *host, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	char port[8];
	int fd = -1;
	snprintf(port, sizeof port, "%u", at->port);
	int failed = getaddrinfo(host, port, &hints, &found);
	if (failed == EAI_SYSTEM)
		err_set(e, ERR_CONFIG, "%s", strerror(errno));
	else if (failed != 0)
		err_set(e, ERR_CONFIG, "%s", gai_strerror(failed));
	for (struct addrinfo *ai = found; failed == 0 && ai != NULL && fd < 0; ai = ai->ai_next) {
		fd = listen_at(ai->ai_addr, ai->ai_addrlen);
		if (fd < 0)
			err_set(e, ERR_CONFIG, "%s", strerror(errno));
	}
	if (found != NULL)
		freeaddrinfo(found);
	if (fd < 0)
		(void)err_prefix(e,
		                 strchr(at->host, ':') != NULL ? "cannot listen on [%s]:%u" : "cannot listen on %s:%u",
		                 at->host, at->port);
	return fd;
}

/* No host: every address, of IPv6 and IPv4 where the machine has both. */
static int open_socket(const struct address *at, struct err *e)
{
	if (at->host[0] != '\0')
		return listen_on(at, at->host, e);
	int fd = listen_on(at, "::", e);
	return fd >= 0 ? fd : listen_on(at, "0.0.0.0", e);
}

struct admin *admin_new(struct event_base *base, const struct address *at, const struct admin_callbacks *callbacks,
                        void *arg, struct err *e)
{
	static const ev_uint16_t any_method = EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |
	                                      EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
	                                      EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH;
	int fd = open_socket(at, e);
	if (fd < 0)
		return NULL;
	struct admin *a = xcalloc(1, sizeof *a);
	a->callbacks = callbacks;
	a->arg = arg;
	policy_of(probe_page, &a->policy);
	a->http = evhttp_new(base);
	a->reap = event_new(base, -1, EV_PERSIST, on_reap, a);
	if (a->http == NULL || a->reap == NULL)
		die(__FILE__, __LINE__, "out of memory");
	evhttp_set_allowed_methods(a->http, any_method); /* on_request answers 405; evhttp itself, 501 */
	evhttp_set_max_headers_size(a->http, MOST_HEADER_BYTES);
	evhttp_set_max_body_size(a->http, MOST_BODY_BYTES);
	evhttp_set_timeout(a->http, TIMEOUT_S);
	evhttp_set_bevcb(a->http, on_connection, a);
	evhttp_set_gencb(a->http, on_request, a);
	if (evhttp_accept_socket(a->http, fd) != 0)
		die(__FILE__, __LINE__, "out of memory");
	return a;
}

void admin_free(struct admin *a)
{
	if (a == NULL)
		return;
	evhttp_free(a->http);
	for (size_t i = 0; i < a->n; i++)
		bufferevent_decref(a->connections[i].bev);
	event_free(a->reap);
	buf_free(&a->policy);
	free(a);
}
