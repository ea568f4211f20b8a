/* relay doctor: OpenFGA, and whether the pending rows fit its model. */
#include <event2/event.h>
#include <signal.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/die.h"
#include "cmd/doctor.h"
#include "core/model.h"
#include "core/payload.h"
#include "core/probe.h"
#include "io/fga.h"
#include "relay/check.h"

/* Somebody is there, and it is no setting of relay's. */
#define BEHIND \
	"see that OpenFGA's database (--datastore-uri) runs, takes writes and has room; its log says more; where a " \
	"proxy " \
	"is in between, see that it reaches OpenFGA"

enum { SHOWN_IDS = 20, DATE_RESOLUTION_MS = 1000 };

/* One question after the other: the loop runs until the answer is there. */
struct party {
	struct doctor *doctor;
	struct event_base *base;
	struct http *http; /* for what needs no credentials */
	struct fga *fga;
	struct check *check;
	/* The last answer: */
	struct judgement judgement;
	enum transport transport;
	int status;
	int64_t date_ms; /* 0: none */
	bool truncated;
	unsigned tuples; /* in the request that it answers; 0: it was a question */
	enum server_age age;
	struct buf body;
	/* What was found: */
	const char *store_id;
	struct model model;
};

static void on_answer(void *arg, const struct answer *a)
{
	struct party *p = arg;
	p->transport = a->transport;
	p->status = a->status;
	p->truncated = a->truncated;
	p->age = probe_age(a);
	if (!date_parse(a->date, &p->date_ms))
		p->date_ms = 0;
	buf_clear(&p->body);
	buf_add_str(&p->body, a->body);
	if (p->tuples > 0)
		verdict_write(a, p->tuples, clock_wall_ms(), &p->judgement);
	else
		verdict_check(a, NULL, clock_wall_ms(), &p->judgement);
	event_base_loopbreak(p->base);
}

static void on_checked(void *arg, const struct judgement *j, const char *store_id, enum server_age age)
{
	struct party *p = arg;
	p->judgement = *j;
	p->age = age;
	p->store_id = store_id != NULL ? arena_str(&p->doctor->arena, str_of(store_id)).p : NULL;
	event_base_loopbreak(p->base);
}

static bool get(struct party *p, const char *path)
{
	p->tuples = 0;
	fga_get(p->fga, path, on_answer, p);
	event_base_dispatch(p->base);
	return p->judgement.verdict == VERDICT_DELIVERED;
}

/* A Write of so many tuples that changes nothing. */
static void post(struct party *p, struct str body, unsigned tuples)
{
	struct buf path = {0};
	p->tuples = tuples;
	fga_add_escaped(&path, "/stores/", p->store_id);
	buf_add_text(&path, "/write");
	fga_post(p->fga, path.p, body, on_answer, p);
	event_base_dispatch(p->base);
	buf_free(&path);
}

/* A page that every OpenFGA has, and shows to everybody; whatever comes back in its place, somebody answers. */
static bool check_openfga(struct party *p)
{
	static const char *const headers[] = {NULL};
	struct doctor *d = p->doctor;
	const char *api_url = d->options->fga_api_url;
	struct buf url = {0};
	size_t n = strlen(api_url);
	while (n > 0 && api_url[n - 1] == '/')
		n--;
	buf_printf(&url, "%.*s/healthz", (int)n, api_url);
	int64_t before_ms = clock_wall_ms();
	http_send(p->http, &(struct http_request){.url = url.p, .headers = headers}, on_answer, p);
	event_base_dispatch(p->base);
	buf_free(&url);
	if (p->transport != TRANSPORT_ANSWERED || p->status >= 500) {
		doctor_fail(d, DOCTOR_OPENFGA, p->judgement.reason,
		            p->transport == TRANSPORT_ANSWERED ? BEHIND : "check FGA_API_URL, and that OpenFGA runs");
		return false;
	}
	doctor_say(d, DOCTOR_OPENFGA, DOCTOR_OK, "%s answers", api_url);
	if (p->date_ms == 0)
		doctor_skip(d, DOCTOR_OPENFGA_CLOCK, DOCTOR_OPENFGA_CLOCK, "its answer has no date");
	else
		doctor_clock(d, DOCTOR_OPENFGA_CLOCK, p->date_ms + DATE_RESOLUTION_MS / 2, before_ms, clock_wall_ms());
	return true;
}

