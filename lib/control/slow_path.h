/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCE datagrams from and to QPNs without a QP, such as QP1. A frame for QP1 comes from
 * engine_rx, which has checked its ICRC and addresses (rx_consume in lib/engine/rx.c),
 * through the worker's event ring, to slow_path_rx. Without a consumer the engine drops it
 * (bad_qpn).
 *
 * Bounded: a worker drops frames of hosts that have sent too many useless ones (mad_limit,
 * lib/worker/mad_gate.h). At most WORKER_DATAGRAMS frames wait for the control thread, further ones
 * are dropped (slow_path_full); a turn of the control thread's loop handles one batch of worker
 * events.
 *
 * Control thread only.
 */
#ifndef CONTROL_SLOW_PATH_H
#define CONTROL_SLOW_PATH_H

#include "control/device.h"

struct rte_mbuf;

/* A datagram (UD SEND_ONLY), received or to be sent. local: this side. */
struct slow_datagram {
	struct device *dev;
	uint8_t local[16], remote[16]; /* GIDs, IPv4 as ::ffff:a.b.c.d */
	uint32_t local_qpn, remote_qpn;
	uint32_t qkey;       /* received: not checked */
	uint16_t pkey;       /* received: matches an entry of the device's table */
	uint32_t flow_label; /* 20 bits; IPv4: 0 */
	uint8_t traffic_class;
	uint8_t hop_limit; /* to be sent: 0 means 64 */
	const uint8_t *payload;
	uint32_t len; /* of payload; to be sent: at most the device's path MTU */
};

/*
 * g and what it points to are valid during the call. The function may send and (un)register.
 * Returns true if g was useful (worker_datagram_useful).
 */
typedef bool slow_path_fn(void *ctx, const struct slow_datagram *g);

/*
 * Registers fn for the datagrams that any device receives for qpn. Returns 0; -EINVAL if qpn is not
 * 1; -EEXIST if it has a consumer.
 */
int slow_path_register(struct daemon *d, uint32_t qpn, slow_path_fn *fn, void *ctx);
/* Unregisters the consumer; harmless if there is none. Waiting datagrams are dropped. */
void slow_path_unregister(struct daemon *d, uint32_t qpn);

/*
 * Handles a frame that a worker passed on because of a registered QPN. Does not free m. Returns
 * true if it was useful.
 */
bool slow_path_rx(struct device *dev, struct rte_mbuf *m);

/*
 * Sends g from g->local_qpn, through worker 0. Loopback reaches addresses of the device itself.
 * Returns 0 if it was sent, or lost as on a link (counted: tx_control_lost); -EADDRNOTAVAIL if
 * local is not an address of the device; -EINVAL or -ENETUNREACH if net_path finds no path;
 * -EMSGSIZE; -EAGAIN if the next hop's MAC is unknown: it was requested for uid, and the caller
 * retries later.
 */
int slow_path_send(const struct slow_datagram *g, uid_t uid);

#endif
