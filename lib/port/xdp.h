/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet buffers that AF_XDP can use. Private to lib/port. */
#ifndef PORT_XDP_H
#define PORT_XDP_H

#include <rte_mempool.h>
#include "port/port.h"

/*
 * Create a pool for p's queues that lies completely within the range that the driver will register
 * with the kernel as umem. The caller frees it. Returns NULL and logs why if there is no memory or
 * the driver would not register all of it.
 */
struct rte_mempool *port_xdp_pool(const struct port *p);

/*
 * xdp_share.c. Returns 0 if a port with p's driver and queues can be shared. Otherwise logs the
 * reason and returns -EINVAL.
 */
int port_xdp_may_share(const struct port *p);
/*
 * Opens p->neigh_fd, which receives neighbours' replies on p's interface. p->netdev and mac are
 * set. port_close closes it. Returns 0, or -errno after logging the error.
 */
int port_xdp_neigh_open(struct port *p);

#endif
