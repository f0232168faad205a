/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments that a virtual device was made with (--vdev). Private to lib/port. */
#ifndef PORT_DEVARG_H
#define PORT_DEVARG_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_ethdev.h>

/* The number that key has among the device's arguments, or fallback. */
uint32_t port_devarg_number(const struct rte_eth_dev_info *info, const char *key,
			    uint32_t fallback);
/* Does key stand among them with this value? */
bool port_devarg_is(const struct rte_eth_dev_info *info, const char *key, const char *value);

#endif
