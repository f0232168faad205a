/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/socket.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "port/host.h"
#include "port/log.h"
#include "wire/hdr.h"

#ifndef PACKET_FANOUT_FLAG_IGNORE_OUTGOING
#define PACKET_FANOUT_FLAG_IGNORE_OUTGOING                                                         \
	0x4000 /* not in Linux 6.1: the filter drops outgoing frames, too */
#endif

/*
 * Makes the interface pass frames to our MAC and to multicast groups. If it refuses our MAC, a
 * filtering interface drops our frames: an error. If it refuses the groups, only multicast fails.
 */
static int
join(const struct port *p)
{
	const struct port_socket *s = p->sockets;
	struct packet_mreq mac = {
		.mr_ifindex = (int)s->ifindex,
		.mr_type = PACKET_MR_UNICAST,
		.mr_alen = 6,
	};
	struct packet_mreq groups = {
		.mr_ifindex = (int)s->ifindex,
		.mr_type = PACKET_MR_ALLMULTI,
	};

	memcpy(mac.mr_address, p->mac, 6);
	(void)setsockopt(s->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &groups, sizeof(groups));
	if (p->shared)
		return 0;
	return setsockopt(s->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &mac, sizeof(mac)) == 0
		       ? 0
		       : -errno;
}

/*
 * Opens the socket of a queue and binds it to the interface. It receives nothing yet. Replaces the
 * one that the queue has: a socket of a group cannot be bound again. Returns 0 or -errno.
 */
static int
open_socket(const struct port *p, struct port_socket *s)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)p->sockets->ifindex,
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return -errno;
	if (s->fd >= 0) {
		rc = dup2(fd, s->fd); /* the worker may be using the number */
		close(fd);
		if (rc < 0)
			return -errno;
	} else {
		s->fd = fd;
	}
	rc = packet_filter_nothing(s->fd);
	if (rc != 0)
		return rc;
	if (!socket_set(s, SOL_PACKET, PACKET_VNET_HDR, 1) ||
	    !socket_set(s, SOL_PACKET, PACKET_AUXDATA, 1) ||
	    !socket_set(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1))
		return -errno;
	socket_set(s, SOL_SOCKET, SO_RXQ_OVFL, 1);
	socket_buffers(s, s == p->sockets);
	return bind(s->fd, (struct sockaddr *)&at, sizeof(at)) == 0 ? 0 : -errno;
}

/*
 * Makes a group of the sockets of all queues, each of which gets the packets of its workers' QPs
 * (packet_steer). Returns 0 or -errno: old kernels, and some while the interface is down.
 */
static int
group(const struct port *p)
{
	const uint32_t kind = PACKET_FANOUT_CBPF | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
	const struct port_socket *s = p->sockets;
	int value;
	socklen_t len = sizeof(value);

	if (!socket_set(s, SOL_PACKET, PACKET_FANOUT,
			(int)(kind | PACKET_FANOUT_FLAG_UNIQUEID) << 16) ||
	    getsockopt(s->fd, SOL_PACKET, PACKET_FANOUT, &value, &len) != 0)
		return -errno;
	for (uint16_t q = 1; q < p->nrxq; q++) {
		if (!socket_set(&s[q], SOL_PACKET, PACKET_FANOUT,
				(int)(kind << 16 | (value & 0xffff))))
			return -errno;
	}
	return packet_steer(p);
}

/* Leaves only the first queue. */
static void
one_queue(struct port *p, int why)
{
	PORT_LOG(NOTICE, p->name,
		 "one socket for all workers, because the kernel makes no group of several (%s): "
		 "workers pass packets on, which is slower",
		 strerror(-why));
	for (uint16_t q = 1; q < p->nrxq; q++) {
		close(p->sockets[q].fd);
		p->sockets[q].fd = -1;
		socket_fini(&p->sockets[q]);
	}
	p->nrxq = p->ntxq = 1;
}

/* Opens the sockets of all queues, which start to receive. Returns 0 or -errno. */
static int
attach(struct port *p)
{
	int rc = 0;

	for (uint16_t q = 0; q < p->nrxq && rc == 0; q++)
		rc = open_socket(p, &p->sockets[q]);
	if (rc == 0)
		rc = join(p);
	if (rc == 0 && p->nrxq > 1) {
		rc = group(p);
		if (rc != 0 && !p->started) {
			one_queue(p, rc);
			rc = open_socket(p, p->sockets); /* out of the group */
			if (rc == 0)
				rc = join(p);
		}
	}
	for (uint16_t q = 0; q < p->nrxq && rc == 0; q++)
		rc = packet_filter_set(p->sockets[q].fd, p->mac, p->shared);
	return rc;
}

int
packet_open(struct port *p)
{
	int rc = p->shared ? port_udp_hold(p, true) : 0;

	if (rc != 0)
		return rc;
	for (uint16_t q = 0; q < p->nrxq; q++)
		p->sockets[q].tx.gso = true;
	rc = attach(p);
	if (rc != 0)
		PORT_LOG(ERR, p->name, "no packet socket on %s: %s%s", p->netdev, strerror(-rc),
			 rc == -EPERM ? ": it needs CAP_NET_RAW; port=udp needs no privilege" : "");
	return rc;
}

int
packet_find(struct port *p, const struct port_params *params)
{
	struct port_socket *s = p->sockets;
	static const uint8_t none[6];

	p->shared = params->shared;
	p->vlan = params->vlan;
	snprintf(p->netdev, sizeof(p->netdev), "%s", params->packet_netdev);
	s->ifindex = if_nametoindex(p->netdev);
	if (s->ifindex == 0 || !host_mac(p->netdev, p->mac)) {
		PORT_LOG(ERR, p->name, "there is no interface %s: `ip link` lists them", p->netdev);
		return -ENODEV;
	}
	if (memcmp(p->mac, none, 6) == 0) {
		PORT_LOG(ERR, p->name, "%s is not an Ethernet interface; port=udp works on it",
			 p->netdev);
		return -EINVAL;
	}
	if (p->shared)
		return 0;
	/* derived from the interface's MAC, but locally administered */
	p->mac[0] = (uint8_t)((p->mac[0] & ~3u) | 2u);
	p->mac[1] ^= 0x75;
	if (params->mac != NULL)
		memcpy(p->mac, params->mac, 6);
	return 0;
}

/* Moves to the interface that has the name now. Returns false if this fails. */
static bool
move(struct port *p, uint32_t ifindex)
{
	struct port_socket *s = p->sockets;
	uint8_t mac[6];

	if (!host_mac(p->netdev, mac))
		return false;
	if (p->shared && memcmp(mac, p->mac, 6) != 0) {
		if (!s->stranger)
			PORT_LOG(WARNING, p->name,
				 "the MAC of %s has changed: `ip link set %s address "
				 "%02x:%02x:%02x:%02x:%02x:%02x`, or restart uroced",
				 p->netdev, p->netdev, p->mac[0], p->mac[1], p->mac[2], p->mac[3],
				 p->mac[4], p->mac[5]);
		s->stranger = true;
		return false;
	}
	s->stranger = false;
	if (p->shared && port_udp_hold(p, false) != 0)
		return false;
	s->ifindex = ifindex;
	if (attach(p) == 0)
		return true;
	s->ifindex = 0; /* try again */
	return false;
}

bool
port_packet_present(struct port *p)
{
	uint32_t ifindex;
	int rc = host_ifindex(p->netdev, &ifindex);

	if (rc != 0)
		return rc != -ENODEV;
	return ifindex == p->sockets->ifindex || move(p, ifindex);
}
