#include "core/wait.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/table.h"

/* One wait's place at one row. */
struct place {
	LIST_ENTRY(place) link; /* in the row's list */
	struct wait *wait;
	struct awaited *row; /* NULL: it is not waited for any more */
	int64_t id;
	bool is_told; /* the answer is about it */
};

struct wait {
	LIST_ENTRY(wait) link;
	uint64_t number;
	int64_t until_ms;
	int64_t ask_ms;   /* due for a question */
	int64_t pause_ms; /* the last one */
	uint64_t asked;   /* the last question about it; 0: none yet */
	enum wait_end end;
	char *reason; /* NULL: none */
	size_t left;  /* places at rows */
	size_t n;
	struct place places[];
};

struct awaited {
	int64_t id;
	LIST_HEAD(, place) places;
	uint64_t asked; /* the last question about it */
	uint64_t found; /* the last question that found it */
	UT_hash_handle hh;
};

static struct awaited *find(const struct waits *w, int64_t id)
{
	struct awaited *found;
	HASH_FIND(hh, w->rows, &id, sizeof id, found);
	return found;
}

static int64_t *recent(struct waits *w, int64_t id)
{
	return &w->recent[(uint64_t)id % WAIT_RECENT];
}

/* A wait's life */

static void join(struct waits *w, struct wait *one, struct place *place)
{
	struct awaited *row = find(w, place->id);
	if (row == NULL) {
		row = xcalloc(1, sizeof *row);
		row->id = place->id;
		HASH_ADD(hh, w->rows, id, sizeof row->id, row);
	}
	LIST_INSERT_HEAD(&row->places, place, link);
	place->row = row;
	one->left++;
	w->n_ids++;
}

static void leave(struct waits *w, struct place *place)
{
	struct awaited *row = place->row;
	LIST_REMOVE(place, link);
	place->row = NULL;
	place->wait->left--;
	w->n_ids--;
	if (!LIST_EMPTY(&row->places))
		return;
	ASSERT(w->rows != NULL);
	HASH_DELETE(hh, w->rows, row);
	free(row);
}

static void leave_all(struct waits *w, struct wait *one)
{
	for (size_t i = 0; i < one->n; i++)
		if (one->places[i].row != NULL)
			leave(w, &one->places[i]);
}

/* id: the one row that it ends for; 0: all that are waited for. */
static void end(struct waits *w, struct wait *one, enum wait_end how, int64_t id)
{
	for (size_t i = 0; i < one->n; i++) {
		struct place *place = &one->places[i];
		place->is_told = how == WAIT_DELIVERED || (id != 0 ? place->id == id : place->row != NULL);
	}
	leave_all(w, one);
	one->end = how;
	LIST_REMOVE(one, link);
	LIST_INSERT_HEAD(&w->ended, one, link);
}

static int64_t on_step(int64_t ms)
{
	return (ms + WAIT_STEP_MS - 1) / WAIT_STEP_MS * WAIT_STEP_MS;
}

bool wait_begin(struct waits *w, uint64_t number, const struct wait_query *query, int64_t now_ms)
{
	if (w->n == WAIT_MOST || w->n_ids + query->n > WAIT_MOST_IDS)
		return false;
	struct wait *one = xcalloc(1, sizeof *one + query->n * sizeof one->places[0]);
	one->number = number;
	one->until_ms = now_ms + query->timeout_ms;
	one->pause_ms = WAIT_FIRST_MS;
	one->ask_ms = on_step(now_ms + WAIT_FIRST_MS);
	for (size_t i = 0; i < query->n; i++) {
		struct place *place = &one->places[one->n++];
		*place = (struct place){.wait = one, .id = query->ids[i]};
		join(w, one, place);
		if (*recent(w, place->id) == place->id)
			one->ask_ms = now_ms;
	}
	LIST_INSERT_HEAD(&w->open, one, link);
	if (w->n == 0 || one->until_ms < w->over_ms)
		w->over_ms = one->until_ms;
	if (w->n == 0 || one->ask_ms < w->ask_ms)
		w->ask_ms = one->ask_ms;
	w->n++;
	return true;
}

