/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "frames.h"
#include "wire/icrc.h"
#include "wire/parse.h"
#include "../../kit/unit.h"

/* Parse from a copy that ends where readable memory ends; pkt points into that copy. */
static enum wire_verdict
parse(const struct frame *f, struct wire_pkt *pkt)
{
	memset(pkt, 0, sizeof(*pkt));
	return wire_parse(frame_guarded(f->bytes, f->len), f->len, pkt);
}

/* Parses f with the byte at off set to value. */
static enum wire_verdict
parse_with(struct frame f, uint32_t off, uint8_t value)
{
	struct wire_pkt pkt;

	f.bytes[off] = value;
	frame_fix_csum(&f);
	return parse(&f, &pkt);
}

static void
check_common_fields(const struct frame *f, unsigned kind, const struct wire_pkt *pkt)
{
	struct wire_path path = frame_path(kind);
	uint8_t gid[16];

	assert_ptr_equal(pkt->ip, pkt->l2 + f->ip_off);
	assert_ptr_equal(pkt->bth, pkt->l2 + f->bth_off);
	assert_int_equal(pkt->is_v6, (kind & FRAME_V6) != 0);
	assert_int_equal(pkt->vlan_tci, path.vlan_tci);
	assert_int_equal(pkt->tclass, path.tclass);
	assert_int_equal(pkt->qpn, 0x8ace13);
	assert_int_equal(pkt->psn, 0xfedcba);
	assert_int_equal(pkt->pkey, 0x7fff);
	assert_true(pkt->solicited && pkt->ackreq && pkt->migreq);
	assert_false(pkt->fecn || pkt->becn);
	wire_src_gid(pkt, gid);
	assert_memory_equal(gid, path.sgid, 16);
	wire_dst_gid(pkt, gid);
	assert_memory_equal(gid, path.dgid, 16);
}

static void
check_extended_fields(uint32_t flags, const struct wire_fields *want, const struct wire_pkt *pkt)
{
	if (flags & (WIRE_F_RETH | WIRE_F_ATOMICETH)) {
		assert_int_equal(pkt->va, want->va);
		assert_int_equal(pkt->rkey, want->rkey);
	}
	if (flags & WIRE_F_RETH)
		assert_int_equal(pkt->dmalen, want->dmalen);
	if (flags & WIRE_F_ATOMICETH) {
		assert_int_equal(pkt->swap_add, want->swap_add);
		assert_int_equal(pkt->compare, want->compare);
	}
	if (flags & WIRE_F_AETH) {
		assert_int_equal(pkt->syndrome, want->syndrome);
		assert_int_equal(pkt->msn, want->msn);
	}
	if (flags & WIRE_F_ATOMICACKETH)
		assert_int_equal(pkt->orig, want->orig);
	if (flags & WIRE_F_DETH) {
		assert_int_equal(pkt->qkey, want->qkey);
		assert_int_equal(pkt->src_qpn, want->src_qpn);
	}
	if (flags & WIRE_F_IMM)
		assert_int_equal(pkt->imm, want->imm);
	if (flags & WIRE_F_IETH)
		assert_int_equal(pkt->inv_rkey, want->inv_rkey);
}

/*
 * Every opcode x IPv4/IPv6 x VLAN x payload length modulo 4 parses to the fields it was built from.
 */
REQUIREMENT("WIRE-01")
UNIT_TEST(every_opcode_round_trip)
{
	static const uint32_t lengths[] = {0, 1, 2, 3, 4, FRAME_MAX_PAYLOAD};
	uint32_t opcode, kind, i, b;

	for (opcode = frame_next_opcode(0); opcode < 256; opcode = frame_next_opcode(opcode + 1)) {
		uint32_t flags = wire_op_table[opcode].flags;
		struct wire_fields fields = frame_fields((uint8_t)opcode);

		for (kind = 0; kind < FRAME_KINDS; kind++) {
			for (i = 0; i < (flags & WIRE_F_PAYLOAD ? 6 : 1); i++) {
				struct frame f = frame_make((uint8_t)opcode, kind, lengths[i]);
				struct wire_pkt pkt;

				assert_int_equal(parse(&f, &pkt), WIRE_OK);
				assert_int_equal(pkt.opcode, opcode);
				assert_ptr_equal(pkt.op, &wire_op_table[opcode]);
				check_common_fields(&f, kind, &pkt);
				check_extended_fields(flags, &fields, &pkt);
				assert_int_equal(pkt.payload_len, lengths[i]);
				assert_int_equal(pkt.pad_len, (4 - lengths[i] % 4) % 4);
				for (b = 0; b < lengths[i]; b++)
					assert_int_equal(pkt.payload[b], (uint8_t)(0xa5 - b));
				assert_true(wire_icrc_check(&pkt));
			}
		}
	}
}

