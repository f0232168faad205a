/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker's threads: when jobs hang, and when answers overtake them; and its start. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "ipc/broker_parts.h"
#include "../../kit/hang.h"
#include "../../kit/unit.h"

#define USERS     (BROKER_THREADS / BROKER_USER_THREADS)
#define PAGE_MOST 65536 /* of arm64 */
#define HUGE      (64 << 20)
#define FINDS     12 /* registrations of one client, one after the other */

static pthread_t self;
static int watched = -1;     /* a descriptor .. */
static unsigned closed_here; /* .. and how often this thread has closed it */
static sem_t begun, go_on, ended, root_ran;
static bool late; /* a thread that sends a message gets no CPU time for a while afterwards */

/* Replaces libc's. */
ssize_t
sendmsg(int fd, const struct msghdr *msg, int flags)
{
	const struct timespec nap = {.tv_nsec = 10000000};
	ssize_t n = syscall(SYS_sendmsg, fd, msg, flags);

	if (late)
		nanosleep(&nap, NULL);
	return n;
}

/* Replaces libc's. */
int
close(int fd)
{
	if (fd == watched && pthread_equal(pthread_self(), self))
		closed_here++;
	return (int)syscall(SYS_close, fd);
}

static void
hang(struct job *job)
{
	sem_post(&begun);
	while (sem_wait(&go_on) != 0)
		;
	free(job);
	sem_post(&ended);
}

static void
run_of_root(struct job *job)
{
	sem_post(&root_ran);
	free(job);
}

static void
submit(uint32_t uid, void (*run)(struct job *job))
{
	struct job *job = calloc(1, sizeof(*job));

	assert_non_null(job);
	jobs_submit(job, uid, run);
}

static int
in_time(sem_t *sem)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += HANGS_S;
	return sem_clockwait(sem, CLOCK_MONOTONIC, &end);
}

/* All threads that other users may have hang; a job of root's runs, and theirs once these end. */
UNIT_TEST(root_has_threads_left)
{
	const unsigned most = BROKER_THREADS - BROKER_USER_THREADS;
	int chan[2], value;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, chan), 0);
	sem_init(&begun, 0, 0);
	sem_init(&go_on, 0, 0);
	sem_init(&ended, 0, 0);
	sem_init(&root_ran, 0, 0);
	jobs_open(chan[0]);
	for (uint32_t uid = 1; uid <= USERS; uid++)
		for (unsigned i = 0; i < BROKER_USER_THREADS; i++)
			submit(uid, hang);
	for (unsigned i = 0; i < most; i++)
		assert_int_equal(in_time(&begun), 0);
	submit(0, run_of_root);
	assert_int_equal(in_time(&root_ran), 0);
	sem_getvalue(&begun, &value);
	assert_int_equal(value, 0);
	for (unsigned i = 0; i < BROKER_THREADS; i++)
		sem_post(&go_on);
	for (unsigned i = most; i < BROKER_THREADS; i++)
		assert_int_equal(in_time(&begun), 0);
	for (unsigned i = 0; i < BROKER_THREADS; i++) /* the next test uses the semaphores */
		assert_int_equal(in_time(&ended), 0);
	close(chan[1]);
}

/*
 * All threads of a user run jobs that end their thread (pauses). A job that waits behind them runs
 * when they end, although nothing else is submitted.
 */
UNIT_TEST(a_thread_that_ends_hands_over)
{
	int chan[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, chan), 0);
	sem_init(&begun, 0, 0);
	sem_init(&go_on, 0, 0);
	sem_init(&ended, 0, 0);
	sem_init(&root_ran, 0, 0);
	jobs_open(chan[0]);
	for (unsigned i = 0; i < BROKER_USER_THREADS; i++) {
		struct job *job = calloc(1, sizeof(*job));

		assert_non_null(job);
		job->ends_thread = true;
		jobs_submit(job, 1, hang);
	}
	for (unsigned i = 0; i < BROKER_USER_THREADS; i++)
		assert_int_equal(in_time(&begun), 0);
	submit(1, run_of_root);
	for (unsigned i = 0; i < BROKER_USER_THREADS; i++)
		sem_post(&go_on);
	assert_int_equal(in_time(&root_ran), 0);
	for (unsigned i = 0; i < BROKER_USER_THREADS; i++) /* the next test uses the semaphores */
		assert_int_equal(in_time(&ended), 0);
	close(chan[1]);
}

