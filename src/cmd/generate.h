/* What an installation has besides the program, from the tables of commands and options. Each adds one file to `out`.
 */
#ifndef RELAY_CMD_GENERATE_H
#define RELAY_CMD_GENERATE_H

#include "base/str.h"

/* relay(1), in mdoc(7). */
void generate_man(struct buf *out);

/* The shells' completions: commands, flags, and the values of those flags that take names or paths. They need what
 * every bash has (its manual, "Programmable Completion"), zsh's compsys (zshcompsys(1)), and fish's complete(1). */
void generate_bash(struct buf *out);
void generate_zsh(struct buf *out);
void generate_fish(struct buf *out);

/* The environment of relay.service (systemd.exec(5), EnvironmentFile=). */
void generate_env(struct buf *out);

#endif
