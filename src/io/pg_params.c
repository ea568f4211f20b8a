#include "io/pg_params.h"

#include <arpa/inet.h>
#include <event2/dns.h>
#include <event2/util.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/str.h"

enum { MAX_KEYWORDS = 80, MAX_HOSTS = 32, MAX_ADDRESSES = 64 };

/* What every connection gets unless the user said otherwise: a dead peer is noticed within a minute. */
static const char *const defaults[][2] = {
    {"keepalives", "1"},       {"keepalives_idle", "30"},     {"keepalives_interval", "10"},
    {"keepalives_count", "3"}, {"tcp_user_timeout", "30000"}, {"client_encoding", "UTF8"},
};

struct pg_params {
	char *keywords[MAX_KEYWORDS + 1];
	char *values[MAX_KEYWORDS + 1];
	size_t n;
};

static const char *get(const struct pg_params *p, const char *keyword)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->keywords[i], keyword) == 0)
			return p->values[i];
	return NULL;
}

static void set(struct pg_params *p, const char *keyword, const char *value)
{
	for (size_t i = 0; i < p->n; i++) {
		if (strcmp(p->keywords[i], keyword) == 0) {
			char *copy = xstrdup(value);
			free(p->values[i]);
			p->values[i] = copy;
			return;
		}
	}
	ASSERT(p->n < MAX_KEYWORDS);
	p->keywords[p->n] = xstrdup(keyword);
	p->values[p->n++] = xstrdup(value);
}

static void set_all(struct pg_params *p, const PQconninfoOption *options)
{
	for (const PQconninfoOption *o = options; o->keyword != NULL; o++)
		if (o->val != NULL && o->val[0] != '\0')
			set(p, o->keyword, o->val);
}

/* A password with an @ or a / in it as it stands makes libpq read the rest as host and port, and name them in its
 * errors. */
static bool check_given(const PQconninfoOption *given, struct err *e)
{
	bool fine = true;
	for (const PQconninfoOption *o = given; o->keyword != NULL; o++) {
		if (o->val == NULL)
			continue;
		if (strcmp(o->keyword, "host") == 0 || strcmp(o->keyword, "hostaddr") == 0)
			fine = fine && (o->val[0] == '@' || strchr(o->val, '@') == NULL);
		if (strcmp(o->keyword, "port") == 0)
			fine = fine && o->val[strspn(o->val, "0123456789,")] == '\0';
	}
	return fine ||
	       err_set(e, ERR_CONFIG,
	               "the host or the port in DATABASE_URL is none: in a password, write @ : / %% as %%40 %%3A "
	               "%%2F %%25");
}

struct pg_params *pg_params_new(const char *database_url, const char *label, struct err *e)
{
	PQconninfoOption *environment = PQconndefaults();
	if (environment == NULL)
		die(__FILE__, __LINE__, "out of memory");
	char *message = NULL;
	PQconninfoOption *given = PQconninfoParse(database_url ? database_url : "", &message);
	struct pg_params *p = NULL;
	if (given == NULL) {
		/* The message may repeat a part of the string, which may be the password. */
		(void)err_set(e, ERR_CONFIG,
		              "DATABASE_URL is not a connection string that libpq understands: write "
		              "postgres://USER:PASSWORD@HOST:PORT/DATABASE, or host=… dbname=…");
	} else if (check_given(given, e)) {
		p = xcalloc(1, sizeof *p);
		set_all(p, environment);
		set_all(p, given);
		for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
			if (strcmp(defaults[i][0], "client_encoding") == 0 || get(p, defaults[i][0]) == NULL)
				set(p, defaults[i][0], defaults[i][1]);
		if (get(p, "application_name") == NULL) {
			struct buf name = {0};
			buf_printf(&name, "relay %s", label);
			set(p, "application_name", name.p);
			buf_free(&name);
		}
	}
	PQfreemem(message);
	PQconninfoFree(given);
	PQconninfoFree(environment);
	return p;
}

void pg_params_free(struct pg_params *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < p->n; i++) {
		free(p->keywords[i]);
		free(p->values[i]);
	}
	free(p);
}

static unsigned count_items(const char *list)
{
	unsigned n = 1;
	for (; *list != '\0'; list++)
		n += *list == ',';
	return n;
}

