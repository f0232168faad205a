/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that a QP must not see are dropped and counted by reason. Nothing is written or sent, and
 * no bit of the QP changes (WIRE-03, WIRE-09, and the list of bad input).
 */
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"
#include "victim.h"
#include "wire/csum.h"

/* Any bit that the ICRC covers, and of the ICRC itself. */
REQUIREMENT("WIRE-03")
BENCH_TEST(frame_with_a_bad_icrc_is_dropped)
{
	struct victim v = victim_open(state, false);
	uint8_t frame[MAX_FRAME];
	uint32_t len = good_frame(v.c, frame), bit, start = v.c->peer.bth_off + 4;

	/* Starts at the BTH's reserved byte (masked): earlier bytes steer the frame elsewhere. */
	for (bit = start * 8 + 8; bit < len * 8; bit++) {
		good_frame(v.c, frame);
		frame[bit / 8] ^= 1 << bit % 8;
		if (bit / 8 < start + 4 && bit / 8 > start)
			continue; /* the QPN: of another QP, or of none */
		frame_rx(v.c->b, frame, len);
		expect_dropped(&v, DROP_BAD_ICRC);
	}
	expect_taken(&v);
}

/*
 * The identification in the header is not the one on the wire. Ports that cannot see it say so. A
 * frame that is damaged besides is still dropped; so are both if only exact ones are wanted.
 */
REQUIREMENT("WIRE-03")
BENCH_TEST(frame_whose_identification_the_port_could_not_see_is_taken)
{
	struct victim v = victim_open(state, false);
	uint8_t frame[MAX_FRAME];
	struct wire_ipv4 *ip = (struct wire_ipv4 *)(frame + WIRE_ETH_LEN);
	uint32_t len = good_frame(v.c, frame);

	ip->id = rte_cpu_to_be_16(0x4711);
	ip->csum = 0;
	ip->csum = (rte_be16_t)~wire_ipv4_sum(ip);
	frame_rx(v.c->b, frame, len);
	expect_dropped(&v, DROP_BAD_ICRC);
	engine_set_unknown_id(&v.c->b->engine, BENCH_DEV, true, false);
	frame[len - 6] ^= 1;
	frame_rx(v.c->b, frame, len);
	expect_dropped(&v, DROP_BAD_ICRC);
	frame[len - 6] ^= 1;
	engine_set_unknown_id(&v.c->b->engine, BENCH_DEV, true, true);
	frame_rx(v.c->b, frame, len);
	expect_dropped(&v, DROP_INEXACT_ICRC);
	engine_set_unknown_id(&v.c->b->engine, BENCH_DEV, true, false);
	frame_rx(v.c->b, frame, len);
	ack_expect(v.c, RQ);
}

REQUIREMENT("WIRE-03")
BENCH_TEST(truncated_frame_with_consistent_lengths_fails_its_icrc)
{
	struct victim v = victim_open(state, true);
	uint8_t frame[MAX_FRAME];
	uint32_t len = good_frame(v.c, frame);
	uint16_t ip_len = rte_cpu_to_be_16((uint16_t)(len - 54 - 4));

	memcpy(frame + 18, &ip_len, 2);
	memcpy(frame + 58, &ip_len, 2);
	frame_rx(v.c->b, frame, len - 4);
	expect_dropped(&v, DROP_BAD_ICRC);
	expect_taken(&v);
}

REQUIREMENT("WIRE-09")
BENCH_TEST(frame_with_a_wrong_pkey_is_dropped)
{
	static const struct {
		uint16_t ours, theirs;
		bool good;
	} keys[] = {
		{0xffff, 0xffff, true},
		{0xffff, 0x7fff, true},
		{0x7fff, 0xffff, true},
		{0x7fff, 0x7fff, false},
		{0xffff, 0xfffe, false},
		{0xffff, 0x0000, false},
		{0x8001, 0x8001, true},
		{0x8001, 0x0001, true},
		{0x8001, 0xffff, false},
		/* an empty entry of the table is in no partition */
		{0x0000, 0x8000, false},
		{0x8000, 0x8000, false},
		{0x0000, 0xffff, false},
	};
	uint32_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct victim v = victim_open(state, i & 1);
		uint8_t frame[MAX_FRAME];

		v.c->qp->conn.pkey = v.was.conn.pkey = keys[i].ours;
		wire_tmpl_init(&v.c->peer, &v.c->peer_path, BENCH_QPN, keys[i].theirs);
		frame_rx(v.c->b, frame, good_frame(v.c, frame));
		if (keys[i].good) {
			bench_run(v.c->b);
			assert_memory_equal(v.c->remote->bytes, bench_bytes + 1, 30);
			assert_int_equal(DROPS(v.c, BAD_PKEY), 0);
		} else {
			expect_dropped(&v, DROP_BAD_PKEY);
		}
		assert_int_equal(bench_teardown(state), 0);
		bench_setup(state);
	}
}

