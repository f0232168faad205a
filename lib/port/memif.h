/* SPDX-License-Identifier: BSD-3-Clause */
/* What DPDK's memif driver needs so that a peer that comes or goes cannot crash the process. */
#ifndef PORT_MEMIF_H
#define PORT_MEMIF_H

#include <stdint.h>

/*
 * Call fn (rte_eth_dev_start, _stop or _close) for the memif id on EAL's interrupt thread, and wait
 * until it returns. The driver connects and disconnects on that thread; a call on another thread
 * meanwhile would free what it uses and close descriptors that it polls. Control thread. Returns
 * what fn returns.
 */
int port_memif_call(uint16_t id, int (*fn)(uint16_t id));

#endif
