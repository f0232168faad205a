/* SPDX-License-Identifier: BSD-3-Clause */
/* Device numbers of ports that are not ethdevs. Private to lib/port. Control thread. */
#ifndef PORT_IDS_H
#define PORT_IDS_H

#include <stdint.h>

/* Reserves an id that no ethdev or other port uses. Returns PORT_IDS_MAX if none is free. */
uint16_t port_id_take(void);
void port_id_give(uint16_t id);

#endif
