/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of ports that are no ethdevs. Private to lib/port. Control thread. */
#ifndef PORT_IDS_H
#define PORT_IDS_H

#include <stdint.h>

/* Takes an id that no ethdev and no other port has. Returns PORT_IDS_MAX if there is none. */
uint16_t port_id_take(void);
void port_id_give(uint16_t id);

#endif
