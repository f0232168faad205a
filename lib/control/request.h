/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's requests: receives one, replies to it, continues one that waited for the broker.
 * Control thread only.
 */
#ifndef CONTROL_REQUEST_H
#define CONTROL_REQUEST_H

#include "control/session.h"

/*
 * Handles input on the connection of a session, whose watch is w. The session may be freed on
 * return.
 */
void request_ready(struct watch *w, uint32_t events);
/* Continues a request that waited for the broker, which calls it (broker_found). */
broker_found request_found;

#endif
