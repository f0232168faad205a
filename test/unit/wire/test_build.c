/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "frames.h"
#include "wire/icrc.h"
#include "../../kit/unit.h"

static uint32_t
be16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t
be32(const uint8_t *p)
{
	return be16(p) << 16 | be16(p + 2);
}

REQUIREMENT("WIRE-02")
UNIT_TEST(ipv4_and_udp_headers_are_as_specified)
{
	static const uint8_t addresses[] = {192, 0, 2, 1, 192, 0, 2, 99};
	struct frame f = frame_make(0x04, FRAME_V4, 5);
	const uint8_t *ip = f.bytes + 14, *udp = ip + 20;

	assert_int_equal(be16(f.bytes + 12), 0x0800);
	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[1], 0xb9);
	assert_int_equal(be16(ip + 2), f.len - 14);
	assert_int_equal(be16(ip + 4), 0xbeef);
	assert_int_equal(be16(ip + 6), 0x4000); /* DF, no fragment */
	assert_int_equal(ip[8], 17);
	assert_int_equal(ip[9], 17); /* UDP */
	assert_memory_equal(ip + 12, addresses, 8);
	assert_int_equal(be16(udp), 0xd17a);
	assert_int_equal(be16(udp + 2), 4791);
	assert_int_equal(be16(udp + 4), f.len - 34);
	assert_int_equal(be16(udp + 6), 0);
	assert_int_equal(f.len, 14 + 20 + 8 + 12 + 5 + 3 + 4);
}

REQUIREMENT("WIRE-02")
UNIT_TEST(ipv6_header_is_as_specified)
{
	struct frame f = frame_make(0x04, FRAME_V6, 6);
	struct wire_path path = frame_path(FRAME_V6);
	const uint8_t *ip = f.bytes + 14, *udp = ip + 40;

	assert_int_equal(be16(f.bytes + 12), 0x86dd);
	assert_int_equal(be32(ip), 0x6b9fabcd);
	assert_int_equal(be16(ip + 4), f.len - 54);
	assert_int_equal(ip[6], 17);
	assert_int_equal(ip[7], 17);
	assert_memory_equal(ip + 8, path.sgid, 16);
	assert_memory_equal(ip + 24, path.dgid, 16);
	assert_int_equal(be16(udp + 4), f.len - 54);
	assert_int_equal(be16(udp + 6), 0);
}

REQUIREMENT("WIRE-02")
UNIT_TEST(vlan_tag_is_as_specified)
{
	struct frame v4 = frame_make(0x04, FRAME_V4 | FRAME_VLAN, 4);
	struct frame v6 = frame_make(0x04, FRAME_V6 | FRAME_VLAN, 4);
	struct frame plain = frame_make(0x04, FRAME_V4, 4);

	assert_int_equal(be32(v4.bytes + 12), 0x8100a123);
	assert_int_equal(be16(v4.bytes + 16), 0x0800);
	assert_int_equal(be32(v6.bytes + 12), 0x8100a123);
	assert_int_equal(be16(v6.bytes + 16), 0x86dd);
	/* The tag is all that differs. */
	assert_int_equal(v4.len, plain.len + 4);
	assert_memory_equal(v4.bytes, plain.bytes, 12);
	assert_memory_equal(v4.bytes + 18, plain.bytes + 14, plain.len - 14);
}

REQUIREMENT("WIRE-02")
UNIT_TEST(ipv4_checksum_is_correct)
{
	struct wire_path path = frame_path(FRAME_V4);
	struct wire_fields fields = frame_fields(0x04);
	uint8_t frame[WIRE_MAX_OVERHEAD + FRAME_MAX_PAYLOAD];
	struct wire_tmpl t;
	uint32_t n, i, sum;

	wire_tmpl_init(&t, &path, 1, 0xffff);
	for (n = 0; n < 70000; n++) {
		wire_tmpl_set_ip_id(&t, (uint16_t)n);
		wire_hdr_put(&t, &fields, n % FRAME_MAX_PAYLOAD, frame);
		assert_int_equal(be16(frame + 14 + 4), n & 0xffff);
		for (i = 0, sum = 0; i < 20; i += 2)
			sum += be16(frame + 14 + i);
		sum = (sum & 0xffff) + (sum >> 16);
		assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	}
}

