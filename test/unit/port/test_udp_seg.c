/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames and datagrams, without a socket: runs, gathering, headers, ICRCs. No EAL. */
#include <stdlib.h>
#include <string.h>
#include "port/udp_seg.h"
#include "wire/icrc.h"
#include "wire/parse.h"
#include "../../kit/unit.h"

#define FRAMES     100
#define FRAME_ROOM 1600

static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
static uint8_t bytes[FRAMES][FRAME_ROOM];
static struct rte_mbuf mbuf[FRAMES], *m[FRAMES];

static struct udp_from
from_v4(void)
{
	return (struct udp_from){
		.src = {[10] = 0xff, 0xff, 10, 9, 0, 1},
		.dst = {[10] = 0xff, 0xff, 10, 9, 0, 2},
		.sport = WIRE_UDP_PORT,
		.ttl = 64,
	};
}

static struct udp_from
from_v6(void)
{
	return (struct udp_from){
		.src = {0xfd, [15] = 1},
		.dst = {0xfd, [15] = 2},
		.sport = WIRE_UDP_PORT,
		.tos = 0x6b,
		.ttl = 3,
		.v6 = true,
	};
}

/* Frame i, of payload bytes. */
static void
put(uint32_t i, const struct udp_from *from, uint32_t payload)
{
	uint32_t hdr = udp_headers_put(bytes[i], mac, from, payload);

	memset(bytes[i] + hdr, (int)i, payload);
	mbuf[i] = (struct rte_mbuf){.buf_addr = bytes[i], .nb_segs = 1};
	mbuf[i].data_len = (uint16_t)(hdr + payload);
	mbuf[i].pkt_len = hdr + payload;
	m[i] = &mbuf[i];
}

static uint32_t
run_of(uint32_t at, uint32_t n)
{
	struct udp_head h;

	assert_true(udp_head_read(m[at], &h));
	return udp_run(m + at, n - at, &h, UDP_SEGS_MAX);
}

UNIT_TEST(run_is_equal_frames_and_a_shorter_one)
{
	for (int v6 = 0; v6 < 2; v6++) {
		struct udp_from from = v6 ? from_v6() : from_v4();

		put(0, &from, 1044); /* FIRST, with an RETH */
		for (uint32_t i = 1; i < 9; i++)
			put(i, &from, 1028);
		put(9, &from, 100); /* LAST */
		put(10, &from, 100);
		assert_int_equal(run_of(0, 11), 1);
		assert_int_equal(run_of(0, 2), 2);
		assert_int_equal(run_of(8, 10), 2);
		assert_int_equal(run_of(1, 11), 9);
		assert_int_equal(run_of(10, 11), 1);
		assert_int_equal(run_of(1, 5), 4);
	}
}

UNIT_TEST(run_ends_where_the_path_changes)
{
	struct udp_from from = from_v4(), other;

	for (int what = 0; what < 6; what++) {
		other = what == 5 ? from_v6() : from;
		other.tos ^= what == 0;
		other.ttl ^= what == 1;
		other.src[15] ^= what == 2;
		other.dst[15] ^= what == 3 ? 4 : 0;
		other.sport ^= what == 4;
		put(0, &from, 64);
		put(1, &from, 64);
		put(2, &other, 64);
		assert_int_equal(run_of(0, 3), 2);
	}
	put(2, &from, 64);
	bytes[2][WIRE_ETH_LEN + 5] = 1; /* identification: the ICRC's is another */
	assert_int_equal(run_of(0, 3), 2);
	memset(bytes[2] + 12, 0, 2); /* no IP at all */
	assert_int_equal(run_of(0, 3), 2);
}

UNIT_TEST(run_is_as_long_as_a_message_may_be)
{
	struct udp_from from = from_v4();

	for (uint32_t i = 0; i < FRAMES; i++)
		put(i, &from, 96);
	assert_int_equal(run_of(0, FRAMES), UDP_SEGS_MAX);
	for (uint32_t i = 0; i < FRAMES; i++)
		put(i, &from, 1040);
	assert_int_equal(run_of(0, FRAMES), UDP_BYTES_MAX / 1040);
}

UNIT_TEST(what_is_no_udp_is_not_read)
{
	struct udp_from from = from_v4();
	struct udp_head h;

	put(0, &from, 64);
	assert_true(udp_head_read(m[0], &h));
	assert_int_equal(h.payload, 64);
	assert_int_equal(h.hdr_len, 42);
	bytes[0][14] = 0x46; /* options */
	assert_false(udp_head_read(m[0], &h));
	bytes[0][14] = 0x45;
	bytes[0][23] = WIRE_IPPROTO_ICMP;
	assert_false(udp_head_read(m[0], &h));
	bytes[0][23] = WIRE_IPPROTO_UDP;
	bytes[0][17]++; /* longer than the frame */
	assert_false(udp_head_read(m[0], &h));
	mbuf[0].data_len = 41;
	assert_false(udp_head_read(m[0], &h));
	mbuf[0].data_len = 106;
	memcpy(bytes[0] + 12, "\x81\x00\x00\x07\x81\x00", 6); /* two tags */
	assert_false(udp_head_read(m[0], &h));
}