/* "a,b,c" becomes "b,c,a" when it shall begin with item 1. */
static void turn_list(struct pg_params *p, const char *keyword, unsigned first)
{
	const char *list = get(p, keyword);
	const char *rest = list;
	struct buf turned = {0};
	if (list == NULL || count_items(list) == 1)
		return;
	for (first %= count_items(list); first > 0; first--)
		rest = strchr(rest, ',') + 1;
	if (rest == list)
		return;
	buf_add_text(&turned, rest);
	buf_add_char(&turned, ',');
	buf_add(&turned, list, (size_t)(rest - list) - 1);
	set(p, keyword, turned.p);
	buf_free(&turned);
}

void pg_params_begin_with(struct pg_params *p, unsigned host)
{
	turn_list(p, "host", host);
	turn_list(p, "hostaddr", host);
	turn_list(p, "port", host);
}

const char *const *pg_params_keywords(const struct pg_params *p)
{
	return (const char *const *)p->keywords;
}

const char *const *pg_params_values(const struct pg_params *p)
{
	return (const char *const *)p->values;
}

/* One of the hosts of the connection string, while its addresses are looked up. */
struct lookup_host {
	struct pg_lookup *lookup;
	char *name;
	const char *port;
	bool direct;                               /* a socket's folder or an address: nothing to look up */
	struct evdns_getaddrinfo_request *request; /* NULL: not under way */
	char addresses[MAX_ADDRESSES][INET6_ADDRSTRLEN];
	size_t n_addresses;
	int failure; /* EVUTIL_EAI_… */
};

/* Outlives a cancellation: evdns calls back all the same. It has a resolver of its own, so that each lookup goes by
 * what resolv.conf says now, and none waits behind those that were given up. */
struct pg_lookup {
	struct evdns_base *dns;
	struct event *end; /* frees all, when nothing of evdns is on the stack or about to run */
	struct pg_params *params;
	pg_resolved_fn *fn; /* NULL: cancelled */
	void *arg;
	char *hosts_text;
	char *ports_text;
	struct lookup_host hosts[MAX_HOSTS];
	size_t n;
	size_t open; /* names that are not answered yet, and one while they are asked */
};

static void lookup_free(struct pg_lookup *l)
{
	evdns_base_free(l->dns, 0);
	event_free(l->end);
	pg_params_free(l->params);
	free(l->hosts_text);
	free(l->ports_text);
	free(l);
}

static bool is_address(const char *host)
{
	unsigned char bytes[sizeof(struct in6_addr)];
	return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* Adds an item to a comma-separated list; the first item may be empty. */
static void list_add(struct buf *list, bool first, const char *item)
{
	if (!first)
		buf_add_char(list, ',');
	buf_add_text(list, item ? item : "");
}

/* Puts what was found into host, hostaddr and port, which libpq reads side by side. */
static bool apply(struct pg_lookup *l, struct err *e)
{
	struct buf hosts = {0};
	struct buf addresses = {0};
	struct buf ports = {0};
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct lookup_host *h = &l->hosts[i];
		for (size_t k = 0; k < (h->direct ? 1 : h->n_addresses); k++, n++) {
			list_add(&hosts, n == 0, h->name);
			list_add(&addresses, n == 0, h->direct ? NULL : h->addresses[k]);
			list_add(&ports, n == 0, h->port);
		}
		if (!h->direct && h->n_addresses == 0)
			(void)err_set(e, ERR_TRANSIENT,
			              "the host name \"%s\" cannot be resolved (%s): check it and the DNS", h->name,
			              evutil_gai_strerror(h->failure));
	}
	if (n > 0) {
		set(l->params, "host", hosts.p);
		set(l->params, "hostaddr", addresses.p);
		set(l->params, "port", ports.p);
	}
	buf_free(&hosts);
	buf_free(&addresses);
	buf_free(&ports);
	return n > 0;
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	lookup_free(arg);
}

static void lookup_done(struct pg_lookup *l)
{
	if (--l->open > 0)
		return;
	if (l->fn != NULL) {
		struct err e = {0};
		bool found = apply(l, &e);
		struct pg_params *params = found ? l->params : NULL;
		if (found)
			l->params = NULL;
		l->fn(l->arg, params, &e);
	}
	evtimer_add(l->end, &(struct timeval){0});
}

