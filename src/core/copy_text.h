/* Rows for Postgres's COPY … FROM STDIN, in its text format (PostgreSQL, COPY, "Text Format"). */
#ifndef RELAY_CORE_COPY_TEXT_H
#define RELAY_CORE_COPY_TEXT_H

#include "base/str.h"

/* Adds a field, and what ends it: '\t', or '\n' after a row's last one. The text must have no NUL. */
void copy_text_add(struct buf *out, struct str field, char end);

/* The same for NULL. */
void copy_text_add_null(struct buf *out, char end);

#endif
