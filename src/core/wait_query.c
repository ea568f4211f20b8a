#include "core/wait_query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

#define RIGHT "write id=42, several times for several rows, and timeout=2s where 5s is not right"

static bool add_id(struct wait_query *q, const char *value, struct err *e)
{
	errno = 0;
	long long id = strtoll(value, NULL, 10);
	if (value[strspn(value, "0123456789")] != '\0' || id == 0 || errno != 0)
		return err_set(e, ERR_REJECTED, "id: \"%s\" is not the id of a row: a positive number is", value);
	for (size_t i = 0; i < q->n; i++)
		if (q->ids[i] == id)
			return true;
	if (q->n == WAIT_QUERY_IDS)
		return err_set(e, ERR_REJECTED, "more than %d ids: ask for the others in another request",
		               WAIT_QUERY_IDS);
	q->ids[q->n++] = id;
	return true;
}

static bool set_timeout(struct wait_query *q, const char *value, struct err *e)
{
	if (q->timeout_ms != 0)
		return err_set(e, ERR_REJECTED, "timeout stands there twice: give it once");
	if (!options_duration(value, &q->timeout_ms, e)) {
		e->kind = ERR_REJECTED;
		return err_prefix(e, "timeout");
	}
	if (q->timeout_ms > WAIT_QUERY_LONGEST_MS)
		return err_set(e, ERR_REJECTED, "timeout: \"%s\" is too long: at most %ds, then ask again", value,
		               WAIT_QUERY_LONGEST_MS / 1000);
	return true;
}

/* One name=value. */
static bool read_part(struct wait_query *q, const char *part, size_t n, struct err *e)
{
	char copy[64];
	if (n >= sizeof copy)
		return err_set(e, ERR_REJECTED, "a parameter is too long: " RIGHT);
	memcpy(copy, part, n);
	copy[n] = '\0';
	if (strncmp(copy, "id=", 3) == 0)
		return add_id(q, copy + 3, e);
	if (strncmp(copy, "timeout=", 8) == 0)
		return set_timeout(q, copy + 8, e);
	return err_set(e, ERR_REJECTED, "\"%s\" is not known: " RIGHT, copy);
}

bool wait_query_read(struct wait_query *q, const char *text, struct err *e)
{
	const char *part = text != NULL ? text : "";
	*q = (struct wait_query){0};
	while (*part != '\0') {
		size_t n = strcspn(part, "&");
		if (n > 0 && !read_part(q, part, n, e))
			return false;
		part += n + (part[n] == '&');
	}
	if (q->n == 0)
		return err_set(e, ERR_REJECTED, "id is missing: " RIGHT);
	if (q->timeout_ms == 0)
		q->timeout_ms = WAIT_QUERY_DEFAULT_MS;
	return true;
}
