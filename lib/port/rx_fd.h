/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptor that becomes readable on received frames. Private to lib/port. */
#ifndef PORT_RX_FD_H
#define PORT_RX_FD_H

#include "port/port.h"

/*
 * Returns a descriptor that is readable for poll(2) while frames wait in p's only receive queue.
 * The driver owns it: use it for polling only. Returns 0 if p has several queues or its driver has
 * no such descriptor. p->driver, netdev and nrxq are set. Allocates nothing that lasts.
 */
int port_find_rx_fd(const struct port *p);

#endif
