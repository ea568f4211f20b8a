/* Commands that are shown to be copied. */
#ifndef RELAY_CMD_SHELL_H
#define RELAY_CMD_SHELL_H

#include "base/str.h"

/* Adds a flag with its value, quoted as a POSIX shell takes it, and a blank before. */
void shell_add_flag(struct buf *out, const char *flag, const char *value);

#endif
