/* relay doctor: makes the checks of doctor.h, and shows what they found. */
#include "cmd/doctor.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/die.h"
#include "cmd/commands.h"
#include "cmd/shell.h"
#include "core/ident.h"

enum { MOST_SHOWN_BYTES = 2000, CLOCK_TOLERANCE_MS = 5000 };

static const struct {
	const char *name;
	const char *about;
} checks[DOCTOR_COUNT] = {
#define X(id, name, about) {(name), (about)},
    DOCTOR_CHECKS(X)
#undef X
};

static const struct {
	const char *name;
	const char *colour; /* ECMA-48, "Select Graphic Rendition" */
} statuses[] = {
#define X(id, name, colour) {(name), (colour)},
    DOCTOR_STATUSES(X)
#undef X
};

/* What was found */

static void add_text(struct buf *out, const char *format, va_list args)
{
	char text[MOST_SHOWN_BYTES];
	vsnprintf(text, sizeof text, format, args);
	buf_clear(out);
	buf_add_clean(out, str_of(text), sizeof text);
}

void doctor_say(struct doctor *d, enum doctor_check check, enum doctor_status status, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	d->findings[check].status = status;
	add_text(&d->findings[check].summary, format, args);
	va_end(args);
}

void doctor_remedy(struct doctor *d, enum doctor_check check, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	add_text(&d->findings[check].remedy, format, args);
	va_end(args);
}

/* Where the advice begins that ends a reason; NULL: there is none. */
static const char *find_advice(const char *reason)
{
	static const char *const verbs[] = {"check ", "set ",   "write ",   "grant ", "put ",         "let ",
	                                    "make ",  "raise ", "create ",  "name ",  "connect ",     "see ",
	                                    "end ",   "drop ",  "upgrade ", "ALTER ", "--no-prepare", "`relay "};
	for (const char *at = reason; (at = strpbrk(at, ":;")) != NULL; at++)
		for (size_t i = 0; at[1] == ' ' && i < sizeof verbs / sizeof *verbs; i++)
			if (strncmp(at + 2, verbs[i], strlen(verbs[i])) == 0)
				return at;
	return NULL;
}

void doctor_fail(struct doctor *d, enum doctor_check check, const char *reason, const char *otherwise)
{
	const char *advice = find_advice(reason);
	int n = (int)(advice != NULL ? advice - reason : (ptrdiff_t)strlen(reason));
	doctor_say(d, check, DOCTOR_FAILURE, "%.*s", n, reason);
	doctor_remedy(d, check, "%s", advice != NULL ? advice + 2 : otherwise);
}

void doctor_skip(struct doctor *d, enum doctor_check first, enum doctor_check last, const char *why)
{
	for (unsigned check = first; check <= last; check++)
		if (d->findings[check].summary.n == 0)
			doctor_say(d, check, DOCTOR_SKIPPED, "%s", why);
}

void doctor_clock(struct doctor *d, enum doctor_check check, int64_t theirs_ms, int64_t before_ms, int64_t after_ms)
{
	int64_t ahead_ms = theirs_ms - (before_ms + after_ms) / 2;
	int64_t apart_ms = ahead_ms < 0 ? -ahead_ms : ahead_ms;
	int64_t uncertain_ms = (after_ms - before_ms) / 2;
	if (apart_ms - uncertain_ms <= CLOCK_TOLERANCE_MS) {
		doctor_say(d, check, DOCTOR_OK, "within %d s of this machine's", CLOCK_TOLERANCE_MS / 1000);
		return;
	}
	doctor_say(d, check, DOCTOR_WARNING,
	           "%" PRId64 " s %s this machine's: ages and conditions on the time are wrong by that",
	           apart_ms / 1000, ahead_ms < 0 ? "behind" : "ahead of");
	doctor_remedy(d, check, "keep both machines' clocks by NTP: `timedatectl set-ntp true`");
}

const char *doctor_install(struct doctor *d)
{
	struct buf command = {0};
	buf_add_text(&command, "relay install");
	if (strcmp(d->options->table, "fga_outbox") != 0)
		shell_add_flag(&command, "--table", d->options->table);
	if (strcmp(d->options->channel, "fga_outbox") != 0)
		shell_add_flag(&command, "--channel", d->options->channel);
	struct str kept = arena_str(&d->arena, buf_str(&command));
	buf_free(&command);
	return kept.p;
}

