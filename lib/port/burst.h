/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bursts over a queue of a started ethdev port: the only ethdev calls of the data path. For the
 * thread that owns the queue only. A worker uses port/queue.h, which knows
 * the other kinds of ports, too.
 */
#ifndef PORT_BURST_H
#define PORT_BURST_H

#include <stdbool.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

/*
 * Drivers are in DPDK's libraries, where ThreadSanitizer sees nothing: that a frame of net_ring
 * was sent before it was received is said here.
 */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define PORT_TSAN(what, m, n)                                                                      \
	do {                                                                                       \
		for (uint16_t i_ = 0; i_ < (n); i_++)                                              \
			__tsan_##what((m)[i_]);                                                    \
	} while (0)
#else
#define PORT_TSAN(what, m, n) (void)0
#endif

/* Up to n frames that arrived; the caller owns them. m->port is not to be relied upon (net_ring).
 */
static inline uint16_t
port_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	uint16_t got = rte_eth_rx_burst(port, queue, m, n);

	PORT_TSAN(acquire, m, got);
	return got;
}

/* May frames of the queue be held back by a callback (drivers/impair)? */
static inline bool
port_rx_hooked(uint16_t port, uint16_t queue)
{
	return __atomic_load_n(&rte_eth_fp_ops[port].rxq.clbk[queue], __ATOMIC_RELAXED) != NULL;
}

/* Send m[0 .. n) in order. Returns how many the port took; the rest stay the caller's. */
static inline uint16_t
port_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	PORT_TSAN(release, m, n);
	return rte_eth_tx_burst(port, queue, m, n);
}

#endif
