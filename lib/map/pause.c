/* SPDX-License-Identifier: BSD-3-Clause */
#include "map/pause.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#define LIMIT_NS  500000000u /* for threads that wait for a core */
#define DISK_NS   50000000u  /* for threads in state D */
#define NAP_NS    20000
#define LOOK_NS   1000000u /* states are looked at after this time: each costs a file */
#define EVENT(st) ((st) >> 16)

enum thread_state {
	THREAD_STOPPING, /* traced, still running */
	THREAD_STOPPED,
	THREAD_GONE, /* has ended, or ends */
};

struct pause {
	unsigned n, nstopping;
	struct {
		pid_t tid;
		enum thread_state state;
		int sig; /* delivered when it continues; 0: none */
	} thread[PAUSE_THREADS];
};

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The state of a thread as ps shows it; 'X': it is gone. */
static char
state_of(pid_t pid, pid_t tid)
{
	char path[64], text[512], *end;
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	f = fopen(path, "re");
	if (f == NULL)
		return 'X';
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	/* "pid (name) S ..": the name may contain anything */
	end = strrchr(text, ')');
	return end != NULL && end[1] == ' ' ? end[2] : 'X';
}

/* The last number of a line of a thread's status; 0: the thread is gone. */
static long
status_number(pid_t pid, pid_t tid, const char *key)
{
	char path[64], line[512], *last;
	size_t len = strlen(key);
	long number = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, key, len) != 0)
			continue;
		last = strrchr(line, '\t');
		number = last != NULL ? strtol(last, NULL, 10) : 0;
		break;
	}
	fclose(f);
	return number;
}

/* The number of a thread in its own pid namespace; 0: it is gone. */
static pid_t
own_number(pid_t pid, pid_t tid)
{
	return (pid_t)status_number(pid, tid, "NSpid:");
}

static DIR *
threads_open(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return opendir(path);
}

/* The next thread; 0: there are no more. */
static pid_t
threads_next(DIR *dir)
{
	const struct dirent *d;
	long tid = 0;

	while (tid == 0 && (d = readdir(dir)) != NULL)
		tid = strtol(d->d_name, NULL, 10); /* "." and "..": 0 */
	return (pid_t)tid;
}

/* The thread that is caller to its process; 0: none. */
static pid_t
find_caller(pid_t pid, pid_t caller)
{
	pid_t tid = 0;
	DIR *dir;

	if (own_number(pid, caller) == caller)
		return caller;
	dir = threads_open(pid);
	if (dir == NULL)
		return 0;
	while ((tid = threads_next(dir)) != 0 && own_number(pid, tid) != caller)
		;
	closedir(dir);
	return tid;
}

static bool
is_known(const struct pause *p, pid_t tid)
{
	for (unsigned i = 0; i < p->n; i++)
		if (p->thread[i].tid == tid)
			return true;
	return false;
}

/* Begins to stop a thread. Returns 0 or -errno. */
static int
attach(struct pause *p, pid_t pid, pid_t tid)
{
	enum thread_state state = THREAD_STOPPING;
	char seen;

	if (p->n == PAUSE_THREADS)
		return -E2BIG;
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) {
		/* The main thread may have ended before the others: it stays, as a zombie. */
		seen = errno == ESRCH ? 'X' : state_of(pid, tid);
		if (seen != 'X' && seen != 'Z')
			return -EPERM;
		state = THREAD_GONE;
	} else {
		ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
		p->nstopping++;
	}
	p->thread[p->n].tid = tid;
	p->thread[p->n++].state = state;
	return 0;
}

/*
 * Begins to stop the threads that are not known yet. Returns 0 if there are none, 1 if there are or
 * may be some, or -errno. The kernel's listing can lack a thread if another one ends meanwhile; the
 * number of threads then shows it.
 */
static int
attach_new(struct pause *p, pid_t pid, pid_t but)
{
	DIR *dir = threads_open(pid);
	unsigned before = p->n;
	long listed = 0;
	int err = 0;
	pid_t tid;

	if (dir == NULL)
		return -ESRCH;
	while (err == 0 && (tid = threads_next(dir)) != 0) {
		listed++;
		if (tid != but && !is_known(p, tid))
			err = attach(p, pid, tid);
	}
	closedir(dir);
	if (err != 0)
		return err;
	return p->n > before || listed != status_number(pid, but, "Threads:");
}

/* Has thread i stopped, or ended? */
static void
look(struct pause *p, unsigned i)
{
	pid_t tid = p->thread[i].tid, rc;
	int status;

	rc = waitpid(tid, &status, __WALL | WNOHANG);
	if (rc == 0 || (rc < 0 && errno == EINTR))
		return;
	p->nstopping--;
	p->thread[i].state = rc == tid && WIFSTOPPED(status) ? THREAD_STOPPED : THREAD_GONE;
	/* A signal that was about to be delivered stops the thread, too: it is delivered later. */
	if (p->thread[i].state == THREAD_STOPPED && EVENT(status) != PTRACE_EVENT_STOP)
		p->thread[i].sig = WSTOPSIG(status);
}

static bool
any_in_state_d(const struct pause *p, pid_t pid)
{
	for (unsigned i = 0; i < p->n; i++)
		if (p->thread[i].state == THREAD_STOPPING && state_of(pid, p->thread[i].tid) == 'D')
			return true;
	return false;
}

/* Waits until all known threads have stopped. Returns 0 or -EBUSY. */
static int
await_stops(struct pause *p, pid_t pid, uint64_t from_ns)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	uint64_t next_ns = from_ns + DISK_NS, now;

	for (;;) {
		for (unsigned i = 0; i < p->n; i++)
			if (p->thread[i].state == THREAD_STOPPING)
				look(p, i);
		if (p->nstopping == 0)
			return 0;
		now = now_ns();
		if (now - from_ns >= LIMIT_NS)
			return -EBUSY;
		if (now >= next_ns) {
			if (any_in_state_d(p, pid))
				return -EBUSY;
			next_ns = now + LOOK_NS;
		}
		nanosleep(&nap, NULL);
	}
}

int
pause_begin(pid_t pid, pid_t caller, struct pause **out)
{
	pid_t but = find_caller(pid, caller);
	uint64_t from_ns = now_ns();
	struct pause *p;
	int rc;

	if (but == 0)
		return -ESRCH;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return -ENOMEM;
	/* A thread may have created others before it stopped. When none is new, all have stopped.
	 */
	do {
		rc = attach_new(p, pid, but);
		if (rc > 0 && (await_stops(p, pid, from_ns) < 0 || now_ns() - from_ns >= LIMIT_NS))
			rc = -EBUSY;
	} while (rc > 0);
	if (rc == 0)
		*out = p;
	else
		pause_end(p);
	return rc;
}

void
pause_end(struct pause *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (p->thread[i].state == THREAD_STOPPING)
			look(p, i);
		if (p->thread[i].state == THREAD_STOPPED)
			ptrace(PTRACE_DETACH, p->thread[i].tid, NULL,
			       (void *)(intptr_t)p->thread[i].sig);
	}
	free(p);
}
