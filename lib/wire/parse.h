/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing of frames into struct wire_pkt: one bounds-checked pass over Ethernet, (VLAN,) IP, UDP,
 * BTH and the headers that the opcode names. Lengths come from the headers present. The UDP length
 * must agree with the IP length and both must fit the frame (Ethernet padding may follow). Only
 * *pkt and the header cache are written.
 */
#ifndef WIRE_PARSE_H
#define WIRE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/hdr.h"
#include "wire/opcode.h"

enum wire_verdict {
	WIRE_OK = 0,
	WIRE_NOT_ROCE,   /* for the slow path: ARP, ICMP, IGMP, ICMPv6; not validated further */
	WIRE_RUNT,       /* a header does not fit the frame */
	WIRE_BAD_IP,     /* version, header length, checksum, total length */
	WIRE_FRAGMENT,   /* IPv4 fragment or IPv6 fragment header */
	WIRE_BAD_UDP,    /* UDP length disagrees with IP length */
	WIRE_BAD_TVER,   /* BTH transport version is not 0 */
	WIRE_BAD_OPCODE, /* unknown opcode or unsupported service */
	WIRE_BAD_PAD,    /* pad exceeds the payload, or length is not a multiple of 4 */
	WIRE_BAD_LENGTH, /* payload with an opcode that carries none */
	WIRE_BAD_ICRC,
	/* from here on: neither RoCE nor handled by the slow path */
	WIRE_STACKED_VLAN, /* 802.1ad, or more than one tag */
	WIRE_ETHERTYPE,
	WIRE_IP_PROTOCOL,
	WIRE_IPV6_EXTENSION,
	WIRE_OTHER_PORT, /* UDP to a port other than 4791 */
	WIRE_VERDICTS,
};
/* Names for logs and counters: "runt", "bad_icrc" .. */
extern const char *const wire_verdict_name[WIRE_VERDICTS];

/*
 * One parsed packet. The pointers point into the frame and are valid as long as it is. Fields of
 * headers that the opcode does not have are undefined.
 */
struct wire_pkt {
	const uint8_t *l2; /* Ethernet header */
	const uint8_t *ip; /* IPv4 or IPv6 header */
	const uint8_t *bth;
	const uint8_t *payload; /* payload_len bytes, pad_len pad bytes, ICRC */
	const struct wire_op_info *op;
	union {
		struct { /* derived from the header prefix (struct wire_memo) */
			uint32_t payload_len; /* bytes without pad */
			uint32_t qpn;         /* destination QPN */
			/* CRC state after the header prefix, for wire_icrc_check; 0: unknown */
			uint32_t icrc_head;
			uint16_t udp_len; /* from the UDP header to the end of the ICRC */
			uint16_t pkey;
			uint8_t opcode;
			uint8_t pad_len;
			uint8_t tclass; /* TOS or traffic class: DSCP and ECN */
			bool is_v6;
			bool solicited;
			bool migreq;
			bool fecn, becn;
		};
		uint64_t of_head[3]; /* the same fields as one array */
	};
	uint32_t psn;
	uint16_t vlan_tci; /* 0 if untagged; set unless the frame ends within the tag */
	bool ackreq;
	uint8_t syndrome;           /* AETH */
	uint32_t msn;               /* AETH */
	uint64_t va;                /* RETH, AtomicETH */
	uint32_t rkey;              /* RETH, AtomicETH */
	uint32_t dmalen;            /* RETH */
	uint64_t swap_add, compare; /* AtomicETH */
	uint64_t orig;              /* AtomicAckETH */
	uint32_t qkey, src_qpn;     /* DETH */
	uint32_t imm;               /* ImmDt as on the wire (network order) */
	uint32_t inv_rkey;          /* IETH, host order */
};
_Static_assert(offsetof(struct wire_pkt, becn) + 1 == offsetof(struct wire_pkt, of_head) + 24,
	       "of_head is as large as its fields");

