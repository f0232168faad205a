/* SPDX-License-Identifier: BSD-3-Clause */
/* Mode "connect": starts daemon and process, orders connections and computes the figures. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "connect.h"

#define COUNT 500u /* connections of a run, unless --count says */

static void
start(struct client_proc *p, const char *daemon)
{
	char run[PATH_MAX], self[PATH_MAX], fd[16];
	char *argv[] = {run, "--socket", (char *)daemon, self, CONNECT_MODE, fd, NULL};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int sv[2], theirs;

	self[n > 0 ? n : 0] = '\0';
	client_program(run, "uroce-run");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		bench_die("socketpair: %m");
	theirs = dup(sv[1]); /* without FD_CLOEXEC */
	snprintf(fd, sizeof(fd), "%d", theirs);
	p->pid = bench_spawn(argv, -1, -1, SIGKILL, NULL);
	close(theirs);
	close(sv[1]);
	p->sock = sv[0];
}

static struct connect_answer
order(struct client_proc *p, struct connect_order what, struct client_hist *connects,
      struct client_hist *disconnects)
{
	struct connect_answer a;

	client_say(p, &what, sizeof(what));
	client_hear(p, &a, sizeof(a));
	client_hear(p, connects, sizeof(*connects));
	client_hear(p, disconnects, sizeof(*disconnects));
	return a;
}

/* Adds the four quantiles; disconnects only if there were any. */
static void
add_times(struct bench_report *r, const struct client_hist *connects,
	  const struct client_hist *disconnects)
{
	bench_add(r, "connect_p50", "us", client_hist_at(connects, 0.5) / 1e3);
	bench_add(r, "connect_p99", "us", client_hist_at(connects, 0.99) / 1e3);
	if (disconnects->n == 0)
		return;
	bench_add(r, "disconnect_p50", "us", client_hist_at(disconnects, 0.5) / 1e3);
	bench_add(r, "disconnect_p99", "us", client_hist_at(disconnects, 0.99) / 1e3);
}

/* Makes and ends connections, with `live` others alive. */
static void
measure(const struct bench_options *o, struct bench_report *r, struct client_proc *p, uint32_t live)
{
	static struct client_hist connects, disconnects;
	struct connect_order what = {.count = o->count != 0 ? (uint32_t)o->count : COUNT,
				     .clients = o->clients};

	for (uint32_t run = 0; run < o->runs; run++) {
		struct connect_answer a = order(p, what, &connects, &disconnects);

		bench_add(r, "connects", "/s",
			  (double)what.count * o->clients / ((double)a.connects_ns / 1e9));
		bench_add(r, "connect_rate", "/s",
			  (double)what.count * o->clients / ((double)a.asked_ns / 1e9));
		bench_add(r, "cycles", "/s", (double)what.count / ((double)a.ns / 1e9));
		add_times(r, &connects, &disconnects);
	}
	bench_report_row(r, "connect, %u client%s, %u live", o->clients, o->clients > 1 ? "s" : "",
			 live);
}

/* Establishes `live` connections, keeps them open and reports the memory they cost the daemon. */
static void
keep(const struct bench_options *o, struct bench_report *r, struct client_proc *p,
     const struct client_daemon *d)
{
	static struct client_hist connects, disconnects;
	struct connect_order what = {.count = o->live,
				     .clients = 1,
				     .keep = 1,
				     .no_qps = o->no_qps};
	uint64_t before = client_memory(d->pid);
	struct connect_answer a = order(p, what, &connects, &disconnects);

	bench_add(r, "connects", "/s", (double)what.count / ((double)a.connects_ns / 1e9));
	add_times(r, &connects, &disconnects);
	bench_add(r, "memory", "KiB each",
		  (double)(client_memory(d->pid) - before) / 1024 / what.count);
	bench_report_row(r, "%u connections that stay, %s QP at both ends", o->live,
			 o->no_qps ? "without" : "with");
}

int
bench_connect(const struct bench_options *o, struct bench_report *r)
{
	struct client_daemon d;
	struct client_proc p;

	client_daemon_start(&d, o);
	start(&p, d.socket);
	if (!o->no_qps) /* QPNs in TIMEWAIT could equal made-up ones */
		measure(o, r, &p, 0);
	if (o->live != 0)
		keep(o, r, &p, &d);
	if (o->live != 0 && !o->no_qps)
		measure(o, r, &p, o->live);
	kill(p.pid, SIGKILL);
	return 0;
}
