#include "relay/check.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/str.h"

/* The questions, one after the other: the store's id where only its name is known, the store, the model, the age. */
struct check {
	struct fga *fga;
	const struct options *options;
	check_fn *fn;
	void *arg;
	char *store_id;  /* given, or found by its name; NULL: not known yet */
	struct buf page; /* of the list of stores: its continuation token */
	unsigned found;  /* stores of that name so far */
	enum server_age age;
	enum check_question question; /* the last one */
	bool store_only;
	struct buf what; /* what is asked about, for the reasons */
};

static void finish(struct check *c, const struct judgement *j)
{
	bool forget = j->verdict != VERDICT_DELIVERED && c->options->fga_store_id == NULL;
	if (j->verdict == VERDICT_DELIVERED)
		c->fn(c->arg, j, c->store_id, c->age);
	else
		c->fn(c->arg, j, NULL, SERVER_UNKNOWN);
	if (forget) {
		/* Somebody may make the store anew under the same name. */
		free(c->store_id);
		c->store_id = NULL;
	}
}

__attribute__((format(printf, 2, 3))) static void halt(struct check *c, const char *format, ...)
{
	struct judgement j = {.verdict = VERDICT_HALT};
	va_list args;
	va_start(args, format);
	vsnprintf(j.reason, sizeof j.reason, format, args);
	va_end(args);
	finish(c, &j);
}

/* Judges an answer; when it is not well, tells so and returns false. */
static bool is_well(struct check *c, const struct answer *a)
{
	struct judgement j;
	verdict_check(a, c->what.p, clock_wall_ms(), &j);
	if (j.verdict != VERDICT_DELIVERED) {
		finish(c, &j);
		return false;
	}
	return true;
}

__attribute__((format(printf, 2, 3))) static void ask_about(struct check *c, const char *format, ...)
{
	char what[256];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	buf_clear(&c->what);
	buf_add_text(&c->what, what);
}

static const char *text_of(const cJSON *object, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
	return text != NULL ? text : "";
}

static void on_age(void *arg, const struct answer *a)
{
	struct check *c = arg;
	c->age = probe_age(a);
	finish(c, &(struct judgement){.verdict = VERDICT_DELIVERED});
}

static void ask_age(struct check *c)
{
	struct buf path = {0};
	struct buf body = {0};
	const char *model = c->options->fga_model_id;
	c->question = CHECK_AGE;
	fga_add_escaped(&path, "/stores/", c->store_id);
	buf_add_text(&path, "/write");
	probe_body(model != NULL ? str_of(model) : (struct str){0}, PROBE_AGE, &body);
	fga_post(c->fga, path.p, buf_str(&body), on_age, c);
	buf_free(&path);
	buf_free(&body);
}

static void on_model(void *arg, const struct answer *a)
{
	struct check *c = arg;
	if (!is_well(c, a))
		return;
	if (c->options->fga_model_id == NULL) {
		cJSON *list = cJSON_ParseWithLengthOpts(a->body.p, a->body.n, NULL, false);
		bool none = !a->truncated &&
		            cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(list, "authorization_models")) == 0;
		cJSON_Delete(list);
		if (none) {
			halt(c, "store %s has no authorization model: write one", c->store_id);
			return;
		}
	}
	if (c->age == SERVER_UNKNOWN)
		ask_age(c);
	else
		finish(c, &(struct judgement){.verdict = VERDICT_DELIVERED});
}

static void ask_model(struct check *c)
{
	const char *model = c->options->fga_model_id;
	struct buf path = {0};
	c->question = CHECK_MODEL;
	fga_add_escaped(&path, "/stores/", c->store_id);
	if (model != NULL) {
		ask_about(c, "authorization model %s", model);
		fga_add_escaped(&path, "/authorization-models/", model);
	} else {
		ask_about(c, "the models of store %s", c->store_id);
		buf_add_text(&path, "/authorization-models?page_size=1");
	}
	fga_get(c->fga, path.p, on_model, c);
	buf_free(&path);
}

