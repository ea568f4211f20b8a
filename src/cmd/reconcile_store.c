#include "cmd/reconcile_store.h"

#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "io/fga.h"
#include "relay/check.h"

/* A question that gets no answer is asked again, after longer and longer waits: four seconds in sum. */
enum { IN_FLIGHT = 8, MOST_TRIES = 5, FIRST_WAIT_MS = 250 };

/* A read under way. */
struct question {
	struct store *store;
	struct event *timer;
	struct buf body;
	unsigned tries;
	bool is_single; /* for the tuple `which`; else for a page */
	size_t which;
};

struct store {
	const struct options *options;
	struct event_base *base;
	struct fga *fga;
	struct check *check;
	char *id; /* NULL: not known yet */
	struct buf path;
	struct buf what; /* what is read, for messages */
	struct question questions[IN_FLIGHT];
	struct arena arena;
	struct judgement checked;
	bool failed;
	struct err failure;
	/* The page that was asked for: */
	struct buf answers[2]; /* the last one, and the one that is on its way */
	unsigned at;
	bool is_there;
	bool is_truncated;
	/* The tuples that are read singly: */
	const struct tuple *tuples;
	size_t n;
	size_t begun;
	size_t done;
	store_found_fn *fn;
	void *arg;
};

static void fail(struct store *s, enum err_kind kind, const char *text)
{
	(void)err_set(&s->failure, kind, "%s", text);
	s->failed = true;
	event_base_loopbreak(s->base);
}

static void on_answer(void *arg, const struct answer *a);

static void ask(struct question *q)
{
	fga_post(q->store->fga, q->store->path.p, buf_str(&q->body), on_answer, q);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	ask(arg);
}

static void ask_later(struct question *q, int64_t at_least_ms)
{
	int64_t ms = (int64_t)FIRST_WAIT_MS << (q->tries - 1);
	ms = ms > at_least_ms ? ms : at_least_ms;
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};
	evtimer_add(q->timer, &tv);
}

static void take_page(struct question *q, const struct answer *a)
{
	struct store *s = q->store;
	struct buf *answer = &s->answers[s->at];
	buf_clear(answer);
	buf_add_str(answer, a->body);
	s->is_there = true;
	s->is_truncated = a->truncated;
	event_base_loopbreak(s->base);
}

static void ask_next(struct question *q)
{
	struct store *s = q->store;
	if (s->begun == s->n)
		return;
	q->which = s->begun++;
	q->tries = 0;
	buf_clear(&q->body);
	page_body_of(&s->tuples[q->which], &q->body);
	ask(q);
}

/* a NULL: OpenFGA can have no such tuple. */
static void take_single(struct question *q, const struct answer *a)
{
	struct store *s = q->store;
	struct page page = {0};
	struct err e;
	if (a != NULL && !page_read(a->body, &s->arena, &page, &e)) {
		fail(s, e.kind, e.text);
		return;
	}
	s->fn(s->arg, q->which, page.n > 0 ? &page.tuples[0] : NULL);
	arena_reset(&s->arena);
	ask_next(q);
	if (++s->done == s->n)
		event_base_loopbreak(s->base);
}

static void on_answer(void *arg, const struct answer *a)
{
	struct question *q = arg;
	struct judgement j;
	verdict_check(a, q->store->what.p, clock_wall_ms(), &j);
	if (j.verdict == VERDICT_RETRY && ++q->tries < MOST_TRIES)
		ask_later(q, j.retry_after_ms);
	else if (j.verdict == VERDICT_HALT && q->is_single && a->status == 400)
		take_single(q, NULL);
	else if (j.verdict != VERDICT_DELIVERED)
		fail(q->store, j.verdict == VERDICT_HALT ? ERR_CONFIG : ERR_TRANSIENT, j.reason);
	else
		(q->is_single ? take_single : take_page)(q, a);
}

static bool end(struct store *s, struct err *e)
{
	if (s->failed)
		*e = s->failure;
	return !s->failed;
}

/* The whole store */

static void ask_page(struct store *s, struct str token, unsigned tuples)
{
	struct question *q = &s->questions[0];
	q->is_single = false;
	q->tries = 0;
	buf_clear(&q->body);
	page_body(token, tuples, &q->body);
	s->at = !s->at;
	s->is_there = false;
	ask(q);
	/* On its way before anything else is done. */
	event_base_loop(s->base, EVLOOP_NONBLOCK);
}

/* Waits for a page, and makes it smaller until it is one that can be kept whole. */
static bool wait_for_page(struct store *s, struct str token, unsigned *tuples, struct str *body, struct err *e)
{
	for (;;) {
		while (!s->is_there && !s->failed)
			event_base_loop(s->base, EVLOOP_ONCE);
		if (!end(s, e))
			return false;
		if (!s->is_truncated) {
			*body = buf_str(&s->answers[s->at]);
			return true;
		}
		if (*tuples == 1)
			return err_set(e, ERR_TRANSIENT, "OpenFGA has a tuple that is too large to be read");
		*tuples /= 2;
		ask_page(s, token, *tuples);
	}
}

