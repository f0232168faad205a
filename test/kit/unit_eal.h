/* SPDX-License-Identifier: BSD-3-Clause */
/* EAL for unit tests: ordinary pages, no device of the machine, many programs side by side. */
#ifndef KIT_UNIT_EAL_H
#define KIT_UNIT_EAL_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

/* lcores, and the level from which on it logs, as EAL's options have them; n virtual devices. */
static inline int
unit_eal_with(const char *lcores, const char *level, const char *const *vdev, unsigned n)
{
	static char options[3][96];
	char *argv[32] = {"unit", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
			  "-m",   "64",        options[0], options[1],    options[2]};
	int argc = 10;

	snprintf(options[0], sizeof(options[0]), "--file-prefix=unit-%d", getpid());
	snprintf(options[1], sizeof(options[1]), "--lcores=%s", lcores);
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
	if (unit_eal_with("0", "error", NULL, 0) < 0)
		return NULL;
	return rte_pktmbuf_pool_create("unit", n, 0, 0, room + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
}

#endif
