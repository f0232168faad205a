/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bursts over a queue of a started ethdev port: the only ethdev calls of the data path. For the
 * thread that owns the queue only. A worker uses port/queue.h, which also handles the other kinds
 * of ports.
 */
#ifndef PORT_BURST_H
#define PORT_BURST_H

#include <stdbool.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

/*
 * DPDK's drivers are not instrumented for ThreadSanitizer. These annotations tell it that net_ring
 * sends a frame before receiving it.
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

/* Receives up to n frames, which the caller then owns. m->port is not reliable (net_ring). */
static inline uint16_t
port_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	uint16_t got = rte_eth_rx_burst(port, queue, m, n);

	PORT_TSAN(acquire, m, got);
	return got;
}

/* Returns true if the queue has a callback that may hold frames back (drivers/impair). */
static inline bool
port_rx_hooked(uint16_t port, uint16_t queue)
{
	return __atomic_load_n(&rte_eth_fp_ops[port].rxq.clbk[queue], __ATOMIC_RELAXED) != NULL;
}

/* Sends m[0 .. n) in order. Returns how many the port accepted; the caller keeps the rest. */
static inline uint16_t
port_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	PORT_TSAN(release, m, n);
	return rte_eth_tx_burst(port, queue, m, n);
}

#endif