REQUIREMENT("WIRE-02")
UNIT_TEST(frames_other_than_roce_are_recognized)
{
	static const uint8_t extensions[] = {0, 43, 50, 51, 60, 135};
	struct frame v4 = frame_make(0x04, FRAME_V4, 8), v6 = frame_make(0x04, FRAME_V6, 8);

	assert_int_equal(parse_with(v4, 13, 0x06), WIRE_NOT_ROCE);          /* ARP */
	assert_int_equal(parse_with(v4, v4.ip_off + 9, 1), WIRE_NOT_ROCE);  /* ICMP */
	assert_int_equal(parse_with(v6, v6.ip_off + 6, 58), WIRE_NOT_ROCE); /* ICMPv6 */
	/* Neither RoCE nor slow path, each with a reason. */
	assert_int_equal(parse_with(v4, 13, 0x08), WIRE_ETHERTYPE);
	assert_int_equal(parse_with(v4, v4.ip_off + 9, 6), WIRE_IP_PROTOCOL); /* TCP */
	assert_int_equal(parse_with(v4, v4.ip_off + 9, 2), WIRE_NOT_ROCE);    /* IGMP */
	assert_int_equal(parse_with(v6, v6.ip_off + 6, 6), WIRE_IP_PROTOCOL);
	assert_int_equal(parse_with(v6, v6.ip_off + 6, 59), WIRE_IP_PROTOCOL);
	assert_int_equal(parse_with(v6, v6.ip_off + 6, 44), WIRE_FRAGMENT);
	for (uint32_t i = 0; i < sizeof(extensions); i++)
		assert_int_equal(parse_with(v6, v6.ip_off + 6, extensions[i]), WIRE_IPV6_EXTENSION);
	assert_int_equal(parse_with(v4, v4.bth_off - 5, 53), WIRE_OTHER_PORT);
	assert_int_equal(parse_with(v6, v6.bth_off - 5, 53), WIRE_OTHER_PORT);
	/* Whatever else is wrong with another protocol's packet is not ours to count. */
	v4.bytes[v4.bth_off - 5] = 53;
	v4.bytes[v4.bth_off - 3] ^= 0xff;
	assert_int_equal(parse_with(v4, v4.ip_off + 8, 1), WIRE_OTHER_PORT);
}

REQUIREMENT("WIRE-04")
UNIT_TEST(bad_ip_headers_are_refused)
{
	struct frame v4 = frame_make(0x04, FRAME_V4, 8), v6 = frame_make(0x04, FRAME_V6, 8);
	struct wire_pkt pkt;

	assert_int_equal(parse_with(v4, v4.ip_off, 0x65), WIRE_BAD_IP); /* version */
	assert_int_equal(parse_with(v4, v4.ip_off, 0x44), WIRE_BAD_IP); /* header length */
	assert_int_equal(parse_with(v4, v4.ip_off, 0x46), WIRE_BAD_IP); /* options */
	assert_int_equal(parse_with(v4, v4.ip_off + 2, 0xff), WIRE_BAD_IP);
	assert_int_equal(parse_with(v4, v4.ip_off + 3, 19), WIRE_BAD_IP);
	assert_int_equal(parse_with(v6, v6.ip_off, 0x4b), WIRE_BAD_IP);
	assert_int_equal(parse_with(v6, v6.ip_off + 4, 0xff), WIRE_BAD_IP);
	v4.bytes[v4.ip_off + 11] ^= 1;
	assert_int_equal(parse(&v4, &pkt), WIRE_BAD_IP); /* checksum */
}

