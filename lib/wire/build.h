/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building frames. A struct wire_tmpl holds the Ethernet, (VLAN,) IP, UDP and BTH bytes of a QP's
 * or AH's packets. Most packets have the opcode and length of the previous packet and differ from
 * it only in the PSN. A template therefore caches the headers of its last packet and the CRC state
 * after them. wire_hdr_put writes a packet's headers, wire_frame_seal its ICRC.
 */
#ifndef WIRE_BUILD_H
#define WIRE_BUILD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "wire/hdr.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

/* Addressing of a template's packets. Filled by lib/net, encoded by wire_tmpl_init. */
struct wire_path {
	uint8_t smac[6], dmac[6];
	uint8_t sgid[16], dgid[16]; /* both IPv4-mapped or both IPv6 */
	uint16_t udp_sport;         /* 0xc000 .. 0xffff (WIRE-02); less: fixed by a host's stack */
	uint16_t vlan_tci;          /* 0: no tag */
	uint8_t tclass;             /* DSCP and ECN */
	uint8_t hop_limit;          /* 1 .. 255 */
	uint32_t flow_label;        /* IPv6, 20 bits */
};

#define WIRE_TMPL_NEAR 64 /* first bytes of a template; the whole header prefix over IPv4 */

struct wire_tmpl {
	/* Headers of the last packet without its PSN; before the first, the constant bytes. */
	uint8_t bytes[80];
	uint64_t shape;    /* what they depend on (WIRE_SHAPE_*); 0: no packet yet */
	uint32_t extended; /* WIRE_F_EXTENDED of its opcode */
	uint32_t icrc;     /* CRC state after bytes, before the PSN, if icrc_known */
	bool icrc_known;
	uint8_t len;    /* bytes in use, including the BTH */
	uint8_t ip_off; /* offset of the IP header */
	uint8_t bth_off;
	bool is_v6;
	bool ect;       /* data packets have ECT(0), others no ECN bits (wire_tmpl_set_ect) */
	uint8_t tclass; /* of the path */
	/*
	 * IPv4 identification, host order. It is the same for all packets: with DF set it carries
	 * no information (RFC 6864, 4.1), and frames of one length then have equal headers up to
	 * the PSN.
	 */
	uint16_t ip_id;
	uint16_t ip_sum; /* IPv4: checksum of bytes, before length and identification */
};
_Static_assert(WIRE_ETH_LEN + WIRE_VLAN_LEN + WIRE_IPV6_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN <= 80,
	       "the longest headers fit a template");
_Static_assert(WIRE_MAX_HDR >= 80, "a template fits into a header buffer");

/*
 * Build the constant bytes of path: destination QPN qpn (24 bits), partition pkey, MigReq 1, TVer
 * 0, IPv4 DF set, IPv4 identification 0. Does not keep path. Never fails: lib/net, which fills
 * path, checks its values.
 */
void wire_tmpl_init(struct wire_tmpl *t, const struct wire_path *path, uint32_t qpn, uint16_t pkey);

/* Use pkey in all packets from now on. No effect before wire_tmpl_init. */
void wire_tmpl_set_pkey(struct wire_tmpl *t, uint16_t pkey);

/* Set MigReq to 1 (as wire_tmpl_init does) or 0 in all packets from now on. */
void wire_tmpl_set_migreq(struct wire_tmpl *t, bool migreq);

/*
 * From now on set ECT(0) in packets with data or a request, and no ECN bits in acknowledgements and
 * CNPs (CC-01); or, if !ect, use the path's ECN bits in all packets, as wire_tmpl_init does.
 */
void wire_tmpl_set_ect(struct wire_tmpl *t, bool ect);

/*
 * Make *cnp the template of CNPs to the QP that t's packets go to, with this DSCP (0 .. 63). A CNP
 * has BECN, PSN 0, and no MigReq.
 */
void wire_tmpl_cnp(struct wire_tmpl *cnp, const struct wire_tmpl *t, uint8_t dscp);