static void on_addresses(int failure, struct evutil_addrinfo *found, void *arg)
{
	struct lookup_host *h = arg;
	h->request = NULL;
	h->failure = failure;
	for (const struct evutil_addrinfo *a = found; a != NULL && h->n_addresses < MAX_ADDRESSES; a = a->ai_next) {
		const void *bytes =
		    a->ai_family == AF_INET6
		        ? (const void *)&((const struct sockaddr_in6 *)(const void *)a->ai_addr)->sin6_addr
		        : (const void *)&((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr;
		if (inet_ntop(a->ai_family, bytes, h->addresses[h->n_addresses], INET6_ADDRSTRLEN) != NULL)
			h->n_addresses++;
	}
	if (found != NULL)
		evutil_freeaddrinfo(found);
	lookup_done(h->lookup);
}

static void ask(struct pg_lookup *l, struct lookup_host *h)
{
	struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	l->open++;
	h->request = evdns_getaddrinfo(l->dns, h->name, NULL, &hints, on_addresses, h);
}

/* Without a nameserver it is this machine (resolv.conf(5)); a file that is not there is no error either. */
static void set_up_resolver(struct pg_lookup *l, struct event_base *base)
{
	l->dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	l->end = evtimer_new(base, on_end, l);
	ASSERT(l->dns != NULL && l->end != NULL);
	(void)evdns_base_resolv_conf_parse(l->dns, DNS_OPTIONS_ALL, "/etc/resolv.conf");
	if (evdns_base_count_nameservers(l->dns) == 0)
		(void)evdns_base_nameserver_ip_add(l->dns, "127.0.0.1");
}

/* Splits "a,b" into the lookup's hosts; one port serves all, as in libpq. */
static void split_hosts(struct pg_lookup *l)
{
	char *hosts = l->hosts_text;
	char *ports = l->ports_text;
	const char *port = NULL;
	while (hosts != NULL && l->n < MAX_HOSTS) {
		struct lookup_host *h = &l->hosts[l->n++];
		h->lookup = l;
		h->name = strsep(&hosts, ",");
		if (ports != NULL)
			port = strsep(&ports, ",");
		h->port = port;
		h->direct = h->name[0] == '/' || h->name[0] == '@' || h->name[0] == '\0' || is_address(h->name);
	}
}

struct pg_lookup *pg_params_resolve(struct pg_params *p, struct event_base *base, pg_resolved_fn *fn, void *arg)
{
	const char *host = get(p, "host");
	const char *port = get(p, "port");
	if (host == NULL || get(p, "hostaddr") != NULL) {
		fn(arg, p, NULL);
		return NULL;
	}
	struct pg_lookup *l = xcalloc(1, sizeof *l);
	*l = (struct pg_lookup){.params = p, .fn = fn, .arg = arg, .open = 1};
	l->hosts_text = xstrdup(host);
	l->ports_text = port ? xstrdup(port) : NULL;
	split_hosts(l);
	set_up_resolver(l, base);
	for (size_t i = 0; i < l->n; i++)
		if (!l->hosts[i].direct)
			ask(l, &l->hosts[i]);
	bool waits = l->open > 1;
	lookup_done(l);
	return waits ? l : NULL;
}

void pg_lookup_cancel(struct pg_lookup *lookup)
{
	if (lookup == NULL)
		return;
	lookup->fn = NULL;
	for (size_t i = 0; i < lookup->n; i++)
		if (lookup->hosts[i].request != NULL)
			evdns_getaddrinfo_cancel(lookup->hosts[i].request);
}

/* Without the newline at its end. */
static size_t length_of(const char *message)
{
	size_t n = strlen(message);
	while (n > 0 && strchr(" \n", message[n - 1]) != NULL)
		n--;
	return n;
}

/* The message is cut where there is no room for both: what to do is the part that helps. */
static bool advise(struct err *e, enum err_kind kind, const char *message, const char *advice)
{
	const size_t room = sizeof e->text - sizeof ": " - strlen(advice);
	const size_t n = length_of(message);
	return err_set(e, kind, "%.*s: %s", (int)(n < room ? n : room), message, advice);
}

#define MORE_CONNECTIONS \
	"relay takes one connection for each of --lanes, and one to listen: raise max_connections or the CONNECTION " \
	"LIMIT of the role or the database, or lower --lanes"
#define NO_PRIMARY "no server in DATABASE_URL takes writes: name the primary as well, or promote a standby"

bool pg_params_connection_error(const PGconn *conn, struct err *e)
{
	const char *message = PQerrorMessage(conn);
	if (message[0] == '\0')
		message = "the server closed the connection";
	/* libpq has no SQLSTATE for a failed connection: its words have to do. */
	static const struct {
		const char *words;
		enum err_kind kind;
		const char *advice;
	} known[] = {
	    {"password authentication failed", ERR_CONFIG,
	     "check the user and the password in DATABASE_URL or PGUSER and PGPASSWORD"},
	    {"no password supplied", ERR_CONFIG, "put the password into DATABASE_URL or PGPASSWORD"},
	    {"no pg_hba.conf entry", ERR_CONFIG, "let this host, user and database in by pg_hba.conf"},
	    {"permission denied for database", ERR_CONFIG, "grant CONNECT: `relay install --role NAME` does"},
	    {"is not permitted to log in", ERR_CONFIG, "ALTER ROLE … LOGIN"},
	    {"root certificate file", ERR_CONFIG, "name a file with the certificates to trust in sslrootcert"},
	    {"private key file", ERR_CONFIG, "check sslkey: it has to be there, and others must not read it"},
	    {"requires a valid client certificate", ERR_CONFIG, "name one in sslcert, and its key in sslkey"},
	    {"does not match host name", ERR_CONFIG,
	     "connect by a name that stands in the server's certificate, or have it issued for this one"},
	    {"does not exist", ERR_CONFIG, "check the database and the user in DATABASE_URL or PGDATABASE and PGUSER"},
	    {"invalid sslmode value", ERR_CONFIG, "check sslmode"},
	    {"server does not support SSL", ERR_CONFIG, "set sslmode=disable, or switch TLS on at the server"},
	    {"certificate verify failed", ERR_CONFIG, "check sslrootcert"},
	    {"too many clients already", ERR_TRANSIENT, MORE_CONNECTIONS},
	    {"connection slots are reserved", ERR_TRANSIENT, MORE_CONNECTIONS},
	    {"too many connections for", ERR_TRANSIENT, MORE_CONNECTIONS},
	    {"session is read-only", ERR_TRANSIENT, NO_PRIMARY},
	    {"server is in hot standby mode", ERR_TRANSIENT, NO_PRIMARY},
	};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strstr(message, known[i].words) != NULL)
			return advise(e, known[i].kind, message, known[i].advice);
	return err_set(e, ERR_TRANSIENT, "%.*s", (int)length_of(message), message);
}

bool pg_params_result_error(const PGresult *result, struct err *e)
{
	static const struct {
		const char *sqlstate; /* five characters, or a class of two */
		enum err_kind kind;
		const char *advice;
	} known[] = {
	    {"26000", ERR_POOLED, "a pooler gave the session to somebody else: --no-prepare"},
	    {"42P05", ERR_POOLED, "a pooler gave somebody else's session: --no-prepare"},
	    {"42P01", ERR_CONFIG,
	     "create the table, or run `relay install`; --table names another one; its schema needs USAGE"},
	    {"3F000", ERR_CONFIG, "check the schema in --table"},
	    {"42703", ERR_CONFIG, "the table is not the one that relay expects: `relay install` says what differs"},
	    {"42501", ERR_CONFIG, "grant it: `relay doctor` says what is missing, `relay install --role NAME` does it"},
	    {"42704", ERR_CONFIG, "relay needs Postgres 14 or later: upgrade it"},
	    {"42883", ERR_CONFIG, "a column has another type than relay expects: `relay install` says what differs"},
	    {"42804", ERR_CONFIG, "a column has another type than relay expects: `relay install` says what differs"},
	    {"25006", ERR_TRANSIENT,
	     "the server is read-only: connect to the primary (target_session_attrs=read-write), or see who set "
	     "default_transaction_read_only"},
	    {"53100", ERR_TRANSIENT, "make room on the server's disk"},
	    {"53300", ERR_TRANSIENT, MORE_CONNECTIONS},
	    {"54000", ERR_TRANSIENT,
	     "of NOTIFY's queue, a session that listens and keeps a transaction open holds up the end: end that "
	     "transaction (pg_stat_activity), and watch pg_notification_queue_usage()"},
	    {"55P03", ERR_TRANSIENT, "somebody holds a lock on the table: see pg_locks and pg_stat_activity"},
	    {"57014", ERR_TRANSIENT, "see in pg_locks whether somebody holds a lock, or who cancelled it"},
	    {"23", ERR_CONFIG, "a constraint on the table refuses what relay marks: drop it"},
	    {"42", ERR_CONFIG, "`relay install` says what differs from the table that relay expects"},
	    {"28", ERR_CONFIG, "check the user and the password"},
	    {"3D", ERR_CONFIG, "check the database's name"},
	};
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	if (message == NULL)
		message = PQresultErrorMessage(result);
	for (size_t i = 0; sqlstate != NULL && i < sizeof known / sizeof known[0]; i++)
		if (strncmp(sqlstate, known[i].sqlstate, strlen(known[i].sqlstate)) == 0)
			return advise(e, known[i].kind, message, known[i].advice);
	return err_set(e, ERR_TRANSIENT, "%s%s%s%s", message, sqlstate ? " (SQLSTATE " : "", sqlstate ? sqlstate : "",
	               sqlstate ? ")" : "");
}
