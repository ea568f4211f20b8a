/* Asks a relay's probe, one question after the other. */
#ifndef RELAY_CMD_PROBE_H
#define RELAY_CMD_PROBE_H

#include "base/options.h"
#include "base/str.h"

enum probe_end {
	PROBE_READY,   /* 200 */
	PROBE_UNREADY, /* any other answer */
	PROBE_SILENT,  /* none within 3 s */
};

/* Asks for a page, such as "/healthz", of a relay that listens at `at`; where that means every address, on this
 * machine. Adds the answer to body. Unless it is READY, adds why to problem, in one line: the answer's reasons, or what
 * became of the question. */
enum probe_end probe_ask(const struct address *at, const char *page, struct buf *body, struct buf *problem);

#endif
