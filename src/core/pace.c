#include "core/pace.h"

#include <inttypes.h>

enum { MEASURED_MS = 500 }; /* no rate is told from less */

static void add_time(struct buf *out, double seconds_left)
{
	enum { DAY_S = 24 * 3600 };
	const int64_t seconds = seconds_left < DAY_S ? (int64_t)seconds_left : DAY_S;
	if (seconds == DAY_S)
		buf_add_text(out, "a long time");
	else if (seconds >= 3600)
		buf_printf(out, "%" PRId64 ":%02" PRId64 ":%02" PRId64, seconds / 3600, seconds % 3600 / 60,
		           seconds % 60);
	else
		buf_printf(out, "%" PRId64 ":%02" PRId64, seconds / 60, seconds % 60);
}

void pace_add(struct buf *out, const char *what, int64_t done, int64_t expected, int64_t elapsed_ms)
{
	buf_add_number(out, done);
	if (expected > done)
		buf_printf(out, " of about %" PRId64, expected);
	buf_printf(out, " %s", what);
	if (elapsed_ms < MEASURED_MS || done <= 0)
		return;
	const double rate = (double)done * 1000 / (double)elapsed_ms;
	buf_printf(out, ", %.0f/s", rate);
	if (expected > done) {
		buf_add_text(out, ", ");
		add_time(out, (double)(expected - done) / rate + 1);
		buf_add_text(out, " left");
	}
}