/* How it is shown */

/* https://no-color.org */
static bool wants_colour(void)
{
	const char *no_colour = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");
	return isatty(STDOUT_FILENO) == 1 && (no_colour == NULL || no_colour[0] == '\0') && terminal != NULL &&
	       strcmp(terminal, "dumb") != 0;
}

static void add_line(struct buf *out, unsigned check, const struct finding *f, bool in_colour)
{
	const char *status = statuses[f->status].name;
	if (in_colour)
		buf_printf(out, "\033[%sm%-8s\033[0m", statuses[f->status].colour, status);
	else
		buf_printf(out, "%-8s", status);
	buf_printf(out, " %-13s  %s\n", checks[check].name, f->summary.p);
	if (f->remedy.n > 0)
		buf_printf(out, "%24s%s\n", "", f->remedy.p);
}

static void add_object(struct buf *out, unsigned check, const struct finding *f)
{
	buf_add_text(out, check == 0 ? "[\n{\"check\":" : "{\"check\":");
	buf_add_json(out, str_of(checks[check].name));
	buf_add_text(out, ",\"status\":");
	buf_add_json(out, str_of(statuses[f->status].name));
	buf_add_text(out, ",\"summary\":");
	buf_add_json(out, buf_str(&f->summary));
	buf_add_text(out, ",\"remedy\":");
	if (f->remedy.n > 0)
		buf_add_json(out, buf_str(&f->remedy));
	else
		buf_add_text(out, "null");
	buf_add_text(out, check + 1 < DOCTOR_COUNT ? "},\n" : "}\n]\n");
}

/* What is known so far is shown before the next party is asked, which may not answer. */
static void show(const struct doctor *d, unsigned first, unsigned last)
{
	struct buf text = {0};
	bool in_colour = wants_colour();
	for (unsigned check = first; check <= last; check++) {
		const struct finding *f = &d->findings[check];
		ASSERT(f->summary.n > 0);
		if (d->options->json)
			add_object(&text, check, f);
		else
			add_line(&text, check, f, in_colour);
	}
	fwrite(text.p, 1, text.n, stdout);
	fflush(stdout);
	buf_free(&text);
}

void doctor_help(struct buf *out)
{
	buf_add_text(out, "\nChecks:\n");
	for (unsigned i = 0; i < DOCTOR_COUNT; i++)
		buf_printf(out, "  %-13s %s\n", checks[i].name, checks[i].about);
}

void doctor_man(struct buf *out)
{
	for (unsigned i = 0; i < DOCTOR_COUNT; i++)
		buf_printf(out, ".It Cm %s\n%c%s.\n", checks[i].name, toupper((unsigned char)checks[i].about[0]),
		           checks[i].about + 1);
}

static int exit_code(const struct doctor *d)
{
	enum doctor_status worst = DOCTOR_SKIPPED;
	for (unsigned i = 0; i < DOCTOR_COUNT; i++)
		if (d->findings[i].status > worst)
			worst = d->findings[i].status;
	if (worst == DOCTOR_FAILURE || ferror(stdout))
		return EXIT_WRONG;
	return worst == DOCTOR_WARNING ? EXIT_REFUSED : EXIT_OK;
}

int cmd_doctor(const struct options *o)
{
	struct doctor d = {.options = o};
	struct qualified_name table;
	struct err e;
	if (!ident_parse(o->table, &table, &e)) {
		fprintf(stderr, "relay doctor: --table: %s\n", e.text);
		return EXIT_WRONG;
	}
	doctor_postgres(&d);
	show(&d, 0, DOCTOR_CLOCK);
	doctor_openfga(&d);
	show(&d, DOCTOR_CLOCK + 1, DOCTOR_COUNT - 1);
	int code = exit_code(&d);
	PQfinish(d.conn);
	for (unsigned i = 0; i < DOCTOR_COUNT; i++) {
		buf_free(&d.findings[i].summary);
		buf_free(&d.findings[i].remedy);
	}
	arena_free(&d.arena);
	return code;
}
