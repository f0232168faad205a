/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of another process are stopped and continue (map/pause.h). */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "map/pause.h"
#include "../../kit/unit.h"

#define NTHREADS 4u
#define SIGNALS  60u
#define STEPS    1000u /* of the caller, while the others stand still */

/* Shared with the process whose threads are stopped. */
static struct shared {
	_Atomic uint64_t steps[NTHREADS], caller_steps, handled, born, ready;
	atomic_uint stop;
	atomic_int tid; /* of its first thread */
} * sh;

static void *
stepper(void *arg)
{
	atomic_ullong *steps = arg;

	sh->tid = (int)syscall(SYS_gettid);
	sh->ready++;
	while (!sh->stop)
		atomic_fetch_add((_Atomic uint64_t *)steps, 1);
	return NULL;
}

/* The threads, and the main thread, which goes on when they are stopped. */
static void
steppers(void)
{
	pthread_t t;

	for (unsigned i = 0; i < NTHREADS; i++)
		CHECK(pthread_create(&t, NULL, stepper, &sh->steps[i]) == 0);
	while (!sh->stop) {
		sh->caller_steps++;
		sched_yield();
	}
}

static void *
short_lived(void *arg)
{
	sh->born++;
	return NULL;
}

static void *
creator(void *arg)
{
	pthread_t t;

	sh->ready++;
	while (!sh->stop) {
		if (pthread_create(&t, NULL, short_lived, NULL) == 0)
			pthread_join(t, NULL);
	}
	return NULL;
}

static void
creators(void)
{
	pthread_t t;

	for (unsigned i = 0; i < NTHREADS; i++)
		CHECK(pthread_create(&t, NULL, creator, NULL) == 0);
	while (!sh->stop) {
		sh->caller_steps++;
		sched_yield();
	}
}

static void
on_signal(int sig)
{
	sh->handled++;
}

static void
with_handler(void)
{
	signal(SIGRTMIN, on_signal);
	steppers();
}

/* A thread in vfork is in state D until its child executes or ends. */
static int vfork_pipe[2];

static void *
vforker(void *arg)
{
	char byte;
	pid_t pid;

	pid = vfork();
	if (pid == 0) {
		sh->ready++; /* not earlier: the thread could be stopped before vfork */
		syscall(SYS_read, vfork_pipe[0], &byte, 1);
		_exit(0);
	}
	return NULL;
}

static void
with_vfork(void)
{
	pthread_t t;

	close(vfork_pipe[1]); /* or vfork's child, too, could keep its read from an end of file */
	CHECK(pthread_create(&t, NULL, vforker, NULL) == 0);
	steppers();
}

static pid_t started;

/* Waits until *counter, which the process that was started changes, is above value. */
static void
until_more_than(const _Atomic uint64_t *counter, uint64_t value)
{
	siginfo_t ended = {0};

	while (*counter <= value) {
		/* Any thread may wait here, so no assertion of cmocka. */
		CHECK(waitid(P_PID, (id_t)started, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		      ended.si_pid == 0);
		sched_yield();
	}
}

static pid_t
start(void (*run)(void), unsigned ready)
{
	memset(sh, 0, sizeof(*sh));
	started = fork();
	if (started == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run();
		_exit(0);
	}
	assert_true(started > 0);
	until_more_than(&sh->ready, ready - 1);
	return started;
}

static void
finish(pid_t pid)
{
	sh->stop = 1;
	assert_true(has_status(pid, false, 0));
}

static uint64_t
sum(void)
{
	uint64_t n = sh->born;

	for (unsigned i = 0; i < NTHREADS; i++)
		n += sh->steps[i];
	return n;
}

/* A pause, by a thread that ends afterwards, as the contract wants it. */
struct call {
	pid_t pid, caller;
	int rc;
	void (*meanwhile)(pid_t pid); /* NULL: the thread ends without pause_end */
};

static void *
call_main(void *arg)
{
	struct call *c = arg;
	struct pause *p;

	c->rc = pause_begin(c->pid, c->caller, &p);
	if (c->rc == 0 && c->meanwhile != NULL) {
		c->meanwhile(c->pid);
		pause_end(p);
	} else if (c->rc == 0) {
		free(p);
	}
	return NULL;
}

static int
paused(pid_t pid, pid_t caller, void (*meanwhile)(pid_t))
{
	struct call c = {.pid = pid, .caller = caller, .meanwhile = meanwhile};
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, call_main, &c), 0);
	pthread_join(t, NULL);
	return c.rc;
}

/*
 * A pause that succeeds, if need be after others: on a busy machine a thread may stop late (EBUSY),
 * and stays traced (EPERM) until the kernel has ended the thread that traced it. late: one was late
 * before.
 */
static void
assert_pauses_after(bool late, pid_t pid, pid_t caller, void (*meanwhile)(pid_t))
{
	int rc;

	do {
		rc = paused(pid, caller, meanwhile);
		late |= rc == -EBUSY;
	} while (rc == -EBUSY || (late && rc == -EPERM));
	assert_int_equal(rc, 0);
}

static void
assert_pauses(pid_t pid, pid_t caller, void (*meanwhile)(pid_t))
{
	assert_pauses_after(false, pid, caller, meanwhile);
}

/* The caller goes on, and the others stand still. */
static void
only_the_caller_runs(pid_t pid)
{
	uint64_t before = sum();

	until_more_than(&sh->caller_steps, sh->caller_steps + STEPS);
	CHECK(sum() == before); /* not the main thread: cmocka would end without a message */
}

