/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <rte_ether.h>
#include <rte_ring.h>
#include "hostif/parts.h"

#define BLOCKED_NS 100000 /* the worker has no space: look again after this time */

/* Gives the kernel the frames that wait, at most a burst. How many. */
static uint32_t
to_kernel(struct hostif *h)
{
	struct rte_mbuf *m[HOSTIF_BURST];
	uint32_t n = rte_ring_dequeue_burst(h->host.ring, (void **)m, HOSTIF_BURST, NULL), k;

	for (uint32_t i = 0; h->vlan != 0 && i < n; i++)
		rte_vlan_strip(m[i]);
	for (uint32_t i = 0; i < n; i += k) {
		struct virtio_net_hdr vh;
		struct iovec v[1 + HOSTIF_BURST] = {{&vh, sizeof(vh)}};

		k = hostif_merge(m + i, n - i, &vh, v + 1);
		if (writev(h->tap, v, (int)k + 1) < 0) {
			h->stats.to_kernel_lost += k;
			continue;
		}
		h->stats.to_kernel += k;
		h->stats.merged += k > 1;
	}
	if (n != 0)
		rte_pktmbuf_free_bulk(m, n);
	return n;
}

/* Hands pieces to the worker. True if none is left. */
static bool
pieces_out(struct hostif *h)
{
	uint32_t n = worker_send_host(h->workers, h->dev, h->piece + h->piece_first, h->piece_n);

	h->stats.from_kernel += n;
	h->piece_first += n;
	h->piece_n -= n;
	return h->piece_n == 0;
}

/* Inserts the device's tag. Frames that have one already cannot carry another, and are dropped. */
static void
pieces_tag(struct hostif *h)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < h->piece_n; i++) {
		struct rte_mbuf *m = h->piece[i];
		const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);

		m->vlan_tci = h->vlan;
		if (eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN) ||
		    rte_vlan_insert(&m) != 0) {
			rte_pktmbuf_free(h->piece[i]);
			h->stats.from_kernel_lost++;
			continue;
		}
		h->piece[n++] = m;
	}
	h->piece_n = n;
}

/* Reads one frame of the kernel and cuts it. False: there is none. */
static bool
take(struct hostif *h)
{
	struct virtio_net_hdr vh;
	ssize_t got = read(h->tap, h->frame, sizeof(h->frame));

	if (got < (ssize_t)sizeof(vh))
		return false;
	memcpy(&vh, h->frame, sizeof(vh));
	h->piece_first = 0;
	h->piece_n = hostif_cut(&vh, h->frame + sizeof(vh), (uint32_t)got - sizeof(vh), h->pool,
				h->piece, HOSTIF_PIECES);
	if (h->piece_n == 0)
		h->stats.from_kernel_lost++;
	else if (h->piece_n > 1)
		h->stats.super_frames++;
	if (h->vlan != 0)
		pieces_tag(h);
	return true;
}

/*
 * Takes what the kernel sends, at most a few frames. While the worker has no space, the kernel
 * keeps its frames, and TCP slows down. Returns how many were taken; *blocked: no space.
 */
static uint32_t
from_kernel(struct hostif *h, bool *blocked)
{
	uint32_t n = 0;

	while (pieces_out(h) && n < HOSTIF_READS && take(h))
		n++;
	*blocked = h->piece_n != 0;
	return n;
}

static void
wait(struct hostif *h, bool blocked)
{
	struct pollfd fds[2] = {
		{.fd = h->host.wake_fd, .events = POLLIN},
		{.fd = blocked ? -1 : h->tap, .events = POLLIN},
	};
	const struct timespec limit = {.tv_nsec = BLOCKED_NS};

	if (!worker_host_sleeps(&h->host))
		return;
	(void)ppoll(fds, 2, blocked ? &limit : NULL, NULL);
	worker_host_awake(&h->host);
}

void
hostif_move(void *arg)
{
	struct hostif *h = arg;

	while (__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE) == 0) {
		bool blocked;
		uint32_t n = to_kernel(h) + from_kernel(h, &blocked);

		if (n == 0)
			wait(h, blocked);
	}
}