/* The header that everybody works out the checksum of, one byte longer. */
REQUIREMENT("WIRE-02")
UNIT_TEST(ipv4_checksum_equals_a_known_value)
{
	static const uint8_t src[] = {0xc0, 0xa8, 0, 1}, dst[] = {0xc0, 0xa8, 0, 0xc7};
	struct wire_path path = frame_path(FRAME_V4);
	struct wire_fields fields = frame_fields(0x04);
	uint8_t hdr[WIRE_MAX_HDR];
	struct wire_tmpl t;

	path.tclass = 0;
	path.hop_limit = 64;
	memcpy(path.sgid + 12, src, 4);
	memcpy(path.dgid + 12, dst, 4);
	wire_tmpl_init(&t, &path, 1, 0xffff);
	/* 45 00 00 73 00 00 40 00 40 11 .. c0 a8 00 01 c0 a8 00 c7 has 0xb861; ours is 0x74 long */
	wire_hdr_put(&t, &fields, 0x74 - 20 - 8 - 12 - 4, hdr);
	assert_int_equal(be16(hdr + 14 + 2), 0x74);
	assert_int_equal(be16(hdr + 14 + 10), 0xb860);
}

/* A frame from a capture, whose ICRC is right. */
REQUIREMENT("CC-02")
UNIT_TEST(cnp_equals_a_known_frame)
{
	static const uint8_t known[] = {0x45, 0x89, 0x00, 0x3c, 0x98, 0xc6, 0x40, 0x00, 0x20, 0x11,
					0x69, 0x27, 0x16, 0x16, 0x16, 0x08, 0x16, 0x16, 0x16, 0x07,
					0xdb, 0xae, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00,
					0xff, 0xff, 0x40, 0x00, 0x00, 0xd2, 0x00, 0x00, 0x00, 0x00,
					0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
					0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xda, 0xfc, 0x1b, 0xef};
	struct wire_path path = frame_path(FRAME_V4);
	struct wire_fields f = {.opcode = WIRE_OPCODE_CNP, .becn = true};
	uint8_t frame[128];
	struct wire_tmpl t, cnp;

	path.tclass = 0x89; /* DSCP 34, ECT(1) */
	path.hop_limit = 0x20;
	path.udp_sport = 0xdbae;
	memcpy(path.sgid + 12, known + 12, 4);
	memcpy(path.dgid + 12, known + 16, 4);
	wire_tmpl_init(&t, &path, 0xd2, 0xffff);
	wire_tmpl_set_ip_id(&t, 0x98c6);
	cnp = t;
	wire_tmpl_set_migreq(&cnp, false);
	assert_int_equal(wire_frame_finish(&cnp, frame, wire_hdr_put(&cnp, &f, 0, frame), 0),
			 14 + sizeof(known));
	assert_memory_equal(frame + 14, known, sizeof(known));
	/* As a QP makes it: without ECN bits, whatever its other packets have. */
	wire_tmpl_set_ect(&t, true);
	f.opcode = 0x04;
	wire_hdr_put(&t, &f, 8, frame);
	f.opcode = WIRE_OPCODE_CNP;
	wire_tmpl_cnp(&cnp, &t, 34);
	wire_frame_finish(&cnp, frame, wire_hdr_put(&cnp, &f, 0, frame), 0);
	assert_int_equal(frame[14 + 1], 0x88);
	assert_int_equal(be16(frame + 14 + 10), 0x6928);
	assert_memory_equal(frame + 14 + 12, known + 12, sizeof(known) - 12);
}

