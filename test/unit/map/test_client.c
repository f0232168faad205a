/* SPDX-License-Identifier: BSD-3-Clause */
/* Which processes are still the client (mrmap_client_is). The test needs root. */
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "map/mrmap.h"
#include "../../kit/unit.h"

#define UID 4242

/* A process of uid, until it is killed. */
static struct mrmap_client
client_start(uid_t uid)
{
	struct mrmap_client c = {.uid = uid, .mem.fd = -1};
	int ready[2];
	char byte;

	assert_return_code(pipe(ready), 0);
	c.pid = fork();
	if (c.pid == 0) {
		/* A change of the uid makes a process undumpable, and its /proc/PID/mem root's. */
		if (setresuid(uid, uid, uid) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0 ||
		    prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	c.pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0);
	assert_return_code(c.pidfd, 0);
	return c;
}

static void
client_end(struct mrmap_client *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->pidfd);
}

/* This process may signal processes of others, or not. */
static void
may_kill(bool may)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct cap[2];
	uint32_t bit = 1u << CAP_KILL;

	assert_return_code(syscall(SYS_capget, &head, cap), 0);
	cap[0].effective = may ? cap[0].effective | bit : cap[0].effective & ~bit;
	assert_return_code(syscall(SYS_capset, &head, cap), 0);
}

UNIT_TEST(process_of_the_uid_is_the_client_until_it_ends)
{
	struct mrmap_client c = client_start(UID), other = c;

	assert_true(mrmap_client_is(&c));
	other.uid = UID + 1;
	assert_false(mrmap_client_is(&other));
	kill(c.pid, SIGKILL);
	waitpid(c.pid, NULL, 0);
	assert_false(mrmap_client_is(&c));
	close(c.pidfd);
}

/* Its pid may be another process's by now: only the descriptor tells. */
UNIT_TEST(ended_process_is_not_the_client_if_its_pid_lives_on)
{
	struct mrmap_client c = client_start(UID), ended = client_start(UID);
	pid_t pid = ended.pid;

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ended.pid = c.pid;
	assert_false(mrmap_client_is(&ended));
	close(ended.pidfd);
	client_end(&c);
}

/* A broker without CAP_KILL. */
UNIT_TEST(client_that_may_not_be_signalled_is_alive)
{
	struct mrmap_client c = client_start(UID);
	bool is;

	may_kill(false);
	is = mrmap_client_is(&c);
	may_kill(true);
	assert_true(is);
	client_end(&c);
}

int
main(void)
{
	if (geteuid() != 0)
		return 77;
	return unit_run();
}
