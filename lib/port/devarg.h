/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments that a virtual device was created with (--vdev). Private to lib/port. */
#ifndef PORT_DEVARG_H
#define PORT_DEVARG_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_ethdev.h>

/* Number given for key in the device's arguments, or fallback. */
uint32_t port_devarg_number(const struct rte_eth_dev_info *info, const char *key,
			    uint32_t fallback);
/* Do the arguments have key with this value? */
bool port_devarg_is(const struct rte_eth_dev_info *info, const char *key, const char *value);

#endif
