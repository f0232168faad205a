/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCEv2 headers on the wire. Fields of more than one byte are big endian, as their type
 * (rte_be*_t) says; 24-bit fields share a 32-bit word and are accessed with the masks below. IBTA
 * vol. 1 chapter 9 (transport headers), annex A17 (RoCEv2).
 *
 * lib/wire is stateless, runs on any thread, and includes no other library of the tree.
 */
#ifndef WIRE_HDR_H
#define WIRE_HDR_H

#include <stddef.h>
#include <stdint.h>
#include <rte_byteorder.h>

/* ECN field of the TOS or traffic class (RFC 3168) */
#define WIRE_ECN_MASK         3u
#define WIRE_ECN_ECT0         2u
#define WIRE_ECN_CE           3u

#define WIRE_UDP_PORT         4791 /* UDP destination port of RoCEv2 (WIRE-02) */
#define WIRE_ICRC_LEN         4
#define WIRE_ETH_LEN          14
#define WIRE_VLAN_LEN         4
#define WIRE_IPV4_LEN         20
#define WIRE_IPV6_LEN         40
#define WIRE_UDP_LEN          8
#define WIRE_BTH_LEN          12
#define WIRE_BTH_PSN_LEN      4  /* its last bytes: AckReq and PSN */
#define WIRE_CNP_RESERVED_LEN 16 /* after the BTH of a CNP */
#define WIRE_GRH_LEN          40
/* Longest headers of any frame: VLAN Ethernet, IPv6, UDP, BTH, AtomicETH/RETH + ImmDt. */
#define WIRE_MAX_HDR (18 + 40 + 8 + 12 + 28 + 4)
/*
 * Most bytes of an IP packet besides its payload: IPv6, UDP, BTH, RETH and ImmDt (a one-packet
 * WRITE with immediate data), ICRC. The kernel's rxe assumes 80, which is 4 too few.
 */
#define WIRE_IP_OVERHEAD (WIRE_IPV6_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN + 16u + 4 + WIRE_ICRC_LEN)
/* Most bytes a frame adds to its payload: headers, pad and ICRC. */
#define WIRE_MAX_OVERHEAD  (WIRE_MAX_HDR + 3 + WIRE_ICRC_LEN)

#define WIRE_PSN_MASK      0xffffffu
#define WIRE_QPN_MASK      0xffffffu
#define WIRE_PKEY_DEFAULT  0xffffu
#define WIRE_MULTICAST_QPN 0xffffffu

/* Overlays bytes of a frame at any alignment; aliases like char. */
#define WIRE_PACKED          __attribute__((packed, may_alias))

#define WIRE_ETHERTYPE_IPV4  0x0800u
#define WIRE_ETHERTYPE_IPV6  0x86ddu
#define WIRE_ETHERTYPE_VLAN  0x8100u
#define WIRE_ETHERTYPE_SVLAN 0x88a8u
#define WIRE_ETHERTYPE_ARP   0x0806u
#define WIRE_IPPROTO_UDP     17u
#define WIRE_IPPROTO_ICMP    1u
#define WIRE_IPPROTO_IGMP    2u
#define WIRE_IPPROTO_ICMP6   58u
#define WIRE_IPPROTO_FRAG    44u     /* IPv6 fragment header */
#define WIRE_IPV4_DF         0x4000u /* in frag_off */
#define WIRE_IPV4_FRAG       0x3fffu /* in frag_off: more fragments, or an offset */

struct wire_eth {
	uint8_t dmac[6], smac[6];
	rte_be16_t type;
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_eth) == WIRE_ETH_LEN, "Ethernet header size");

/* The bytes of an 802.1Q tag after the first Ethernet type, which is then 0x8100. */
struct wire_vlan {
	rte_be16_t tci;
	rte_be16_t type;
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_vlan) == WIRE_VLAN_LEN, "VLAN tag size");

struct wire_ipv4 {
	uint8_t ver_ihl;
	uint8_t tos;
	rte_be16_t total_len;
	rte_be16_t id;
	rte_be16_t frag_off;
	uint8_t ttl;
	uint8_t proto;
	rte_be16_t csum;
	uint8_t src[4], dst[4];
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_ipv4) == WIRE_IPV4_LEN, "IPv4 header size");

