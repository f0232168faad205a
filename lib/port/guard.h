/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bursts that survive the loss of the port's memory. When a memif's peer dies, EAL's interrupt
 * thread unmaps the rings at once, even if a worker is in the middle of a burst. The worker's
 * access then faults, and the burst ends.
 */
#ifndef PORT_GUARD_H
#define PORT_GUARD_H

#include <stdint.h>
#include <rte_mbuf.h>

/*
 * Control thread. Install a process-wide SIGSEGV handler. Faults outside of these bursts go to the
 * previous handler. Repeated calls do no harm. Returns 0 or -errno.
 */
int port_guard_install(void);

/*
 * As port_rx_burst and port_tx_burst. If the burst faults, receive returns the frames received
 * completely, and send reports all as sent. Buffers that the driver held are lost: at most one
 * burst each time that a peer dies.
 */
uint16_t port_rx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t port_tx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

#endif
