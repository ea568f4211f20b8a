#include "base/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/options_table.h"
#include "base/similar.h"

enum { MOST_FILE_BYTES = 64 * 1024 };

const struct option_row option_table[OPTION_ROWS] = {
#define OPTION(field, type, flag, env, value, commands, group, argument, help) \
	{OPTION_##type, \
	 offsetof(struct options, field), \
	 offsetof(struct options, files.field), \
	 flag, \
	 env, \
	 value, \
	 commands, \
	 GROUP_##group, \
	 argument, \
	 help},
#include "base/options.def"
};

/* What getopt_long returns for --help; an option's is FIRST_ROW + its index. */
enum { HELP = 256, FIRST_ROW };

enum source { FROM_DEFAULT, FROM_FLAG, FROM_ENV, FROM_FILE };

struct reading {
	struct options *o;
	unsigned command;
	enum source from[OPTION_ROWS];
	struct err *e;
};

struct name {
	char text[80];
};

/* How the user named the option: --flag, VARIABLE or VARIABLE_FILE. */
static struct name name_from(const struct option_row *row, enum source from)
{
	struct name name = {""};
	switch (from) {
	case FROM_DEFAULT:
		snprintf(name.text, sizeof name.text, "the default of --%s", row->flag);
		break;
	case FROM_FLAG:
		snprintf(name.text, sizeof name.text, "--%s", row->flag);
		break;
	case FROM_ENV:
		snprintf(name.text, sizeof name.text, "%s", row->env);
		break;
	case FROM_FILE:
		snprintf(name.text, sizeof name.text, "%s_FILE", row->env);
		break;
	}
	return name;
}

static struct name name_of(const struct reading *r, enum option_index i)
{
	return name_from(&option_table[i], r->from[i]);
}

bool option_has_twin(const struct option_row *row)
{
	if (row->env == NULL || (row->type != OPTION_STRING && row->type != OPTION_SECRET))
		return false;
	return strncmp(row->env, "FGA_", 4) == 0 || strcmp(row->env, "DATABASE_URL") == 0;
}

static bool set(struct reading *r, size_t i, const char *text, enum source from)
{
	if (!option_set(r->o, &option_table[i], text, r->e))
		return err_prefix(r->e, "%s", name_from(&option_table[i], from).text);
	r->from[i] = from;
	return true;
}

static void set_defaults(struct reading *r)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		bool ok = option_table[i].value == NULL || set(r, i, option_table[i].value, FROM_DEFAULT);
		ASSERT(ok);
	}
}

static size_t list_flags(const struct reading *r, struct option *out)
{
	size_t n = 0;
	out[n++] = (struct option){.name = "help", .has_arg = no_argument, .val = HELP};
	for (int i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_table[i];
		if (row->flag == NULL || !(row->commands & r->command))
			continue;
		out[n++] = (struct option){.name = row->flag,
		                           .has_arg = row->type == OPTION_SWITCH ? no_argument : required_argument,
		                           .val = FIRST_ROW + i};
	}
	out[n] = (struct option){0};
	return n;
}

/* The variable that takes the place of a flag that relay has not on purpose: --fga-api-token is FGA_API_TOKEN. */
static const struct option_row *find_env_only(const char *flag)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_table[i];
		size_t k = 0;
		if (row->flag != NULL)
			continue;
		while (row->env[k] != '\0' &&
		       (row->env[k] == '_' ? '-' : tolower((unsigned char)row->env[k])) == flag[k])
			k++;
		if (row->env[k] == '\0' && flag[k] == '\0')
			return row;
	}
	return NULL;
}

/* `given` as it stood on the command line; what follows a = in it may be secret. */
static bool refuse_flag(struct reading *r, const char *given, const struct option *flags, size_t n)
{
	const char *words[OPTION_ROWS + 2] = {"version"};
	char typed[64];
	given += strspn(given, "-");
	snprintf(typed, sizeof typed, "%.*s", (int)strcspn(given, "="), given);
	const struct option_row *row = find_env_only(typed);
	if (row != NULL)
		return err_set(r->e, ERR_CONFIG,
		               "--%s is no flag, because other users see a command line: set %s or %s_FILE in the "
		               "environment",
		               typed, row->env, row->env);
	for (size_t i = 0; i < n; i++)
		words[i + 1] = flags[i].name;
	const char *near = similar(typed, words, n + 1);
	if (near != NULL)
		return err_set(r->e, ERR_CONFIG, "unknown flag --%s: did you mean --%s?", typed, near);
	for (size_t i = 0; i < OPTION_ROWS; i++)
		if (option_table[i].flag != NULL && strcmp(option_table[i].flag, typed) == 0)
			return err_set(r->e, ERR_CONFIG, "--%s belongs to another command", typed);
	return err_set(r->e, ERR_CONFIG, "unknown flag --%s", typed);
}

/* getopt_long takes any unambiguous beginning for a flag, so that a new flag would break an old command line: only
 * whole names count here. */
static bool is_whole(const char *given, const char *name)
{
	size_t n = strcspn(given, "=");
	return n == strlen(name) + 2 && strncmp(given + 2, name, n - 2) == 0;
}