static bool check_credentials(struct party *p)
{
	struct doctor *d = p->doctor;
	const struct options *o = d->options;
	struct buf path = {0};
	if (o->fga_store_id != NULL)
		fga_add_escaped(&path, "/stores/", o->fga_store_id);
	else
		buf_add_text(&path, "/stores?page_size=1");
	bool is_well = get(p, path.p);
	buf_free(&path);
	bool refused = p->status == 401 || p->status == 403;
	if (!is_well && (refused || p->transport == TRANSPORT_NO_TOKEN)) {
		doctor_fail(d, DOCTOR_CREDENTIALS, p->judgement.reason,
		            "check FGA_API_TOKEN, or FGA_CLIENT_ID, FGA_CLIENT_SECRET and FGA_API_TOKEN_ISSUER");
		return false;
	}
	if (!is_well && p->judgement.verdict == VERDICT_RETRY) {
		doctor_fail(d, DOCTOR_OPENFGA, p->judgement.reason, BEHIND);
		return false;
	}
	doctor_say(d, DOCTOR_CREDENTIALS, DOCTOR_OK, "%s",
	           o->fga_api_token != NULL   ? "the preshared key is taken"
	           : o->fga_client_id != NULL ? "the issuer gives a token, and OpenFGA takes it"
	                                      : "none are given, and none are asked for");
	return true;
}

/* The store, the model and the server's age, as `relay run` asks for them. */
static bool check_store_and_model(struct party *p)
{
	struct doctor *d = p->doctor;
	check_start(p->check, true);
	event_base_dispatch(p->base);
	bool is_well = p->judgement.verdict == VERDICT_DELIVERED;
	if (!is_well && check_question(p->check) == CHECK_STORE) {
		doctor_fail(d, DOCTOR_STORE, p->judgement.reason, "check FGA_STORE_ID or FGA_STORE_NAME");
		return false;
	}
	doctor_say(d, DOCTOR_STORE, DOCTOR_OK, "%s is there",
	           d->options->fga_store_id != NULL ? d->options->fga_store_id : d->options->fga_store_name);
	if (!is_well) {
		doctor_fail(d, DOCTOR_MODEL, p->judgement.reason, "check FGA_MODEL_ID");
		return false;
	}
	if (p->age == SERVER_CURRENT) {
		doctor_say(d, DOCTOR_ON_DUPLICATE, DOCTOR_OK, "OpenFGA is 1.10 or later");
	} else if (p->age == SERVER_OLD) {
		doctor_say(d, DOCTOR_ON_DUPLICATE, DOCTOR_WARNING,
		           "OpenFGA is older than 1.10: a row that is sent again goes tuple by tuple");
		doctor_remedy(d, DOCTOR_ON_DUPLICATE, "upgrade OpenFGA to 1.10 or later");
	} else {
		doctor_skip(d, DOCTOR_ON_DUPLICATE, DOCTOR_ON_DUPLICATE, "OpenFGA does not tell");
	}
	return true;
}

/* Reads the model for the comparison with the rows. */
static void check_model(struct party *p)
{
	struct doctor *d = p->doctor;
	const char *id = d->options->fga_model_id;
	struct buf path = {0};
	struct err e = {0};
	fga_add_escaped(&path, "/stores/", p->store_id);
	if (id != NULL)
		fga_add_escaped(&path, "/authorization-models/", id);
	else
		buf_add_text(&path, "/authorization-models?page_size=1");
	bool is_well = get(p, path.p);
	buf_free(&path);
	if (!is_well) {
		doctor_fail(d, DOCTOR_MODEL, p->judgement.reason, "check FGA_MODEL_ID");
	} else if (p->truncated) {
		doctor_say(d, DOCTOR_MODEL, DOCTOR_OK, "it is there");
		doctor_skip(d, DOCTOR_ROWS, DOCTOR_ROWS, "the model is too large to be read here");
	} else if (!model_read(buf_str(&p->body), &d->arena, &p->model, &e)) {
		doctor_fail(d, DOCTOR_MODEL, e.text, "check FGA_API_URL");
	} else {
		doctor_say(d, DOCTOR_MODEL, DOCTOR_OK, "%.*s%s", (int)p->model.id.n, p->model.id.p,
		           id == NULL ? ", the latest" : "");
	}
}

static void check_writes(struct party *p)
{
	struct doctor *d = p->doctor;
	struct buf body = {0};
	const char *model = d->options->fga_model_id;
	probe_body(model != NULL ? str_of(model) : (struct str){0}, PROBE_WRITES, &body);
	post(p, buf_str(&body), 1);
	buf_free(&body);
	if (p->judgement.verdict == VERDICT_DELIVERED)
		doctor_say(d, DOCTOR_WRITES, DOCTOR_OK, "it can");
	else
		doctor_fail(d, DOCTOR_WRITES, p->judgement.reason, BEHIND);
}

static void check_tuple_limit(struct party *p)
{
	struct doctor *d = p->doctor;
	unsigned tuples = d->options->max_tuples_per_write;
	struct buf body = {0};
	if (tuples > PROBE_MAX_TUPLES)
		tuples = PROBE_MAX_TUPLES;
	probe_tuples_body(tuples, &body);
	post(p, buf_str(&body), tuples);
	buf_free(&body);
	if (p->age != SERVER_UNKNOWN) {
		doctor_say(d, DOCTOR_TUPLE_LIMIT, DOCTOR_OK, "OpenFGA takes %u tuples in a request", tuples);
	} else if (p->judgement.tuple_limit > 0) {
		doctor_say(d, DOCTOR_TUPLE_LIMIT, DOCTOR_WARNING, "OpenFGA takes %u tuples in a request, not %u",
		           p->judgement.tuple_limit, tuples);
		doctor_remedy(d, DOCTOR_TUPLE_LIMIT,
		              "--max-tuples-per-write %u, or raise OpenFGA's setting of that name",
		              p->judgement.tuple_limit);
	} else {
		doctor_skip(d, DOCTOR_TUPLE_LIMIT, DOCTOR_TUPLE_LIMIT, p->judgement.reason);
	}
}