/* Use this IPv4 identification in all packets from now on. For IPv4 templates only. */
void wire_tmpl_set_ip_id(struct wire_tmpl *t, uint16_t id);

/* The fields that differ between packets. Fields without a header in the opcode are ignored. */
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

/* What the headers before the PSN depend on. Bits 0-7: opcode; bits 16-31: payload length. */
#define WIRE_SHAPE_SE     (1ull << 8)
#define WIRE_SHAPE_BECN   (1ull << 9)
#define WIRE_SHAPE_LEN(n) ((uint64_t)(n) << 16)
#define WIRE_SHAPE_SET    (1ull << 63)

/* Rewrite t's bytes for this shape. Called by wire_hdr_put. */
void wire_tmpl_reshape(struct wire_tmpl *t, uint64_t shape) __attribute__((cold));

/* Headers that may follow the BTH. */
#define WIRE_F_EXTENDED                                                                            \
	(WIRE_F_DETH | WIRE_F_RETH | WIRE_F_ATOMICETH | WIRE_F_AETH | WIRE_F_ATOMICACKETH |        \
	 WIRE_F_IMM | WIRE_F_IETH | WIRE_F_CNP)

/* Write the headers named by flags (WIRE_F_*) to p. Returns their end. */
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
 * Write all headers of one packet with payload_len bytes (0 .. 2^15) to out, which has space for
 * WIRE_MAX_HDR. Returns their length. The payload follows directly; wire_frame_close adds pad and
 * ICRC. Thread: the template's owner.
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
	/* The sizes are constant, so these compile to a few vector moves. */
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
		struct wire_fields seen = *f; /* copied so that f itself may stay in registers */

		len += (uint32_t)(wire_put_extended(out, t->extended, &seen) - out);
	}
	return len;
}

/*
 * Pad a frame that starts with hdr_len bytes of headers (the result of wire_hdr_put), followed by
 * the payload. Needs 3 + WIRE_ICRC_LEN bytes of space after the payload. Returns the length of the
 * frame, whose last 4 bytes, the ICRC, are not set yet.
 */
static inline uint32_t
wire_frame_close(uint8_t *frame, uint32_t hdr_len, uint32_t payload_len)
{
	uint32_t pad = -payload_len & 3;

	if (pad != 0) /* the ICRC overwrites the excess */
		memset(frame + hdr_len + payload_len, 0, 3);
	return hdr_len + payload_len + pad + WIRE_ICRC_LEN;
}

/* Compute the CRC state after t's headers. Called by wire_frame_seal. */
void wire_tmpl_know_icrc(struct wire_tmpl *t);

/* Set the ICRC of a closed frame of len bytes, which must be the last one built from t. */
static inline void
wire_frame_seal(struct wire_tmpl *t, uint8_t *frame, uint32_t len)
{
	uint32_t from = t->len - WIRE_BTH_PSN_LEN, end = len - WIRE_ICRC_LEN, icrc;

	if (!t->icrc_known)
		wire_tmpl_know_icrc(t);
	icrc = wire_icrc_final(wire_icrc_update(t->icrc, frame + from, end - from));
	memcpy(frame + end, &icrc, sizeof(icrc));
}

/* The same without a template, from the frame alone. Does not validate the frame. */
void wire_frame_seal_own(uint8_t *frame, uint32_t len);

/* Close and seal. Returns the length of the frame. */
static inline uint32_t
wire_frame_finish(struct wire_tmpl *t, uint8_t *frame, uint32_t hdr_len, uint32_t payload_len)
{
	uint32_t len = wire_frame_close(frame, hdr_len, payload_len);

	wire_frame_seal(t, frame, len);
	return len;
}

/*
 * UDP source port of a connected pair, or of a flow label if it is not 0: the kernel's convention,
 * 0xc000 .. 0xffff (WIRE-02; rdma_calc_flow_label in <rdma/ib_verbs.h>).
 */
#define WIRE_UDP_SPORT_MIN 0xc000u
uint16_t wire_udp_sport(uint32_t flow_label, uint32_t lqpn, uint32_t rqpn);

#endif