struct wire_ipv6 {
	rte_be32_t ver_tc_flow; /* version 4 | traffic class 8 | flow label 20 */
	rte_be16_t payload_len;
	uint8_t next;
	uint8_t hop_limit;
	uint8_t src[16], dst[16];
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_ipv6) == WIRE_IPV6_LEN, "IPv6 header size");

struct wire_udp {
	rte_be16_t sport, dport;
	rte_be16_t len;
	rte_be16_t csum; /* 0 in every frame we send: the ICRC covers more */
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_udp) == WIRE_UDP_LEN, "UDP header size");

/* Base Transport Header, 12 bytes. */
struct wire_bth {
	uint8_t opcode;       /* enum wire_op */
	uint8_t se_m_pad_ver; /* SE 1 | MigReq 1 | PadCnt 2 | TVer 4 (0) */
	rte_be16_t pkey;
	rte_be32_t fb_qpn; /* FECN 1 | BECN 1 | reserved 6 | destination QPN 24 */
	rte_be32_t a_psn;  /* AckReq 1 | reserved 7 | PSN 24 */
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_bth) == WIRE_BTH_LEN, "BTH size");

#define WIRE_BTH_SE      0x80u
#define WIRE_BTH_MIGREQ  0x40u
#define WIRE_BTH_PAD(b)  (((b) >> 4) & 3u)
#define WIRE_BTH_TVER(b) ((b)&15u)
#define WIRE_BTH_FECN    0x80000000u
#define WIRE_BTH_BECN    0x40000000u
#define WIRE_BTH_ACKREQ  0x80000000u

/* RDMA Extended Transport Header, 16 bytes. */
struct wire_reth {
	rte_be64_t va;
	rte_be32_t rkey;
	rte_be32_t dmalen;
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_reth) == 16, "RETH size");

/* ACK Extended Transport Header, 4 bytes. */
struct wire_aeth {
	rte_be32_t syn_msn; /* syndrome 8 | MSN 24 */
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_aeth) == 4, "AETH size");

/* Atomic Extended Transport Header, 28 bytes. */
struct wire_atomiceth {
	rte_be64_t va;
	rte_be32_t rkey;
	rte_be64_t swap_add;
	rte_be64_t compare;
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_atomiceth) == 28, "AtomicETH size");

/* Atomic ACK Extended Transport Header, 8 bytes: the original value. */
struct wire_atomicacketh {
	rte_be64_t orig;
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_atomicacketh) == 8, "AtomicAckETH size");

/* Datagram Extended Transport Header, 8 bytes. */
struct wire_deth {
	rte_be32_t qkey;
	rte_be32_t src_qpn; /* reserved 8 | source QPN 24 */
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_deth) == 8, "DETH size");

/* Immediate data, 4 bytes, in the application's byte order. */
struct wire_immdt {
	uint32_t imm;
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_immdt) == 4, "ImmDt size");

/* Invalidate Extended Transport Header, 4 bytes. */
struct wire_ieth {
	rte_be32_t rkey;
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_ieth) == 4, "IETH size");

/* AETH syndromes (IBTA 9.7.5.2.1): 3 bits of kind, 5 bits of value. */
enum wire_syndrome {
	WIRE_SYN_ACK = 0x00, /* | credit code; 31 = no end-to-end credits (RSP-07) */
	WIRE_SYN_RNR = 0x20, /* | RNR timer code (NAK-11) */
	WIRE_SYN_NAK = 0x60, /* | enum wire_nak */
	WIRE_SYN_KIND = 0xe0,
	WIRE_SYN_VALUE = 0x1f,
	WIRE_SYN_NO_CREDITS = 0x1f,
};

enum wire_nak { /* NAK-01 */
		WIRE_NAK_PSN_SEQ = 0,
		WIRE_NAK_INV_REQ = 1,
		WIRE_NAK_REM_ACCESS = 2,
		WIRE_NAK_REM_OP = 3,
		WIRE_NAK_INV_RD_REQ = 4, /* RD only, never produced */
};

#endif
