/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet buffers that AF_XDP can use. Private to lib/port. */
#ifndef PORT_XDP_H
#define PORT_XDP_H

#include <rte_mempool.h>
#include "port/port.h"

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
 * xdp_share.c. Returns 0 if a port with p's driver and queues can be shared. Otherwise logs the
 * reason and returns -EINVAL.
 */
int port_xdp_may_share(const struct port *p);
/*
 * xdp_left.c. Removes the program that a killed uroced left on p's interface, if there is one. Call
 * after port_udp_hold: then no uroced uses it.
 */
void port_xdp_remove_left(const struct port *p);
/*
 * Opens p->neigh_fd, which receives neighbours' replies on p's interface. p->netdev and mac are
 * set. port_close closes it. Returns 0, or -errno after logging the error.
 */
int port_xdp_neigh_open(struct port *p);

#endif
