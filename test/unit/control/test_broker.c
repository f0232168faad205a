/* SPDX-License-Identifier: BSD-3-Clause */
/* What the control thread does with descriptors that the broker sends: this program is the broker.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "control/broker.h"
#include "control/daemon.h"
#include "control/loop.h"
#include "ipc/broker_parts.h"
#include "fake.h"
#include "../../kit/close_huge.h"
#include "../../kit/unit.h"

static int theirs; /* the broker's end */

int
broker_starter_fork(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int
broker_starter_connect(const char *path)
{
	return -ENOENT;
}

int
starter_ask(int starter, const char *arg, int chan, pid_t *pid)
{
	theirs = dup(chan);
	*pid = 0;
	return theirs < 0 ? -errno : 0;
}

static int result = 1; /* of the last look-up */

static void
on_found(struct session *s, struct ipc_msg *m, int refusal, const struct mrmap_found *found,
	 const int *fds)
{
	result = found->err;
}

static void
on_refused(unsigned call)
{
}

/* Sends a descriptor with a response to a look-up that is over. */
static void
respond(int fd)
{
	static const struct broker_msg m = {.says = BROKER_FOUND,
					    .job = UINT64_MAX,
					    .found.nfds = 1};

	assert_int_equal(broker_put(theirs, &m, sizeof(m), &fd, 1, 0), sizeof(m));
}

/* The client may have closed its huge file meanwhile. The last close frees all pages. */
UNIT_TEST(a_huge_file_is_closed_by_another_thread)
{
	static const struct control_config cfg;
	static struct daemon d = {.cfg = &cfg};
	int fd = memfd_create("huge", MFD_CLOEXEC), given;

	assert_return_code(ftruncate(fd, HUGE), errno);
	assert_int_equal(loop_init(&d.loop), 0);
	assert_int_equal(broker_open(&d, on_found, on_refused, "test"), 0);
	respond(fd);
	given = dup(fd); /* the descriptor that the daemon gets is the next one */
	syscall(SYS_close, given);
	self = pthread_self();
	d.broker.w.ready(&d.broker.w, EPOLLIN);
	assert_int_equal(dropped, 0);
	while (fcntl(given, F_GETFD) >= 0)
		sched_yield();
	broker_close(&d);
	loop_close(&d.loop);
	syscall(SYS_close, theirs);
	syscall(SYS_close, fd);
}

/*
 * The control thread gets no CPU time for a while, and both the limit and the response are there
 * when it runs again: the response counts, whichever event comes first.
 */
UNIT_TEST(response_counts_although_the_limit_has_passed)
{
	static const struct control_config cfg;
	static struct quota_user user = {.privileged = true};
	static struct daemon d = {.cfg = &cfg};
	static struct session s = {.d = &d, .user = &user};
	static struct ipc_msg m;
	struct broker_msg found = {.says = BROKER_FOUND};

	assert_int_equal(loop_init(&d.loop), 0);
	assert_int_equal(broker_open(&d, on_found, on_refused, "test"), 0);
	fake_clock_start();
	for (unsigned responds = 0; responds < 2; responds++) {
		const struct itimerspec past = {.it_value.tv_nsec = 1};

		m.hdr.op = UROCE_CTRL_DEALLOC_PD; /* any without memory */
		assert_int_equal(broker_find(&s, &m, false, 0), 0);
		found.job = d.broker.last_job;
		if (responds)
			assert_int_equal(broker_put(theirs, &found, sizeof(found), NULL, 0, 0),
					 sizeof(found));
		fake_now_ns += 3ull * NS_PER_S;
		assert_int_equal(timerfd_settime(d.broker.timer.fd, TFD_TIMER_ABSTIME, &past, NULL),
				 0);
		d.broker.timer.ready(&d.broker.timer, EPOLLIN);
		assert_int_equal(result, responds ? 0 : -ETIMEDOUT);
	}
	broker_close(&d);
	loop_close(&d.loop);
	syscall(SYS_close, theirs);
}
