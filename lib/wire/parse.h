/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From bytes to a struct wire_pkt: one bounds-checked walk over Ethernet, (VLAN,) IP, UDP, BTH and
 * the headers that the opcode names. Lengths come from the headers actually present; the UDP
 * length must agree with the IP length and both must fit the frame (Ethernet padding is allowed
 * behind them). Nothing is written anywhere but to *pkt.
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
	WIRE_NOT_ROCE,   /* well formed so far, and for the slow path: ARP, ICMP, ICMPv6 */
	WIRE_RUNT,       /* a header does not fit the frame */
	WIRE_BAD_IP,     /* version, header length, checksum, total length */
	WIRE_FRAGMENT,   /* IPv4 fragment or IPv6 fragment header */
	WIRE_BAD_UDP,    /* UDP length disagrees with IP length */
	WIRE_BAD_TVER,   /* BTH transport version is not 0 */
	WIRE_BAD_OPCODE, /* unknown opcode or service not offered */
	WIRE_BAD_PAD,    /* pad count larger than the payload, or not completing 4 bytes */
	WIRE_BAD_LENGTH, /* payload on an opcode that has none */
	WIRE_BAD_ICRC,
	/* nobody's: not RoCE, and nothing that the slow path would answer */
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
 * One parsed packet. Pointers point into the frame and live as long as it does. Fields of a header
 * that the opcode does not name are undefined.
 */
struct wire_pkt {
	const uint8_t *l2; /* Ethernet header */
	const uint8_t *ip; /* IPv4 or IPv6 header */
	const uint8_t *bth;
	const uint8_t *payload; /* payload_len bytes, pad_len pad bytes, ICRC */
	const struct wire_op_info *op;
	union {
		struct {                      /* what follows from the head (struct wire_memo) */
			uint32_t payload_len; /* bytes without pad */
			uint32_t qpn;         /* destination QPN */
			/* CRC state behind the head, for wire_icrc_check; 0: not known */
			uint32_t icrc_head;
			uint16_t udp_len; /* from the UDP header up to and with the ICRC */
			uint16_t pkey;
			uint8_t opcode;
			uint8_t pad_len;
			uint8_t tclass; /* TOS or traffic class: DSCP and ECN */
			bool is_v6;
			bool solicited;
			bool migreq;
			bool fecn, becn;
		};
		uint64_t of_head[3]; /* the same, all at once */
	};
	uint32_t psn;
	uint16_t vlan_tci; /* 0 where there is no tag; set unless the frame ends in the tag */
	bool ackreq;
	uint8_t syndrome;           /* AETH */
	uint32_t msn;               /* AETH */
	uint64_t va;                /* RETH, AtomicETH */
	uint32_t rkey;              /* RETH, AtomicETH */
	uint32_t dmalen;            /* RETH */
	uint64_t swap_add, compare; /* AtomicETH */
	uint64_t orig;              /* AtomicAckETH */
	uint32_t qkey, src_qpn;     /* DETH */
	uint32_t imm;               /* ImmDt, as it stood on the wire (network order) */
	uint32_t inv_rkey;          /* IETH, host order */
};
_Static_assert(offsetof(struct wire_pkt, becn) + 1 == offsetof(struct wire_pkt, of_head) + 24,
	       "of_head is as large as its fields");

/*
 * Parse a frame of len contiguous bytes. Does not verify the ICRC (wire_icrc_check does), so that
 * a tool can look at a broken frame. Any thread. Returns WIRE_OK and a filled *pkt, or why not.
 * With WIRE_BAD_OPCODE, _BAD_PAD and _BAD_LENGTH (wire_bad_form) everything up to and with the BTH
 * is set, pad_len is 0, and payload is all that stands between the known headers and the ICRC:
 * wire_icrc_check works, so that only what a peer really sent is answered with a NAK. With
 * WIRE_BAD_TVER all is set as if the version were 0, and pad_len 0 and payload as above where the
 * rest is bad, too. Of a runt's fields nothing is set. The UDP checksum is not looked at: the ICRC
 * covers all that it does.
 */
enum wire_verdict wire_parse(const uint8_t *frame, uint32_t len, struct wire_pkt *pkt);

/*
 * A packet's head: IP, UDP and the first 8 bytes of the BTH, all that is in front of the PSN. It is
 * the same in all packets of a flow that have the same opcode and length, and so is what follows
 * from it: most fields of struct wire_pkt, and the CRC state behind it. A memo keeps that for some
 * of the heads seen last. Heads are compared byte by byte, so it is a cache of a pure function:
 * which frames it has seen makes no difference to what anybody gets. One thread at a time; all zero
 * at first.
 */
#define WIRE_HEAD4 (WIRE_IPV4_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN - WIRE_BTH_PSN_LEN)
#define WIRE_HEAD6 (WIRE_IPV6_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN - WIRE_BTH_PSN_LEN)
#define WIRE_MEMO  64 /* a power of two */

struct wire_memo {
	struct wire_memo_entry {
		uint64_t of_head[3];      /* as in struct wire_pkt, of a packet that was WIRE_OK */
		uint8_t head[WIRE_HEAD6]; /* as it stood in the frame; of IPv4 in the same line */
		uint32_t missed;          /* mark of the last head that was looked for in vain */
	} __attribute__((aligned(64))) entry[WIRE_MEMO];
};

/*
 * As wire_parse, with the same result (of icrc_head, 0 or the state), but quicker where memo has
 * the head. A head is kept when it comes for the second time in a row: of a peer that counts its
 * packets in the IPv4 identification no two are the same.
 */
enum wire_verdict wire_parse_with(const uint8_t *frame, uint32_t len, struct wire_memo *memo,
				  struct wire_pkt *pkt);

/*
 * As wire_parse, with the same result (of icrc_head, that of prev), where the frame is a packet
 * with the head of prev, of which wire_parse said WIRE_OK and whose frame is still there: true.
 * False: it is none, and *pkt is undefined.
 */
bool wire_parse_like(const uint8_t *frame, uint32_t len, const struct wire_pkt *prev,
		     struct wire_pkt *pkt);

/*
 * A whole packet whose opcode, pad or length is not as the transport has it: its receiver decides
 * (NAK-07, REQ-09), where everything else about a frame that is not WIRE_OK just drops it.
 */
static inline bool
wire_bad_form(enum wire_verdict v)
{
	return v == WIRE_BAD_OPCODE || v == WIRE_BAD_PAD || v == WIRE_BAD_LENGTH;
}

/* Whole frames that are not RoCE. */
static inline bool
wire_not_roce(enum wire_verdict v)
{
	return v == WIRE_NOT_ROCE || v >= WIRE_STACKED_VLAN;
}

#define WIRE_VID_MASK 0xfffu /* of vlan_tci */

/* Is the destination address of a parsed packet a group's, or IPv4's broadcast? */
bool wire_dst_is_group(const struct wire_pkt *pkt);

/* GIDs of a parsed packet, 16 bytes each, IPv4 as ::ffff:a.b.c.d. */
void wire_src_gid(const struct wire_pkt *pkt, uint8_t gid[16]);
void wire_dst_gid(const struct wire_pkt *pkt, uint8_t gid[16]);

#endif
