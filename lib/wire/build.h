/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building frames. A struct wire_tmpl holds the Ethernet, (VLAN,) IP, UDP and BTH bytes of a QP's
 * or AH's packets. Most packets have the opcode and length of the one before, and differ from it in
 * nothing but the PSN: so a template keeps the headers of its last packet, and the CRC state behind
 * them. wire_hdr_put makes a packet's headers, wire_frame_seal its ICRC.
 */
#ifndef WIRE_BUILD_H
#define WIRE_BUILD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "wire/hdr.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

/* Where a template's packets go; filled by lib/net, turned into bytes by wire_tmpl_init. */
struct wire_path {
	uint8_t smac[6], dmac[6];
	uint8_t sgid[16], dgid[16]; /* both IPv4-mapped or both IPv6 */
	uint16_t udp_sport;         /* 0xc000 .. 0xffff (WIRE-02) */
	uint16_t vlan_tci;          /* 0: no tag */
	uint8_t tclass;             /* DSCP and ECN */
	uint8_t hop_limit;          /* 1 .. 255 */
	uint32_t flow_label;        /* IPv6, 20 bits */
};

#define WIRE_TMPL_NEAR 64 /* bytes of a template: all of it over IPv4 */

struct wire_tmpl {
	/* Of the last packet, less its PSN; before there was one, less what depends on a packet. */
	uint8_t bytes[80];
	uint64_t shape;    /* what they depend on of that packet; 0: there was none */
	uint32_t extended; /* WIRE_F_EXTENDED of its opcode */
	uint32_t icrc;     /* CRC state behind them, before the PSN, if icrc_known */
	bool icrc_known;
	uint8_t len;    /* bytes in use, up to and with the BTH */
	uint8_t ip_off; /* offset of the IP header */
	uint8_t bth_off;
	bool is_v6;
	/*
	 * IPv4 identification, host order. One for all: with DF set it tells nobody anything (RFC
	 * 6864, 4.1), and frames of one length then have the same headers up to the PSN.
	 */
	uint16_t ip_id;
	uint16_t ip_sum; /* IPv4: checksum of bytes, before length and identification */
};
_Static_assert(WIRE_ETH_LEN + WIRE_VLAN_LEN + WIRE_IPV6_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN <= 80,
	       "the longest headers fit a template");
_Static_assert(WIRE_MAX_HDR >= 80, "a template fits where headers go");

/*
 * Make the constant bytes of path: destination QPN qpn (24 bits), partition pkey, MigReq 1, TVer 0,
 * IPv4 DF set, IPv4 identification 0. The path is not kept. Never fails: what a path may hold
 * is checked by who makes it (lib/net).
 */
void wire_tmpl_init(struct wire_tmpl *t, const struct wire_path *path, uint32_t qpn, uint16_t pkey);

/* Packets carry pkey from now on. A template that wire_tmpl_init has not made yet stays as it is.
 */
void wire_tmpl_set_pkey(struct wire_tmpl *t, uint16_t pkey);

/* Packets have MigReq 1, as wire_tmpl_init leaves it, or 0, from now on. For what it made. */
void wire_tmpl_set_migreq(struct wire_tmpl *t, bool migreq);

/* Packets have this IPv4 identification from now on. For a template made for IPv4. */
void wire_tmpl_set_ip_id(struct wire_tmpl *t, uint16_t id);

/* What differs from packet to packet. Fields that the opcode has no header for are ignored. */
struct wire_fields {
	uint8_t opcode;
	bool solicited, ackreq, becn;
	uint32_t psn;
	uint64_t va;
	uint32_t rkey, dmalen;
	uint64_t swap_add, compare;
	uint64_t orig;
	uint8_t syndrome;
	uint32_t msn;
	uint32_t qkey, src_qpn;
	uint32_t imm;      /* network order */
	uint32_t inv_rkey; /* host order */
};

/* What of a packet its headers before the PSN depend on; 16 .. 31: length of its payload. */
#define WIRE_SHAPE_SE     (1ull << 8)
#define WIRE_SHAPE_BECN   (1ull << 9)
#define WIRE_SHAPE_LEN(n) ((uint64_t)(n) << 16)
#define WIRE_SHAPE_SET    (1ull << 63)

/* Bring t's bytes into this shape: wire_hdr_put calls it. */
void wire_tmpl_reshape(struct wire_tmpl *t, uint64_t shape) __attribute__((cold));

/* What headers behind the BTH an opcode may have. */
#define WIRE_F_EXTENDED                                                                            \
	(WIRE_F_DETH | WIRE_F_RETH | WIRE_F_ATOMICETH | WIRE_F_AETH | WIRE_F_ATOMICACKETH |        \
	 WIRE_F_IMM | WIRE_F_IETH | WIRE_F_CNP)

