/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/packet.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "port/host.h"
#include "port/log.h"
#include "port/mtu.h"
#include "port/socket.h"
#include "wire/hdr.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

#define MTU_MIN 576

/* Sets an option. Returns false if the kernel refuses it. */
static bool
set(const struct port_packet *u, int level, int option, int value)
{
	return port_socket_set(u->fd, level, option, value);
}

/*
 * Makes the interface pass frames to our MAC and to multicast groups. If it refuses our MAC, a
 * filtering interface drops our frames: an error. If it refuses the groups, only multicast fails.
 */
static int
join(const struct port_packet *u)
{
	struct packet_mreq mac = {
		.mr_ifindex = (int)u->ifindex,
		.mr_type = PACKET_MR_UNICAST,
		.mr_alen = 6,
	};
	struct packet_mreq groups = {
		.mr_ifindex = (int)u->ifindex,
		.mr_type = PACKET_MR_ALLMULTI,
	};

	memcpy(mac.mr_address, u->mac, 6);
	(void)setsockopt(u->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &groups, sizeof(groups));
	if (u->shared)
		return 0;
	return setsockopt(u->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &mac, sizeof(mac)) == 0
		       ? 0
		       : -errno;
}

/* Binds the socket to the interface, which starts reception. Returns 0 or -errno. */
static int
attach(struct port_packet *u)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)u->ifindex,
	};
	int rc = join(u);

	if (rc != 0)
		return rc;
	return bind(u->fd, (struct sockaddr *)&at, sizeof(at)) == 0 ? 0 : -errno;
}

/* Creates and binds the socket. Returns 0, or -errno after logging the error. */
static int
open_socket(struct port_packet *u)
{
	int rc;

	u->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (u->fd < 0) {
		rc = -errno;
		PORT_LOG(ERR, u->name, "no packet socket: %s%s", strerror(-rc),
			 rc == -EPERM ? ": it needs CAP_NET_RAW; port=udp needs no privilege" : "");
		return rc;
	}
	rc = packet_filter_set(u->fd, u->mac, u->shared);
	if (rc == 0 &&
	    (!set(u, SOL_PACKET, PACKET_VNET_HDR, 1) || !set(u, SOL_PACKET, PACKET_AUXDATA, 1) ||
	     !set(u, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)))
		rc = -errno;
	set(u, SOL_SOCKET, SO_RXQ_OVFL, 1);
	port_socket_buffers(u->fd, u->name, true);
	u->tx.gso = true;
	if (rc == 0)
		rc = attach(u);
	if (rc != 0)
		PORT_LOG(ERR, u->name, "no packet socket on %s: %s", u->netdev, strerror(-rc));
	return rc;
}

/* Shared port: reserves the UDP port. Returns 0, or -errno after logging the error. */
static int
hold_udp(struct port_packet *u)
{
	if (!u->shared)
		return 0;
	u->udp_fd = packet_udp_hold(u->netdev);
	if (u->udp_fd >= 0)
		return 0;
	if (u->udp_fd == -EADDRINUSE)
		PORT_LOG(
			ERR, u->name,
			"UDP port %u of %s is taken: another device of uroced, or the kernel's rxe "
			"(`rdma link`), has it",
			WIRE_UDP_PORT, u->netdev);
	else
		PORT_LOG(ERR, u->name, "no UDP port %u on %s: %s", WIRE_UDP_PORT, u->netdev,
			 strerror(-u->udp_fd));
	return u->udp_fd;
}

/* Finds the interface and its MAC. Returns 0, or -errno after logging the error. */
static int
find_netdev(struct port_packet *u, const uint8_t *want)
{
	static const uint8_t none[6];

	u->ifindex = if_nametoindex(u->netdev);
	if (u->ifindex == 0 || !host_mac(u->netdev, u->mac)) {
		PORT_LOG(ERR, u->name, "there is no interface %s: `ip link` lists them", u->netdev);
		return -ENODEV;
	}
	if (memcmp(u->mac, none, 6) == 0) {
		PORT_LOG(ERR, u->name, "%s is not an Ethernet interface; port=udp works on it",
			 u->netdev);
		return -EINVAL;
	}
	if (u->shared)
		return 0;
	/* derived from the interface's MAC, but locally administered */
	u->mac[0] = (uint8_t)((u->mac[0] & ~3u) | 2u);
	u->mac[1] ^= 0x75;
	if (want != NULL)
		memcpy(u->mac, want, 6);
	return 0;
}

