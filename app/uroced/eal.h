/* SPDX-License-Identifier: BSD-3-Clause */
/* EAL's arguments, made from the daemon's options, and the CPU of each thread. */
#ifndef UROCED_EAL_H
#define UROCED_EAL_H

#include <stdbool.h>
#include <uroce_abi/ctrl.h>
#include "options.h"

struct eal_plan {
	bool huge;         /* start with huge pages */
	bool shared_cores; /* workers share CPUs with other threads: they are not pinned, and they
			      yield */
	unsigned lcore[UROCE_MAX_WORKERS]; /* EAL lcore of each worker */
};

/* Choose pages and CPUs. Logs each fallback. 0, or -errno with the reason logged. */
int eal_plan_make(struct eal_plan *plan, const struct options *o);

/*
 * Call rte_eal_init as planned, once in a process. 0, or -errno with the reason logged. -ERESTART:
 * the huge pages that were free cannot be used, because another process took them meanwhile or a
 * cgroup limits them; the program must be started again with --no-huge.
 */
int eal_start(struct eal_plan *plan, const struct options *o);

#endif