/* Write the headers behind the BTH that flags name to p; returns their end. */
uint8_t *wire_put_extended(uint8_t *p, uint32_t flags, const struct wire_fields *f);

static inline uint8_t *
wire_put_reth(uint8_t *p, const struct wire_fields *f)
{
	*(struct wire_reth *)p = (struct wire_reth){
		.va = rte_cpu_to_be_64(f->va),
		.rkey = rte_cpu_to_be_32(f->rkey),
		.dmalen = rte_cpu_to_be_32(f->dmalen),
	};
	return p + sizeof(struct wire_reth);
}

/*
 * Write all headers of one packet of payload_len bytes (0 .. 2^15) to out, which has room for
 * WIRE_MAX_HDR. Returns their length; the payload goes right behind, with pad and ICRC behind that:
 * wire_frame_close. Thread: the template's owner.
 */
static __rte_always_inline uint32_t
wire_hdr_put(struct wire_tmpl *t, const struct wire_fields *f, uint32_t payload_len, uint8_t *out)
{
	uint64_t shape = WIRE_SHAPE_SET | WIRE_SHAPE_LEN(payload_len) |
			 (f->becn ? WIRE_SHAPE_BECN : 0) | (f->solicited ? WIRE_SHAPE_SE : 0) |
			 f->opcode;
	uint32_t len = t->len;
	rte_be32_t a_psn =
		rte_cpu_to_be_32((f->ackreq ? WIRE_BTH_ACKREQ : 0) | (f->psn & WIRE_PSN_MASK));

	if (shape != t->shape)
		wire_tmpl_reshape(t, shape);
	/* Copies of constant size: a few vector moves. */
	memcpy(out, t->bytes, WIRE_TMPL_NEAR);
	if (len > WIRE_TMPL_NEAR)
		memcpy(out + WIRE_TMPL_NEAR, t->bytes + WIRE_TMPL_NEAR,
		       sizeof(t->bytes) - WIRE_TMPL_NEAR);
	out += len;
	memcpy(out - sizeof(a_psn), &a_psn, sizeof(a_psn));
	if (t->extended == WIRE_F_RETH) {
		wire_put_reth(out, f);
		return len + (uint32_t)sizeof(struct wire_reth);
	}
	if (t->extended != 0) {
		struct wire_fields seen = *f; /* by others: f itself may be in registers */

		len += (uint32_t)(wire_put_extended(out, t->extended, &seen) - out);
	}
	return len;
}

/*
 * Pad a frame whose headers (hdr_len, as wire_hdr_put returned it) and payload stand at frame.
 * Needs 3 + WIRE_ICRC_LEN bytes of room behind the payload. Returns the length of the frame, whose
 * last 4 bytes, the ICRC, are not set yet.
 */
static inline uint32_t
wire_frame_close(uint8_t *frame, uint32_t hdr_len, uint32_t payload_len)
{
	uint32_t pad = -payload_len & 3;

	if (pad != 0) /* the ICRC overwrites what is not pad */
		memset(frame + hdr_len + payload_len, 0, 3);
	return hdr_len + payload_len + pad + WIRE_ICRC_LEN;
}

/* Make the CRC state behind t's last headers known: wire_frame_seal calls it. */
void wire_tmpl_know_icrc(struct wire_tmpl *t);

/* Set the ICRC of a closed frame of len bytes, the last that wire_hdr_put has made from t. */
static inline void
wire_frame_seal(struct wire_tmpl *t, uint8_t *frame, uint32_t len)
{
	uint32_t from = t->len - WIRE_BTH_PSN_LEN, end = len - WIRE_ICRC_LEN, icrc;

	if (!t->icrc_known)
		wire_tmpl_know_icrc(t);
	icrc = wire_icrc_final(wire_icrc_update(t->icrc, frame + from, end - from));
	memcpy(frame + end, &icrc, sizeof(icrc));
}

/* The same where only the frame is at hand, which wire_frame_close has closed: nothing is checked.
 */
void wire_frame_seal_own(uint8_t *frame, uint32_t len);

/* Close and seal. */
static inline uint32_t
wire_frame_finish(struct wire_tmpl *t, uint8_t *frame, uint32_t hdr_len, uint32_t payload_len)
{
	uint32_t len = wire_frame_close(frame, hdr_len, payload_len);

	wire_frame_seal(t, frame, len);
	return len;
}

/*
 * UDP source port of a connected pair (or of a flow label where one is given): the kernel's
 * convention, 0xc000 .. 0xffff (WIRE-02; rdma_calc_flow_label in <rdma/ib_verbs.h>).
 */
uint16_t wire_udp_sport(uint32_t flow_label, uint32_t lqpn, uint32_t rqpn);

#endif
