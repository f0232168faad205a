/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours of a device. lib/net has the logic; this module sends its frames and runs its timers.
 * Control thread only.
 */
#ifndef CONTROL_NEIGH_H
#define CONTROL_NEIGH_H

#include "control/device.h"
#include "control/session.h"

/* Handles a slow-path frame that arrived on the device. Does not free m. */
void neigh_rx(struct device *dev, struct rte_mbuf *m);
/* The same for frame[0 .. len), which bypassed the port's queues. len is at most NET_FRAME_MAX. */
void neigh_rx_bytes(struct device *dev, const uint8_t *frame, uint32_t len);
/* Sends f unless it is empty. A lost frame is counted. */
void neigh_send(struct device *dev, const struct net_frame *f);
/* Requests the MAC of hop for a client of the device, unless a request is outstanding. */
void neigh_ask(struct session *s, const uint8_t hop[16]);
/* Requests the MAC of hop for uid, without a client. */
void neigh_ask_for(struct device *dev, const uint8_t hop[16], uid_t uid);
/*
 * Writes to why why ah is refused to a client of the device, if its path is the reason. what: "" or
 * which object and attribute, with ": " at the end.
 */
void neigh_why(const struct session *s, const struct uroce_ah_attr *ah, const char *what,
	       char why[UROCE_CTRL_MAX_WHY]);
/* Announces all our addresses on the link. */
void neigh_announce(struct device *dev);
/* Announces GID index only, if it is set. */
void neigh_announce_one(struct device *dev, uint32_t index);
/* Sends the requests that are due and sets the timer for the next. */
void neigh_tick(struct device *dev);

#endif