/* Puts a VLAN tag into frame i. */
static void
tag(uint32_t i, uint8_t vid)
{
	memmove(bytes[i] + 16, bytes[i] + 12, mbuf[i].data_len - 12u);
	memcpy(bytes[i] + 12, (const uint8_t[]){0x81, 0, 0, vid}, 4);
	mbuf[i].data_len = (uint16_t)(mbuf[i].data_len + 4);
	mbuf[i].pkt_len += 4;
}

UNIT_TEST(a_tag_and_macs_belong_to_the_path)
{
	for (int v6 = 0; v6 < 2; v6++) {
		struct udp_from from = v6 ? from_v6() : from_v4();
		struct udp_head h;

		for (uint32_t i = 0; i < 4; i++) {
			put(i, &from, 64);
			tag(i, i < 3 ? 7 : 8);
		}
		assert_true(udp_head_read(m[0], &h));
		assert_int_equal(h.payload, 64);
		assert_int_equal(h.hdr_len, v6 ? 66 : 46);
		assert_int_equal(run_of(0, 4), 3);
		bytes[1][5] ^= 1; /* another neighbour */
		assert_int_equal(run_of(0, 4), 1);
		mbuf[0].data_len = v6 ? 65 : 45;
		assert_false(udp_head_read(m[0], &h));
	}
}

/* Makes frame i one of three segments: 12 bytes behind its headers, client and tail. */
static void
in_three(int i, uint8_t *client, uint32_t len, uint8_t *tail)
{
	static struct rte_mbuf more[4];
	static uint32_t used;
	struct rte_mbuf *rest = &more[used];

	used = (used + 2) % 4;
	mbuf[i].data_len = 54;
	mbuf[i].nb_segs = 3;
	mbuf[i].next = &rest[0];
	rest[0] =
		(struct rte_mbuf){.buf_addr = client, .data_len = (uint16_t)len, .next = &rest[1]};
	rest[1] = (struct rte_mbuf){.buf_addr = tail, .data_len = 4};
}

UNIT_TEST(long_payload_is_sent_from_where_it_lies)
{
	uint8_t client[2][1024], tail[4] = {1, 2, 3, 4}, stage[6 * UDP_SHORT];
	struct udp_from from = from_v4();
	struct iovec iov[8];
	struct udp_pieces p = {.iov = iov, .stage = stage};

	put(0, &from, 12 + 1024 + 4);
	put(1, &from, 12 + 1024 + 4);
	udp_frame_put(&p, m[0], 42, 0);
	assert_int_equal(p.n, 1);
	assert_ptr_equal(iov[0].iov_base, bytes[0] + 42);
	assert_int_equal(iov[0].iov_len, 1040);
	in_three(0, client[0], 1024, tail);
	in_three(1, client[1], 1024, tail);
	p.n = 0;
	udp_frame_put(&p, m[0], 42, 0);
	udp_frame_put(&p, m[1], 42, 0x10);
	assert_int_equal(p.n, 5);
	assert_memory_equal(iov[0].iov_base, bytes[0] + 42, 12);
	assert_int_equal(iov[0].iov_len, 12);
	assert_ptr_equal(iov[1].iov_base, client[0]);
	assert_int_equal(iov[1].iov_len, 1024);
	/* the first frame's ICRC and the second's headers are one piece */
	assert_int_equal(iov[2].iov_len, 16);
	assert_memory_equal(iov[2].iov_base, tail, 4);
	assert_memory_equal((uint8_t *)iov[2].iov_base + 4, bytes[1] + 42, 12);
	assert_ptr_equal(iov[3].iov_base, client[1]);
	assert_int_equal(iov[4].iov_len, 4);
	assert_memory_equal(iov[4].iov_base, "\x11\x02\x03\x04", 4);
	assert_memory_equal(tail, "\x01\x02\x03\x04", 4);
}

UNIT_TEST(short_frames_are_one_piece)
{
	uint8_t stage[6 * UDP_SHORT], want[2 * 96];
	struct udp_from from = from_v4();
	struct iovec iov[8];
	struct udp_pieces p = {.iov = iov, .stage = stage};

	put(0, &from, 96);
	put(1, &from, 96);
	memcpy(want, bytes[0] + 42, 96);
	memcpy(want + 96, bytes[1] + 42, 96);
	want[96 + 92] ^= 0x10;
	udp_frame_put(&p, m[0], 42, 0);
	udp_frame_put(&p, m[1], 42, 0x10);
	assert_int_equal(p.n, 1);
	assert_int_equal(iov[0].iov_len, sizeof(want));
	assert_memory_equal(iov[0].iov_base, want, sizeof(want));
}

