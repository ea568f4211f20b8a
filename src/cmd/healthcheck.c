/* Asks a relay's probe and exits with 0 or 1: for containers that have no curl. */
#include <stdio.h>

#include "cmd/commands.h"
#include "cmd/probe.h"

int cmd_healthcheck(const struct options *o)
{
	struct address at;
	struct err e;
	struct buf body = {0};
	struct buf problem = {0};
	if (!options_address(o->http_listen, &at, &e)) {
		fprintf(stderr, "relay healthcheck: --http-listen: %s\n", e.text);
		return EXIT_WRONG;
	}
	bool is_ready = probe_ask(&at, "/healthz", &body, &problem) == PROBE_READY;
	if (!is_ready)
		fprintf(stderr, "relay healthcheck: %s\n", problem.p);
	buf_free(&body);
	buf_free(&problem);
	return is_ready ? EXIT_OK : EXIT_REFUSED;
}
