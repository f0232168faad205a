/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of rdma_cm as librdmacm sees them: events, waits, copies, a daemon that dies or lies. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/rdma_user_cm.h>
#include "cm_channel.h"
#include "fake.h"
#include "../../kit/hang.h"
#include "cm_fixture.h"

static short
poll_now(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, 0) > 0 ? pfd.revents : 0;
}

static void
nonblocking(int fd)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
}

REQUIREMENT("CM-12")
CM_TEST(a_channel_looks_like_a_character_device)
{
	struct state *s = *state;
	struct stat st;
	int fd;

	assert_int_equal(prov_cm_fstat(s->fd, &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_true(fcntl(s->fd, F_GETFD) & FD_CLOEXEC);
	assert_false(fcntl(s->fd, F_GETFL) & O_NONBLOCK);
	fd = prov_cm_open(O_RDWR | O_NONBLOCK);
	assert_true(fd >= 0);
	assert_false(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(prov_cm_close(fd), 0);
	/* other files are themselves */
	assert_int_equal(prov_cm_fstat(s->f->seg_fd, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(prov_cm_fstat(-1, &st), -1);
	assert_int_equal(errno, EBADF);
}

CM_TEST(a_response_goes_to_its_address)
{
	struct state *s = *state;
	uint32_t id;

	assert_int_equal(create_id(s->fd, 77, &id), 0);
	assert_int_equal(id, 77);
	assert_int_equal(s->cm->req.out, sizeof(struct rdma_ucm_create_id_resp));
	s->cm->refuse = EADDRINUSE;
	assert_int_equal(create_id(s->fd, 78, &id), EADDRINUSE);
	assert_int_equal(id, 0xdead);
}

/* EIO of the daemon's is an error as any other. */
CM_TEST(a_refusal_leaves_the_channel_usable)
{
	struct state *s = *state;
	uint32_t id;

	for (uint32_t err = 1; err < 100; err++) {
		s->cm->refuse = err;
		assert_int_equal(create_id(s->fd, err, &id), err);
	}
	s->cm->refuse = 0;
	assert_int_equal(create_id(s->fd, 5, &id), 0);
}

CM_TEST(an_option_travels_with_its_value)
{
	struct state *s = *state;
	uint8_t value[100];
	struct rdma_ucm_set_option cmd = {
		.optval = (uintptr_t)value, .id = 3, .level = 1, .optname = 1, .optlen = 100};

	memset(value, 0x5a, sizeof(value));
	assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_SET_OPTION, &cmd, sizeof(cmd), 0), 0);
	assert_int_equal(s->cm->req.in, sizeof(cmd) + 100);
	assert_memory_equal(s->cm->body + sizeof(cmd), value, 100);
	cmd.optlen = UROCE_CM_MAX_BODY;
	assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_SET_OPTION, &cmd, sizeof(cmd), 0), EINVAL);
	cmd.optlen = UINT32_MAX;
	assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_SET_OPTION, &cmd, sizeof(cmd), 0), EINVAL);
	cmd.optlen = 4;
	cmd.optval = 0;
	assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_SET_OPTION, &cmd, sizeof(cmd), 0), EFAULT);
}

REQUIREMENT("CM-12")
CM_TEST(wrong_sizes_are_refused)
{
	struct state *s = *state;
	uint8_t buf[4096] = {0};
	struct rdma_ucm_cmd_hdr hdr = {.cmd = RDMA_USER_CM_CMD_DISCONNECT, .in = 4};
	struct rdma_ucm_create_id create = {0};
	uint32_t commands = s->cm->commands;

	for (size_t len = 0; len < sizeof(hdr) + 4; len++) {
		memcpy(buf, &hdr, sizeof(hdr));
		assert_int_equal(prov_cm_write(s->fd, buf, len), -1);
		assert_int_equal(errno, EINVAL);
	}
	hdr.in = UROCE_CM_MAX_BODY + 1;
	memcpy(buf, &hdr, sizeof(hdr));
	assert_int_equal(prov_cm_write(s->fd, buf, sizeof(buf)), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), 4),
			 EFAULT);
	assert_int_equal(s->cm->commands, commands);
	/* What fits is the daemon's to judge: an unknown command, one without a body. */
	assert_int_equal(cm_run(s->fd, 1000, buf, 0, 0), 0);
	assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_CREATE_ID, &create, 3, 4), 0);
	assert_int_equal(s->cm->commands, commands + 2);
}

