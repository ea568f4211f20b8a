/* Logs to stderr, one line an event: logfmt (https://brandur.org/logfmt) or JSON.
 *
 *     log_info("delivered", LOG_N("rows", n), LOG_S("store", id));
 *     → time=2026-11-29T14:31:00.123Z level=info msg=delivered rows=3 store=01J…
 *
 * Never a secret, and never a payload above debug. */
#ifndef RELAY_BASE_LOG_H
#define RELAY_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

/* A field; a NULL key ends the list. Bytes that are not UTF-8 are replaced; a value of more than 2 KiB is cut. */
struct log_field {
	const char *key;
	bool is_number;
	int64_t number;
	struct str text;
};

#define LOG_N(k, n) ((struct log_field){.key = (k), .is_number = true, .number = (int64_t)(n)})
#define LOG_S(k, s) ((struct log_field){.key = (k), .text = str_of(s)})
#define LOG_V(k, view) ((struct log_field){.key = (k), .text = (view)})

/* Process-wide, set once at the start; before that: info, logfmt. */
void log_setup(enum log_level least, enum log_format format);

/* Whether an event of this level would be written: to skip costly preparations. */
bool log_on(enum log_level level);

void log_event(enum log_level level, const char *msg, const struct log_field *fields);

#define LOG_FIELDS(...) ((const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){.key = NULL}})
#define log_debug(msg, ...) log_event(LOG_LEVEL_DEBUG, (msg), LOG_FIELDS(__VA_ARGS__))
#define log_info(msg, ...) log_event(LOG_LEVEL_INFO, (msg), LOG_FIELDS(__VA_ARGS__))
#define log_warning(msg, ...) log_event(LOG_LEVEL_WARNING, (msg), LOG_FIELDS(__VA_ARGS__))
#define log_error(msg, ...) log_event(LOG_LEVEL_ERROR, (msg), LOG_FIELDS(__VA_ARGS__))

/* A gate against floods, one for a kind of trouble. {0} is open. */
struct log_gate {
	int64_t open_at_ms; /* closed before this moment */
	uint64_t key;       /* what was last let through */
	uint64_t held_back; /* events not written since */
};

enum { LOG_GATE_MS = 30 * 1000 };

/* Whether to write an event about `what` (its reason, say) now: yes when `what` differs from what was last let through,
 * or LOG_GATE_MS have passed; *held_back is then how many were not written since, to be logged as a field "repeated".
 * now_ms: a monotonic clock. */
bool log_gate_pass(struct log_gate *gate, struct str what, int64_t now_ms, uint64_t *held_back);

#endif