REQUIREMENT("WIRE-04")
UNIT_TEST(fragments_are_refused)
{
	struct frame v4 = frame_make(0x04, FRAME_V4, 8), v6 = frame_make(0x04, FRAME_V6, 8);

	assert_int_equal(parse_with(v4, v4.ip_off + 6, 0x20), WIRE_FRAGMENT);
	assert_int_equal(parse_with(v4, v4.ip_off + 7, 0x01), WIRE_FRAGMENT);
	assert_int_equal(parse_with(v4, v4.ip_off + 6, 0x00), WIRE_OK); /* DF clear: its matter */
	assert_int_equal(parse_with(v6, v6.ip_off + 6, 44), WIRE_FRAGMENT);
}

REQUIREMENT("WIRE-04")
UNIT_TEST(udp_length_must_agree)
{
	uint32_t kind;

	for (kind = 0; kind < FRAME_KINDS; kind++) {
		struct frame f = frame_make(0x04, kind, 8);
		uint8_t len = f.bytes[f.bth_off - 3];

		assert_int_equal(parse_with(f, f.bth_off - 3, len - 4), WIRE_BAD_UDP);
		assert_int_equal(parse_with(f, f.bth_off - 3, len + 4), WIRE_BAD_UDP);
		assert_int_equal(parse_with(f, f.bth_off - 3, 0), WIRE_BAD_UDP);
		/* The ICRC masks the UDP checksum, which is not checked. */
		assert_int_equal(parse_with(f, f.bth_off - 1, 0x55), WIRE_OK);
	}
}

/* Ethernet pads short frames; bytes after the IP packet are not part of it. */
REQUIREMENT("WIRE-04")
UNIT_TEST(ethernet_padding_is_ignored)
{
	struct frame f = frame_make(0x04, FRAME_V4, 0);
	uint32_t len = f.len;
	struct wire_pkt pkt;

	memset(f.bytes + len, 0x5a, 18);
	f.len += 18;
	assert_int_equal(parse(&f, &pkt), WIRE_OK);
	assert_int_equal(pkt.payload_len, 0);
	assert_ptr_equal(pkt.payload, pkt.l2 + len - WIRE_ICRC_LEN);
	assert_true(wire_icrc_check(&pkt));
}

REQUIREMENT("WIRE-04")
UNIT_TEST(other_transport_versions_are_refused)
{
	uint8_t tver;

	for (tver = 1; tver < 16; tver++) {
		struct frame f = frame_make(0x04, FRAME_V4, 8);

		assert_int_equal(parse_with(f, f.bth_off + 1, 0x40 | tver), WIRE_BAD_TVER);
	}
}

/* Packets of another transport version cannot be judged malformed. */
REQUIREMENT("NAK-07", "WIRE-04")
UNIT_TEST(transport_version_is_checked_first)
{
	struct frame unknown = frame_make(0x1f, FRAME_V4, 8), empty = frame_make(0x04, FRAME_V4, 0);
	struct frame ack = frame_make(0x11, FRAME_V6, 4);

	assert_int_equal(parse_with(unknown, unknown.bth_off + 1, 0x41), WIRE_BAD_TVER);
	assert_int_equal(parse_with(empty, empty.bth_off + 1, 0x72), WIRE_BAD_TVER);
	assert_int_equal(parse_with(ack, ack.bth_off + 1, 0x48), WIRE_BAD_TVER);
}

/* A packet with an unknown opcode still has a QPN and an ICRC. */
REQUIREMENT("WIRE-01")
UNIT_TEST(unknown_opcodes_are_refused)
{
	static const uint8_t unknown[] = {0x15, 0x18, 0x1f, 0x2c, 0x36, 0x44, 0x60,
					  0x63, 0x66, 0x80, 0x82, 0xa4, 0xc0, 0xff};
	uint32_t i, kind;

	for (i = 0; i < sizeof(unknown); i++) {
		for (kind = 0; kind < FRAME_KINDS; kind++) {
			struct frame f = frame_make(unknown[i], kind, 8);
			struct wire_pkt pkt;

			assert_int_equal(parse(&f, &pkt), WIRE_BAD_OPCODE);
			check_common_fields(&f, kind, &pkt);
			assert_true(wire_icrc_check(&pkt));
			f.bytes[f.len - 5] ^= 1;
			assert_int_equal(parse(&f, &pkt), WIRE_BAD_OPCODE);
			assert_false(wire_icrc_check(&pkt));
		}
	}
}

