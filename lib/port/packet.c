/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <rte_ip.h>
#include "port/host.h"
#include "port/log.h"
#include "wire/csum.h"
#include "wire/hdr.h"

#define TAKE                  0x40000 /* bytes: all of a super-frame */
#define ND_ADVERT             136
#define BTH_QPN               4 /* offset of the word with the destination QPN */
#define LOAD(size, at)        BPF_STMT(BPF_LD | BPF_##size | BPF_ABS, (uint32_t)(at))
#define ANCILLARY(what)       LOAD(W, SKF_AD_OFF + SKF_AD_##what)
#define IF_EQ(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(value)         BPF_STMT(BPF_RET | BPF_K, value)

static int
filter_attach(int fd, struct sock_filter *code, size_t n)
{
	struct sock_fprog prog = {.len = (unsigned short)n, .filter = code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) == 0 ? 0 : -errno;
}

/* Makes fd receive nothing. Returns 0 or -errno. */
static int
packet_filter_nothing(int fd)
{
	struct sock_filter code[] = {RETURN(0)};

	return filter_attach(fd, code, 1);
}

#define NETWORK(size, at) LOAD(size, SKF_NET_OFF + (at))

/* A frame that is no UDP packet goes anywhere: the slow path gets it from any worker. */
static int
packet_steer(const struct port *p)
{
	struct sock_filter code[] = {
		/* 0 */ NETWORK(B, 0),
		/* 1 */ IF_EQ(0x45, 2, 0), /* RoCE has no options */
		/* 2 */ NETWORK(W, sizeof(struct wire_ipv6) + WIRE_UDP_LEN + BTH_QPN),
		/* 3 */ BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		/* 4 */ NETWORK(W, sizeof(struct wire_ipv4) + WIRE_UDP_LEN + BTH_QPN),
		/* 5 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, p->qpn_mask),
		/* 6 */ BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, p->nrxq),
		/* 7 */ BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog prog = {.len = RTE_DIM(code), .filter = code};

	return setsockopt(p->sockets->fd, SOL_PACKET, PACKET_FANOUT_DATA, &prog, sizeof(prog)) == 0
		       ? 0
		       : -errno;
}

/* Takes frames to this MAC and to groups. */
static int
filter_own(int fd, const uint8_t mac[6])
{
	uint32_t high = (uint32_t)mac[0] << 8 | mac[1];
	uint32_t low =
		(uint32_t)mac[2] << 24 | (uint32_t)mac[3] << 16 | (uint32_t)mac[4] << 8 | mac[5];
	struct sock_filter code[] = {
		/* 0 */ ANCILLARY(PKTTYPE),
		/* 1 */ IF_EQ(PACKET_OUTGOING, 7, 0),
		/* 2 */ LOAD(W, 2),
		/* 3 */ IF_EQ(low, 0, 2),
		/* 4 */ LOAD(H, 0),
		/* 5 */ IF_EQ(high, 2, 0),
		/* 6 */ LOAD(B, 0),
		/* 7 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 0, 1),
		/* 8 */ RETURN(TAKE),
		/* 9 */ RETURN(0),
	};

	return filter_attach(fd, code, sizeof(code) / sizeof(code[0]));
}

/*
 * Takes RoCE that the kernel would take too, and what tells neighbours' MACs: ARP and neighbour
 * advertisements. Not frames of VLANs, which have a separate interface, and not fragments.
 */