/* A source or destination address that is not the connection's, in any of its bits. */
static void
check_addresses(void **state, bool v6)
{
	struct victim v = victim_open(state, v6);
	uint32_t i, first = v6 ? 0 : 96;
	uint8_t frame[MAX_FRAME];

	for (i = first; i < 128; i++) {
		struct wire_path spoilt = v.c->peer_path;

		spoilt.sgid[i / 8] ^= 1 << i % 8;
		wire_tmpl_init(&v.c->peer, &spoilt, BENCH_QPN, 0xffff);
		frame_rx(v.c->b, frame, good_frame(v.c, frame));
		expect_dropped(&v, DROP_BAD_GID);
		spoilt = v.c->peer_path;
		spoilt.dgid[i / 8] ^= 1 << i % 8;
		/* An address of the other family is another frame altogether; below. */
		wire_tmpl_init(&v.c->peer, &spoilt, BENCH_QPN, 0xffff);
		frame_rx(v.c->b, frame, good_frame(v.c, frame));
		expect_dropped(&v,
			       v6 ? (spoilt.dgid[0] == 0xff ? DROP_BAD_MULTICAST : DROP_BAD_GID)
				  : (spoilt.dgid[12] >= 224 ? DROP_BAD_MULTICAST : DROP_BAD_GID));
	}
	wire_tmpl_init(&v.c->peer, &v.c->peer_path, BENCH_QPN, 0xffff);
	expect_taken(&v);
}

BENCH_TEST(frames_with_wrong_ipv4_addresses_are_dropped)
{
	check_addresses(state, false);
}

BENCH_TEST(frames_with_wrong_ipv6_addresses_are_dropped)
{
	check_addresses(state, true);
}

/* The same GIDs as ::ffff:a.b.c.d over IPv6. */
BENCH_TEST(mapped_ipv4_addresses_in_ipv6_are_dropped)
{
	struct victim v = victim_open(state, false);
	struct wire_path six = v.c->peer_path;
	uint8_t frame[MAX_FRAME];
	uint32_t len;

	six.dgid[0] = 0xfe; /* for the builder to take it as IPv6; the addresses are put in below */
	wire_tmpl_init(&v.c->peer, &six, BENCH_QPN, 0xffff);
	len = good_frame(v.c, frame);
	frame[38] = 0;
	frame_seal(v.c, frame, len);
	frame_rx(v.c->b, frame, len);
	expect_dropped(&v, DROP_BAD_GID);
	wire_tmpl_init(&v.c->peer, &v.c->peer_path, BENCH_QPN, 0xffff);
	expect_taken(&v);
}

/* Every opcode of the other services, and the congestion notification. */
BENCH_TEST(frames_of_another_service_type_are_dropped)
{
	struct victim v = victim_open(state, false);
	uint8_t frame[MAX_FRAME];
	uint32_t op;

	for (op = 0x20; op < 0x100; op++) {
		struct wire_fields f = {.opcode = (uint8_t)op, .psn = RQ};
		uint32_t n = wire_op_table[op].flags & WIRE_F_PAYLOAD ? 8 : 0;

		if (!(wire_op_table[op].flags & WIRE_F_VALID) || op == WIRE_OPCODE_CNP ||
		    op == WIRE_OPCODE_SACK)
			continue;
		frame_rx(v.c->b, frame, peer_frame(v.c, f, 0, n, frame));
		expect_dropped(&v, DROP_BAD_SERVICE);
	}
	expect_taken(&v);
}

