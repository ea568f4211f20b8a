/* The daemon: lanes, the listening connection, the sweep, the probe and the signals, wired together on one loop. */
#ifndef RELAY_RELAY_RELAY_H
#define RELAY_RELAY_RELAY_H

#include "base/options.h"

/* How a run ended. */
enum relay_end {
	RELAY_STOPPED,     /* by a signal, or, draining, with nothing left to deliver */
	RELAY_REFUSED,     /* draining: rows remain that OpenFGA refuses */
	RELAY_WRONG,       /* a setting or a privilege is wrong, and only somebody can mend it */
	RELAY_UNREACHABLE, /* draining: Postgres or OpenFGA could not be reached */
};

/* Delivers until a signal; a wrong setting that shows only at work is logged, told by /readyz and tried again for ever.
 */
enum relay_end relay_run(const struct options *o);

/* Delivers what is pending and ends; what goes wrong ends it too. Each refused row is a line on stdout, `id`, a tab,
 * and the reason. */
enum relay_end relay_drain(const struct options *o);

#endif