static int
filter_shared(int fd)
{
	struct sock_filter code[] = {
		/* PACKET_OTHERHOST, PACKET_OUTGOING */
		/*  0 */ ANCILLARY(PKTTYPE),
		/*  1 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, PACKET_OTHERHOST, 21, 0),
		/*  2 */ ANCILLARY(VLAN_TAG),
		/*  3 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0xfff, 19, 0),
		/*  4 */ LOAD(H, 12),
		/*  5 */ IF_EQ(ETH_P_ARP, 16, 0),
		/*  6 */ IF_EQ(ETH_P_IPV6, 8, 0),
		/*  7 */ IF_EQ(ETH_P_IP, 0, 15),
		/*  8 */ LOAD(B, 23),
		/*  9 */ IF_EQ(IPPROTO_UDP, 0, 13),
		/* 10 */ LOAD(H, 20),
		/* 11 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, WIRE_IPV4_FRAG, 11, 0),
		/* 12 */ BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
		/* 13 */ BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16),
		/* 14 */ IF_EQ(WIRE_UDP_PORT, 7, 8),
		/* 15 */ LOAD(B, 20),
		/* 16 */ IF_EQ(IPPROTO_UDP, 3, 0),
		/* 17 */ IF_EQ(IPPROTO_ICMPV6, 0, 5),
		/* 18 */ LOAD(B, 54),
		/* 19 */ IF_EQ(ND_ADVERT, 2, 3),
		/* 20 */ LOAD(H, 56),
		/* 21 */ IF_EQ(WIRE_UDP_PORT, 0, 1),
		/* 22 */ RETURN(TAKE),
		/* 23 */ RETURN(0),
	};

	return filter_attach(fd, code, sizeof(code) / sizeof(code[0]));
}

int
packet_filter_set(int fd, const uint8_t mac[6], bool shared)
{
	return shared ? filter_shared(fd) : filter_own(fd, mac);
}

