/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of an ethdev port, and what single drivers need. Private to lib/port. Control thread, but
 * for the guarded bursts.
 */
#ifndef PORT_ETHDEV_H
#define PORT_ETHDEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include "port/port.h"

/* ---- port.c: --vdev's arguments ---- */

/* Returns the number given for key in the device's arguments, or fallback if there is none. */
uint32_t port_devarg_number(const struct rte_eth_dev_info *info, const char *key,
			    uint32_t fallback);
/* Returns true if the arguments set key to this value. */
bool port_devarg_is(const struct rte_eth_dev_info *info, const char *key, const char *value);

/* ---- mtu.c ---- */

#define PORT_L2_BYTES 18 /* Ethernet header and a VLAN tag */

/*
 * Returns the MTU of p in bytes: the longest IP packet that it carries, at most want (0: no limit),
 * with mbufs of room bytes. p->name, driver and netdev are set. Returns 0 and logs why if the MTU
 * is too small for RoCE.
 */
uint32_t port_find_mtu(const struct port *p, const struct rte_eth_dev_info *info, uint32_t want,
		       uint32_t room);

/*
 * ---- memif.c: workarounds for DPDK's memif driver, which can crash when a peer connects or leaves
 */

/*
 * Call fn (rte_eth_dev_start, _stop or _close) for the memif id on EAL's interrupt thread, and wait
 * until it returns. The driver connects and disconnects on that thread. A concurrent call on
 * another thread would free memory that it uses and close descriptors that it polls. Control
 * thread. Returns fn's result.
 */
int port_memif_call(uint16_t id, int (*fn)(uint16_t id));

/*
 * Bursts that survive the loss of the port's memory. When a memif's peer dies, EAL's interrupt
 * thread unmaps the rings at once, even if a worker is in the middle of a burst. The worker's
 * access then faults, and the burst ends.
 */

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

/* ---- xdp.c: packet buffers that AF_XDP can use; an interface shared with the kernel ---- */

/*
 * Create a pool for p's queues that lies completely within the range that the driver will register
 * with the kernel as umem. The caller frees it. Returns NULL and logs it if there is no memory.
 */
struct rte_mempool *port_xdp_pool(const struct port *p);
/*
 * Explains a refused queue of pool: stores the reason and the remedy in why (room bytes) and
 * returns true if the pool is larger than this process may lock (RLIMIT_MEMLOCK, no CAP_IPC_LOCK).
 */
bool port_xdp_lock_limit(const struct rte_mempool *pool, char *why, size_t room);

/*
 * Returns 0 if a port with p's driver and queues can be shared. Otherwise logs the
 * reason and returns -EINVAL.
 */
int port_xdp_may_share(const struct port *p);
/*
 * Removes the program that a killed uroced left on p's interface, if there is one. Call
 * after port_udp_hold: then no uroced uses it.
 */
void port_xdp_remove_left(const struct port *p);
/*
 * Opens p->neigh_fd, which receives neighbours' replies on p's interface. p->netdev and mac are
 * set. port_close closes it. Returns 0, or -errno after logging the error.
 */
int port_xdp_neigh_open(struct port *p);

/*
 * ---- vf.c: a port that is a VF, a virtual function of a NIC (SR-IOV), whose PF may reset it, give
 * it another MAC or move it to a VLAN
 */

/* What the PF's kernel driver has set for a VF. */
struct port_vf_config {
	uint8_t mac[6];  /* all zero: not set */
	uint16_t vlan;   /* 0: none */
	uint32_t pf_ups; /* how often the PF's carrier came up; 0 if the kernel does not tell */
};

/* Starts to follow resets of an ethdev and, for a VF, its PF. The port has started. */
void port_vf_open(struct port *p);
void port_vf_close(const struct port *p);
/* Evaluates a poll of the link. up: its state now. changed: since the last poll. */
void port_vf_link(struct port *p, bool up, bool changed);
/*
 * Logs if the PF has changed MAC or VLAN of the VF, and what to do. Does nothing for other ports,
 * or if the PF is not an interface of this process's network namespace.
 */
void port_vf_look(struct port *p);
/*
 * Applies what the PF's kernel driver tells now: logs changes as above, and lets the port start
 * again if the PF has come up since the last call. A VF that starts while its PF is down gets no
 * answer to its reset, and its driver does not try again.
 */
void port_vf_follow(struct port *p, const struct port_vf_config *c);
/* Returns true if the driver reported that the device must be reset. */
bool port_vf_must_reset(const struct port *p);
/* The same for later: a reset has failed. */
void port_vf_ask_reset(const struct port *p);
/* Before a restart of the port: clears the demand for it. Returns what port_vf_must_reset said. */
bool port_vf_restart(struct port *p);
/*
 * Reads the configuration of the VF with this number from a message of rtnetlink about the PF's
 * interface. Returns false if the message, of len bytes, is another one or lacks the VF's MAC.
 */
bool port_vf_parse(const void *message, size_t len, uint32_t number, struct port_vf_config *c);

#endif
