/* Prints one of the files that an installation has besides the program. A part of the build, not of what is installed.
 */
#include "cmd/generate.h"

#include <stdio.h>

#include "cmd/commands.h"

static const struct {
	const char *name;
	void (*add)(struct buf *out);
} files[] = {
    {"man", generate_man},   {"bash", generate_bash}, {"zsh", generate_zsh},
    {"fish", generate_fish}, {"env", generate_env},
};

void generate_env(struct buf *out)
{
	buf_add_text(
	    out, "# The settings of relay.service (systemd.exec(5), EnvironmentFile=; relay(1), ENVIRONMENT).\n"
	         "# Only root can read this file. What is commented out shows the default, or is unset.\n"
	         "#\n"
	         "# relay needs DATABASE_URL (or PGHOST and so on), FGA_API_URL, and FGA_STORE_ID or FGA_STORE_NAME.\n"
	         "# Then: systemctl enable --now relay; after a change: systemctl restart relay\n");
	options_env(ON_RUN, out);
}

int main(int argc, char **argv)
{
	struct buf text = {0};
	for (size_t i = 0; argc == 2 && i < sizeof files / sizeof *files; i++)
		if (strcmp(argv[1], files[i].name) == 0)
			files[i].add(&text);
	if (text.n == 0) {
		fprintf(stderr, "usage: relay_generate man|bash|zsh|fish|env\n");
		return EXIT_WRONG;
	}
	fwrite(text.p, 1, text.n, stdout);
	buf_free(&text);
	return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_OK : EXIT_REFUSED;
}
