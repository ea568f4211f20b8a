#include "cmd/commands.h"
#include "relay/relay.h"

int cmd_drain(const struct options *o)
{
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