REQUIREMENT("CC-01")
UNIT_TEST(ect_is_set_on_data_only)
{
	static const struct {
		uint8_t opcode, ecn;
	} row[] = {{0x04, 2}, {0x0a, 2}, {0x11, 0}, {0x0c, 2}, {0x10, 2}, {0x12, 0}, {0x14, 2}};

	for (uint32_t v6 = 0; v6 <= 1; v6++) {
		struct wire_path path = frame_path(v6 ? FRAME_V6 : FRAME_V4);
		struct wire_fields f = {0};
		uint8_t frame[256];
		struct wire_pkt pkt;
		struct wire_tmpl t;

		path.tclass = 0xb9; /* ECT(1) by its user */
		wire_tmpl_init(&t, &path, 5, 0xffff);
		for (uint32_t i = 0; i < 3 * sizeof(row) / sizeof(row[0]); i++) {
			uint32_t k = i % (sizeof(row) / sizeof(row[0])), len, pay;
			bool on = i / (sizeof(row) / sizeof(row[0])) == 1;

			wire_tmpl_set_ect(&t, on);
			f.opcode = row[k].opcode;
			pay = wire_op_table[f.opcode].flags & WIRE_F_PAYLOAD ? 8 : 0;
			memset(frame, 0, sizeof(frame));
			len = wire_frame_finish(&t, frame, wire_hdr_put(&t, &f, pay, frame), pay);
			assert_int_equal(wire_parse(frame, len, &pkt), WIRE_OK);
			assert_true(wire_icrc_check(&pkt));
			assert_int_equal(pkt.tclass, on ? 0xb8 | row[k].ecn : 0xb9);
		}
	}
}

REQUIREMENT("WIRE-04")
UNIT_TEST(bth_bits_are_as_specified)
{
	struct wire_path path = frame_path(FRAME_V4);
	struct wire_fields f = {.opcode = 0x04, .psn = 0xff123456};
	uint8_t hdr[WIRE_MAX_HDR], *bth = hdr + 42;
	struct wire_tmpl t;

	wire_tmpl_init(&t, &path, 0xab000013, 0x8001);
	assert_int_equal(wire_hdr_put(&t, &f, 0, hdr), 54);
	assert_int_equal(be32(bth), 0x04408001);
	assert_int_equal(be32(bth + 4), 0x00000013); /* reserved bits 0 */
	assert_int_equal(be32(bth + 8), 0x00123456);

	f.solicited = f.ackreq = f.becn = true;
	wire_hdr_put(&t, &f, 0, hdr);
	assert_int_equal(be32(bth), 0x04c08001);
	assert_int_equal(be32(bth + 4), 0x40000013);
	assert_int_equal(be32(bth + 8), 0x80123456);

	/* Nothing of one packet stays for the next. */
	f = (struct wire_fields){.opcode = 0x04};
	wire_hdr_put(&t, &f, 0, hdr);
	assert_int_equal(be32(bth), 0x04408001);
	assert_int_equal(be32(bth + 4), 0x00000013);
	assert_int_equal(be32(bth + 8), 0);
}

REQUIREMENT("WIRE-04")
UNIT_TEST(pad_is_counted_and_zero)
{
	uint32_t len, pad, i;

	for (len = 0; len < 9; len++) {
		struct frame f = frame_make(0x02, FRAME_V4, len);
		const uint8_t *end = f.bytes + 54 + len;

		pad = (4 - len % 4) % 4;
		assert_int_equal(f.bytes[42 + 1], 0xc0 | pad << 4);
		assert_int_equal(f.len, 54 + len + pad + 4);
		for (i = 0; i < pad; i++)
			assert_int_equal(end[i], 0);
	}
}

