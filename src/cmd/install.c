/* relay install: puts the names into the files of sql/, and runs or prints them. What there is to find out and to say
 * is found out and said in SQL, so that psql does with the same files what this does. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "cmd/commands.h"
#include "cmd/session.h"
#include "cmd/sql_files.h"
#include "core/ident.h"

struct variable {
	const char *name; /* as psql has it: :'name' */
	const char *value;
};

/* What the server had to say, one line each. */
struct findings {
	struct buf done;
	struct buf differs;
};

/* Adds a file's text with every :'name' replaced as psql replaces it. The files use it outside of quotes only, and
 * never a name that is not in the list. */
static void add_file(struct buf *sql, const char *file, const struct variable *variables)
{
	for (const char *mark; (mark = strstr(file, ":'")) != NULL;) {
		const char *name = mark + 2;
		const size_t n = strcspn(name, "'");
		const struct variable *v = variables;
		while (v->name && (strlen(v->name) != n || memcmp(v->name, name, n) != 0))
			v++;
		ASSERT(v->name != NULL);
		buf_add(sql, file, (size_t)(mark - file));
		ident_add_literal(sql, v->value);
		file = name + n + 1;
	}
	buf_add_text(sql, file);
}

static void add_script(struct buf *sql, const struct options *o, const struct qualified_name *table)
{
	const struct variable variables[] = {{"schema", table->schema},
	                                     {"table", table->name},
	                                     {"channel", o->channel},
	                                     {"role", o->role},
	                                     {NULL, NULL}};

	buf_add_text(sql, "BEGIN;\n\n");
	add_file(sql, sql_names, variables);
	if (o->uninstall) {
		buf_add_char(sql, '\n');
		add_file(sql, sql_uninstall, variables);
	} else {
		buf_add_char(sql, '\n');
		add_file(sql, sql_table, variables);
		buf_add_char(sql, '\n');
		add_file(sql, sql_trigger, variables);
		if (o->role) {
			buf_add_char(sql, '\n');
			add_file(sql, sql_role, variables);
		}
	}
	buf_add_text(sql, "\nCOMMIT;\n");
}

/* "message: hint" of a notice or an error. */
static void add_message(struct buf *out, const PGresult *result)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
	buf_add_text(out, message ? message : PQresultErrorMessage(result));
	if (hint) {
		buf_add_text(out, ": ");
		buf_add_text(out, hint);
	}
}

static void on_notice(void *arg, const PGresult *result)
{
	struct findings *findings = arg;
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const bool is_warning = severity && strcmp(severity, "WARNING") == 0;
	struct buf *out = is_warning ? &findings->differs : &findings->done;
	if (is_warning)
		buf_add_text(out, "warning: ");
	add_message(out, result);
	buf_add_char(out, '\n');
}

/* Runs the script: its one transaction has happened, or nothing has. */
static bool apply(PGconn *conn, const char *script, struct findings *findings, struct err *e)
{
	PQsetNoticeReceiver(conn, on_notice, findings);
	PGresult *result = PQexec(conn, script);
	const bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;
	if (!ok && PQstatus(conn) == CONNECTION_BAD) {
		err_set(e, ERR_TRANSIENT, "lost Postgres on the way, install again: %s", PQerrorMessage(conn));
	} else if (!ok) {
		struct buf message = {0};
		add_message(&message, result);
		err_set(e, ERR_CONFIG, "nothing was changed: %s", message.p);
		buf_free(&message);
	}
	PQclear(result);
	return ok;
}

static void print(FILE *to, const struct buf *text)
{
	if (text->n > 0)
		fwrite(text->p, 1, text->n, to);
}

int cmd_install(const struct options *o)
{
	int code = EXIT_WRONG;
	struct err e = {0};
	struct qualified_name table;
	struct buf script = {0};
	struct findings findings = {0};

	if (!ident_parse(o->table, &table, &e))
		goto out;
	add_script(&script, o, &table);
	if (o->print) {
		print(stdout, &script);
		code = EXIT_OK;
		goto out;
	}

	PGconn *conn = session_open(o, "install", &e);
	if (conn && apply(conn, script.p, &findings, &e)) {
		print(stdout, &findings.done);
		code = EXIT_OK;
	} else if (e.kind == ERR_TRANSIENT) {
		code = EXIT_UNREACHABLE;
	}
	print(stderr, &findings.differs);
	PQfinish(conn);
out:
	if (code != EXIT_OK)
		fprintf(stderr, "relay install: %s\n", e.text);
	buf_free(&findings.done);
	buf_free(&findings.differs);
	buf_free(&script);
	return code;
}
