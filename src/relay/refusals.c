#include "relay/refusals.h"

#include <inttypes.h>

#include "base/clock.h"

enum { LOGGED_IDS = 20 };

/* Refused rows, at their first attempt or at a later one. */
struct refusals {
	size_t n;
	const struct batch_row *first;
	struct buf ids;
};

static void add(struct refusals *r, const struct batch_row *row)
{
	if (r->n++ == 0)
		r->first = row;
	if (r->n <= LOGGED_IDS)
		buf_printf(&r->ids, r->n == 1 ? "%" PRId64 : ",%" PRId64, row->id);
}

static void write_line(const struct refusals *r, const char *msg, uint64_t repeated)
{
	log_warning(msg, LOG_N("rows", r->n), LOG_V("ids", buf_str(&r->ids)), LOG_V("reason", r->first->error),
	            LOG_N("attempts", r->first->attempts + 1), LOG_N("repeated", repeated));
}

void refusals_log(const struct batch *b, struct log_gate *again_gate)
{
	struct refusals fresh = {0};
	struct refusals again = {0};
	uint64_t repeated;
	for (size_t i = 0; i < b->n; i++)
		if (b->rows[i].state == ROW_REJECTED)
			add(b->rows[i].attempts == 0 ? &fresh : &again, &b->rows[i]);
	if (fresh.n > 0)
		write_line(&fresh, "rows refused", 0);
	if (again.n > 0 && log_gate_pass(again_gate, STR("again"), clock_ms(), &repeated))
		write_line(&again, "rows refused again", repeated);
	buf_free(&fresh.ids);
	buf_free(&again.ids);
}

#define TRIED_AGAIN "; refused rows are tried again by themselves, and at once by relay requeue, or SIGHUP"

static void accuse(struct str reason, const struct suspect_counts *counts, const char *model)
{
	log_warning("nearly every row is refused for the same reason: the authorization model is the suspect",
	            LOG_V("reason", reason), LOG_N("refused", counts->refused), LOG_N("delivered", counts->delivered),
	            LOG_S("model", model != NULL ? model : "latest"),
	            LOG_S("hint", model != NULL ? "check that FGA_MODEL_ID names the model that the rows are made for, "
	                                          "and that it has what they need" TRIED_AGAIN
	                                        : "write a model that has what the rows need" TRIED_AGAIN));
}

void refusals_suspect(const struct batch *b, struct suspect *suspect, const char *model)
{
	struct suspect_counts counts;
	for (size_t i = 0; i < b->n; i++) {
		const struct batch_row *row = &b->rows[i];
		if (row->state == ROW_DELIVERED) {
			suspect_delivered(suspect);
		} else if (row->state == ROW_REJECTED && row->attempts == 0) {
			suspect_refused(suspect, row->fault);
			if (suspect_accuse(suspect, row->fault, &counts))
				accuse(row->fault, &counts, model);
		}
	}
}