/* A page after one that was small enough. */
static unsigned larger(unsigned tuples)
{
	tuples += tuples / 8 + 1;
	return tuples < PAGE_MAX_TUPLES ? tuples : PAGE_MAX_TUPLES;
}

/* Asks for the page behind one that has come; false: there is none. */
static bool ask_behind(struct store *s, struct str next, struct buf *token, unsigned *tuples)
{
	if (next.n == 0)
		return false;
	buf_clear(token);
	buf_add_str(token, next);
	*tuples = larger(*tuples);
	ask_page(s, buf_str(token), *tuples);
	return true;
}

bool store_read(struct store *s, store_page_fn *fn, void *arg, struct err *e)
{
	unsigned tuples = PAGE_MAX_TUPLES;
	struct buf token = {0};
	bool ok = true;
	bool more = true;
	ask_page(s, (struct str){0}, tuples);
	while (ok && more) {
		struct page page;
		struct str body;
		ok = wait_for_page(s, buf_str(&token), &tuples, &body, e);
		if (!ok)
			break;
		more = ask_behind(s, page_peek(body), &token, &tuples);
		ok = page_read(body, &s->arena, &page, e);
		if (ok && !more)
			more = ask_behind(s, page.token, &token, &tuples);
		ok = ok && fn(arg, &page, e);
		arena_reset(&s->arena);
	}
	buf_free(&token);
	return ok;
}

/* Single tuples */

bool store_find(struct store *s, const struct tuple *tuples, size_t n, store_found_fn *fn, void *arg, struct err *e)
{
	s->tuples = tuples;
	s->n = n;
	s->begun = 0;
	s->done = 0;
	s->fn = fn;
	s->arg = arg;
	for (size_t i = 0; i < IN_FLIGHT; i++) {
		s->questions[i].is_single = true;
		ask_next(&s->questions[i]);
	}
	while (s->done < n && !s->failed)
		event_base_loop(s->base, EVLOOP_ONCE);
	return end(s, e);
}

/* The store itself */

static void on_checked(void *arg, const struct judgement *j, const char *store_id, enum server_age age)
{
	struct store *s = arg;
	(void)age;
	s->checked = *j;
	if (store_id != NULL && s->id == NULL)
		s->id = xstrdup(store_id);
	else if (store_id != NULL && strcmp(store_id, s->id) != 0)
		fail(s, ERR_CONFIG, "the store was replaced by another one of the same name meanwhile: start again");
	event_base_loopbreak(s->base);
}

bool store_check(struct store *s, struct err *e)
{
	const bool is_first = s->id == NULL;
	for (unsigned tries = 1;; tries++) {
		check_start_store(s->check);
		event_base_dispatch(s->base);
		if (s->checked.verdict != VERDICT_RETRY || tries == MOST_TRIES)
			break;
		event_base_loopexit(s->base, &(struct timeval){.tv_usec = FIRST_WAIT_MS * 1000L});
		event_base_loop(s->base, EVLOOP_NO_EXIT_ON_EMPTY);
	}
	if (s->checked.verdict != VERDICT_DELIVERED)
		return err_set(e, s->checked.verdict == VERDICT_HALT ? ERR_CONFIG : ERR_TRANSIENT, "%s%s",
		               s->checked.reason, is_first ? "" : "; it was there before: nothing is told");
	if (is_first) {
		fga_add_escaped(&s->path, "/stores/", s->id);
		buf_add_text(&s->path, "/read");
		buf_printf(&s->what, "the tuples of store %s", s->id);
	}
	return end(s, e);
}

struct store *store_open(const struct options *o, struct err *e)
{
	struct store *s = xcalloc(1, sizeof *s);
	struct fga_config config;
	signal(SIGPIPE, SIG_IGN);
	s->options = o;
	s->base = event_base_new();
	ASSERT(s->base != NULL);
	for (size_t i = 0; i < IN_FLIGHT; i++) {
		s->questions[i].store = s;
		s->questions[i].timer = evtimer_new(s->base, on_timer, &s->questions[i]);
		ASSERT(s->questions[i].timer != NULL);
	}
	fga_configure(&config, o, IN_FLIGHT);
	s->fga = fga_new(s->base, &config, e);
	if (s->fga == NULL) {
		store_close(s);
		return NULL;
	}
	s->check = check_new(s->fga, o, on_checked, s);
	return s;
}

void store_close(struct store *s)
{
	if (s == NULL)
		return;
	fga_free(s->fga);
	check_free(s->check);
	for (size_t i = 0; i < IN_FLIGHT; i++) {
		event_free(s->questions[i].timer);
		buf_free(&s->questions[i].body);
	}
	event_base_free(s->base);
	arena_free(&s->arena);
	buf_free(&s->answers[0]);
	buf_free(&s->answers[1]);
	buf_free(&s->path);
	buf_free(&s->what);
	free(s->id);
	free(s);
}