/* Orders the look-up of memory that has to be copied; returns the id of the open /proc/PID/mem. */
static uint64_t
find_copied(struct kept *k, const uint8_t *memory, size_t len, int answers)
{
	struct job *job = calloc(1, sizeof(*job));
	struct broker_msg m;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MRMAP_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = {&m, sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	int fd;

	assert_non_null(job);
	job->kept = k;
	job->cmd.uid = k->client.uid;
	job->cmd.req = (struct uroce_reg_mr_req){.addr = (uintptr_t)memory,
						 .length = len,
						 .access = MEM_LOCAL_WRITE,
						 .npieces = 1};
	job->cmd.req.piece[0] = (struct uroce_mr_piece){.va = (uintptr_t)memory,
							.len = len,
							.kind = UROCE_PIECE_COPY};
	jobs_find(job);
	assert_true(recvmsg(answers, &msg, 0) > 0);
	assert_int_equal(m.says, BROKER_FOUND);
	assert_int_equal(m.found.err, 0);
	assert_int_equal(m.found.nfds, 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	close(fd);
	return m.found.mem_id;
}

/*
 * A client that registers memory at once when it has the answer: its look-ups share one open
 * /proc/PID/mem, although the thread of the one before may not have ended its job yet.
 */
UNIT_TEST(next_find_uses_the_same_memory)
{
	static _Alignas(PAGE_MOST) uint8_t memory[PAGE_MOST] = {1}; /* whole pages */
	struct kept k = {.refs = 1,
			 .client = {.pid = getpid(), .pidfd = -1, .uid = getuid(), .mem.fd = -1}};
	uint64_t id;
	int chan[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, chan), 0);
	jobs_open(chan[0]);
	late = true;
	id = find_copied(&k, memory, sizeof(memory), chan[1]);
	for (unsigned i = 1; i < FINDS; i++)
		assert_int_equal(find_copied(&k, memory, sizeof(memory), chan[1]), id);
	late = false;
	while (__atomic_load_n(&k.refs, __ATOMIC_ACQUIRE) != 1)
		;
	close(k.client.mem.fd);
	close(chan[1]);
}

/*
 * A client that asks for a pause again at once when it hears that one has failed: none is left,
 * although the thread of the one before may not have ended its job yet.
 */
UNIT_TEST(failed_pause_is_over_when_it_is_answered)
{
	struct kept k = {.refs = 1, .client = {.pid = -1, .pidfd = -1, .mem.fd = -1}};
	struct broker_msg m;
	int chan[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, chan), 0);
	jobs_open(chan[0]);
	pauses_open();
	late = true;
	for (unsigned i = 0; i < FINDS; i++) {
		struct job *job = calloc(1, sizeof(*job));

		assert_non_null(job);
		job->kept = &k;
		assert_int_equal(pauses_begin(job), 0);
		assert_true(recv(chan[1], &m, sizeof(m), 0) > 0);
		assert_int_equal(m.says, BROKER_FOUND);
		assert_true(m.found.err < 0); /* there is no such process */
	}
	late = false;
	while (__atomic_load_n(&k.refs, __ATOMIC_ACQUIRE) != 1)
		;
	close(chan[1]);
}

/*
 * The memory of a request may have been left to the broker, which frees it when it closes it. The
 * main thread serves all clients, and so closes only small files.
 */
UNIT_TEST(main_thread_frees_no_huge_memory)
{
	static const off_t bytes[] = {PAGE_MOST, HUGE};
	int chan[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, chan), 0);
	jobs_open(chan[0]);
	self = pthread_self();
	for (unsigned i = 0; i < 2; i++) {
		struct job *job = calloc(1, sizeof(*job));

		assert_non_null(job);
		watched = memfd_create("left", MFD_ALLOW_SEALING | MFD_CLOEXEC);
		assert_return_code(watched, 0);
		assert_return_code(ftruncate(watched, bytes[i]), 0);
		closed_here = 0;
		job->fds[0] = watched;
		job->nfds = 1;
		job_free(job);
		while (fcntl(watched, F_GETFD) >= 0)
			sched_yield();
		assert_int_equal(closed_here, bytes[i] == HUGE ? 0 : 1);
	}
	watched = -1;
	close(chan[1]);
}

