/* relay status: how the outbox fares, once or again and again. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/figures.h"
#include "cmd/session.h"

enum { WATCH_S = 2 };

static void on_stop(int number)
{
	(void)number;
	_exit(EXIT_OK);
}

/* On a terminal, in the place of what was printed before. */
static bool print(const struct options *o, const struct buf *text)
{
	if (o->watch && !o->json)
		fputs(isatty(STDOUT_FILENO) ? "\033[H\033[J" : "\n", stdout);
	return fwrite(text->p, 1, text->n, stdout) == text->n && fflush(stdout) == 0;
}

static int show(const struct options *o, PGconn *conn, const char *table, const struct address *at, struct err *e)
{
	struct figures f = {0};
	struct buf text = {0};
	int code = EXIT_REFUSED; /* the reader went away */
	if (!figures_read(&f, conn, table, e)) {
		code = session_exit(e);
	} else {
		figures_probe(&f, at);
		(o->json ? figures_add_json : figures_add_table)(&f, &text);
		if (print(o, &text))
			code = EXIT_OK;
	}
	buf_free(&text);
	figures_free(&f);
	return code;
}

static void complain(const struct err *e)
{
	fprintf(stderr, "relay status: %s\n", e->text);
}

/* Watching, a server that goes away is waited for. */
static int run(const struct options *o, const char *table, const struct address *at, struct err *e)
{
	PGconn *conn = session_open(o, "status", e);
	if (conn == NULL)
		return session_exit(e);
	int code = show(o, conn, table, at, e);
	while (o->watch && (code == EXIT_OK || code == EXIT_UNREACHABLE)) {
		if (code == EXIT_UNREACHABLE)
			complain(e);
		sleep(WATCH_S);
		if (code == EXIT_UNREACHABLE)
			PQreset(conn);
		code = show(o, conn, table, at, e);
	}
	PQfinish(conn);
	return code;
}

int cmd_status(const struct options *o)
{
	struct err e = {0};
	struct buf table = {0};
	struct address at;
	int code = EXIT_WRONG;
	if (o->watch) {
		signal(SIGINT, on_stop);
		signal(SIGTERM, on_stop);
	}
	if (options_address(o->http_listen, &at, &e) && session_table(o, &table, &e))
		code = run(o, table.p, &at, &e);
	if (code == EXIT_WRONG || code == EXIT_UNREACHABLE)
		complain(&e);
	buf_free(&table);
	return code;
}
