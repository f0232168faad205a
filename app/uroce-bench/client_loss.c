/* SPDX-License-Identifier: BSD-3-Clause */
/* --loss: the daemon drops frames (urocectl impair) and counts retransmissions (show stats). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <jansson.h>
#include "client.h"

/* The JSON that urocectl prints for these words, or NULL if it prints none. */
static json_t *
ask(const struct client_daemon *d, const char *const words[])
{
	char path[PATH_MAX], *argv[16] = {path, "--json", "--socket", (char *)d->socket};
	json_t *said = NULL;
	unsigned n = 4;
	int out[2], status;
	pid_t pid;
	FILE *f;

	client_program(path, "urocectl");
	for (const char *const *word = words; *word != NULL; word++)
		argv[n++] = (char *)*word;
	if (pipe2(out, O_CLOEXEC) < 0)
		bench_die("urocectl %s: %m", words[0]);
	pid = bench_spawn(argv, -1, out[1], SIGKILL, NULL);
	close(out[1]);
	f = fdopen(out[0], "r");
	if (f != NULL) {
		said = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
		fclose(f);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		bench_die("urocectl %s: failed; faults are for the daemon's user and for root",
			  words[0]);
	return said;
}

void
client_loss_set(const struct client_daemon *d, const char *dev, double percent)
{
	char spec[32];
	const char *set[] = {"impair", dev, "set", spec, NULL};
	const char *clear[] = {"impair", dev, "clear", NULL};

	snprintf(spec, sizeof(spec), "drop=%g%%", percent);
	json_decref(ask(d, percent >= 0 ? set : clear));
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
