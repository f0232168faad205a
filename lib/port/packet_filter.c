/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>
#include "port/log.h"
#include "port/socket.h"
#include "wire/hdr.h"

#define TAKE                  0x40000 /* bytes: all of a super-frame */
#define ND_ADVERT             136
#define BTH_QPN               4 /* offset of the word with the destination QPN */
#define LOAD(size, at)        BPF_STMT(BPF_LD | BPF_##size | BPF_ABS, (uint32_t)(at))
#define ANCILLARY(what)       LOAD(W, SKF_AD_OFF + SKF_AD_##what)
#define IF_EQ(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(value)         BPF_STMT(BPF_RET | BPF_K, value)

static int
attach(int fd, struct sock_filter *code, size_t n)
{
	struct sock_fprog prog = {.len = (unsigned short)n, .filter = code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) == 0 ? 0 : -errno;
}

int
packet_filter_nothing(int fd)
{
	struct sock_filter code[] = {RETURN(0)};

	return attach(fd, code, 1);
}

#define NETWORK(size, at) LOAD(size, SKF_NET_OFF + (at))

/* A frame that is no UDP packet goes anywhere: the slow path gets it from any worker. */
int
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

	return attach(fd, code, sizeof(code) / sizeof(code[0]));
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

	return attach(fd, code, sizeof(code) / sizeof(code[0]));
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
