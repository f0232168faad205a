/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS_ENV "UROCED_DETACHED" /* "READY OUTPUT", descriptors, across detach_again */

/*
 * ready: the writing end of a pipe, on which the first process waits; output: a memfd, the standard
 * output of the daemon until it is ready; later: SOCKET.log. -1: not detached.
 */
static int ready = -1, output = -1, later = -1;

/*
 * Copies what the daemon printed, from its beginning. The daemon's system calls are filtered, and
 * other threads print at the descriptor's offset: so the memfd is mapped.
 */
static void
copy_output(int to)
{
	struct stat st;
	size_t done = 0;
	ssize_t n = 1;
	char *text;

	if (fstat(output, &st) < 0)
		return;
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, output, 0);
	if (text == MAP_FAILED)
		return;
	for (; done < (size_t)st.st_size && n > 0; done += (size_t)n)
		n = write(to, text + done, (size_t)st.st_size - done);
	munmap(text, (size_t)st.st_size);
}

/* The first process: waits for the daemon. */
static void __attribute__((noreturn)) wait_for(pid_t pid, int fd)
{
	int status = 0;
	char byte;
	ssize_t n;

	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	copy_output(STDERR_FILENO);
	if (n == 1)
		_exit(EXIT_SUCCESS);
	_exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : EXIT_FAILURE);
}

int
detach_start(void)
{
	const char *again = getenv(FDS_ENV);
	int ends[2], null;
	pid_t pid;

	if (again != NULL && sscanf(again, "%d %d", &ready, &output) == 2) {
		unsetenv(FDS_ENV);
		fcntl(ready, F_SETFD, FD_CLOEXEC);
		fcntl(output, F_SETFD, FD_CLOEXEC);
		return 0;
	}
	output = memfd_create("uroced-output", MFD_CLOEXEC);
	if (output < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid != 0) {
		close(ends[1]);
		wait_for(pid, ends[0]);
	}
	close(ends[0]);
	ready = ends[1];
	setsid();
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
	    (!journal_used() && dup2(output, STDERR_FILENO) < 0))
		return -errno;
	close(null);
	return 0;
}

void
detach_log(const char *socket)
{
	char path[PATH_MAX];

	if (ready < 0)
		return;
	snprintf(path, sizeof(path), "%s.log", socket);
	unlink(path);
	later = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (later < 0)
		dprintf(output, "uroced: %s: %s: nothing more is logged\n", path, strerror(errno));
	else
		dprintf(output, "uroced: pid %d, log %s\n", getpid(), path);
	if (later < 0)
		later = open("/dev/null", O_WRONLY | O_CLOEXEC);
}

void
detach_ready(void)
{
	if (ready < 0)
		return;
	fflush(stdout);
	copy_output(later);
	dup2(later, STDOUT_FILENO);
	if (!journal_used())
		dup2(later, STDERR_FILENO);
	close(later);
	if (write(ready, "", 1) != 1)
		return; /* the first process has been killed */
	close(ready);
	ready = -1;
}

void
detach_again(void)
{
	char fds[32];

	if (ready < 0)
		return;
	snprintf(fds, sizeof(fds), "%d %d", ready, output);
	setenv(FDS_ENV, fds, 1);
	fcntl(ready, F_SETFD, 0);
	fcntl(output, F_SETFD, 0);
}