static int
find_limits(struct port *p, const struct port_params *params, struct rte_mempool *pool)
{
	struct port_packet *u = p->packet;
	uint32_t mtu = port_netdev_mtu(u->netdev);
	uint32_t room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM - PACKET_HDR_MAX;

	if (mtu > room)
		mtu = room;
	if (params->link_mtu != 0 && params->link_mtu < mtu)
		mtu = params->link_mtu;
	if (mtu < MTU_MIN) {
		PORT_LOG(ERR, u->name, "MTU %u of %s is less than %u", mtu, u->netdev, MTU_MIN);
		return -EINVAL;
	}
	p->link_mtu = mtu;
	return packet_cutter_init(&u->rx.cutter, pool, mtu, &u->stats);
}

static int
make_slots(struct port_packet *u)
{
	for (uint32_t i = 0; i < PACKET_RX_MSGS; i++) {
		u->rx.slot[i].spill = malloc(PACKET_SPILL);
		if (u->rx.slot[i].spill == NULL)
			return -ENOMEM;
	}
	return 0;
}

int
port_packet_open(struct port *p, const struct port_params *params, struct rte_mempool *pool)
{
	struct port_packet *u = calloc(1, sizeof(*u));
	int rc;

	memset(p, 0, sizeof(*p));
	p->id = PORT_IDS_MAX;
	if (u == NULL)
		return -ENOMEM;
	p->packet = u;
	p->kind = PORT_PACKET;
	p->shared = u->shared = params->shared;
	p->vlan = params->vlan;
	u->fd = u->udp_fd = -1;
	snprintf(u->netdev, sizeof(u->netdev), "%s", params->packet_netdev);
	snprintf(u->name, sizeof(u->name), "packet:%s", u->netdev);
	memcpy(p->netdev, u->netdev, sizeof(p->netdev));
	memcpy(p->name, u->name, sizeof(p->name));
	snprintf(p->driver, sizeof(p->driver), "packet");
	p->nrxq = p->ntxq = 1;
	p->tx_multi_seg = p->tx_copies = true;
	rc = find_netdev(u, params->mac);
	if (rc == 0)
		rc = find_limits(p, params, pool);
	if (rc == 0)
		rc = make_slots(u);
	if (rc == 0)
		rc = hold_udp(u);
	if (rc == 0)
		rc = open_socket(u);
	if (rc == 0) {
		p->id = port_id_take();
		if (p->id == PORT_IDS_MAX)
			rc = -ENOSPC;
	}
	if (rc != 0) {
		port_packet_close(p);
		return rc;
	}
	memcpy(p->mac, u->mac, 6);
	p->rx_fd = u->fd;
	p->started = true;
	port_poll_link(p);
	return 0;
}

void
port_packet_close(struct port *p)
{
	struct port_packet *u = p->packet;

	if (u->fd >= 0)
		close(u->fd);
	if (u->udp_fd >= 0)
		close(u->udp_fd);
	packet_cutter_fini(&u->rx.cutter);
	for (uint32_t i = 0; i < PACKET_RX_MSGS; i++) {
		packet_slot_free(&u->rx.slot[i]);
		free(u->rx.slot[i].spill);
	}
	free(u);
	p->packet = NULL;
	p->started = p->link_up = false;
	if (p->id < PORT_IDS_MAX)
		port_id_give(p->id);
}

/* Moves to the interface that has the name now. Returns false if this fails. */
static bool
move(struct port_packet *u, uint32_t ifindex)
{
	uint8_t mac[6];
	int fd;

	if (!host_mac(u->netdev, mac))
		return false;
	if (u->shared && memcmp(mac, u->mac, 6) != 0) {
		if (!u->stranger)
			PORT_LOG(WARNING, u->name,
				 "the MAC of %s has changed: `ip link set %s address "
				 "%02x:%02x:%02x:%02x:%02x:%02x`, or restart uroced",
				 u->netdev, u->netdev, u->mac[0], u->mac[1], u->mac[2], u->mac[3],
				 u->mac[4], u->mac[5]);
		u->stranger = true;
		return false;
	}
	u->stranger = false;
	if (u->shared) {
		fd = packet_udp_hold(u->netdev);
		if (fd < 0)
			return false;
		close(u->udp_fd);
		u->udp_fd = fd;
	}
	u->ifindex = ifindex;
	if (attach(u) == 0)
		return true;
	u->ifindex = 0; /* try again */
	return false;
}

bool
port_packet_present(struct port *p)
{
	struct port_packet *u = p->packet;
	uint32_t ifindex;
	int rc = host_ifindex(u->netdev, &ifindex);

	if (rc != 0)
		return rc != -ENODEV;
	return ifindex == u->ifindex || move(u, ifindex);
}

const struct port_udp_stats *
port_packet_stats(const struct port *p)
{
	return p->kind == PORT_PACKET ? &p->packet->stats : NULL;
}
