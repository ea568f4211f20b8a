#include <stdio.h>

#include "cmd/commands.h"
#include "cmd/preview.h"
#include "relay/relay.h"

int cmd_drain(const struct options *o)
{
	if (o->dry_run)
		return preview(o);
	if (o->json) {
		fprintf(stderr, "relay drain: --json goes with --dry-run: what is delivered is told by the log\n");
		return EXIT_WRONG;
	}
	switch (relay_drain(o)) {
	case RELAY_STOPPED:
		return EXIT_OK;
	case RELAY_REFUSED:
		return EXIT_REFUSED;
	case RELAY_WRONG:
		return EXIT_WRONG;
	case RELAY_UNREACHABLE:
		return EXIT_UNREACHABLE;
	}
	return EXIT_WRONG;
}
