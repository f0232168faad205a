/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "cli/cli.h"

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
