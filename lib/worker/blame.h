/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose memory a worker waits for. A worker uses memory of its clients: rings, and regions that the
 * daemon has mapped. An access can fault, and the fault can wait for as long as the client likes: a
 * client may punch holes into its own file while it has mapped it thousands of times, or pages may
 * have to come from a swap device. All other clients of the worker wait, too.
 *
 * Workers note whom they serve (qp_env_serve); this is all that it costs them. A thread looks at
 * them every two milliseconds. If a worker has made no step since and the kernel says that it is
 * blocked (state D in /proc, where a thread that waits for a CPU is R), the time is charged to the
 * user that it serves. A user may make workers wait for a part of the time, BLAME_PART, and for
 * BLAME_BURST_NS at once. While it has exceeded that, it pauses: its QPs get no turns, its
 * doorbells are not read, and packets for its QPs are dropped, on all workers, so that no worker
 * touches its memory. A pause cannot end the wait that it is for, which lasts while there is one
 * hole after the other: from BLAME_RELEASE_NS on, the region that the worker waits for fails
 * (map/sigbus.h). Memory that the user registers within BLAME_DISTRUST_NS after it paused because
 * of holes is not mapped, but copied by threads of the broker (worker_trusts). Both are only for
 * waits at holes. Others may be nobody's fault, as for a swap device, or that of another user,
 * whose hole makes munmap wait while that holds a lock of the whole process.
 *
 * The control thread uses rings, too, and files of clients. It notes whose request it serves
 * (worker_control_serves), and is looked at in the same way.
 *
 * A worker that sends may wait for memory of any user whose frames refer to it. Payloads are then
 * copied for some time, in the turn of their QP, where it is known whose they are.
 *
 * Users share places (qp_user_place), so a user may pause for another one.
 */
#ifndef WORKER_BLAME_H
#define WORKER_BLAME_H

#include <stdbool.h>
#include <stdint.h>
#include <uroce_abi/hello.h>
#include "dpdk/compat.h"
#include "qp/bind.h"

#define BLAME_BURST_NS    20000000ll      /* for which workers may wait at once */
#define BLAME_PAUSE_NS    1000000000ll    /* shortest pause */
#define BLAME_DEBT_NS     300000000ll     /* no debt is larger: a pause of a minute */
#define BLAME_PART        200             /* of this part of the time, a user may make them wait */
#define BLAME_RELEASE_NS  100000000ull    /* the longest wait of one step, but for the last hole */
#define BLAME_DISTRUST_NS 3600000000000ll /* for which a user's memory is not mapped */
#define BLAME_COPIES_NS   10000000000ll   /* for which payloads are copied */

/* How long workers have waited for one user. */
struct blame_account {
	int64_t credit_ns; /* for which they may still wait; below 0: the user pauses */
	uint64_t at_ns;    /* of the last charge; 0: none */
};

/*
 * Charges a wait of blocked_ns that has been noticed at now_ns (> 0, not before the last call's).
 * Returns the time until which the user pauses; 0: it does not. Pure; one thread.
 */
uint64_t blame_charge(struct blame_account *a, uint64_t now_ns, uint64_t blocked_ns);

/* What all workers and the thread share. */
struct blame {
	struct dpdk_thread thread;
	bool started;
	int wake_fd;                          /* eventfd: stop or several has changed */
	uint32_t stop, several;               /* atomic */
	uint32_t gen;                         /* atomic: changes behind the following */
	uint64_t paused_until_ns[QP_USERS];   /* atomic; timer_now_ns, 0: not paused */
	uint64_t copies_until_ns;             /* atomic */
	uint64_t distrust_until_ns[QP_USERS]; /* atomic; 0: not distrusted */
	struct blame_account account[QP_USERS];
	int stat_fd[UROCE_MAX_WORKERS]; /* of each worker's /proc/self/task/TID/stat, or -1 */
	uint64_t looked_ns;
	/* the control thread: which, whom it serves (0: nobody) and since when; atomic */
	uint32_t control_tid;
	uint8_t control_serves;
	uint64_t control_since_ns;
	int control_fd; /* of its stat, or -1 */
};

#endif