BENCH_TEST(frames_to_an_unknown_qpn_are_dropped)
{
	/* An unknown QPN, the same slot under an old QPN, and changed top bits. */
	static const uint32_t qpns[] = {
		0, 2, BENCH_QPN + 2, BENCH_QPN + 1024, BENCH_QPN | 0x800000, 0xfffffe};
	struct victim v = victim_open(state, false);
	uint8_t frame[MAX_FRAME];
	uint32_t i;

	for (i = 0; i < sizeof(qpns) / sizeof(qpns[0]); i++) {
		wire_tmpl_init(&v.c->peer, &v.c->peer_path, qpns[i], 0xffff);
		frame_rx(v.c->b, frame, good_frame(v.c, frame));
		expect_dropped(&v, DROP_BAD_QPN);
	}
	wire_tmpl_init(&v.c->peer, &v.c->peer_path, BENCH_QPN, 0xffff);
	expect_taken(&v);
}

/* No QP has QPN 1: intact datagrams for it go to the control thread, if that takes them. */
BENCH_TEST(datagrams_for_qp1_reach_its_consumer)
{
	struct wire_fields f = {.opcode = WIRE_SVC_UD | WIRE_OP_SEND_ONLY,
				.qkey = 0x80010000,
				.src_qpn = 1};
	struct victim v = victim_open(state, false);
	struct bench *b = v.c->b;
	uint8_t frame[MAX_FRAME];
	uint32_t len;

	qp_table_own(&b->qps, 1, 0);
	wire_tmpl_init(&v.c->peer, &v.c->peer_path, 1, 0xffff);
	len = peer_frame(v.c, f, 0, 60, frame);
	frame_rx(b, frame, len);
	expect_dropped(&v, DROP_BAD_QPN);
	engine_set_consumer(&b->engine, 1);
	frame_rx(b, frame, len);
	assert_int_equal(b->consumed, 1);
	assert_int_equal(OBS(v.c, SLOW_PATH), 1);
	b->consumer_full = true;
	frame_rx(b, frame, len);
	expect_dropped(&v, DROP_SLOW_PATH_FULL);
	b->consumer_full = false;
	frame[len - 1] ^= 1;
	frame_rx(b, frame, len);
	expect_dropped(&v, DROP_BAD_ICRC);
	frame_rx(b, frame, good_frame(v.c, frame)); /* of a connection */
	expect_dropped(&v, DROP_BAD_SERVICE);
	f.opcode = WIRE_SVC_UD | WIRE_OP_WRITE_ONLY;
	frame_rx(b, frame, peer_frame(v.c, f, 0, 0, frame));
	expect_dropped(&v, DROP_BAD_OPCODE);
	engine_set_consumer(&b->engine, 0);
	f.opcode = WIRE_SVC_UD | WIRE_OP_SEND_ONLY;
	frame_rx(b, frame, peer_frame(v.c, f, 0, 60, frame));
	expect_dropped(&v, DROP_BAD_QPN);
	assert_int_equal(b->consumed, 1);
	wire_tmpl_init(&v.c->peer, &v.c->peer_path, BENCH_QPN, 0xffff);
	expect_taken(&v);
}

/* The QPN of a QP of another device. */
BENCH_TEST(frames_to_a_qp_of_another_device_are_dropped)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	struct victim v = victim_open(state, false);
	struct bench *b = v.c->b;
	struct rte_mbuf *m = rte_pktmbuf_alloc(b->engine.env.pool);
	static struct counter_block counters;
	uint8_t frame[MAX_FRAME];
	uint32_t len = good_frame(v.c, frame);

	memset(&counters, 0, sizeof(counters));
	engine_add_dev(&b->engine, BENCH_DEV + 1, mac, &counters);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	engine_rx(&b->engine, b->now, BENCH_DEV + 1, &m, 1);
	pkt_none(v.c);
	assert_int_equal(counters.drop[DROP_BAD_QPN], 1);
	assert_memory_equal(v.c->qp, &v.was, sizeof(v.was));
	expect_taken(&v);
}

BENCH_TEST(frames_to_another_mac_are_dropped)
{
	struct victim v = victim_open(state, false);
	uint8_t frame[MAX_FRAME];
	uint32_t len = good_frame(v.c, frame);

	frame[5] ^= 0x10;
	frame_rx(v.c->b, frame, len);
	expect_dropped(&v, DROP_NOT_OURS);
	expect_taken(&v);
}

