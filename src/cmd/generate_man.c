/* The manual page relay(1), in mdoc(7), from the tables of commands and options. */
#include <ctype.h>

#include "base/options_table.h"
#include "cmd/commands.h"
#include "cmd/doctor.h"
#include "cmd/generate.h"

enum { LINE_COLUMNS = 78 };

/* Names that a command takes, from the same table as the command line. */
static void add_flags(struct buf *out, unsigned command)
{
	const char *before = "Takes";
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_table[i];
		if ((row->commands & command) == 0 || row->flag == NULL)
			continue;
		buf_printf(out, "%s\n.Fl -%s", before, row->flag);
		before = " ,";
	}
	buf_add_text(out, " .\n");
}

/* Whole sentences, one a line, as mandoc wants them; a line break of the text's stays one. */
static void add_sentences(struct buf *out, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '\n')
			buf_add_text(out, "\n.br\n");
		else
			buf_add_char(out, text[0] == ' ' && text[-1] == '.' ? '\n' : text[0]);
	}
	buf_add_char(out, '\n');
}

static void add_command(struct buf *out, const struct command *c)
{
	buf_printf(out, ".It Cm %s\n%c%s.\n", c->name, toupper((unsigned char)c->summary[0]), c->summary + 1);
	add_sentences(out, c->details);
	add_flags(out, c->options);
}

static const char head[] = ".Dd November 29, 2026\n"
                           ".Dt RELAY 1\n"
                           ".Os\n"
                           ".Sh NAME\n"
                           ".Nm relay\n"
                           ".Nd deliver a Postgres transactional outbox to OpenFGA\n"
                           ".Sh SYNOPSIS\n"
                           ".Nm\n"
                           ".Op Ar command\n"
                           ".Op Ar options\n"
                           ".Sh DESCRIPTION\n"
                           ".Nm\n"
                           "reads the pending rows of the table\n"
                           ".Ql fga_outbox ,\n"
                           "writes the relationship tuples in them to OpenFGA, and marks a row processed once\n"
                           "OpenFGA has accepted it.\n"
                           "A trigger on the table wakes it when a row is committed; a sweep finds what a\n"
                           "notification missed.\n"
                           "Delivery is at least once; rows are never deleted; any number of relays may run at\n"
                           "the same time.\n"
                           "A row that OpenFGA refuses keeps its reason in\n"
                           ".Ql last_error\n"
                           "and is tried again, ever less often, while all other rows go on.\n"
                           ".Sh COMMANDS\n"
                           "Without a command,\n"
                           ".Nm\n"
                           "does what\n"
                           ".Cm run\n"
                           "does.\n"
                           ".Bl -tag -width healthcheck\n";

static const char checks_head[] = ".El\n"
                                  ".Sh CHECKS\n"
                                  "What\n"
                                  ".Cm doctor\n"
                                  "finds out, in this order:\n"
                                  ".Bl -tag -width on-duplicate\n";

static const char options_head[] = ".El\n"
                                   ".Sh OPTIONS\n"
                                   "A flag wins over the environment, the environment over the default.\n"
                                   "A time is written as\n"
                                   ".Ql 500ms ,\n"
                                   ".Ql 10s ,\n"
                                   ".Ql 2m\n"
                                   "or\n"
                                   ".Ql 1h ;\n"
                                   "a size in bytes, or as\n"
                                   ".Ql 64KiB\n"
                                   "or\n"
                                   ".Ql 1MiB .\n";