REQUIREMENT("CM-12")
CM_TEST(a_migration_names_the_other_channel)
{
	struct state *s = *state;
	struct rdma_ucm_migrate_resp resp = {.events_reported = 99};
	struct rdma_ucm_migrate_id cmd = {.response = (uintptr_t)&resp, .id = 1};
	int other = prov_cm_open(O_RDWR), copy = dup(s->fd);

	cmd.fd = (uint32_t)copy;
	assert_int_equal(cm_run(other, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd), 4), 0);
	assert_int_equal(resp.events_reported, 1); /* the fake's number of the first channel */
	cmd.fd = (uint32_t)s->f->seg_fd;
	assert_int_equal(cm_run(other, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd), 4), EINVAL);
	close(copy);
	cmd.fd = (uint32_t)copy;
	assert_int_equal(cm_run(other, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd), 4), EBADF);
	prov_cm_close(other);
}

CM_TEST(a_channel_is_readable_while_events_wait)
{
	struct state *s = *state;
	uint64_t uid;

	nonblocking(s->fd);
	assert_int_equal(get_event(s->fd, &uid), EAGAIN);
	assert_int_equal(poll_now(s->fd), 0);
	for (unsigned int i = 0; i < 3; i++)
		fake_cm_events(s->cm, 1);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(poll_now(s->fd), POLLIN);
		assert_int_equal(get_event(s->fd, &uid), 0);
		assert_int_equal(uid, i + 1);
	}
	assert_int_equal(poll_now(s->fd), 0);
	assert_int_equal(get_event(s->fd, &uid), EAGAIN);
	fake_cm_events(s->cm, 1);
	assert_int_equal(poll_now(s->fd), POLLIN);
	assert_int_equal(get_event(s->fd, &uid), 0);
	assert_int_equal(poll_now(s->fd), 0);
}

/* A GET_EVENT that is too small is refused, and does not wait. */
CM_TEST(a_short_get_event_does_not_wait)
{
	struct state *s = *state;
	struct rdma_ucm_event_resp resp;
	struct rdma_ucm_get_event cmd = {.response = (uintptr_t)&resp};

	s->cm->refuse = ENOSPC;
	assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), 20), ENOSPC);
	s->cm->refuse = EINVAL;
	assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_GET_EVENT, &cmd, 4, sizeof(resp)), EINVAL);
}

/* A thread that takes one event. */
struct taker {
	int fd, rc;
	pid_t tid; /* atomic; 0: it has not begun */
	uint64_t uid;
	pthread_t thread;
};

static void *
taker_main(void *arg)
{
	struct taker *t = arg;

	__atomic_store_n(&t->tid, gettid(), __ATOMIC_RELEASE);
	t->rc = get_event(t->fd, &t->uid);
	return NULL;
}

/* Returns when the thread sleeps, which it does only while it waits for an event. */
static void
taker_await_sleep(struct taker *t)
{
	assert_true(COMES_TRUE(({
		pid_t tid = __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE);

		tid != 0 && thread_sleeps(tid);
	})));
}

static void
taker_start(struct taker *t, int fd)
{
	*t = (struct taker){.fd = fd, .rc = -1};
	assert_int_equal(pthread_create(&t->thread, NULL, taker_main, t), 0);
	taker_await_sleep(t);
}

CM_TEST(get_event_waits_and_commands_go_on)
{
	struct state *s = *state;
	struct taker t[3];
	uint64_t seen = 0;
	uint32_t id;

	for (unsigned int i = 0; i < 3; i++)
		taker_start(&t[i], s->fd);
	assert_int_equal(create_id(s->fd, 9, &id), 0);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(t[i].rc, -1);
	/* three events, but one token */
	fake_cm_events(s->cm, 3);
	for (unsigned int i = 0; i < 3; i++) {
		pthread_join(t[i].thread, NULL);
		assert_int_equal(t[i].rc, 0);
		seen |= 1ull << t[i].uid;
	}
	assert_int_equal(seen, 0xe);
	assert_int_equal(poll_now(s->fd), 0);
}

