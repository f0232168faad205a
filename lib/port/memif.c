/* SPDX-License-Identifier: BSD-3-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rte_alarm.h>
#include <rte_ethdev.h>
#include "port/ethdev.h"

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

/* Where this thread's burst continues after a fault; NULL outside of bursts. */
static __thread sigjmp_buf *volatile recover;

static struct sigaction before;

static void
on_fault(int sig, siginfo_t *info, void *context)
{
	sigjmp_buf *where = recover;

	/* raised by the kernel for an access, not sent by kill(2) */
	if (where != NULL && info->si_code > 0) {
		recover = NULL;
		siglongjmp(*where, 1);
	}
	/* Repeat the access or raise the signal again, with the previous handler. */
	sigaction(sig, &before, NULL);
	if (info->si_code <= 0)
		raise(sig);
}

int
port_guard_install(void)
{
	/* NODEFER, because the jump out of the handler does not restore the signal mask. */
	struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct sigaction now;

	if (sigaction(SIGSEGV, NULL, &now) != 0)
		return -errno;
	if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)
		return 0;
	before = now;
	return sigaction(SIGSEGV, &sa, NULL) == 0 ? 0 : -errno;
}

/* Counts received frames. The driver stores a frame's address once the frame is complete. */
static uint16_t
leading(struct rte_mbuf *const *m, uint16_t n)
{
	uint16_t i = 0;

	while (i < n && m[i] != NULL)
		i++;
	return i;
}

uint16_t
port_rx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	struct rte_mbuf **volatile frames = m; /* volatile: outlives the jump */
	volatile uint16_t max = n;
	sigjmp_buf here;
	uint16_t got;

	memset(m, 0, n * sizeof(*m));
	if (sigsetjmp(here, 0) != 0)
		return leading(frames, max);
	recover = &here;
	got = rte_eth_rx_burst(port, queue, m, n);
	recover = NULL;
	return got;
}

uint16_t
port_tx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	volatile uint16_t all = n; /* volatile: outlives the jump */
	sigjmp_buf here;
	uint16_t sent;

	/* Which of them the driver had freed by then is unknown: leak the rest. */
	if (sigsetjmp(here, 0) != 0)
		return all;
	recover = &here;
	sent = rte_eth_tx_burst(port, queue, m, n);
	recover = NULL;
	return sent;
}
