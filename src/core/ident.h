/* Names of Postgres's objects, as an operator writes them. */
#ifndef RELAY_CORE_IDENT_H
#define RELAY_CORE_IDENT_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { IDENT_BYTES = 64 }; /* NAMEDATALEN: 63 bytes and a NUL */

struct qualified_name {
	char schema[IDENT_BYTES]; /* empty: found by search_path */
	char name[IDENT_BYTES];
};

/* Reads `name` or `schema.name` the way Postgres does (SQL, "Identifiers and Key Words"): a part without double quotes
 * is folded to lower case, a part in double quotes is taken as it stands, "" in it being one quote. ERR_CONFIG for
 * anything else, also for a part longer than 63 bytes, which Postgres would cut. */
bool ident_parse(const char *text, struct qualified_name *out, struct err *e) MUST_CHECK;

/* Adds a name as a quoted identifier: "my ""table""". */
void ident_add(struct buf *out, const char *name);

/* Adds [schema.]name, each quoted. */
void ident_add_qualified(struct buf *out, const struct qualified_name *name);

/* Adds a string literal that is right whatever standard_conforming_strings says: 'it''s', E'back\\slash'. */
void ident_add_literal(struct buf *out, const char *text);

/* A statement made of a template: each %s becomes the table (as ident_add_qualified writes it), and each %l the same as
 * a literal. The caller frees it. */
char *ident_fill_in(const char *template, const char *table);

#endif
