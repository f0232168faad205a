/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours of a device: lib/net decides, here its frames and deadlines meet the world. Control
 * thread only.
 */
#ifndef CONTROL_NEIGH_H
#define CONTROL_NEIGH_H

#include "control/device.h"
#include "control/session.h"

/* neigh_rx.c: a slow-path frame that arrived on the device. Does not free m. */
void neigh_rx(struct device *dev, struct rte_mbuf *m);
/* Send f, if there is anything in it; it may be lost, as on a link, and is counted then. */
void neigh_send(struct device *dev, const struct net_frame *f);
/* Ask for the MAC of hop on behalf of a client of the device, if nobody has. */
void neigh_ask(struct session *s, const uint8_t hop[16]);
/* The same on behalf of uid, without a client. */
void neigh_ask_for(struct device *dev, const uint8_t hop[16], uid_t uid);
/*
 * Log why ah was refused to a client of the device, if its path is the reason, at a limited rate:
 * the client itself gets no more than EINVAL or ENETUNREACH. qpn 0: an address handle.
 */
void neigh_refused(struct session *s, const struct uroce_ah_attr *ah, uint32_t qpn);
/* Tell the link about our addresses. */
void neigh_announce(struct device *dev);
/* The same of GID index alone, if there is one. */
void neigh_announce_one(struct device *dev, uint32_t index);
/* Send what is due and set the timer for what comes next. */
void neigh_tick(struct device *dev);

#endif
