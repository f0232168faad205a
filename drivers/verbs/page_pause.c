/* SPDX-License-Identifier: BSD-3-Clause */
#include "page_pause.h"

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "ipc/client.h"

#define PAUSE_BURST 64u /* registrations that may stop threads, .. */
#define PAUSE_RATE  8u  /* .. and those that follow, a second */
#define PAUSE_FAILS 16u /* a pause that fails costs as much: threads have stopped in vain */
#define MS(n)       ((n)*1000u / PAUSE_RATE)
#define MARGIN_MS   1000u

static struct ipc_client peer = {.sock = -1};
static uint64_t until_ms; /* the daemon ends the pause then */
static uint64_t whole_ms; /* time when all of the burst may be used again */
static int never;         /* the daemon will not stop threads of this process: -errno */

static uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool
page_pause_may(void)
{
	return never == 0;
}

bool
page_pause_take(void)
{
	uint64_t now = now_ms();

	if (whole_ms < now)
		whole_ms = now;
	if (whole_ms - now > MS(PAUSE_BURST - 1))
		return false;
	whole_ms += MS(1);
	return true;
}

void
page_pause_permit(int sock)
{
	static pid_t named, by; /* a child does not inherit what its parent has named */
	struct ucred cred;
	socklen_t len = sizeof(cred);
	pid_t self = getpid();

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.pid <= 0)
		return;
	if (__atomic_exchange_n(&named, cred.pid, __ATOMIC_RELAXED) == cred.pid &&
	    __atomic_exchange_n(&by, self, __ATOMIC_RELAXED) == self)
		return;
	__atomic_store_n(&by, self, __ATOMIC_RELAXED);
	prctl(PR_SET_PTRACER, (unsigned long)cred.pid, 0, 0, 0);
}

int
page_pause_open(void)
{
	int fds[UROCE_HELLO_FDS];
	struct uroce_hello_rep hello;
	unsigned int nfds = 0;
	int rc = ipc_client_connect(&peer, NULL);

	if (rc != 0)
		return rc;
	rc = ipc_client_hello(&peer, "", &hello, fds, &nfds, NULL);
	while (nfds != 0)
		close(fds[--nfds]);
	if (rc == 0)
		page_pause_permit(peer.sock);
	return rc;
}

void
page_pause_close(void)
{
	ipc_client_close(&peer);
}

int
page_pause_begin(void)
{
	struct uroce_pause_threads_req req = {.tid = (uint32_t)syscall(SYS_gettid)};
	struct ipc_call call = {.op = UROCE_CTRL_PAUSE_THREADS,
				.req = &req,
				.req_len = sizeof(req)};
	int rc = ipc_client_call(&peer, &call);

	if (rc == -EOPNOTSUPP)
		never = rc; /* a daemon without this operation */
	if (rc == -EBUSY)
		whole_ms += MS(PAUSE_FAILS);
	until_ms = now_ms() + UROCE_PAUSE_MS - MARGIN_MS;
	return rc;
}

void
page_pause_end(void)
{
	struct ipc_call call = {.op = UROCE_CTRL_RESUME_THREADS};

	/* If the connection has ended, so has the pause. */
	(void)ipc_client_call(&peer, &call);
}

bool
page_pause_lasts(void)
{
	return now_ms() < until_ms;
}
