/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends MADs. The first MAD to a neighbour waits until its MAC is known; otherwise a connect would
 * take until the retransmission.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include "control/cm_parts.h"
#include "control/slow_path.h"

#define DRAIN_FRAMES                                                                               \
	255u /* frames queued before another MAD when the daemon ends; the worker holds 1023 */
#define HOLD_NS 500000000ull /* about the response timeout (CM_DEFAULT_TIMEOUT) */

/* Sends a MAD. Returns 0, -errno of slow_path_send, or -ENODEV if the device is gone. */
static int
send_mad(const struct cm_service *svc, const struct cm_addr *addr, const uint8_t *mad)
{
	struct slow_datagram g = {
		.dev = daemon_device(svc->d, addr->dev),
		.local_qpn = WIRE_GSI_QPN,
		.remote_qpn = WIRE_GSI_QPN,
		.qkey = WIRE_GSI_QKEY,
		.pkey = addr->pkey,
		.flow_label = addr->flow_label,
		.traffic_class = addr->traffic_class,
		.hop_limit = addr->hop_limit,
		.payload = mad,
		.len = WIRE_MAD_LEN,
	};

	if (g.dev == NULL)
		return -ENODEV;
	memcpy(g.local, addr->local, 16);
	memcpy(g.remote, addr->remote, 16);
	return slow_path_send(&g, svc->by != NULL ? svc->by->uid : UCMA_NO_OWNER);
}

/* Keeps a MAD, in place of the oldest one if there are too many. Copies are kept only once. */
static void
hold(struct cm_service *svc, const struct cm_addr *addr, const uint8_t *mad)
{
	struct ucma_held *h;

	for (uint32_t i = 0; i < UCMA_HELD; i++) {
		h = &svc->held[i];
		if (h->used && h->addr.dev == addr->dev && memcmp(h->mad, mad, WIRE_MAD_LEN) == 0)
			return;
	}
	h = &svc->held[svc->next_held++ % UCMA_HELD];
	h->used = true;
	h->addr = *addr;
	h->until_ns = daemon_now_ns() + HOLD_NS;
	memcpy(h->mad, mad, WIRE_MAD_LEN);
	svc->counters.held++;
}

void
ucma_drain(const struct cm_service *svc, uint32_t most)
{
	static const struct timespec pause = {.tv_nsec = 50000};

	while (worker_frames_waiting(svc->d->workers) > most &&
	       daemon_now_ns() < svc->drain_until_ns)
		nanosleep(&pause, NULL);
}

void
ucma_send(void *ctx, const struct cm_addr *addr, const uint8_t *mad)
{
	struct cm_service *svc = ctx;
	int rc;

	if (svc->drain_until_ns != 0)
		ucma_drain(svc, DRAIN_FRAMES);
	rc = send_mad(svc, addr, mad);

	if (rc == -EAGAIN)
		hold(svc, addr, mad);
	else if (rc < 0)
		svc->counters.unreachable++;
}

void
ucma_send_held(struct cm_service *svc, struct device *dev, uint64_t now_ns)
{
	for (uint32_t i = 0; i < UCMA_HELD; i++) {
		struct ucma_held *h = &svc->held[i];

		if (!h->used || h->addr.dev != dev->port.id)
			continue;
		if (h->until_ns >= now_ns) {
			if (send_mad(svc, &h->addr, h->mad) == -EAGAIN)
				continue;
			svc->counters.resent++;
		}
		h->used = false;
	}
}
