/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bursts that survive the port's memory going away under them. When a memif's peer dies, EAL's
 * interrupt thread unmaps the rings at once, whatever a worker is doing with them: one that was
 * preempted inside a burst would touch nothing but holes. These bursts end there instead.
 */
#ifndef PORT_GUARD_H
#define PORT_GUARD_H

#include <stdint.h>
#include <rte_mbuf.h>

/*
 * Control thread. Take SIGSEGV, process-wide: of faults outside these bursts the handler that was
 * there before hears as ever. Again is harmless. 0 or -errno.
 */
int port_guard_install(void);

/*
 * As port_rx_burst and port_tx_burst. When the burst faults, what was received whole is returned
 * and all that was to be sent is said to be sent; buffers that the driver had in hand are lost,
 * which is a burst of them at most for each time that a peer dies.
 */
uint16_t port_rx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t port_tx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

#endif