REQUIREMENT("WIRE-04")
UNIT_TEST(wrong_pad_count_is_refused)
{
	struct frame empty = frame_make(0x04, FRAME_V4, 0), four = frame_make(0x04, FRAME_V4, 4);
	struct frame odd = frame_make(0x04, FRAME_V4, 8);
	struct wire_pkt pkt;
	uint8_t pad;

	for (pad = 1; pad < 4; pad++) {
		/* More pad than payload: rxe's length went below zero here. */
		assert_int_equal(parse_with(empty, empty.bth_off + 1, 0x40 | pad << 4),
				 WIRE_BAD_PAD);
		four.bytes[four.bth_off + 1] = (uint8_t)(0x40 | pad << 4);
		assert_int_equal(parse(&four, &pkt), WIRE_OK);
		assert_int_equal(pkt.payload_len, 4 - pad);
		assert_int_equal(pkt.pad_len, pad);
	}
	for (pad = 1; pad < 4; pad++) {
		frame_shorten(&odd, 1);
		assert_int_equal(parse(&odd, &pkt), WIRE_BAD_PAD);
		assert_int_equal(pkt.psn, 0xfedcba);
	}
}

/* A first or middle packet with pad parses: the responder answers it with a NAK. */
REQUIREMENT("NAK-07")
UNIT_TEST(pad_in_first_and_middle_packets_parses)
{
	static const uint8_t opcodes[] = {0x00, 0x01, 0x06, 0x07, 0x20, 0x21, 0x26, 0x27};
	uint32_t i;

	for (i = 0; i < sizeof(opcodes); i++) {
		struct frame f = frame_make(opcodes[i], FRAME_V4, 3);
		struct wire_pkt pkt;

		assert_int_equal(parse(&f, &pkt), WIRE_OK);
		assert_int_equal(pkt.pad_len, 1);
	}
}

REQUIREMENT("WIRE-04")
UNIT_TEST(unexpected_payload_parses_as_bad_length)
{
	static const uint8_t opcodes[] = {0x0c, 0x11, 0x12, 0x13, 0x14, 0x81};
	uint32_t i;

	for (i = 0; i < sizeof(opcodes); i++) {
		struct frame f = frame_make(opcodes[i], FRAME_V4, 4);
		struct wire_pkt pkt;

		assert_int_equal(parse(&f, &pkt), WIRE_BAD_LENGTH);
		assert_int_equal(pkt.qpn, 0x8ace13);
		assert_true(wire_icrc_check(&pkt));
	}
}

/* Reserved bits of the BTH are ignored; FECN, BECN and MigReq are read. */
REQUIREMENT("WIRE-04")
UNIT_TEST(reserved_bits_are_ignored)
{
	struct frame f = frame_make(0x64, FRAME_V6, 8);
	struct wire_pkt pkt;

	f.bytes[f.bth_off + 4] = 0xff;
	f.bytes[f.bth_off + 8] = 0xff;
	f.bytes[f.bth_off + 12 + 4] = 0xff; /* above the DETH's source QPN */
	f.bytes[f.bth_off + 1] &= 0xbf;
	assert_int_equal(parse(&f, &pkt), WIRE_OK);
	assert_int_equal(pkt.qpn, 0x8ace13);
	assert_int_equal(pkt.psn, 0xfedcba);
	assert_int_equal(pkt.src_qpn, 0x987654);
	assert_true(pkt.fecn && pkt.becn && !pkt.migreq);
}

UNIT_TEST(every_verdict_has_a_name)
{
	int v, other;

	for (v = 0; v < WIRE_VERDICTS; v++) {
		assert_non_null(wire_verdict_name[v]);
		for (other = 0; other < v; other++)
			assert_string_not_equal(wire_verdict_name[v], wire_verdict_name[other]);
	}
}
