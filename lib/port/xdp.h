/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet buffers that AF_XDP can work with. Private to lib/port. */
#ifndef PORT_XDP_H
#define PORT_XDP_H

#include <rte_mempool.h>
#include "port/port.h"

/*
 * A pool for p's queues, all of which lies within what the driver will register with the kernel as
 * its umem. The caller frees it. NULL, which is logged: no memory, or memory of a kind that the
 * driver does not register whole.
 */
struct rte_mempool *port_xdp_pool(const struct port *p);

#endif
