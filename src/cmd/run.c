#include "cmd/commands.h"
#include "relay/relay.h"

int cmd_run(const struct options *o)
{
	return relay_run(o) == RELAY_STOPPED ? EXIT_OK : EXIT_WRONG;
}
