/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <rte_ethdev.h>
#include "port/guard.h"

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