static unsigned int signals; /* atomic */

static void
count_signal(int sig)
{
	(void)sig;
	__atomic_add_fetch(&signals, 1, __ATOMIC_RELEASE);
}

REQUIREMENT("CM-12")
CM_TEST(a_signal_interrupts_the_wait_unless_calls_restart)
{
	struct state *s = *state;
	struct sigaction sa = {.sa_handler = count_signal};
	struct taker t;

	sigaction(SIGUSR1, &sa, NULL);
	taker_start(&t, s->fd);
	pthread_kill(t.thread, SIGUSR1);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.rc, EINTR);

	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	taker_start(&t, s->fd);
	signals = 0;
	pthread_kill(t.thread, SIGUSR1);
	assert_true(COMES_TRUE(__atomic_load_n(&signals, __ATOMIC_ACQUIRE) != 0));
	taker_await_sleep(&t);
	assert_int_equal(t.rc, -1);
	fake_cm_events(s->cm, 1);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.rc, 0);
}

CM_TEST(a_thread_that_waits_can_be_cancelled)
{
	struct state *s = *state;
	struct taker t;
	uint32_t id;
	void *how;

	taker_start(&t, s->fd);
	pthread_cancel(t.thread);
	pthread_join(t.thread, &how);
	assert_ptr_equal(how, PTHREAD_CANCELED);
	assert_int_equal(create_id(s->fd, 9, &id), 0);
}

REQUIREMENT("CM-12")
CM_TEST(copies_of_a_descriptor_are_the_same_channel)
{
	struct state *s = *state;
	int copy = dup(s->fd), number = s->fd;
	uint32_t id;

	assert_int_equal(prov_cm_close(s->fd), 0);
	assert_int_equal(create_id(copy, 9, &id), 0);
	/* the number now means another file */
	s->fd = copy;
	assert_int_equal(dup2(s->f->seg_fd, number), number);
	assert_int_equal(prov_cm_write(number, "x", 1), 1);
	assert_int_equal(create_id(copy, 10, &id), 0);
	assert_int_equal(id, 10);
	close(number);
	assert_false(s->cm->ended);
}

CM_TEST(the_last_close_ends_the_channel)
{
	struct state *s = *state;
	int fd[FAKE_CMS];

	for (unsigned int i = 1; i < FAKE_CMS; i++) {
		fd[i] = prov_cm_open(O_RDWR);
		assert_true(fd[i] >= 0);
	}
	assert_int_equal(prov_cm_count(), FAKE_CMS);
	for (unsigned int i = 1; i < FAKE_CMS; i++) {
		/* of some libc's close, which no hook sees */
		assert_int_equal(i % 2 ? close(fd[i]) : prov_cm_close(fd[i]), 0);
		assert_true(fake_cm_ended(&s->f->cm[i]));
	}
	for (unsigned int i = 0; i < 1024; i++)
		prov_cm_close(-1);
	assert_int_equal(prov_cm_count(), 1);
}

/* Runs commands that return what they were given; the exit status says whether all did. */
static int
many_commands(int fd, uint32_t first)
{
	for (uint32_t i = first; i < first + 2000; i++) {
		uint32_t id;

		if (create_id(fd, i, &id) || id != i)
			return 1;
	}
	return 0;
}

REQUIREMENT("CM-12")
CM_TEST(a_child_shares_its_parents_channels)
{
	struct state *s = *state;
	pid_t child[2];
	int status;

	for (unsigned int i = 0; i < 2; i++) {
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i] == 0)
			_exit(many_commands(s->fd, 10000 * (i + 1)));
	}
	assert_int_equal(many_commands(s->fd, 30000), 0);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(waitpid(child[i], &status, 0), child[i]);
		assert_int_equal(status, 0);
	}
	assert_false(s->cm->ended);
}

