/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/memif.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rte_alarm.h>

struct call {
	int (*fn)(uint16_t id);
	uint16_t id;
	int rc;
	bool done;
};

static void
run(void *arg)
{
	struct call *c = arg;

	c->rc = c->fn(c->id);
	__atomic_store_n(&c->done, true, __ATOMIC_RELEASE);
}

int
port_memif_call(uint16_t id, int (*fn)(uint16_t id))
{
	struct call c = {.fn = fn, .id = id};

	if (rte_eal_alarm_set(1, run, &c) != 0) /* alarms run on the interrupt thread */
		return fn(id);
	for (int i = 0; i < 50000 && !__atomic_load_n(&c.done, __ATOMIC_ACQUIRE); i++)
		usleep(100);
	/* Timeout: cancel the call if it has not begun. If it has, rte_eal_alarm_cancel waits. */
	if (!__atomic_load_n(&c.done, __ATOMIC_ACQUIRE) && rte_eal_alarm_cancel(run, &c) > 0)
		return fn(id);
	return c.rc;
}

/*
 * Replaces the C library's sendmsg for the whole process, because a memif server of DPDK 22.11
 * panics if a client has ended before it is accepted: the driver cannot send its first message,
 * closes the descriptor, but does not unregister it from the interrupt thread, which then cannot
 * poll it. If a send of this driver fails because the peer is gone, it counts as sent; the driver
 * then reads the end of the connection and closes it properly.
 */
__attribute__((visibility("default"))) ssize_t
sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t rc = syscall(SYS_sendmsg, fd, msg, flags);
	int failed = errno;
	Dl_info caller;

	if (rc >= 0)
		return rc;
	if ((failed == EPIPE || failed == ECONNRESET) &&
	    dladdr(__builtin_return_address(0), &caller) != 0 &&
	    strstr(caller.dli_fname, "rte_net_memif") != NULL) {
		rc = 0;
		for (size_t i = 0; i < msg->msg_iovlen; i++)
			rc += (ssize_t)msg->msg_iov[i].iov_len;
	}
	errno = failed;
	return rc;
}
