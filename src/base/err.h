/* An error: whose fault it is, and one line that says what to do. */
#ifndef RELAY_BASE_ERR_H
#define RELAY_BASE_ERR_H

#include <stdbool.h>

enum err_kind {
	ERR_NONE,
	ERR_TRANSIENT, /* will pass by itself: try again */
	ERR_POOLED,    /* what was prepared is in somebody else's session: the next connection prepares nothing */
	ERR_REJECTED,  /* this row's or this input's fault */
	ERR_CONFIG,    /* somebody has to mend a setting, a privilege, a schema */
	ERR_BUG,       /* relay's own */
};

struct err {
	enum err_kind kind;
	char text[512]; /* one line, without a newline at its end */
};

/* Fills *e and returns false, so that a failing function can `return err_set(e, …)`. A text that is too long is cut.
 * Control characters (newlines too) become blanks: libpq's messages have several lines. */
__attribute__((format(printf, 3, 4))) bool err_set(struct err *e, enum err_kind kind, const char *format, ...);

/* Puts "context: " before the text of *e, keeps its kind, and returns false. */
__attribute__((format(printf, 2, 3))) bool err_prefix(struct err *e, const char *format, ...);

#define MUST_CHECK __attribute__((warn_unused_result))

#endif
