/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptor that tells of received frames. Private to lib/port. */
#ifndef PORT_RX_FD_H
#define PORT_RX_FD_H

#include "port/port.h"

/*
 * Readable for poll(2) while frames wait in p's one receive queue; the driver's own, to be polled
 * and nothing else. 0: p has several queues, or its driver gives nothing of the kind. p->driver,
 * netdev and nrxq are set. Allocates nothing that lasts.
 */
int port_find_rx_fd(const struct port *p);

#endif