/*
 * Frames that the parser refuses, each with its reason. test_invalid.c has those that a QP answers.
 * Offsets are those of an IPv4 frame.
 */
struct spoil {
	enum drop_reason why;
	uint16_t off;
	uint8_t keep, set;
	bool seal; /* with ICRC and IPv4 checksum corrected */
};

static const struct spoil spoils[] = {
	{DROP_BAD_IP, 14, 0x0f, 0x50, false},    /* IP version 5 */
	{DROP_BAD_IP, 14, 0xf0, 0x06, false},    /* IP options */
	{DROP_BAD_IP, 24, 0x00, 0x5a, false},    /* IP checksum */
	{DROP_FRAGMENT, 20, 0x00, 0x20, true},   /* more fragments */
	{DROP_FRAGMENT, 21, 0xff, 0x01, true},   /* fragment offset */
	{DROP_BAD_UDP, 39, 0xff, 0x80, true},    /* UDP length */
	{DROP_BAD_TVER, 43, 0xff, 0x01, true},   /* BTH transport version */
	{DROP_BAD_OPCODE, 42, 0x00, 0x4a, true}, /* RD */
	{DROP_BAD_OPCODE, 42, 0x00, 0xaa, true}, /* XRC */
	{DROP_BAD_OPCODE, 42, 0x00, 0xff, true},
	{DROP_BAD_LENGTH, 42, 0x00, 0x11, true}, /* ACK with payload */
};

BENCH_TEST(malformed_frames_are_dropped)
{
	struct victim v = victim_open(state, false);
	uint8_t frame[MAX_FRAME];
	uint32_t i;

	for (i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
		const struct spoil *s = &spoils[i];
		uint32_t len = good_frame(v.c, frame);

		frame[s->off] = (frame[s->off] & s->keep) | s->set;
		if (s->seal) {
			uint16_t sum;

			frame[24] = frame[25] = 0;
			sum = (uint16_t)~wire_ipv4_sum(frame + 14);
			memcpy(frame + 24, &sum, 2);
			frame_seal(v.c, frame, len);
		}
		frame_rx(v.c->b, frame, len);
		expect_dropped(&v, s->why);
	}
	expect_taken(&v);
}

/* Truncated anywhere, the frame is a runt or has a bad length, and no byte past its end is read. */
BENCH_TEST(runts_are_dropped)
{
	struct victim v = victim_open(state, false);
	uint8_t frame[MAX_FRAME];
	uint32_t len = good_frame(v.c, frame), cut, i;

	for (cut = 1; cut < len; cut++) {
		uint64_t all = 0;

		frame_rx(v.c->b, frame, cut);
		pkt_none(v.c);
		for (i = 0; i < DROP_NUM; i++)
			all += v.c->b->counters.drop[i];
		assert_int_equal(all, cut);
		assert_memory_equal(v.c->qp, &v.was, sizeof(v.was));
	}
	assert_true(DROPS(v.c, RUNT) >= 13);
	expect_taken(&v);
}

/* Not RoCE: for the control thread, whole. */
BENCH_TEST(slow_path_frames_are_not_dropped)
{
	struct victim v = victim_open(state, false);
	uint8_t frame[MAX_FRAME];
	uint32_t len = good_frame(v.c, frame), i;

	frame[12] = 0x08; /* ARP */
	frame[13] = 0x06;
	frame_rx(v.c->b, frame, len);
	good_frame(v.c, frame);
	frame[23] = 1; /* ICMP */
	frame_rx(v.c->b, frame, len);
	assert_int_equal(v.c->b->slow, 2);
	assert_int_equal(OBS(v.c, SLOW_PATH), 2);
	for (i = 0; i < DROP_NUM; i++)
		assert_int_equal(v.c->b->counters.drop[i], 0);
	expect_taken(&v);
}

