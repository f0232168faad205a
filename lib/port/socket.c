/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/socket.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "port/log.h"
#include "port/host.h"
#include "port/queue.h"

#define MTU_MIN 576
/* Socket buffers to request: a window of 128 packets of 4 KiB, for a few QPs. */
#define BUFFER_WANTED (8 * 1024 * 1024)
#define BUFFER_ENOUGH (2 * 1024 * 1024)

bool
socket_say_once(uint64_t said[SOCKET_SAID], int err)
{
	if (err <= 0 || err >= 64 * SOCKET_SAID || (said[err / 64] >> err % 64 & 1))
		return false;
	said[err / 64] |= 1ull << err % 64;
	return true;
}

bool
socket_set(const struct port_socket *s, int level, int option, int value)
{
	return setsockopt(s->fd, level, option, &value, sizeof(value)) == 0;
}

void
socket_buffers(struct port_socket *s, bool tell)
{
	int have = 0;
	socklen_t len = sizeof(have);

	if (!socket_set(s, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_WANTED))
		socket_set(s, SOL_SOCKET, SO_RCVBUF, BUFFER_WANTED);
	if (!socket_set(s, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_WANTED))
		socket_set(s, SOL_SOCKET, SO_SNDBUF, BUFFER_WANTED);
	if (getsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &have, &len) < 0)
		return;
	s->rx_buffer = (uint32_t)have;
	if (tell && have < BUFFER_ENOUGH)
		PORT_LOG(NOTICE, s->name,
			 "the socket's receive buffer holds %d KiB only, so packets may be lost: "
			 "`sysctl net.core.rmem_max=%d` permits a larger one",
			 have / 1024, BUFFER_WANTED / 2);
}

/* Determines the MTU. Returns 0, or -errno after logging the error. */
static int
find_limits(struct port *p, const struct port_params *params, struct rte_mempool *pool)
{
	uint32_t room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM - PACKET_HDR_MAX;

	p->link_mtu = RTE_MIN(host_mtu(p->netdev), room);
	if (params->link_mtu != 0 && params->link_mtu < p->link_mtu)
		p->link_mtu = params->link_mtu;
	if (p->link_mtu >= MTU_MIN)
		return 0;
	PORT_LOG(ERR, p->name, "MTU %u of %s is less than %u", p->link_mtu, p->netdev, MTU_MIN);
	return -EINVAL;
}

/* Prepares the queues. Returns 0 or -errno. */
static int
queues_init(struct port *p, struct rte_mempool *pool)
{
	int rc = 0;

	for (uint16_t q = 0; q < p->nrxq && rc == 0; q++) {
		struct port_socket *s = &p->sockets[q];

		memcpy(s->name, p->name, sizeof(s->name));
		memcpy(s->mac, p->mac, sizeof(s->mac));
		rc = socket_init(s, pool, p->link_mtu);
	}
	return rc;
}

int
port_socket_open(struct port *p, const struct port_params *params, struct rte_mempool *pool)
{
	bool packet = params->packet_netdev != NULL;
	const char *on = packet ? params->packet_netdev : params->udp_netdev;
	uint16_t n = (uint16_t)params->nqueues;
	int rc;

	if (on == NULL)
		on = params->udp_addr;
	*p = (struct port){
		.kind = packet ? PORT_PACKET : PORT_UDP,
		.id = PORT_IDS_MAX,
		.nrxq = n,
		.ntxq = n,
		.qpn_mask = params->qpn_mask,
		.tx_multi_seg = true,
		.tx_copies = true,
		.sockets = calloc(n, sizeof(*p->sockets)),
	};
	if (p->sockets == NULL)
		return -ENOMEM;
	for (uint16_t q = 0; q < n; q++) {
		p->sockets[q].fd = -1;
		p->sockets[q].packet = packet;
	}
	snprintf(p->driver, sizeof(p->driver), packet ? "packet" : "udp");
	snprintf(p->name, sizeof(p->name), "%s:%.*s", p->driver, (int)strcspn(on, "/"), on);
	rc = packet ? packet_find(p, params) : udp_find(p, params);
	if (rc == 0)
		rc = find_limits(p, params, pool);
	if (rc == 0)
		rc = queues_init(p, pool);
	if (rc == 0)
		rc = packet ? packet_open(p) : udp_open(p);
	if (rc == 0 && (p->id = port_id_take()) == PORT_IDS_MAX)
		rc = -ENOSPC;
	if (rc != 0) {
		port_socket_close(p);
		return rc;
	}
	p->rx_fd = p->sockets->fd;
	p->started = true;
	port_poll_link(p);
	return 0;
}

void
port_socket_close(struct port *p)
{
	for (uint16_t q = 0; q < p->nrxq; q++) {
		if (p->sockets[q].fd >= 0)
			close(p->sockets[q].fd);
		socket_fini(&p->sockets[q]);
	}
	port_udp_release(p);
	free(p->sockets);
	p->sockets = NULL;
	p->started = false;
	__atomic_store_n(&p->link_up, false, __ATOMIC_RELAXED);
	if (p->id < PORT_IDS_MAX)
		port_id_give(p->id);
}

bool
port_socket_stats(const struct port *p, struct port_socket_stats *sum)
{
	/* the structure contains only counters */
	uint64_t *to = (uint64_t *)sum;

	memset(sum, 0, sizeof(*sum));
	if (p->sockets == NULL)
		return false;
	for (uint16_t q = 0; q < p->nrxq; q++) {
		const uint64_t *from = (const uint64_t *)&p->sockets[q].stats;

		for (uint32_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
			to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
	return true;
}

uint32_t
port_socket_buffer(const struct port *p)
{
	return p->sockets != NULL ? p->sockets->rx_buffer : 0;
}

struct port_socket *
port_socket_of(const struct port *p, uint16_t queue)
{
	return p->sockets != NULL && queue < p->nrxq ? &p->sockets[queue] : NULL;
}

int
port_rx_fd(const struct port *p, uint16_t queue)
{
	return p->sockets != NULL ? p->sockets[queue].fd : p->rx_fd;
}
