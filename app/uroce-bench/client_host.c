/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "client.h"

#define MAX_CLIENTS 128
#define MAX_DAEMONS 2
#define READY       "uroced: ready"

static struct {
	cpu_set_t cpus;
	pid_t owner; /* only this process ends the others at exit */
	pid_t client[MAX_CLIENTS];
	struct {
		pid_t pid;
		char dir[64], prefix[64];
		char socket[CLIENT_SOCKET_MAX];
		char dpdk_dir[80]; /* EAL leaves it behind, empty */
	} daemon[MAX_DAEMONS];
	unsigned nclients, ndaemons;
} host;

int
client_send(int sock, const void *msg, size_t len)
{
	return send(sock, msg, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -1;
}

int
client_recv(int sock, void *msg, size_t len)
{
	ssize_t n;

	do
		n = recv(sock, msg, len, 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)len ? 0 : -1;
}

/* Waits for the end of a child. */
static void
reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void
daemon_end(unsigned i)
{
	kill(host.daemon[i].pid, SIGTERM);
	reap(host.daemon[i].pid);
	unlink(host.daemon[i].socket);
	rmdir(host.daemon[i].dir);
	rmdir(host.daemon[i].dpdk_dir);
}

void
client_end_all(bool daemons)
{
	for (; host.nclients != 0; host.nclients--) {
		kill(host.client[host.nclients - 1], SIGKILL);
		reap(host.client[host.nclients - 1]);
	}
	for (; daemons && host.ndaemons != 0; host.ndaemons--)
		daemon_end(host.ndaemons - 1);
}

static void
at_exit(void)
{
	if (getpid() == host.owner)
		client_end_all(true);
}

/* at_exit is async-signal-safe. */
static void
on_signal(int sig)
{
	at_exit();
	_exit(128 + sig);
}

void
client_host_init(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};

	sched_getaffinity(0, sizeof(host.cpus), &host.cpus);
	host.owner = getpid();
	atexit(at_exit);
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		signal(ends[i], on_signal);
}

unsigned
client_cpus(void)
{
	return (unsigned)CPU_COUNT(&host.cpus);
}

bool
client_may_use(unsigned cpu)
{
	return cpu < CPU_SETSIZE && CPU_ISSET(cpu, &host.cpus);
}

unsigned
client_cpu(unsigned n)
{
	unsigned cpu = 0;

	for (;; cpu++) {
		if (CPU_ISSET(cpu, &host.cpus) && n-- == 0)
			return cpu;
	}
}

__attribute__((nonnull)) void
client_program(char *path, const char *name)
{
	/* of the build tree, for uroce-bench and for test/bench; of an installation */
	static const char *const places[] = {"%s/../%s/%s", "%s/../../../app/%s/%s", "%s/%s",
					     "%s/../sbin/%s"};
	const char *bench = getenv("UROCE_BENCH"); /* that has executed this program (main.c) */
	char exe[PATH_MAX / 2];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[n > 0 ? n : 0] = '\0';
	if (bench != NULL)
		snprintf(exe, sizeof(exe), "%s", bench);
	if (strrchr(exe, '/') != NULL)
		*strrchr(exe, '/') = '\0';
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, PATH_MAX, places[i], exe, name, name);
		if (access(path, X_OK) == 0)
			return;
	}
	bench_die("%s: %m", path);
}

/* Waits for the daemon's ready line; other lines go to stderr. */
static void
wait_ready(int out)
{
	char line[256];
	FILE *f = fdopen(out, "re");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, READY, strlen(READY)) == 0)
			return; /* f stays open: the daemon may log more */
		fputs(line, stderr);
	}
	bench_die("uroced did not start");
}

static pid_t
daemon_spawn(const struct client_daemon *d, char *prefix, const struct bench_options *o,
	     const struct client_daemon_plan *plan, int out)
{
	char uroced[PATH_MAX], cpu[16], qps[16];
	/* Huge pages if available, as for any daemon; memory is measured on small ones. */
	bool memory = o->measure == BENCH_MEMORY;
	char *argv[32] = {uroced,
			  "--socket",
			  (char *)d->socket,
			  "--file-prefix",
			  prefix,
			  "--idle",
			  plan->adaptive ? "adaptive" : "poll",
			  "--lcores",
			  cpu,
			  "--max-qps",
			  qps,
			  "--log-level",
			  "error"};
	unsigned n = 13;

	if (plan->vdev == NULL || *plan->vdev != '\0') {
		argv[n++] = plan->vdev == NULL ? "--pair" : "--vdev";
		argv[n++] = plan->vdev == NULL ? "p" : (char *)plan->vdev;
	}
	for (unsigned i = 0; i < 2 && plan->dev[i] != NULL; i++) {
		argv[n++] = "--dev";
		argv[n++] = (char *)plan->dev[i];
	}
	if (o->no_huge || memory)
		argv[n++] = "--no-huge";
	/* an ordinary user, too, may then read how much memory it has */
	if (memory)
		argv[n++] = "--core-dumps";
	client_program(uroced, "uroced");
	snprintf(cpu, sizeof(cpu), "%u", plan->cpu);
	snprintf(qps, sizeof(qps), "%u", 2 * (o->qps * o->clients + o->live) + 64);
	return bench_spawn(argv, -1, out, SIGTERM, &host.cpus);
}