/* The element of argv that getopt_long has just read a flag from. */
static const char *given_flag(char **argv)
{
	bool apart = optarg != NULL && optarg == argv[optind - 1]; /* `--flag value`, not `--flag=value` */
	return argv[optind - 1 - apart];
}

static enum options_result read_flags(struct reading *r, int argc, char **argv)
{
	struct option flags[OPTION_ROWS + 2];
	size_t n = list_flags(r, flags);
	int at;
	int got;
	opterr = 0;
	optind = 0; /* starts anew (getopt(3), "glibc notes") */
	while (at = -1, (got = getopt_long(argc, argv, ":", flags, &at)) != -1) {
		if (at >= 0 && !is_whole(given_flag(argv), flags[at].name)) {
			(void)refuse_flag(r, given_flag(argv), flags, n);
			return OPTIONS_WRONG;
		}
		if (got == HELP)
			return OPTIONS_HELP;
		if (got >= FIRST_ROW) {
			if (!set(r, (size_t)(got - FIRST_ROW), optarg ? optarg : "true", FROM_FLAG))
				return OPTIONS_WRONG;
			continue;
		}
		if (optopt == 0)
			(void)refuse_flag(r, argv[optind - 1], flags, n);
		else if (optopt == HELP)
			err_set(r->e, ERR_CONFIG, "--help takes no value");
		else if (optopt < HELP)
			err_set(r->e, ERR_CONFIG, "unknown flag -%c: every flag begins with two dashes", optopt);
		else if (got == ':')
			err_set(r->e, ERR_CONFIG, "--%s has no value: write --%s %s",
			        option_table[optopt - FIRST_ROW].flag, option_table[optopt - FIRST_ROW].flag,
			        option_table[optopt - FIRST_ROW].argument);
		else
			err_set(r->e, ERR_CONFIG, "--%s takes no value: it is on when it stands there",
			        option_table[optopt - FIRST_ROW].flag);
		return OPTIONS_WRONG;
	}
	if (optind < argc) {
		err_set(r->e, ERR_CONFIG, "unexpected argument: %s", option_show(argv[optind]).text);
		return OPTIONS_WRONG;
	}
	return OPTIONS_OK;
}

/* Reads a whole small file, without one line break at its end. The caller frees *out, also after an error. */
static bool read_file(const char *path, struct buf *out, struct err *e)
{
	char chunk[4096];
	size_t n;
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return err_set(e, ERR_CONFIG, "cannot open %s: %s", path, strerror(errno));
	while (out->n <= MOST_FILE_BYTES && (n = fread(chunk, 1, sizeof chunk, file)) > 0)
		buf_add(out, chunk, n);
	explicit_bzero(chunk, sizeof chunk);
	int failed = ferror(file) ? errno : 0;
	fclose(file);
	if (failed != 0)
		return err_set(e, ERR_CONFIG, "cannot read %s: %s", path, strerror(failed));
	if (out->n > MOST_FILE_BYTES)
		return err_set(e, ERR_CONFIG, "%s is too large: at most %d bytes", path, MOST_FILE_BYTES);
	if (out->n > 0 && out->p[out->n - 1] == '\n')
		out->n--;
	if (out->n > 0 && out->p[out->n - 1] == '\r')
		out->n--;
	if (out->n == 0)
		return err_set(e, ERR_CONFIG, "%s is empty", path);
	out->p[out->n] = '\0';
	if (strlen(out->p) != out->n)
		return err_set(e, ERR_CONFIG, "%s holds a NUL byte", path);
	return true;
}

static bool set_from_file(struct reading *r, size_t i, const char *path)
{
	struct buf text = {0};
	bool ok = read_file(path, &text, r->e) ? set(r, i, text.p, FROM_FILE)
	                                       : err_prefix(r->e, "%s_FILE", option_table[i].env);
	*(char **)((char *)r->o + option_table[i].file_offset) = xstrdup(path);
	if (text.p != NULL)
		explicit_bzero(text.p, text.capacity);
	buf_free(&text);
	return ok;
}

bool options_file(const char *path, char **value, struct err *e)
{
	struct buf text = {0};
	*value = NULL;
	bool ok = read_file(path, &text, e);
	if (ok && !option_copy_text(text.p, value, e))
		ok = err_prefix(e, "%s", path);
	if (text.p != NULL)
		explicit_bzero(text.p, text.capacity);
	buf_free(&text);
	return ok;
}

/* A variable's value; NULL when it is unset or empty. */
static const char *look_up(const char *(*env)(const char *name), const char *name)
{
	const char *value = env(name);
	return value != NULL && *value != '\0' ? value : NULL;
}

static bool read_environment(struct reading *r, const char *(*env)(const char *name))
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_table[i];
		const char *path = NULL;
		if (row->env == NULL || !(row->commands & r->command) || r->from[i] == FROM_FLAG)
			continue;
		const char *value = look_up(env, row->env);
		if (option_has_twin(row))
			path = look_up(env, name_from(row, FROM_FILE).text);
		if (value != NULL && path != NULL)
			return err_set(r->e, ERR_CONFIG, "%s and %s_FILE are both set: set one of them", row->env,
			               row->env);
		if (value != NULL && !set(r, i, value, FROM_ENV))
			return false;
		if (path != NULL && !set_from_file(r, i, path))
			return false;
	}
	return true;
}