/* Whether OpenFGA may take a row; *e says why not. */
static bool row_fits(const struct model *model, const struct doctor_row *row, struct err *e)
{
	struct arena arena = {0};
	struct payload payload;
	struct err why;
	bool fits = payload_parse(row->payload, &arena, &payload, e);
	for (size_t i = fits ? payload.n_deletes : 0; fits && i < payload.n; i++)
		fits = model_takes(model, &payload.ops[i].tuple, &why) ||
		       err_set(e, why.kind, "writes[%zu]: %s", i - payload.n_deletes, why.text);
	arena_free(&arena);
	return fits;
}

static void check_rows(struct party *p)
{
	struct doctor *d = p->doctor;
	struct buf ids = {0};
	struct err first = {0};
	size_t bad = 0;
	size_t large = 0;
	for (size_t i = 0; i < d->n_rows; i++) {
		struct err e;
		large += d->rows[i].payload.n == 0;
		if (d->rows[i].payload.n == 0 || row_fits(&p->model, &d->rows[i], &e))
			continue;
		if (bad++ == 0)
			(void)err_set(&first, e.kind, "row %s: %s", d->rows[i].id, e.text);
		if (bad <= SHOWN_IDS)
			buf_printf(&ids, "%s%s", bad > 1 ? ", " : "", d->rows[i].id);
	}
	if (bad > 0) {
		doctor_say(d, DOCTOR_ROWS, DOCTOR_WARNING, "%zu of the oldest %zu pending rows will be refused: %s",
		           bad, d->n_rows, first.text);
		doctor_remedy(d, DOCTOR_ROWS,
		              "mend the model and name it in FGA_MODEL_ID, or the rows: SELECT id, payload, last_error "
		              "FROM %s WHERE id IN (%s)",
		              d->full_name, ids.p);
	} else if (d->n_rows == 0) {
		doctor_say(d, DOCTOR_ROWS, DOCTOR_OK, "nothing is pending");
	} else {
		doctor_say(d, DOCTOR_ROWS, DOCTOR_OK, "the oldest pending rows, %zu, fit the model%s",
		           d->n_rows - large, large > 0 ? "; larger ones were not looked at" : "");
	}
	buf_free(&ids);
}

static void ask_all(struct party *p)
{
	struct doctor *d = p->doctor;
	if (!check_openfga(p)) {
		doctor_skip(d, DOCTOR_OPENFGA_CLOCK, DOCTOR_ROWS, "OpenFGA does not answer");
		return;
	}
	if (!check_credentials(p)) {
		doctor_skip(d, DOCTOR_CREDENTIALS, DOCTOR_ROWS, "OpenFGA has not answered well");
		return;
	}
	if (!check_store_and_model(p)) {
		doctor_skip(d, DOCTOR_MODEL, DOCTOR_ROWS, "there is no store, or no model, to ask about");
		return;
	}
	check_model(p);
	check_writes(p);
	check_tuple_limit(p);
	if (d->findings[DOCTOR_MODEL].status == DOCTOR_FAILURE)
		doctor_skip(d, DOCTOR_ROWS, DOCTOR_ROWS, "the model cannot be read");
	if (d->findings[DOCTOR_ROWS].summary.n == 0)
		check_rows(p);
}

void doctor_openfga(struct doctor *d)
{
	struct party p = {.doctor = d};
	struct fga_config config;
	struct err e;
	signal(SIGPIPE, SIG_IGN);
	p.base = event_base_new();
	ASSERT(p.base != NULL);
	fga_configure(&config, d->options, 1);
	/* Whoever connects in time answers such questions in time. */
	config.http.request_timeout_ms = d->options->connect_timeout_ms;
	p.http = http_new(p.base, &config.http, &e);
	p.fga = p.http != NULL ? fga_new(p.base, &config, &e) : NULL;
	if (p.fga != NULL) {
		p.check = check_new(p.fga, d->options, on_checked, &p);
		ask_all(&p);
	} else {
		doctor_fail(d, DOCTOR_OPENFGA, e.text, "mend the setting");
		doctor_skip(d, DOCTOR_OPENFGA_CLOCK, DOCTOR_ROWS, "OpenFGA is not asked");
	}
	fga_free(p.fga);
	http_free(p.http);
	check_free(p.check);
	event_base_free(p.base);
	buf_free(&p.body);
}
