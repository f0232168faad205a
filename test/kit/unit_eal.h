/* SPDX-License-Identifier: BSD-3-Clause */
/* EAL for unit tests: ordinary pages, no device of the machine, many programs side by side. */
#ifndef KIT_UNIT_EAL_H
#define KIT_UNIT_EAL_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

/* The first CPU that this process may use: a container may have others than CPU 0. */
static inline int
unit_eal_cpu(void)
{
	cpu_set_t set;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &set))
			cpu++;
	return cpu;
}

/*
 * lcores (NULL: one), and the level from which on it logs, as EAL's options have them; n virtual
 * devices.
 */
static inline int
unit_eal_with(const char *lcores, const char *level, const char *const *vdev, unsigned n)
{
	static char options[3][96];
	char *argv[32] = {"unit", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
			  "-m",   "64",        options[0], options[1],    options[2]};
	int argc = 10;

	snprintf(options[0], sizeof(options[0]), "--file-prefix=unit-%d", getpid());
	if (lcores != NULL)
		snprintf(options[1], sizeof(options[1]), "--lcores=%s", lcores);
	else
		snprintf(options[1], sizeof(options[1]), "--lcores=0@%d", unit_eal_cpu());
	snprintf(options[2], sizeof(options[2]), "--log-level=%s", level);
	for (unsigned i = 0; i < n; i++) {
		argv[argc++] = "--vdev";
		argv[argc++] = (char *)(uintptr_t)vdev[i];
	}
	return rte_eal_init(argc, argv);
}

/* Starts EAL on one lcore. Returns a pool of n mbufs with room bytes each, or NULL. */
static inline struct rte_mempool *
unit_eal_pool(unsigned n, uint16_t room)
{
	if (unit_eal_with(NULL, "error", NULL, 0) < 0)
		return NULL;
	return rte_pktmbuf_pool_create("unit", n, 0, 0, room + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
}

#endif