/* Makes a socket of this family on UDP port 4791 of the interface. Returns it or -errno. */
static int
udp_bound(int family, const char *netdev)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT)};
	bool v6 = family == AF_INET6;
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), none = 0, rc;

	if (fd < 0)
		return -errno;
	rc = setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, netdev, (socklen_t)strlen(netdev));
	if (rc == 0 && v6)
		rc = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof(none));
	if (rc == 0)
		rc = bind(fd, v6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in,
			  v6 ? sizeof(in6) : sizeof(in));
	if (rc == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int
port_udp_hold(struct port *p, bool tell)
{
	int fd = udp_bound(AF_INET6, p->netdev), one = 1, least = 1;

	if (fd == -EAFNOSUPPORT)
		fd = udp_bound(AF_INET, p->netdev);
	if (fd == -EADDRINUSE && tell)
		PORT_LOG(ERR, p->name,
			 "UDP port %u of %s is taken: another device of uroced, or the kernel's "
			 "rxe (`rdma link`), has it",
			 WIRE_UDP_PORT, p->netdev);
	else if (fd < 0 && tell)
		PORT_LOG(ERR, p->name, "no UDP port %u on %s: %s", WIRE_UDP_PORT, p->netdev,
			 strerror(-fd));
	if (fd < 0)
		return fd;
	(void)packet_filter_nothing(fd);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
	/* without this, the kernel would cut each super-frame only to drop its packets */
	(void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	port_udp_release(p);
	p->hold_fd = fd;
	return 0;
}

void
port_udp_release(struct port *p)
{
	if (p->hold_fd > 0)
		close(p->hold_fd);
	p->hold_fd = 0;
}

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

/* ---- headers of a message ---- */

#define MACS_LEN        12
#define UDP_CSUM_OFFSET 6

uint32_t
packet_head_put(uint8_t *out, const struct udp_head *h, uint32_t bytes, uint32_t gso)
{
	uint8_t *ip = out + PACKET_VNET_LEN + (h->ip - h->l2);
	struct virtio_net_hdr vnet = {0};
	uint32_t udp_at = h->hdr_len - WIRE_UDP_LEN;
	struct wire_udp *udp = (struct wire_udp *)(out + PACKET_VNET_LEN + udp_at);

	memcpy(out + PACKET_VNET_LEN, h->l2, h->hdr_len);
	if (gso != 0) {
		udp_lengths_put(ip, h->v6, bytes);
		vnet.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
		vnet.gso_size = (uint16_t)gso;
	}
	if (gso != 0 || h->v6) {
		vnet.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		vnet.hdr_len = h->hdr_len;
		vnet.csum_start = (uint16_t)udp_at;
		vnet.csum_offset = UDP_CSUM_OFFSET;
		udp->csum = h->v6 ? rte_ipv6_phdr_cksum((const struct rte_ipv6_hdr *)ip, 0)
				  : rte_ipv4_phdr_cksum((const struct rte_ipv4_hdr *)ip, 0);
	}
	memcpy(out, &vnet, sizeof(vnet));
	return PACKET_VNET_LEN + h->hdr_len;
}

/*
 * Copies hdr_len bytes of headers at from to head->hdr. If the kernel has taken a VLAN tag out of
 * them (*aux), puts it back behind the MACs.
 */
static void
headers_take(struct socket_head *head, const uint8_t *from, uint32_t hdr_len,
	     const struct tpacket_auxdata *aux)
{
	uint8_t *to = head->hdr;
	rte_be16_t tag[2];

	head->in_len = head->hdr_len = hdr_len;
	if ((aux->tp_status & TP_STATUS_VLAN_VALID) == 0) {
		memcpy(to, from, hdr_len);
		return;
	}
	tag[0] = rte_cpu_to_be_16(aux->tp_status & TP_STATUS_VLAN_TPID_VALID ? aux->tp_vlan_tpid
									     : ETH_P_8021Q);
	tag[1] = rte_cpu_to_be_16(aux->tp_vlan_tci);
	memcpy(to, from, MACS_LEN);
	memcpy(to + MACS_LEN, tag, WIRE_VLAN_LEN);
	memcpy(to + MACS_LEN + WIRE_VLAN_LEN, from + MACS_LEN, hdr_len - MACS_LEN);
	head->hdr_len += WIRE_VLAN_LEN;
}

/* Reads the headers of a super-frame of len bytes. Returns false if they do not fit it. */
static bool
super_read(const struct socket_slot *slot, uint32_t len, const struct tpacket_auxdata *aux,
	   struct socket_head *head)
{
	struct rte_mbuf m = {
		.buf_addr = slot->iov[1].iov_base,
		.data_len = (uint16_t)RTE_MIN(len, slot->iov[1].iov_len),
		.pkt_len = len,
	};
	const struct wire_ipv4 *v4;
	struct wire_udp *udp;
	struct udp_head h;

	if (!udp_head_read(&m, &h))
		return false;
	headers_take(head, h.l2, h.hdr_len, aux);
	head->ip_at = (uint32_t)(h.ip - h.l2) + head->hdr_len - head->in_len;
	head->bytes = h.payload;
	head->gso = slot->vnet.gso_size;
	head->v6 = h.v6;
	v4 = (const struct wire_ipv4 *)(head->hdr + head->ip_at);
	udp = (struct wire_udp *)(head->hdr + head->hdr_len - WIRE_UDP_LEN);
	udp->csum = 0; /* the super-frame has only one, and the ICRC covers more */
	head->roce = udp->dport == rte_cpu_to_be_16(WIRE_UDP_PORT);
	head->id = h.v6 ? 0 : rte_be_to_cpu_16(v4->id);
	return head->gso != 0 && rte_be_to_cpu_16(udp->len) == WIRE_UDP_LEN + h.payload &&
	       (h.v6 || (v4->frag_off & rte_cpu_to_be_16(WIRE_IPV4_FRAG)) == 0);
}

bool
packet_message_read(struct port_socket *s, const struct socket_slot *slot, struct msghdr *msg,
		    uint32_t len, struct socket_head *head)
{
	struct tpacket_auxdata aux = {0};
	uint32_t drops;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL &&
		    c->cmsg_len >= CMSG_LEN(sizeof(drops))) {
			memcpy(&drops, CMSG_DATA(c), sizeof(drops));
			s->stats.rx_socket_full = drops;
		}
		if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA &&
		    c->cmsg_len >= CMSG_LEN(sizeof(aux)))
			memcpy(&aux, CMSG_DATA(c), sizeof(aux));
	}
	if (len < PACKET_VNET_LEN + WIRE_ETH_LEN)
		return false;
	len -= PACKET_VNET_LEN;
	if ((slot->vnet.gso_type & ~VIRTIO_NET_HDR_GSO_ECN) == VIRTIO_NET_HDR_GSO_UDP_L4)
		return super_read(slot, len, &aux, head);
	head->gso = head->bytes = len;
	head->in_len = head->hdr_len = 0;
	if (aux.tp_status & TP_STATUS_VLAN_VALID) {
		headers_take(head, slot->iov[1].iov_base, MACS_LEN, &aux);
		head->bytes -= MACS_LEN;
	}
	return slot->vnet.gso_type == VIRTIO_NET_HDR_GSO_NONE;
}
