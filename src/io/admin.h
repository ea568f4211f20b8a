/* The probe: a small HTTP server for /livez, /readyz, /healthz, /metrics and /wait, and for the page at /, which asks
 * for /overview.json. GET and HEAD only, small limits. */
#ifndef RELAY_IO_ADMIN_H
#define RELAY_IO_ADMIN_H

#include <event2/event.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/options.h"
#include "base/str.h"
#include "core/wait_query.h"

struct admin;

/* What the probe asks of the daemon; both add to `out` and are called on the loop. */
struct admin_callbacks {
	/* Adds a JSON object, {"ready":false,"reasons":["…"], …}, and returns whether all is in order. */
	bool (*ready)(void *arg, struct buf *out);
	/* Adds Prometheus' text format. */
	void (*metrics)(void *arg, struct buf *out);
	/* Adds the JSON that the page shows; since: which samples it knows (core/history.h). NULL: there is no page. */
	void (*overview)(void *arg, uint64_t since, struct buf *out);
};

/* Listens at once. NULL and *e (ERR_CONFIG) when the address cannot be had; the text says which and why. */
struct admin *admin_new(struct event_base *base, const struct address *at, const struct admin_callbacks *callbacks,
                        void *arg, struct err *e) MUST_CHECK;

/* Who takes the requests to /wait, at most WAIT_MOST (core/wait.h) at a time. */
struct admin_wait_callbacks {
	/* A request, whose answer admin_answer gives later: `number` is its own. False: it is answered at once, with
	 * 503 and the JSON that was added to `body`. */
	bool (*wait)(void *arg, uint64_t number, const struct wait_query *query, struct buf *body);
	/* The client of an open request is gone, and with it the request. */
	void (*gone)(void *arg, uint64_t number);
};
void admin_on_wait(struct admin *a, const struct admin_wait_callbacks *callbacks, void *arg);

/* Answers an open request. code: HTTP's; body: JSON. */
void admin_answer(struct admin *a, uint64_t number, int code, struct str body);

/* Closes every connection. NULL is nothing. */
void admin_free(struct admin *a);

#endif