/* Byte for byte, the headers of the longest opcodes. */
REQUIREMENT("WIRE-01")
UNIT_TEST(extended_headers_are_as_specified)
{
	static const uint8_t write_imm[] = {
		0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10, 0xca, 0xfe,
		0x01, 0x23, 0x80, 0x00, 0x00, 0x00, 0xa1, 0xb2, 0xc3, 0xd4,
	};
	static const uint8_t cmp_swap[] = {
		0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10, 0xca, 0xfe, 0x01, 0x23, 0x88, 0x77,
		0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00,
	};
	static const uint8_t ud_imm[] = {
		0x80, 0x01, 0x00, 0x00, 0x00, 0x98, 0x76, 0x54, 0xa1, 0xb2, 0xc3, 0xd4,
	};
	static const uint8_t atomic_ack[] = {
		0x65, 0xab, 0xcd, 0xef, 0xf1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
	};
	static const uint8_t send_inv[] = {0xde, 0xad, 0xbe, 0xef};
	static const uint8_t cnp[16] = {0};
	static const struct {
		uint8_t opcode;
		const uint8_t *bytes;
		uint32_t len;
	} cases[] = {
		{0x0b, write_imm, sizeof(write_imm)}, {0x13, cmp_swap, sizeof(cmp_swap)},
		{0x65, ud_imm, sizeof(ud_imm)},       {0x12, atomic_ack, sizeof(atomic_ack)},
		{0x17, send_inv, sizeof(send_inv)},   {0x81, cnp, sizeof(cnp)},
	};
	uint32_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct frame f = frame_make(cases[i].opcode, FRAME_V4, 0);

		assert_int_equal(f.len, 54 + cases[i].len + 4);
		assert_memory_equal(f.bytes + 54, cases[i].bytes, cases[i].len);
	}
}

/*
 * The state of a template after one packet does not affect the next: packets of random shapes, each
 * also built by a fresh template.
 */
REQUIREMENT("WIRE-01")
UNIT_TEST(packets_can_be_built_in_any_order)
{
	uint8_t a[WIRE_MAX_OVERHEAD + 16], b[WIRE_MAX_OVERHEAD + 16];
	uint32_t kind, n, seed = 1;

	for (kind = 0; kind < FRAME_KINDS; kind++) {
		struct wire_path path = frame_path(kind);
		struct wire_tmpl all, one;
		uint16_t pkey = 0xffff;
		bool migreq = true;

		wire_tmpl_init(&all, &path, 0x123456, pkey);
		for (n = 0; n < 20000; n++) {
			static const uint8_t opcodes[] = {0x00, 0x01, 0x04, 0x05, 0x0a, 0x0b,
							  0x0c, 0x11, 0x13, 0x17, 0x64, 0x81};
			uint32_t r = seed = seed * 1664525 + 1013904223, len = r >> 28;
			struct wire_fields f = frame_fields(opcodes[(r >> 8) % sizeof(opcodes)]);

			f.solicited = r >> 20 & 1;
			f.becn = r >> 21 & 1;
			f.ackreq = r >> 22 & 1;
			f.psn = r;
			if ((r >> 23 & 15) == 0)
				wire_tmpl_set_pkey(&all, pkey ^= 0x7f);
			if ((r >> 23 & 15) == 1)
				wire_tmpl_set_migreq(&all, migreq = !migreq);
			memset(a, 0x55, sizeof(a));
			memset(b, 0x55, sizeof(b));
			wire_tmpl_init(&one, &path, 0x123456, pkey);
			wire_tmpl_set_migreq(&one, migreq);
			wire_frame_finish(&one, b, wire_hdr_put(&one, &f, len, b), len);
			wire_frame_finish(&all, a, wire_hdr_put(&all, &f, len, a), len);
			assert_memory_equal(a, b, sizeof(a));
		}
	}
}

