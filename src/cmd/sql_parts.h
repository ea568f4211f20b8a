/* What the statements of several commands are made of. */
#ifndef RELAY_CMD_SQL_PARTS_H
#define RELAY_CMD_SQL_PARTS_H

/* The operations of row o: whatever a payload holds, none of this fails. */
#define SQL_PART(name) "pg_catalog.jsonb_path_query(o.payload, 'lax $." name "[*]', '{}', true)"
#define SQL_OPERATIONS \
	"LATERAL (SELECT 1, " SQL_PART("writes") " UNION ALL SELECT 0, " SQL_PART("deletes") ") AS t (is_write, " \
	                                                                                     "tuple)"

/* The tuple of such an operation. */
#define SQL_TUPLE "t.tuple ->> 'user' AS u, t.tuple ->> 'relation' AS r, t.tuple ->> 'object' AS o"

/* Privileges on %s, by its name in %l. */
#define SQL_HAS(column, privilege) "pg_catalog.has_column_privilege(%l, '" column "', '" privilege "')"
#define SQL_SEQUENCE "pg_catalog.pg_get_serial_sequence(%l, 'id')"

/* What inserting takes, as rows of SQL_GRANTS. */
#define SQL_MAY_INSERT(is_needed) \
	"(" is_needed ", " SQL_HAS("payload", "INSERT") ", 'INSERT (payload) ON TABLE ' || %l)," \
	                                                " (" is_needed \
	                                                ", pg_catalog.has_sequence_privilege(" SQL_SEQUENCE \
	                                                ", 'USAGE')," \
	                                                " 'USAGE ON SEQUENCE ' || " SQL_SEQUENCE ")"

/* The GRANTs that this role lacks. needed: rows of whether it is needed, whether it is held, and what it is. NULL:
 * none.
 */
#define SQL_GRANTS(needed) \
	"SELECT pg_catalog.string_agg('GRANT ' || what || ' TO ' || pg_catalog.quote_ident(CURRENT_USER), '; ')" \
	" FROM (VALUES " needed ") AS needed (is_needed, is_held, what) WHERE is_needed AND NOT is_held"

#endif