/*
 * The first adopted memory of a context, whose file the daemon is to keep, is found by the main
 * thread, so that a client waits neither for its user's other jobs nor for a thread.
 */
UNIT_TEST(kept_file_is_found_at_once)
{
	static struct broker_cmd find = {
		.op = BROKER_FIND, .id = 1, .job = 7, .take = 1, .nfds = 1};
	struct broker_cmd keep = {.op = BROKER_KEEP, .id = 1, .pid = getpid()};
	int chan[2], conn[2], fds[MRMAP_MAX_FDS], status;
	int file = memfd_create("kept", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	struct broker_msg m;
	unsigned nfds;
	pid_t pid;

	assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, chan), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, conn), 0);
	find.req = (struct uroce_reg_mr_req){.addr = PAGE_MOST + 24,
					     .length = 24,
					     .npieces = 1,
					     .keep = 1,
					     .piece = {{.va = PAGE_MOST,
							.len = PAGE_MOST,
							.fd_off = PAGE_MOST,
							.kind = UROCE_PIECE_KEPT}}};
	pid = fork();
	assert_return_code(pid, errno);
	if (pid == 0) {
		dup2(chan[1], STDERR_FILENO + 1);
		broker_main(STDERR_FILENO + 1);
	}
	close(chan[1]);
	assert_int_equal(broker_send(chan[0], &keep, &conn[0], 1), 0);
	assert_int_equal(broker_put(conn[1], &find.req, sizeof(find.req), &file, 1, 0),
			 sizeof(find.req));
	assert_int_equal(broker_send(chan[0], &find, NULL, 0), 0);
	while (broker_receive(chan[0], &m, fds, &nfds) == -EAGAIN)
		sched_yield();
	assert_int_equal(m.says, BROKER_FOUND);
	assert_true(m.taken);
	assert_int_equal(m.found.err, 0);
	assert_int_equal(m.found.keep_fd, 1);
	assert_int_equal(nfds, 1);
	close(fds[0]);
	close(chan[0]); /* the broker ends */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(conn[0]);
	close(conn[1]);
	close(file);
}

struct slow_starter {
	int sock;
	pthread_t asker;
	pid_t asker_tid;
	bool asleep;
};

static volatile sig_atomic_t heard;

static void
hear(int sig)
{
	heard++;
}

/* Answers only after a signal has found the asker asleep. */
static void *
answer_late(void *arg)
{
	struct slow_starter *s = arg;
	const pid_t pid = 4711;
	char text[BROKER_ARG_MAX];

	assert_true(recv(s->sock, text, sizeof(text), 0) > 0);
	s->asleep = COMES_TRUE(thread_sleeps(s->asker_tid));
	pthread_kill(s->asker, SIGUSR1);
	s->asleep = s->asleep && COMES_TRUE(heard != 0);
	assert_int_equal(send(s->sock, &pid, sizeof(pid), MSG_NOSIGNAL), sizeof(pid));
	return NULL;
}

/* A debugger that attaches to the daemon, or SIGSTOP, interrupts a wait with a limit. */
UNIT_TEST(interrupted_start_of_a_broker_goes_on)
{
	struct timeval limit = {.tv_sec = HANGS_S};
	struct slow_starter s = {.asker = pthread_self(), .asker_tid = gettid()};
	int sv[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pthread_t t;
	pid_t pid;

	signal(SIGUSR1, hear);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(setsockopt(sv[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	s.sock = sv[1];
	assert_int_equal(pthread_create(&t, NULL, answer_late, &s), 0);
	assert_int_equal(starter_ask(sv[0], "argument", null, &pid), 0);
	assert_int_equal(pid, 4711);
	pthread_join(t, NULL);
	assert_true(s.asleep);
	close(sv[0]);
	close(sv[1]);
	close(null);
}