/* Headers of every opcode fit the size that the header file names. */
REQUIREMENT("WIRE-01")
UNIT_TEST(headers_fit_their_buffer)
{
	struct wire_path path = frame_path(FRAME_V6 | FRAME_VLAN);
	uint8_t room[WIRE_MAX_HDR] = {0};
	struct wire_tmpl t;
	uint32_t opcode;

	wire_tmpl_init(&t, &path, 1, 0xffff);
	for (opcode = 0; opcode < 256; opcode++) {
		struct wire_fields fields = frame_fields((uint8_t)opcode);
		/* The buffer ends at the end of the page: one more byte is a crash. */
		uint8_t *out = (uint8_t *)(uintptr_t)frame_guarded(room, sizeof(room));
		uint32_t len = wire_hdr_put(&t, &fields, 0, out);

		assert_int_equal(len, t.bth_off + wire_op_table[opcode].hdr_len);
		assert_true(len <= WIRE_MAX_HDR);
	}
}

/* Sent in two pieces, a frame is the same as in one. */
REQUIREMENT("WIRE-03")
UNIT_TEST(headers_can_be_built_apart_from_the_payload)
{
	uint32_t kind, len;

	for (kind = 0; kind < FRAME_KINDS; kind++) {
		for (len = 0; len < 8; len++) {
			struct frame f = frame_make(0x0b, kind, len);
			struct wire_path path = frame_path(kind);
			struct wire_fields fields = frame_fields(0x0b);
			static const uint8_t zero[3] = {0};
			uint8_t hdr[WIRE_MAX_HDR];
			struct wire_tmpl t;
			uint32_t hdr_len, pad, icrc;

			wire_tmpl_init(&t, &path, 0x8ace13, 0x7fff);
			wire_tmpl_set_ip_id(&t, 0xbeef);
			hdr_len = wire_hdr_put(&t, &fields, len, hdr);
			pad = -len & 3;
			icrc = wire_icrc_start(hdr + t.ip_off, t.is_v6);
			icrc = wire_icrc_update(icrc, hdr + t.len, hdr_len - t.len);
			icrc = wire_icrc_update(icrc, f.bytes + hdr_len, len);
			icrc = wire_icrc_final(wire_icrc_update(icrc, zero, pad));
			assert_memory_equal(hdr, f.bytes, hdr_len);
			assert_memory_equal(&icrc, f.bytes + f.len - 4, 4);
		}
	}
}

/* A frame that is sealed from its own headers gets the same ICRC as from its template. */
REQUIREMENT("WIRE-03")
UNIT_TEST(packet_is_sealed_without_its_template)
{
	for (uint32_t kind = 0; kind < FRAME_KINDS; kind++) {
		struct frame f = frame_make(0x0b, kind, 5), g = f;

		memset(g.bytes + g.len - WIRE_ICRC_LEN, 0, WIRE_ICRC_LEN);
		wire_frame_seal_own(g.bytes, g.len);
		assert_memory_equal(g.bytes, f.bytes, f.len);
	}
}

/* Values worked out with another program after the kernel's formula. */
REQUIREMENT("WIRE-02")
UNIT_TEST(udp_source_port_is_in_the_dynamic_range)
{
	uint32_t n;

	assert_int_equal(wire_udp_sport(0, 0x11, 0x12), 0xc132);
	assert_int_equal(wire_udp_sport(0, 0x12, 0x11), 0xc132); /* the same for both directions */
	assert_int_equal(wire_udp_sport(0, 0xffffff, 0xfffffe), 0xff12);
	assert_int_equal(wire_udp_sport(0, 0x123456, 0x654321), 0xf787);
	assert_int_equal(wire_udp_sport(0, 1, 0), 0xc000);
	assert_int_equal(wire_udp_sport(0xabcde, 0x11, 0x12), 0xfcf4);
	assert_int_equal(wire_udp_sport(0xfffabcde, 1, 2), 0xfcf4); /* 20 bits of it */
	for (n = 0; n < 100000; n++)
		assert_in_range(wire_udp_sport(n * 97, n * 31 + 17, n + 17), 0xc000, 0xffff);
}