static void
all_run(void)
{
	for (unsigned i = 0; i < NTHREADS; i++)
		until_more_than(&sh->steps[i], sh->steps[i]);
}

UNIT_TEST(threads_stand_still_and_continue)
{
	pid_t pid = start(steppers, NTHREADS);

	for (unsigned i = 0; i < 20; i++) {
		assert_pauses(pid, pid, only_the_caller_runs);
		all_run();
	}
	finish(pid);
}

UNIT_TEST(threads_that_are_born_meanwhile_stop_too)
{
	pid_t pid = start(creators, NTHREADS);

	for (unsigned i = 0; i < 100; i++) {
		assert_pauses(pid, pid, only_the_caller_runs);
		until_more_than(&sh->born, sh->born);
	}
	finish(pid);
}

static pid_t hidden;
static unsigned hides; /* listings that still lack the thread hidden */

/* The kernel's listing of threads lacks one if another one ends while they are listed. */
struct dirent *
readdir(DIR *dir)
{
	static struct dirent *(*real)(DIR * dir);
	struct dirent *d;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "readdir64");
	d = real(dir);
	if (d != NULL && hides > 0 && strtol(d->d_name, NULL, 10) == hidden) {
		hides--;
		d = real(dir);
	}
	return d;
}

UNIT_TEST(thread_that_listings_lack_stops_too)
{
	pid_t pid = start(steppers, NTHREADS);

	for (unsigned i = 0; i < 4; i++) {
		hidden = sh->tid;
		hides = i;
		assert_pauses(pid, pid, only_the_caller_runs);
		assert_int_equal(hides, 0);
		all_run();
	}
	finish(pid);
}

static void
queue_one(pid_t pid)
{
	CHECK(sigqueue(pid, SIGRTMIN, (union sigval){0}) == 0);
}

UNIT_TEST(no_signal_is_lost)
{
	pid_t pid = start(with_handler, NTHREADS);

	/* Before, at the same time, during: one is handled for each that was queued. */
	for (unsigned i = 0; i < SIGNALS / 2; i++) {
		queue_one(pid);
		assert_pauses(pid, pid, queue_one);
	}
	until_more_than(&sh->handled, SIGNALS - 1);
	all_run();
	finish(pid);
	assert_int_equal(sh->handled, SIGNALS);
}

static void
kill_it(pid_t pid)
{
	CHECK(kill(pid, SIGKILL) == 0);
}

UNIT_TEST(process_can_be_killed_meanwhile)
{
	pid_t pid = start(steppers, NTHREADS);

	assert_pauses(pid, pid, kill_it);
	assert_true(has_status(pid, true, SIGKILL));
}

UNIT_TEST(thread_that_cannot_stop_fails_the_pause)
{
	pid_t pid;

	assert_int_equal(pipe(vfork_pipe), 0);
	pid = start(with_vfork, NTHREADS + 1);
	close(vfork_pipe[0]);
	assert_int_equal(paused(pid, pid, only_the_caller_runs), -EBUSY);
	all_run();
	close(vfork_pipe[1]); /* its read returns */
	/* The thread is in vfork until its child has ended, and traced until its tracer has. */
	assert_pauses_after(true, pid, pid, only_the_caller_runs);
	all_run();
	finish(pid);
}

UNIT_TEST(traced_process_is_left_alone)
{
	pid_t pid = start(steppers, NTHREADS);

	assert_int_equal(ptrace(PTRACE_SEIZE, sh->tid, NULL, NULL), 0);
	assert_int_equal(paused(pid, pid, only_the_caller_runs), -EPERM);
	all_run();
	assert_int_equal(ptrace(PTRACE_INTERRUPT, sh->tid, NULL, NULL), 0);
	assert_int_equal(waitpid(sh->tid, NULL, __WALL), sh->tid);
	assert_int_equal(ptrace(PTRACE_DETACH, sh->tid, NULL, NULL), 0);
	finish(pid);
}

UNIT_TEST(threads_continue_if_the_tracer_ends)
{
	pid_t pid = start(steppers, NTHREADS);

	assert_pauses(pid, pid, NULL);
	all_run();
	finish(pid);
}

UNIT_TEST(unknown_caller_or_process_is_an_error)
{
	pid_t pid = start(steppers, NTHREADS);

	assert_int_equal(paused(pid, getpid(), only_the_caller_runs), -ESRCH);
	all_run();
	finish(pid);
	assert_int_equal(paused(pid, pid, only_the_caller_runs), -ESRCH);
}

/* As in a container, where a thread has another number than outside. */
UNIT_TEST(caller_of_another_pid_namespace_is_found)
{
	int ns;
	pid_t pid;

	ns = (int)syscall(SYS_pidfd_open, getpid(), 0);
	assert_true(ns >= 0);
	if (unshare(CLONE_NEWPID) != 0) {
		close(ns);
		skip();
	}
	pid = start(steppers, NTHREADS);
	assert_int_equal(setns(ns, CLONE_NEWPID), 0); /* else it could make no threads */
	close(ns);
	assert_pauses(pid, 1, only_the_caller_runs);
	all_run();
	finish(pid);
}

int
main(void)
{
	if (!harness_can_run())
		return 77;
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		return 1;
	return unit_run();
}