/*
 * Parse a frame of len contiguous bytes. Any thread. Does not verify the ICRC (use
 * wire_icrc_check), so that tools can show broken frames. Returns WIRE_OK with *pkt filled, or the
 * reason why not:
 * - WIRE_BAD_OPCODE, _BAD_PAD, _BAD_LENGTH (wire_bad_form): all fields up to the BTH are set,
 *   pad_len is 0, and payload covers everything between the known headers and the ICRC.
 *   wire_icrc_check works, so that only packets that a peer really sent are answered with a NAK.
 * - WIRE_BAD_TVER: all fields are set as if the version were 0; pad_len and payload are as above if
 *   the rest is bad, too.
 * - WIRE_RUNT: no field is valid.
 * The UDP checksum is ignored, because the ICRC covers the same bytes.
 */
enum wire_verdict wire_parse(const uint8_t *frame, uint32_t len, struct wire_pkt *pkt);

/*
 * Header cache. A packet's header prefix is IP, UDP and the first 8 bytes of the BTH: all bytes
 * before the PSN. It is equal in all packets of a flow with the same opcode and length, and so are
 * most fields of struct wire_pkt and the CRC state after the prefix. The cache keeps these for some
 * of the most recent prefixes. Prefixes are compared byte by byte, so the cache never changes the
 * result of parsing. One thread at a time; all zero at first.
 */
#define WIRE_HEAD4 (WIRE_IPV4_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN - WIRE_BTH_PSN_LEN)
#define WIRE_HEAD6 (WIRE_IPV6_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN - WIRE_BTH_PSN_LEN)
#define WIRE_MEMO  64 /* a power of two */

struct wire_memo {
	struct wire_memo_entry {
		uint64_t of_head[3]; /* as in struct wire_pkt, from a packet that was WIRE_OK */
		uint8_t head[WIRE_HEAD6]; /* as in the frame; IPv4: ends in this cache line */
		uint32_t missed;          /* mark of the last prefix that missed here */
	} __attribute__((aligned(64))) entry[WIRE_MEMO];
};

/*
 * As wire_parse, with the same result (except that icrc_head may be set), but faster if the header
 * cache has the prefix. A prefix enters the cache when it misses twice in a row: the prefixes of a
 * peer that counts its packets in the IPv4 identification never repeat.
 */
enum wire_verdict wire_parse_with(const uint8_t *frame, uint32_t len, struct wire_memo *memo,
				  struct wire_pkt *pkt);

/*
 * As wire_parse, with the same result (but prev's icrc_head), if the frame is a packet whose bytes
 * before the PSN, from the Ethernet header on, equal those of prev. prev's frame must still be
 * valid, and its verdict was WIRE_OK. False, with *pkt undefined, if they differ.
 */
bool wire_parse_like(const uint8_t *frame, uint32_t len, const struct wire_pkt *prev,
		     struct wire_pkt *pkt);

/*
 * A complete packet whose opcode, pad or length violates the transport's rules: its receiver
 * decides what to do (NAK-07, REQ-09). Frames with any other verdict but WIRE_OK are dropped.
 */
static inline bool
wire_bad_form(enum wire_verdict v)
{
	return v == WIRE_BAD_OPCODE || v == WIRE_BAD_PAD || v == WIRE_BAD_LENGTH;
}

/* Valid frames that are not RoCE. */
static inline bool
wire_not_roce(enum wire_verdict v)
{
	return v == WIRE_NOT_ROCE || v >= WIRE_STACKED_VLAN;
}

#define WIRE_VID_MASK 0xfffu /* of vlan_tci */

/* Is the destination address of a parsed packet multicast or IPv4 broadcast? */
bool wire_dst_is_group(const struct wire_pkt *pkt);

/* GIDs of a parsed packet, 16 bytes each, IPv4 as ::ffff:a.b.c.d. */
void wire_src_gid(const struct wire_pkt *pkt, uint8_t gid[16]);
void wire_dst_gid(const struct wire_pkt *pkt, uint8_t gid[16]);

#endif