/* A long frame in one segment, too, leaves with a changed copy of its ICRC. */
UNIT_TEST(frame_keeps_its_icrc)
{
	uint8_t stage[3 * UDP_SHORT], before[4];
	struct udp_from from = from_v4();
	struct iovec iov[4];
	struct udp_pieces p = {.iov = iov, .stage = stage};

	put(0, &from, 1040);
	memcpy(before, bytes[0] + 42 + 1036, 4);
	udp_frame_put(&p, m[0], 42, 0xff);
	assert_int_equal(p.n, 2);
	assert_int_equal(iov[0].iov_len, 1036);
	assert_int_equal(iov[1].iov_len, 4);
	assert_int_equal(*(uint8_t *)iov[1].iov_base, before[0] ^ 0xff);
	assert_memory_equal(bytes[0] + 42 + 1036, before, 4);
}

/* A SEND ONLY of 64 bytes behind made-up headers, with its ICRC. */
static uint32_t
roce_put(uint8_t *out, const struct udp_from *from)
{
	uint32_t payload = WIRE_BTH_LEN + 64 + WIRE_ICRC_LEN;
	uint32_t hdr = udp_headers_put(out, mac, from, payload), icrc;

	memset(out + hdr, 0x5a, payload);
	out[hdr] = WIRE_OP_SEND_ONLY;
	out[hdr + 1] = 0x40;
	icrc = wire_icrc_frame(out + WIRE_ETH_LEN, from->v6, out + hdr + payload - WIRE_ICRC_LEN);
	memcpy(out + hdr + payload - WIRE_ICRC_LEN, &icrc, sizeof(icrc));
	return hdr + payload;
}

UNIT_TEST(made_up_headers_are_those_of_a_packet)
{
	for (int v6 = 0; v6 < 2; v6++) {
		struct udp_from from = v6 ? from_v6() : from_v4();
		uint32_t len = roce_put(bytes[0], &from);
		struct wire_pkt pkt;
		uint8_t gid[16];

		assert_int_equal(wire_parse(bytes[0], len, &pkt), WIRE_OK);
		assert_true(wire_icrc_check(&pkt));
		assert_memory_equal(pkt.l2, mac, 6);
		assert_int_equal(pkt.tclass, from.tos);
		wire_src_gid(&pkt, gid);
		assert_memory_equal(gid, from.src, 16);
		wire_dst_gid(&pkt, gid);
		assert_memory_equal(gid, from.dst, 16);
		assert_int_equal(pkt.ip[v6 ? 7 : 8], from.ttl);
	}
}

UNIT_TEST(a_group_has_its_mac)
{
	struct udp_from from = from_v4();

	memcpy(from.dst + 12, "\xe0\x01\x02\x03", 4);
	udp_headers_put(bytes[0], mac, &from, 64);
	assert_memory_equal(bytes[0], "\x01\x00\x5e\x01\x02\x03", 6);
}

REQUIREMENT("WIRE-03")
UNIT_TEST(icrc_of_a_segment_has_its_identification)
{
	struct udp_from from = from_v4();
	static struct udp_icrc_rows rows;

	for (uint32_t k = 0; k < UDP_SEGS_MAX; k++) {
		uint32_t len = roce_put(bytes[0], &from), icrc, want;
		uint8_t *end = bytes[0] + len - WIRE_ICRC_LEN;

		memcpy(&icrc, end, sizeof(icrc));
		icrc ^= udp_icrc_row_of(&rows, len - 42)->change[k];
		bytes[0][WIRE_ETH_LEN + 5] = (uint8_t)k;
		want = wire_icrc_frame(bytes[0] + WIRE_ETH_LEN, false, end);
		assert_int_equal(icrc, want);
	}
}

UNIT_TEST(rows_of_all_lengths_are_their_own)
{
	static struct udp_icrc_rows rows;

	for (uint32_t len = 16; len < 9000; len += 4) {
		const struct udp_icrc_row *row = udp_icrc_row_of(&rows, len);
		uint32_t factor = wire_icrc_id_factor(len + 16);

		assert_int_equal(row->factor, factor);
		assert_int_equal(row->change[63], wire_icrc_id_change(factor, 63));
	}
}

UNIT_TEST(bytes_are_copied_out_of_chunks)
{
	uint8_t all[1000], out[1000];
	struct iovec iov[16];
	unsigned seed = 7;

	for (uint32_t i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)rand_r(&seed);
	for (int round = 0; round < 2000; round++) {
		uint32_t n = 0, at = 0, off, len;

		while (n < 15 && at < sizeof(all)) {
			uint32_t part = (uint32_t)rand_r(&seed) % 300;

			if (part > sizeof(all) - at)
				part = sizeof(all) - at;
			iov[n++] = (struct iovec){all + at, part};
			at += part;
		}
		iov[n++] = (struct iovec){all + at, sizeof(all) - at};
		off = (uint32_t)rand_r(&seed) % sizeof(all);
		len = (uint32_t)rand_r(&seed) % (sizeof(all) - off);
		memset(out, 0, sizeof(out));
		udp_copy_out(iov, n, off, out, len);
		assert_memory_equal(out, all + off, len);
	}
}