static void drop(struct waits *w, struct wait *one)
{
	leave_all(w, one);
	LIST_REMOVE(one, link);
	free(one->reason);
	free(one);
	w->n--;
	if (w->n == 0 && !w->asking)
		w->wanted_ms = 0;
}

static struct wait *find_number(const struct wait_list *list, uint64_t number)
{
	for (struct wait *one = LIST_FIRST(list); one != NULL; one = LIST_NEXT(one, link))
		if (one->number == number)
			return one;
	return NULL;
}

void wait_forget(struct waits *w, uint64_t number)
{
	struct wait *one = find_number(&w->open, number);
	if (one == NULL)
		one = find_number(&w->ended, number);
	if (one != NULL)
		drop(w, one);
}

/* What becomes of rows */

void wait_delivered(struct waits *w, int64_t id)
{
	struct awaited *row;
	*recent(w, id) = id;
	while ((row = find(w, id)) != NULL) {
		struct wait *one = LIST_FIRST(&row->places)->wait;
		leave(w, LIST_FIRST(&row->places));
		if (one->left == 0)
			end(w, one, WAIT_DELIVERED, 0);
	}
}

static void refuse(struct waits *w, struct wait *one, int64_t id, struct str reason)
{
	struct buf text = {0};
	buf_add_clean(&text, reason, WAIT_REASON_BYTES);
	one->reason = text.p;
	end(w, one, WAIT_REFUSED, id);
}

void wait_refused(struct waits *w, int64_t id, struct str reason)
{
	struct awaited *row;
	while ((row = find(w, id)) != NULL)
		refuse(w, LIST_FIRST(&row->places)->wait, id, reason);
}

/* Questions */

bool wait_wants_question(struct waits *w, int64_t now_ms)
{
	if (w->asking || now_ms < w->ask_ms)
		return false;
	w->ask_ms = INT64_MAX;
	for (const struct wait *one = LIST_FIRST(&w->open); one != NULL; one = LIST_NEXT(one, link))
		if (one->ask_ms < w->ask_ms)
			w->ask_ms = one->ask_ms;
	if (w->ask_ms > now_ms)
		return false;
	if (w->wanted_ms == 0)
		w->wanted_ms = now_ms;
	return true;
}

void wait_ask(struct waits *w, int64_t now_ms, struct buf *ids)
{
	size_t n = 0;
	w->question++;
	w->asking = true;
	for (struct wait *one = LIST_FIRST(&w->open); one != NULL; one = LIST_NEXT(one, link)) {
		if (one->ask_ms > now_ms || n + one->left > WAIT_MOST_ASKED)
			continue;
		one->asked = w->question;
		for (size_t i = 0; i < one->n; i++) {
			struct awaited *row = one->places[i].row;
			if (row == NULL || row->asked == w->question)
				continue;
			row->asked = w->question;
			buf_add_char(ids, n++ == 0 ? '{' : ',');
			buf_add_number(ids, row->id);
		}
	}
	buf_add_char(ids, '}');
}

void wait_found(struct waits *w, const struct wait_found *found)
{
	struct awaited *row;
	struct place *next;
	if (found->is_delivered) {
		wait_delivered(w, found->id);
		return;
	}
	row = find(w, found->id);
	if (row == NULL)
		return;
	row->found = w->question;
	if (!found->was_refused)
		return;
	for (struct place *place = LIST_FIRST(&row->places); place != NULL; place = next) {
		next = LIST_NEXT(place, link);
		if (place->wait->asked == w->question)
			refuse(w, place->wait, found->id, found->reason);
	}
}

/* A row that was asked for and not found; 0: none. */
static int64_t missing(const struct waits *w, const struct wait *one)
{
	for (size_t i = 0; i < one->n; i++) {
		const struct awaited *row = one->places[i].row;
		if (row != NULL && row->found != w->question)
			return row->id;
	}
	return 0;
}

