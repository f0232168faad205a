/* SPDX-License-Identifier: BSD-3-Clause */
/* Removal of a port's device from the machine. */
#ifndef PORT_UNPLUG_H
#define PORT_UNPLUG_H

#include <rte_ethdev.h>
#include "port/port.h"

/* Control thread. Starts and stops to follow removal of the device of an ethdev port. */
void port_unplug_watch(const struct port *p, const struct rte_eth_dev_info *info);
void port_unplug_unwatch(const struct port *p);

#endif