void
client_daemon_start_as(struct client_daemon *d, const struct bench_options *o,
		       const struct client_daemon_plan *plan)
{
	unsigned i = host.ndaemons;
	char *dir = host.daemon[i].dir;
	int out[2];

	snprintf(dir, sizeof(host.daemon[i].dir), "/tmp/uroce-bench-%d-XXXXXX", getpid());
	if (mkdtemp(dir) == NULL || pipe2(out, O_CLOEXEC) < 0)
		bench_die("%s: %m", dir);
	snprintf(d->socket, sizeof(d->socket), "%s/sock", dir);
	memcpy(host.daemon[i].socket, d->socket, sizeof(d->socket));
	snprintf(host.daemon[i].prefix, sizeof(host.daemon[i].prefix), "bench-%d-%u", getpid(), i);
	snprintf(host.daemon[i].dpdk_dir, sizeof(host.daemon[i].dpdk_dir),
		 "/var/run/dpdk/bench-%d-%u", getpid(), i);
	host.daemon[i].pid = d->pid = daemon_spawn(d, host.daemon[i].prefix, o, plan, out[1]);
	host.ndaemons++;
	close(out[1]);
	wait_ready(out[0]);
}

void
client_daemon_start(struct client_daemon *d, const struct bench_options *o)
{
	char dev[2][512];
	const struct client_daemon_plan plan = {.dev = {dev[0], dev[1]},
						.cpu = client_cpu(client_cpus() - 1),
						.adaptive = o->adaptive};

	for (unsigned i = 0; i < 2; i++) {
		int n = snprintf(dev[i], sizeof(dev[i]),
				 "name=uroce%u,port=net_ring_p%c,addr=10.9.0.%u/24,mtu=4096%s%s", i,
				 "ab"[i], 101 + i, o->options != NULL ? "," : "",
				 o->options != NULL ? o->options : "");

		if ((size_t)n >= sizeof(dev[i]))
			bench_die("--dev-options: longer than %zu characters", sizeof(dev[i]) - 64);
	}
	client_daemon_start_as(d, o, &plan);
}

/* The client has printed the reason on stderr. */
#define GONE "a client has ended early"

static void
start(struct client_proc *p, const char *mode, const cpu_set_t *cpus, const char *socket_path,
      const void *msg, size_t len)
{
	char run[PATH_MAX], self[PATH_MAX], fd[16];
	char *argv[] = {run, "--socket", (char *)socket_path, self, (char *)mode, fd, NULL};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int sv[2], theirs;

	self[n > 0 ? n : 0] = '\0';
	client_program(run, "uroce-run");
	if (host.nclients == MAX_CLIENTS ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		bench_die("socketpair: %m");
	theirs = dup(sv[1]); /* without FD_CLOEXEC */
	snprintf(fd, sizeof(fd), "%d", theirs);
	p->pid = bench_spawn(argv, -1, -1, SIGKILL, cpus);
	host.client[host.nclients++] = p->pid;
	close(theirs);
	close(sv[1]);
	p->sock = sv[0];
	client_say(p, msg, len);
}

void
client_start_on(struct client_proc *p, const char *mode, unsigned cpu, const char *socket_path,
		const void *msg, size_t len)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	start(p, mode, &set, socket_path, msg, len);
}

void
client_start(struct client_proc *p, const char *mode, int cpu, const char *socket_path,
	     const void *msg, size_t len)
{
	unsigned cpus = client_cpus() > 1 ? client_cpus() - 1 : 1;

	if (cpu >= 0)
		client_start_on(p, mode, client_cpu((unsigned)cpu % cpus), socket_path, msg, len);
	else
		start(p, mode, NULL, socket_path, msg, len);
}

void
client_say(struct client_proc *p, const void *msg, size_t len)
{
	if (client_send(p->sock, msg, len) < 0)
		bench_die(GONE);
}

void
client_hear(struct client_proc *p, void *msg, size_t len)
{
	if (client_recv(p->sock, msg, len) < 0)
		bench_die(GONE);
}

uint64_t
client_cpu_ns(pid_t pid)
{
	unsigned long long ns, sum = 0;
	struct dirent *e;
	char path[128];
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir != NULL && (e = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", (int)pid, e->d_name);
		f = fopen(path, "re");
		if (f == NULL)
			continue;
		if (fscanf(f, "%llu", &ns) == 1)
			sum += ns;
		fclose(f);
	}
	if (dir != NULL)
		closedir(dir);
	return sum;
}

uint64_t
client_memory(pid_t pid)
{
	static const char *const counted[] = {"Pss:", "Private_Hugetlb:", "Shared_Hugetlb:"};
	unsigned long long kib, sum = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		for (unsigned i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
			size_t n = strlen(counted[i]);

			if (strncmp(line, counted[i], n) == 0 &&
			    sscanf(line + n, "%llu", &kib) == 1)
				sum += kib * 1024;
		}
	}
	if (f != NULL)
		fclose(f);
	return sum;
}
