/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's requests: receive one, have it answered, go on with one that waited for the broker.
 * Control thread only.
 */
#ifndef CONTROL_REQUEST_H
#define CONTROL_REQUEST_H

#include "control/session.h"

/* The connection of a session, whose watch w is, has something to read. It may be gone on return.
 */
void request_ready(struct watch *w, uint32_t events);
/* What the broker calls (broker_found): go on with a request that waited for it. */
broker_found request_found;

#endif