static const char tail[] = ".Ss Other\n"
                           ".Bl -tag -width Ds\n"
                           ".It Fl -help\n"
                           "Print a command's options.\n"
                           ".It Fl -version\n"
                           "Print the version.\n"
                           ".El\n"
                           ".Sh ENVIRONMENT\n"
                           "Each option above names its variable; an empty one counts as unset.\n"
                           "Secrets come from the environment or from a file only, never from a flag.\n"
                           "A switch is written as\n"
                           ".Ql true\n"
                           "or\n"
                           ".Ql false .\n"
                           "What\n"
                           ".Ev DATABASE_URL\n"
                           "leaves open comes from libpq's own variables:\n"
                           ".Ev PGHOST ,\n"
                           ".Ev PGPORT ,\n"
                           ".Ev PGUSER ,\n"
                           ".Ev PGPASSWORD ,\n"
                           ".Ev PGDATABASE ,\n"
                           ".Ev PGSSLMODE\n"
                           "and so on.\n"
                           ".Pp\n"
                           "A service manager that sets\n"
                           ".Ev NOTIFY_SOCKET ,\n"
                           "as systemd does for\n"
                           ".Ql Type=notify ,\n"
                           "is told when\n"
                           ".Cm run\n"
                           "has begun and can be asked, how it goes, and that it ends; with\n"
                           ".Ev WATCHDOG_USEC ,\n"
                           "also that its loop still turns, twice in that time.\n"
                           "It has begun whether or not Postgres and OpenFGA answer:\n"
                           ".Ql /readyz\n"
                           "and the status say that.\n"
                           ".Sh FILES\n"
                           ".Bl -tag -width Ds\n"
                           ".It Pa /etc/relay/relay.env\n"
                           "The environment of the service in the Debian package, which only root can read.\n"
                           "Files that it names have to be readable for the user relay.\n"
                           ".El\n"
                           ".Sh SIGNALS\n"
                           ".Bl -tag -width Ds\n"
                           ".It Dv SIGTERM , SIGINT\n"
                           "Claim nothing more, let what is in flight end and be marked within\n"
                           ".Fl -shutdown-timeout ,\n"
                           "release the rest untouched, and end with 0.\n"
                           "A second signal ends at once.\n"
                           ".It Dv SIGHUP\n"
                           "Try every refused row now: the model or the payloads were mended.\n"
                           ".El\n"
                           ".Sh EXIT STATUS\n"
                           ".Bl -tag -width Ds\n"
                           ".It 0\n"
                           "All went well;\n"
                           ".Cm drain :\n"
                           "nothing is pending;\n"
                           ".Cm healthcheck :\n"
                           "ready;\n"
                           ".Cm doctor :\n"
                           "all is well;\n"
                           ".Cm reconcile :\n"
                           "in step.\n"
                           ".It 1\n"
                           ".Cm drain :\n"
                           "rows remain that OpenFGA refuses;\n"
                           ".Cm healthcheck :\n"
                           "not ready, or nothing answers;\n"
                           ".Cm doctor :\n"
                           "there are warnings;\n"
                           ".Cm reconcile :\n"
                           "there are differences.\n"
                           ".It 2\n"
                           "A wrong command line or configuration;\n"
                           ".Cm requeue :\n"
                           "an id is not there or not as it has to be, and nothing was changed.\n"
                           ".Cm doctor :\n"
                           "a check failed.\n"
                           ".It 3\n"
                           "Postgres or OpenFGA could not be reached;\n"
                           ".Cm reconcile :\n"
                           "the comparison could not be made, for whatever reason.\n"
                           ".El\n"
                           ".Sh EXAMPLES\n"
                           "Create the table and the trigger, and a role that may deliver and no more:\n"
                           ".Pp\n"
                           ".Dl DATABASE_URL=postgres:///ledger relay install --role relay\n"
                           ".Pp\n"
                           "Deliver for ever, looking for missed rows twice a minute:\n"
                           ".Bd -literal -offset indent\n"
                           "export DATABASE_URL=postgres://relay@db/ledger\n"
                           "export FGA_API_URL=http://openfga:8080 FGA_STORE_NAME=ledger\n"
                           "relay --sweep-interval 30s\n"
                           ".Ed\n"
                           ".Pp\n"
                           "Deliver what is pending now, and say whether all of it went through:\n"
                           ".Pp\n"
                           ".Dl relay drain && echo nothing left\n"
                           ".Pp\n"
                           "See why rows are refused, and try them afresh once the model is mended:\n"
                           ".Pp\n"
                           ".Dl relay status\n"
                           ".Dl relay requeue --reason \\(dqtype 'spaceship' not found\\(dq\n"
                           ".Pp\n"
                           "After OpenFGA was restored from a backup, see what it lost, and deliver that anew:\n"
                           ".Pp\n"
                           ".Dl relay reconcile\n"
                           ".Dl relay reconcile --repair --max-repairs 1000\n"
                           "Find out whether the service would have what it needs, and start it:\n"
                           ".Bd -literal -offset indent\n"
                           "systemd-run --pipe --quiet -p User=relay \\e\n"
                           "  -p EnvironmentFile=/etc/relay/relay.env relay doctor\n"
                           "systemctl enable --now relay\n"
                           ".Ed\n"
                           ".Sh SEE ALSO\n"
                           ".Rs\n"
                           ".%T OpenFGA documentation\n"
                           ".%U https://openfga.dev/docs\n"
                           ".Re\n"
                           ".Rs\n"
                           ".%T PostgreSQL documentation, libpq: Environment Variables\n"
                           ".%U https://www.postgresql.org/docs/current/libpq-envars.html\n"
                           ".Re\n";

/* Adds the page with its long lines of text broken at blanks, as mandoc wants it; requests, which begin with a dot, are
 * short. */
static void add_folded(struct buf *out, struct str page)
{
	for (size_t i = 0, column = 0; i < page.n; i++) {
		size_t word = 1;
		while (i + word < page.n && page.p[i + word] != ' ' && page.p[i + word] != '\n')
			word++;
		bool fold = page.p[i] == ' ' && column + word > LINE_COLUMNS;
		buf_add_char(out, fold ? '\n' : page.p[i]);
		column = fold || page.p[i] == '\n' ? 0 : column + 1;
	}
}

void generate_man(struct buf *out)
{
	struct buf page = {0};
	buf_add_text(&page, head);
	for (size_t i = 0; i < COMMANDS; i++)
		add_command(&page, &command_table[i]);
	buf_add_text(&page, checks_head);
	doctor_man(&page);
	buf_add_text(&page, options_head);
	options_man(&page);
	buf_add_text(&page, tail);
	add_folded(out, buf_str(&page));
	buf_free(&page);
}
