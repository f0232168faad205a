/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/ids.h"
#include <rte_ethdev.h>
#include "port/port.h"

static uint16_t ids_taken; /* a bit per id */

uint16_t
port_id_take(void)
{
	for (uint16_t id = PORT_IDS_MAX; id-- > 0;) {
		if ((ids_taken >> id & 1) || rte_eth_dev_is_valid_port(id))
			continue;
		ids_taken = (uint16_t)(ids_taken | 1u << id);
		return id;
	}
	return PORT_IDS_MAX;
}

void
port_id_give(uint16_t id)
{
	ids_taken = (uint16_t)(ids_taken & ~(1u << id));
}
