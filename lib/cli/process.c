/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "cli/cli.h"

void
cli_streams_open(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* open returns the lowest number that is free */
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
	}
}

int
cli_find_beside(const char *const *places, unsigned n, char *path)
{
	char exe[PATH_MAX], at[2 * PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	const char *folder;

	if (len < 0)
		return -1;
	exe[len] = '\0';
	folder = dirname(exe);
	for (unsigned i = 0; i < n; i++) {
		snprintf(at, sizeof(at), "%s/%s", folder, places[i]);
		if (realpath(at, path) != NULL)
			return 0;
	}
	return -1;
}

#define CLEAR "\r\033[K"

static bool quiet, shown;

void
cli_progress_quiet(void)
{
	cli_progress_end();
	quiet = true;
}

void
cli_progress(const char *fmt, ...)
{
	struct winsize w = {0};
	char text[256];
	va_list ap;
	int width;

	if (quiet || !isatty(STDERR_FILENO))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* A line that wraps could not be cleared. */
	width = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1 : 79;
	fflush(stdout);
	fprintf(stderr, CLEAR "%.*s", width, text);
	shown = true;
}

void
cli_progress_end(void)
{
	if (shown)
		fputs(CLEAR, stderr);
	shown = false;
}