/* Neither RoCE nor anything that the slow path would answer. */
BENCH_TEST(frames_of_neither_roce_nor_the_slow_path_are_dropped)
{
	static const struct {
		enum drop_reason why;
		bool v6;
		uint8_t at, to;
	} rows[] = {
		{DROP_ETHERTYPE, false, 13, 0x08}, /* Wake on LAN's neighbour */
		{DROP_BAD_VLAN, false, 12, 0x88},  /* 0x8800; see below */
		{DROP_IP_PROTOCOL, false, 23, 6},  /* TCP */
		{DROP_IP_PROTOCOL, true, 20, 6},
		{DROP_IPV6_EXTENSION, true, 20, 0},  /* hop by hop */
		{DROP_IPV6_EXTENSION, true, 20, 43}, /* routing */
		{DROP_IPV6_EXTENSION, true, 20, 60}, /* destination options */
		{DROP_FRAGMENT, true, 20, 44},
		{DROP_UDP_PORT, false, 37, 0xb6},
		{DROP_UDP_PORT, true, 57, 0xb6},
	};
	uint8_t frame[MAX_FRAME];

	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct victim v = victim_open(state, rows[i].v6);
		uint32_t len = good_frame(v.c, frame);

		frame[rows[i].at] = rows[i].to;
		if (rows[i].why == DROP_BAD_VLAN)
			frame[13] = 0xa8; /* 802.1ad */
		frame_rx(v.c->b, frame, len);
		expect_dropped(&v, rows[i].why);
		assert_int_equal(v.c->b->slow, 0);
		bench_teardown(state);
		bench_setup(state);
	}
}

/* The good frame with one more VLAN tag of this TPID and TCI. Returns its new length. */
static uint32_t
tagged(uint8_t *frame, uint32_t len, uint16_t tpid, uint16_t tci)
{
	memmove(frame + 16, frame + 12, len - 12);
	frame[12] = (uint8_t)(tpid >> 8);
	frame[13] = (uint8_t)tpid;
	frame[14] = (uint8_t)(tci >> 8);
	frame[15] = (uint8_t)tci;
	return len + 4;
}

/* Which tags a device takes: RoCE and, with the same tags, ARP. */
REQUIREMENT("WIRE-02")
BENCH_TEST(device_takes_frames_of_its_vlan_only)
{
	static const struct {
		uint16_t vid;   /* of the device */
		int tci;        /* of the frame; -1: no tag */
		uint16_t outer; /* TPID of one more tag, or 0 */
		bool good;
	} rows[] = {
		{0, -1, 0, true},          {0, 0x0000, 0, true},      {0, 0x6000, 0, true},
		{0, 100, 0, false},        {0, 0xe064, 0, false},     {0, 4095, 0, false},
		{100, 100, 0, true},       {100, 0xe064, 0, true},    {100, -1, 0, false},
		{100, 0, 0, false},        {100, 0xe000, 0, false},   {100, 200, 0, false},
		{100, 4095, 0, false},     {0, -1, 0x8100, true},     {0, 0, 0x8100, false},
		{100, 100, 0x8100, false}, {100, 100, 0x88a8, false}, {0, -1, 0x88a8, false},
	};
	uint8_t frame[MAX_FRAME + 8];

	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct victim v = victim_open(state, false);
		uint32_t len = good_frame(v.c, frame);

		if (rows[i].tci >= 0)
			len = tagged(frame, len, 0x8100, (uint16_t)rows[i].tci);
		if (rows[i].outer != 0)
			len = tagged(frame, len, rows[i].outer, rows[i].vid);
		engine_set_vlan(&v.c->b->engine, BENCH_DEV, rows[i].vid);
		frame_rx(v.c->b, frame, len);
		if (rows[i].good) {
			ack_expect(v.c, RQ);
		} else {
			expect_dropped(&v, DROP_BAD_VLAN);
		}
		/* ARP */
		v.c->b->counters.drop[DROP_BAD_VLAN] = 0;
		frame[12 + 4 * (rows[i].tci >= 0) + 4 * (rows[i].outer != 0)] = 0x08;
		frame[13 + 4 * (rows[i].tci >= 0) + 4 * (rows[i].outer != 0)] = 0x06;
		frame_rx(v.c->b, frame, len);
		bench_run(v.c->b);
		assert_int_equal(v.c->b->slow, rows[i].good);
		assert_int_equal(DROPS(v.c, BAD_VLAN), !rows[i].good);
		bench_teardown(state);
		bench_setup(state);
	}
}

