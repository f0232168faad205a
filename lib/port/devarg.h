/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a virtual device (--vdev). Private to lib/port. */
#ifndef PORT_DEVARG_H
#define PORT_DEVARG_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_ethdev.h>

/* Returns the number given for key in the device's arguments, or fallback if there is none. */
uint32_t port_devarg_number(const struct rte_eth_dev_info *info, const char *key,
			    uint32_t fallback);
/* Returns true if the arguments set key to this value. */
bool port_devarg_is(const struct rte_eth_dev_info *info, const char *key, const char *value);

#endif
