/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_errno.h>
#include "../kit/unit_eal.h"
#include "eal.h"

/* Each schedule makes its world anew, of tables of megabytes. glibc would return them to the kernel
 * after each schedule, whose page faults then cost more than the schedule itself. */
static void
eal_keep_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

void
sim_eal_open(const char *program, const char *megabytes)
{
	char name[32], size[16], prefix[64], lcores[32];
	char *argv[] = {name,
			"--no-huge",
			"--no-pci",
			"-m",
			size,
			"--no-telemetry",
			"--log-level=error",
			"--no-shconf",
			lcores,
			"--file-prefix",
			prefix,
			NULL};
	cpu_set_t cpus;

	eal_keep_memory();
	snprintf(name, sizeof(name), "%s", program);
	snprintf(size, sizeof(size), "%s", megabytes);
	snprintf(prefix, sizeof(prefix), "%s-%d", program, (int)getpid());
	sched_getaffinity(0, sizeof(cpus), &cpus);
	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", unit_eal_cpu());
	if (rte_eal_init((int)RTE_DIM(argv) - 1, argv) < 0) {
		fprintf(stderr, "%s: EAL: %s\n", program, rte_strerror(rte_errno));
		exit(2);
	}
	/* The EAL pins us to one core; unpinned simulators share the cores better. */
	sched_setaffinity(0, sizeof(cpus), &cpus);
}
