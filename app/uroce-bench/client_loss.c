/* SPDX-License-Identifier: BSD-3-Clause */
/* --loss: the daemon loses frames on purpose (urocectl impair), and says what it cost (show stats).
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <jansson.h>
#include "client.h"

__attribute__((noreturn)) static void
refused(const char *what, const char *why)
{
	fprintf(stderr, "uroce-bench: urocectl %s: %s\n", what, why);
	exit(1);
}

/* Standard output of urocectl with these words; the caller's. */
static FILE *
urocectl(const struct client_daemon *d, const char *const words[], pid_t *pid)
{
	char path[PATH_MAX], *argv[16] = {path, "--json", "--socket", (char *)d->socket};
	unsigned n = 4;
	int out[2];

	client_program(path, "urocectl");
	for (; *words != NULL; words++)
		argv[n++] = (char *)*words;
	if (pipe(out) < 0)
		refused(argv[4], strerror(errno));
	*pid = fork();
	if (*pid < 0)
		refused(argv[4], strerror(errno));
	if (*pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		close(out[0]);
		close(out[1]);
		execv(path, argv);
		_exit(1);
	}
	close(out[1]);
	return fdopen(out[0], "r");
}

/* Its JSON, or NULL where it says nothing. */
static json_t *
ask(const struct client_daemon *d, const char *const words[])
{
	pid_t pid;
	int status;
	FILE *f = urocectl(d, words, &pid);
	json_t *said = f != NULL ? json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL) : NULL;

	if (f != NULL)
		fclose(f);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		refused(words[0], "failed; faults are for the daemon's user and for root");
	return said;
}

void
client_loss_set(const struct client_daemon *d, const char *dev, double percent)
{
	char spec[32];
	const char *set[] = {"impair", dev, "set", spec, NULL};
	const char *clear[] = {"impair", dev, "clear", NULL};

	snprintf(spec, sizeof(spec), "drop=%g%%", percent);
	json_decref(ask(d, percent > 0 ? set : clear));
}

void
client_loss_counters(const struct client_daemon *d, struct client_losses *sum)
{
	const char *const words[] = {"show", "stats", NULL};
	json_t *said = ask(d, words), *one;
	size_t i;

	memset(sum, 0, sizeof(*sum));
	json_array_foreach(json_object_get(said, "stats"), i, one)
	{
		json_t *total = json_object_get(one, "total");

#define COUNT(field, name) sum->field += (uint64_t)json_integer_value(json_object_get(total, name))
		COUNT(resent, "retransmitted_packets");
		COUNT(timeouts, "ack_timeouts");
		COUNT(probes, "sent_probes");
		COUNT(exhausted, "retry_exceeded");
#undef COUNT
	}
	json_decref(said);
}