/* Prefixes of the source, or not, by the number of bits and of the bit in which they differ. */
BENCH_TEST(device_takes_packets_of_its_peers_only)
{
	static const struct {
		uint32_t bits;
		int differs; /* counted from the first bit of the GID; -1: none */
		bool good;
	} rows[] = {
		{128, -1, true},  {128, 127, false}, {127, 127, true}, {120, 119, false},
		{120, 120, true}, {101, 100, false}, {101, 101, true}, {96, 100, true},
		{0, -1, true},    {0, 0, true},      {1, 0, false},    {96, 3, false},
	};

	for (uint32_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		const bool v6 = i & 1;
		struct victim v = victim_open(state, v6);
		struct engine_peers peers = {.n = 2};
		struct wire_pkt pkt;
		uint8_t frame[MAX_FRAME];
		uint32_t len = good_frame(v.c, frame);

		peers.of[0].bits = 128; /* of nobody */
		assert_int_equal(wire_parse(frame, len, &pkt), WIRE_OK);
		wire_src_gid(&pkt, peers.of[1].gid);
		peers.of[1].bits = (uint8_t)rows[i / 2].bits;
		if (rows[i / 2].differs >= 0)
			peers.of[1].gid[rows[i / 2].differs / 8] ^=
				(uint8_t)(0x80u >> rows[i / 2].differs % 8);
		engine_set_peers(&v.c->b->engine, BENCH_DEV, &peers);
		frame_rx(v.c->b, frame, len);
		if (!rows[i / 2].good) {
			expect_dropped(&v, DROP_REFUSED_PEER);
			engine_set_peers(&v.c->b->engine, BENCH_DEV, NULL);
			frame_rx(v.c->b, frame, len);
		}
		ack_expect(v.c, RQ);
		bench_teardown(state);
		bench_setup(state);
	}
}

/* A frame to all, or to a group, that names a connected QP's own address. */
REQUIREMENT("WIRE-10")
BENCH_TEST(multicast_frame_to_a_connected_qp_is_dropped)
{
	static const uint8_t macs[][6] = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
					  {0x01, 0, 0x5e, 1, 2, 3},
					  {0x33, 0x33, 0, 0, 0, 1}};
	uint8_t frame[MAX_FRAME];

	for (uint32_t i = 0; i < 3; i++) {
		struct victim v = victim_open(state, false);
		uint32_t len = good_frame(v.c, frame);

		memcpy(frame, macs[i], 6);
		frame_rx(v.c->b, frame, len);
		expect_dropped(&v, DROP_BAD_MULTICAST);
		/* nor one with a group's IP address, to any MAC */
		frame[30] = 239;
		frame_seal(v.c, frame, len);
		frame_rx(v.c->b, frame, len);
		v.drops += 0;
		bench_run(v.c->b);
		assert_int_equal(OBS(v.c, RX_ROCE), 0);
		bench_teardown(state);
		bench_setup(state);
	}
}

/* CNPs for a connected QP have a separate counter; malformed ones have a drop reason. */
BENCH_TEST(cnp_is_dropped_with_its_own_counter)
{
	struct victim v = victim_open(state, false);
	struct wire_fields f = {.opcode = WIRE_OPCODE_CNP, .becn = true};
	uint8_t frame[MAX_FRAME];
	uint32_t len = peer_frame(v.c, f, 0, 0, frame);

	frame_rx(v.c->b, frame, len);
	assert_true(v.c->qp->conn.ecn.cnps_got == 1);
	v.was.conn.ecn.cnps_got = 1;
	expect_dropped(&v, DROP_CNP);
	frame[len - 1] ^= 1;
	frame_rx(v.c->b, frame, len);
	expect_dropped(&v, DROP_BAD_ICRC);
	v.c->peer_path.sgid[15] ^= 1;
	wire_tmpl_init(&v.c->peer, &v.c->peer_path, BENCH_QPN, 0xffff);
	frame_rx(v.c->b, frame, peer_frame(v.c, f, 0, 0, frame));
	expect_dropped(&v, DROP_BAD_GID);
}

/* A QPN that another worker owns goes there. */
BENCH_TEST(frames_of_other_workers_are_handed_over)
{
	struct victim v = victim_open(state, false);
	uint8_t frame[MAX_FRAME];

	wire_tmpl_init(&v.c->peer, &v.c->peer_path, BENCH_QPN + 1, 0xffff);
	frame_rx(v.c->b, frame, good_frame(v.c, frame));
	assert_int_equal(v.c->b->handoffs, 1);
	assert_int_equal(OBS(v.c, RX_HANDOFF), 1);
	pkt_none(v.c);
}
