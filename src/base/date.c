#include "base/date.h"

#include <time.h>

bool date_parse(struct str s, int64_t *ms)
{
	static const char *const formats[] = {
	    "%a, %d %b %Y %H:%M:%S GMT",
	    "%A, %d-%b-%y %H:%M:%S GMT",
	    "%a %b %e %H:%M:%S %Y",
	};
	char text[64];
	if (s.n == 0 || s.n >= sizeof text || memchr(s.p, '\0', s.n) != NULL)
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		struct tm tm = {0};
		const char *end = strptime(text, formats[i], &tm);
		if (end != NULL && *end == '\0') {
			*ms = (int64_t)timegm(&tm) * 1000;
			return true;
		}
	}
	return false;
}
