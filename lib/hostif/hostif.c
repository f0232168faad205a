/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_ring.h>
#include "hostif/parts.h"

int
hostif_open(struct hostif **out, const struct hostif_params *p, char *err, size_t room)
{
	struct hostif *h = calloc(1, sizeof(*h));
	char ring[RTE_RING_NAMESIZE];
	int rc;

	if (h == NULL || strlen(p->name) >= sizeof(h->name)) {
		snprintf(err, room, "hostif=%s: no memory", p->name);
		free(h);
		return -ENOMEM;
	}
	strcpy(h->name, p->name);
	h->workers = p->workers;
	h->pool = p->pool;
	h->dev = p->dev;
	h->vlan = p->vlan;
	h->tap = -1;
	snprintf(ring, sizeof(ring), "host%u", p->dev);
	/* RTS: a preempted producer does not block the others. */
	h->host.ring = rte_ring_create(ring, HOSTIF_RING, SOCKET_ID_ANY,
				       RING_F_MP_RTS_ENQ | RING_F_SC_DEQ);
	h->host.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (h->host.ring == NULL || h->host.wake_fd < 0) {
		rc = h->host.ring == NULL ? -rte_errno : -errno;
		snprintf(err, room, "hostif=%s: %s", h->name, strerror(-rc));
	} else {
		rc = hostif_tap_open(h, p, err, room);
	}
	if (rc != 0) {
		hostif_close(h);
		return rc;
	}
	worker_set_host(h->workers, h->dev, &h->host);
	*out = h;
	return 0;
}

int
hostif_start(struct hostif *h)
{
	int rc = hostif_tap_up(h);

	if (rc == 0)
		rc = dpdk_thread_start(&h->thread, "hostif", hostif_move, h);
	h->started = rc == 0;
	return rc;
}

static void
stop(struct hostif *h)
{
	static const uint64_t one = 1;

	__atomic_store_n(&h->stop, 1, __ATOMIC_RELEASE);
	if (write(h->host.wake_fd, &one, sizeof(one)) < 0)
		errno = 0; /* full, hence readable */
	pthread_join(h->thread.id, NULL);
}

void
hostif_close(struct hostif *h)
{
	void *m;

	if (h == NULL)
		return;
	worker_set_host(h->workers, h->dev, NULL);
	if (h->started)
		stop(h);
	rte_pktmbuf_free_bulk(h->piece + h->piece_first, h->piece_n);
	while (h->host.ring != NULL && rte_ring_dequeue(h->host.ring, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(h->host.ring);
	if (h->host.wake_fd >= 0)
		close(h->host.wake_fd);
	if (h->tap >= 0)
		close(h->tap); /* the interface is gone */
	free(h);
}

bool
hostif_give(struct hostif *h, struct rte_mbuf *m)
{
	return worker_host_put(&h->host, m);
}

const char *
hostif_name(const struct hostif *h)
{
	return h->name;
}

const struct hostif_stats *
hostif_stats(const struct hostif *h)
{
	return &h->stats;
}