REQUIREMENT("CM-12")
CM_TEST(a_channel_lives_until_the_child_closes_it)
{
	struct state *s = *state;
	int go[2], status;
	pid_t child;
	char c;

	assert_int_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		uint32_t id;

		close(go[1]);
		(void)!read(go[0], &c, 1);
		_exit(create_id(s->fd, 4, &id) || id != 4);
	}
	prov_cm_close(s->fd); /* the child's command comes after this */
	close(go[0]);
	close(go[1]);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_true(fake_cm_ended(s->cm));
	s->fd = prov_cm_open(O_RDWR);
}

CM_TEST(a_child_killed_in_a_command_does_not_block_its_parent)
{
	struct state *s = *state;
	uint32_t id, commands = s->cm->commands;
	pid_t child;

	s->cm->wrong = FAKE_CM_SILENT;
	child = fork();
	if (child == 0)
		_exit(create_id(s->fd, 1, &id));
	assert_true(COMES_TRUE(__atomic_load_n(&s->cm->commands, __ATOMIC_RELAXED) != commands));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	s->cm->wrong = FAKE_CM_RIGHT;
	assert_int_equal(create_id(s->fd, 2, &id), EIO);
	assert_int_equal(create_id(s->fd, 2, &id), EIO);
}

REQUIREMENT("CM-12")
CM_TEST(a_daemon_that_dies_ends_waits_and_commands)
{
	struct state *s = *state;
	struct taker t;
	uint64_t uid;
	uint32_t id;

	taker_start(&t, s->fd);
	fake_cm_die(s->cm);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.rc, EIO);
	assert_int_equal(create_id(s->fd, 1, &id), EIO);
	assert_int_equal(get_event(s->fd, &uid), EIO);
	assert_int_equal(poll_now(s->fd), POLLIN | POLLHUP);
	nonblocking(s->fd);
	assert_int_equal(get_event(s->fd, &uid), EIO);
}

CM_TEST(a_daemon_that_dies_in_a_command_fails_it)
{
	struct state *s = *state;
	struct taker t;
	uint32_t commands = s->cm->commands;

	s->cm->wrong = FAKE_CM_SILENT;
	fake_cm_events(s->cm, 1);
	taker_start(&t, s->fd);
	assert_true(COMES_TRUE(__atomic_load_n(&s->cm->commands, __ATOMIC_RELAXED) != commands));
	fake_cm_die(s->cm);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.rc, EIO);
}

CM_TEST(wrong_replies_end_the_channel)
{
	static const enum fake_cm_wrong wrong[] = {FAKE_CM_SHORT, FAKE_CM_LESS, FAKE_CM_TOO_LONG,
						   FAKE_CM_COOKIE, FAKE_CM_BYTES_OF_REFUSAL};
	struct state *s = *state;

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int fd = prov_cm_open(O_RDWR);
		uint32_t id;

		s->f->cm[i + 1].wrong = wrong[i];
		assert_int_equal(create_id(fd, 1, &id), EIO);
		assert_int_equal(id, 0xdead);
		s->f->cm[i + 1].wrong = FAKE_CM_RIGHT;
		assert_int_equal(create_id(fd, 1, &id), EIO);
		prov_cm_close(fd);
	}
}

CM_TEST(a_refused_open_returns_the_daemons_error)
{
	static const int errors[] = {ENOMEM, EMFILE, EOPNOTSUPP};
	struct state *s = *state;
	struct rlimit old, few;

	s->f->refuse_why = "the test says so";
	for (unsigned int i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		s->f->refuse[UROCE_CTRL_CM_OPEN] = (uint32_t)errors[i];
		assert_int_equal(prov_cm_open(O_RDWR), -1);
		assert_int_equal(errno, errors[i]);
	}
	getrlimit(RLIMIT_NOFILE, &old);
	few = old;
	few.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &few);
	assert_int_equal(prov_cm_open(O_RDWR), -1);
	assert_int_equal(errno, EMFILE);
	setrlimit(RLIMIT_NOFILE, &old);
	setenv(UROCE_SOCK_ENV, "/nonexistent", 1);
	assert_int_equal(prov_cm_open(O_RDWR), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(prov_cm_count(), 1);
}