static void on_store(void *arg, const struct answer *a)
{
	struct check *c = arg;
	if (!is_well(c, a))
		return;
	if (c->store_only)
		finish(c, &(struct judgement){.verdict = VERDICT_DELIVERED});
	else
		ask_model(c);
}

static void ask_store(struct check *c)
{
	struct buf path = {0};
	c->question = CHECK_STORE;
	ask_about(c, "store %s", c->store_id);
	fga_add_escaped(&path, "/stores/", c->store_id);
	fga_get(c->fga, path.p, on_store, c);
	buf_free(&path);
}

static void ask_stores(struct check *c);

/* Counts the stores of the wanted name on a page, and goes on to the next page. False: it is no list. */
static bool read_page(struct check *c, struct str body)
{
	cJSON *page = cJSON_ParseWithLengthOpts(body.p, body.n, NULL, false);
	const cJSON *stores = cJSON_GetObjectItemCaseSensitive(page, "stores");
	const cJSON *store;
	bool is_list = cJSON_IsArray(stores);
	cJSON_ArrayForEach(store, stores)
	{
		if (strcmp(text_of(store, "name"), c->options->fga_store_name) != 0)
			continue;
		c->found++;
		free(c->store_id);
		c->store_id = xstrdup(text_of(store, "id"));
	}
	buf_clear(&c->page);
	buf_add_text(&c->page, text_of(page, "continuation_token"));
	cJSON_Delete(page);
	return is_list;
}

static void on_stores(void *arg, const struct answer *a)
{
	struct check *c = arg;
	const char *name = c->options->fga_store_name;
	if (!is_well(c, a))
		return;
	if (!read_page(c, a->body)) {
		halt(c, "the list of stores cannot be read: set FGA_STORE_ID instead of FGA_STORE_NAME");
	} else if (c->page.n > 0) {
		ask_stores(c);
	} else if (c->found == 0) {
		halt(c, "there is no store named \"%s\": check FGA_STORE_NAME, or create the store", name);
	} else if (c->found > 1) {
		free(c->store_id);
		c->store_id = NULL;
		halt(c, "%u stores are named \"%s\": set FGA_STORE_ID to the one that is meant", c->found, name);
	} else {
		ask_store(c);
	}
}

static void ask_stores(struct check *c)
{
	struct buf path = {0};
	c->question = CHECK_STORE;
	ask_about(c, "the list of stores");
	buf_add_text(&path, "/stores?page_size=50");
	fga_add_escaped(&path, "&name=", c->options->fga_store_name);
	if (c->page.n > 0)
		fga_add_escaped(&path, "&continuation_token=", c->page.p);
	fga_get(c->fga, path.p, on_stores, c);
	buf_free(&path);
}

static void start(struct check *c)
{
	if (c->store_id != NULL) {
		ask_store(c);
		return;
	}
	c->found = 0;
	buf_clear(&c->page);
	ask_stores(c);
}

void check_start(struct check *c, bool anew)
{
	if (anew)
		c->age = SERVER_UNKNOWN;
	c->store_only = false;
	start(c);
}

void check_start_store(struct check *c)
{
	c->store_only = true;
	start(c);
}

enum check_question check_question(const struct check *c)
{
	return c->question;
}

struct check *check_new(struct fga *fga, const struct options *o, check_fn *fn, void *arg)
{
	struct check *c = xcalloc(1, sizeof *c);
	c->fga = fga;
	c->options = o;
	c->fn = fn;
	c->arg = arg;
	c->store_id = o->fga_store_id != NULL ? xstrdup(o->fga_store_id) : NULL;
	return c;
}

void check_free(struct check *c)
{
	if (c == NULL)
		return;
	free(c->store_id);
	buf_free(&c->page);
	buf_free(&c->what);
	free(c);
}
