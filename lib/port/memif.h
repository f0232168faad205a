/* SPDX-License-Identifier: BSD-3-Clause */
/* Workarounds for DPDK's memif driver, which can crash when a peer connects or leaves. */
#ifndef PORT_MEMIF_H
#define PORT_MEMIF_H

#include <stdint.h>

/*
 * Call fn (rte_eth_dev_start, _stop or _close) for the memif id on EAL's interrupt thread, and wait
 * until it returns. The driver connects and disconnects on that thread. A concurrent call on
 * another thread would free memory that it uses and close descriptors that it polls. Control
 * thread. Returns fn's result.
 */
int port_memif_call(uint16_t id, int (*fn)(uint16_t id));

#endif
