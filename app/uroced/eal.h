/* SPDX-License-Identifier: BSD-3-Clause */
/* EAL's arguments, made from our options, and which CPU each thread gets. */
#ifndef UROCED_EAL_H
#define UROCED_EAL_H

#include <stdbool.h>
#include <uroce_abi/ctrl.h>
#include "options.h"

struct eal_plan {
	bool huge;         /* start with huge pages */
	bool shared_cores; /* workers share CPUs with others: they are not pinned, and yield */
	unsigned lcore[UROCE_MAX_WORKERS]; /* EAL lcore of each worker */
};

/* Decide. Logs what it falls back to. 0, or -errno with the reason logged. */
int eal_plan_make(struct eal_plan *plan, const struct options *o);

/* rte_eal_init by the plan; once in a process. 0, or -errno with the reason logged. */
int eal_start(struct eal_plan *plan, const struct options *o);

#endif
