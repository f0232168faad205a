/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building frames. A struct wire_tmpl holds the Ethernet, (VLAN,) IP, UDP and BTH bytes that are
 * the same in every packet of a QP or AH; wire_hdr_put copies it and fills in what differs,
 * wire_frame_finish sets lengths, checksum and ICRC.
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

struct wire_tmpl {
	uint8_t bytes[WIRE_ETH_LEN + WIRE_VLAN_LEN + WIRE_IPV6_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN];
	uint8_t len;    /* bytes in use, up to and with the BTH */
	uint8_t ip_off; /* offset of the IP header */
	uint8_t bth_off;
	bool is_v6;
	/*
	 * IPv4 identification, host order. One for all: with DF set it tells nobody anything (RFC
	 * 6864, 4.1), and frames of one length then have the same headers up to the PSN
	 * (wire/icrc.h).
	 */
	uint16_t ip_id;
	uint16_t ip_sum; /* IPv4: checksum of bytes, before length and identification */
};

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

/* What differs from packet to packet. Fields that the opcode has no header for are ignored. */
struct wire_fields {
	uint8_t opcode;
	bool solicited, ackreq, becn;
	uint32_t psn;
	uint32_t qpn_override; /* UD: destination QPN; 0 keeps the template's */
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

/*
 * Write all headers of one packet to out (room for WIRE_MAX_HDR). Returns their length; the payload
 * goes right behind. Lengths, checksum and ICRC come with wire_frame_finish.
 */
uint32_t wire_hdr_put(const struct wire_tmpl *t, const struct wire_fields *f, uint8_t *out);

/*
 * Set what depends on the payload's length in hdr_len bytes of headers made by wire_hdr_put:
 * PadCnt, IP and UDP lengths, IPv4 checksum. Returns the pad count, 0..3. For who sends the payload
 * from where it lies: pad bytes (zero) and ICRC are then the caller's, by wire_icrc_start(hdr +
 * t->ip_off, ..) and on; wire_frame_finish does all of it for a frame in one piece.
 */
uint32_t wire_hdr_finish(const struct wire_tmpl *t, uint8_t *hdr, uint32_t hdr_len,
			 uint32_t payload_len);

/*
 * Close a frame whose headers and payload_len bytes of payload stand at frame: pad to 4 bytes, set
 * PadCnt, IP and UDP lengths, IPv4 checksum. hdr_len is what wire_hdr_put returned. Needs 3 +
 * WIRE_ICRC_LEN bytes of room behind the payload. Returns the length of the frame, whose last 4
 * bytes, the ICRC, are not set yet.
 */
uint32_t wire_frame_close(const struct wire_tmpl *t, uint8_t *frame, uint32_t hdr_len,
			  uint32_t payload_len);

/*
 * Set the ICRC of a closed frame of len bytes, with its IP header at ip_off. memo: NULL, or as in
 * wire_icrc_frame.
 */
static inline void
wire_frame_seal(uint8_t *frame, uint32_t len, uint32_t ip_off, bool is_v6,
		struct wire_icrc_memo *memo)
{
	uint8_t *end = frame + len - WIRE_ICRC_LEN;
	uint32_t icrc = wire_icrc_frame(frame + ip_off, is_v6, end, memo);

	memcpy(end, &icrc, sizeof(icrc));
}

/* The same where only the frame is at hand, which wire_frame_close has closed: nothing is checked.
 */
void wire_frame_seal_own(uint8_t *frame, uint32_t len);

/* Close and seal. */
static inline uint32_t
wire_frame_finish(const struct wire_tmpl *t, uint8_t *frame, uint32_t hdr_len, uint32_t payload_len)
{
	uint32_t len = wire_frame_close(t, frame, hdr_len, payload_len);

	wire_frame_seal(frame, len, t->ip_off, t->is_v6, NULL);
	return len;
}

/*
 * UDP source port of a connected pair (or of a flow label where one is given): the kernel's
 * convention, 0xc000 .. 0xffff (wire-facts, WIRE-02).
 */
uint16_t wire_udp_sport(uint32_t flow_label, uint32_t lqpn, uint32_t rqpn);

#endif