void wait_answered(struct waits *w, int64_t now_ms)
{
	struct wait *next;
	for (struct wait *one = LIST_FIRST(&w->open); one != NULL; one = next) {
		next = LIST_NEXT(one, link);
		if (one->asked != w->question)
			continue;
		int64_t id = missing(w, one);
		if (id != 0) {
			end(w, one, WAIT_MISSING, id);
			continue;
		}
		one->pause_ms = 2 * one->pause_ms < WAIT_LONGEST_MS ? 2 * one->pause_ms : WAIT_LONGEST_MS;
		one->ask_ms = on_step(now_ms + one->pause_ms);
	}
	w->asking = false;
	w->wanted_ms = 0;
	w->ask_ms = 0;
}

void wait_unanswered(struct waits *w)
{
	w->asking = false;
	if (w->n == 0)
		w->wanted_ms = 0;
}

/* Ends */

/* Whether an answer is wanted, and nothing can be asked, or nothing is heard. */
static bool is_silent(const struct waits *w, int64_t now_ms)
{
	return w->wanted_ms != 0 && (!w->asking || now_ms - w->wanted_ms >= WAIT_SILENCE_MS);
}

static void end_what_is_over(struct waits *w, int64_t now_ms)
{
	struct wait *next;
	if (now_ms < w->over_ms)
		return;
	w->over_ms = INT64_MAX;
	for (struct wait *one = LIST_FIRST(&w->open); one != NULL; one = next) {
		next = LIST_NEXT(one, link);
		if (one->until_ms <= now_ms)
			end(w, one, is_silent(w, now_ms) ? WAIT_SILENT : WAIT_TIME_OVER, 0);
		else if (one->until_ms < w->over_ms)
			w->over_ms = one->until_ms;
	}
}

void wait_stop(struct waits *w)
{
	while (!LIST_EMPTY(&w->open))
		end(w, LIST_FIRST(&w->open), WAIT_STOPPED, 0);
}

static const char *reason(const struct wait *one)
{
	switch (one->end) {
	case WAIT_REFUSED:
		return one->reason;
	case WAIT_SILENT:
		return "postgres does not answer: ask again later";
	case WAIT_STOPPED:
		return "relay is stopping: ask again later";
	case WAIT_DELIVERED:
	case WAIT_MISSING:
	case WAIT_TIME_OVER:
		break;
	}
	return NULL;
}

static void write_answer(const struct wait *one, struct wait_answer *answer)
{
	static const struct {
		int code;
		const char *status;
	} ends[] = {
#define X(name, code, status) {code, status},
	    WAIT_ENDS(X)
#undef X
	};
	struct buf *body = &answer->body;
	const char *why = reason(one);
	*answer = (struct wait_answer){.number = one->number, .code = ends[one->end].code};
	buf_printf(body, "{\"status\":\"%s\",\"ids\":", ends[one->end].status);
	for (size_t i = 0, n = 0; i < one->n; i++) {
		if (!one->places[i].is_told)
			continue;
		buf_add_char(body, n++ == 0 ? '[' : ',');
		buf_add_number(body, one->places[i].id);
	}
	buf_add_char(body, ']');
	if (why != NULL) {
		buf_add_text(body, ",\"reason\":");
		buf_add_json(body, str_of(why));
	}
	buf_add_text(body, "}\n");
}

void wait_write_error(const char *status, const char *why, struct buf *body)
{
	buf_printf(body, "{\"status\":\"%s\",\"reason\":", status);
	buf_add_json(body, str_of(why));
	buf_add_text(body, "}\n");
}

bool wait_next(struct waits *w, int64_t now_ms, struct wait_answer *answer)
{
	end_what_is_over(w, now_ms);
	struct wait *one = LIST_FIRST(&w->ended);
	if (one == NULL)
		return false;
	write_answer(one, answer);
	drop(w, one);
	return true;
}

int64_t wait_due_ms(const struct waits *w, bool can_ask)
{
	if (w->n == 0)
		return INT64_MAX;
	return can_ask && !w->asking && w->ask_ms < w->over_ms ? w->ask_ms : w->over_ms;
}

void wait_free(struct waits *w)
{
	struct wait *next;
	wait_stop(w);
	for (struct wait *one = LIST_FIRST(&w->ended); one != NULL; one = next) {
		next = LIST_NEXT(one, link);
		drop(w, one);
	}
	*w = (struct waits){0};
}