static bool check_openfga(const struct reading *r)
{
	const struct options *o = r->o;
	if (o->fga_api_url == NULL)
		return err_set(r->e, ERR_CONFIG,
		               "OpenFGA's address is missing: give --fga-api-url or FGA_API_URL, such as "
		               "http://openfga:8080");
	if (!option_check_url(o->fga_api_url, r->e))
		return err_prefix(r->e, "%s", name_of(r, INDEX_fga_api_url).text);
	if (o->fga_store_id != NULL && o->fga_store_name != NULL)
		return err_set(r->e, ERR_CONFIG, "%s and %s are both given: give one of them",
		               name_of(r, INDEX_fga_store_id).text, name_of(r, INDEX_fga_store_name).text);
	if (o->fga_store_id == NULL && o->fga_store_name == NULL)
		return err_set(r->e, ERR_CONFIG,
		               "OpenFGA's store is missing: give --fga-store-id or FGA_STORE_ID, or its name in "
		               "--fga-store-name or FGA_STORE_NAME");
	return true;
}

/* An issuer may be given without its scheme, as OpenFGA's command line takes it: https then. */
static bool check_issuer(const struct reading *r)
{
	const char *issuer = r->o->fga_api_token_issuer;
	struct buf url = {0};
	buf_printf(&url, "%s%s", strstr(issuer, "://") == NULL ? "https://" : "", issuer);
	bool ok = option_check_url(url.p, r->e);
	buf_free(&url);
	return ok ? ok : err_prefix(r->e, "%s", name_of(r, INDEX_fga_api_token_issuer).text);
}

/* A preshared key, or a client's id and secret and who issues its tokens, or nothing. */
static bool check_credentials(const struct reading *r)
{
	const struct options *o = r->o;
	static const enum option_index of_client[] = {INDEX_fga_client_secret, INDEX_fga_api_token_issuer,
	                                              INDEX_fga_api_audience, INDEX_fga_api_scopes};
	if (o->fga_client_id == NULL) {
		for (size_t i = 0; i < sizeof of_client / sizeof *of_client; i++)
			if (*(char *const *)((const char *)o + option_table[of_client[i]].offset) != NULL)
				return err_set(r->e, ERR_CONFIG,
				               "%s is given without a client's id: give --fga-client-id or "
				               "FGA_CLIENT_ID too",
				               name_of(r, of_client[i]).text);
		return true;
	}
	if (o->fga_api_token != NULL)
		return err_set(r->e, ERR_CONFIG,
		               "%s and %s are both given: give a preshared key, or a client's id and secret",
		               name_of(r, INDEX_fga_api_token).text, name_of(r, INDEX_fga_client_id).text);
	if (o->fga_client_secret == NULL)
		return err_set(r->e, ERR_CONFIG,
		               "%s is given without the client's secret: set FGA_CLIENT_SECRET or "
		               "FGA_CLIENT_SECRET_FILE",
		               name_of(r, INDEX_fga_client_id).text);
	if (o->fga_api_token_issuer == NULL)
		return err_set(r->e, ERR_CONFIG,
		               "%s is given without who issues its tokens: give --fga-api-token-issuer or "
		               "FGA_API_TOKEN_ISSUER, such as https://issuer.example",
		               name_of(r, INDEX_fga_client_id).text);
	return check_issuer(r);
}

static bool check(const struct reading *r)
{
	/* What only shows the requests asks OpenFGA nothing. */
	if ((option_table[INDEX_fga_api_url].commands & r->command) && !r->o->dry_run &&
	    !(check_openfga(r) && check_credentials(r)))
		return false;
	if (r->o->min_backoff_ms > r->o->max_backoff_ms)
		return err_set(r->e, ERR_CONFIG, "%s is above %s: make it %lldms or less",
		               name_of(r, INDEX_min_backoff_ms).text, name_of(r, INDEX_max_backoff_ms).text,
		               (long long)r->o->max_backoff_ms);
	return true;
}

enum options_result options_read(struct options *o, unsigned command, int argc, char **argv,
                                 const char *(*env)(const char *name), struct err *e)
{
	struct reading r = {.o = o, .command = command, .e = e};
	*o = (struct options){0};
	set_defaults(&r);
	enum options_result result = read_flags(&r, argc, argv);
	if (result == OPTIONS_OK && !(read_environment(&r, env) && check(&r)))
		result = OPTIONS_WRONG;
	return result;
}

void options_free(struct options *o)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_table[i];
		char **text = (char **)((char *)o + row->offset);
		char **file = (char **)((char *)o + row->file_offset);
		free(*file);
		*file = NULL;
		if (row->type != OPTION_STRING && row->type != OPTION_PATH && row->type != OPTION_ADDRESS &&
		    row->type != OPTION_SECRET)
			continue;
		if (row->type == OPTION_SECRET && *text != NULL)
			explicit_bzero(*text, strlen(*text));
		free(*text);
		*text = NULL;
	}
}
