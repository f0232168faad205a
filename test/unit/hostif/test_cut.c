/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Super-frames of the kernel become frames of the wire (lib/hostif/cut.c), and the way back
 * (lib/hostif/merge.c). EAL is there for mbufs.
 */
#include <stdlib.h>
#include <string.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "hostif/parts.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

#define MSS       1000u
#define OPTIONS   12u         /* bytes of TCP options: a timestamp */
#define FLAGS     0x99        /* CWR, ACK, PSH, FIN */
#define FIRST_SEQ 0xfffffe00u /* wraps within the super-frame */
#define FIRST_ID  0xffffu

static struct rte_mempool *pool;
static uint8_t frame[HOSTIF_SUPER];
static struct virtio_net_hdr vh;
static uint32_t len, l3, l4, payload;
static struct rte_mbuf *m[HOSTIF_PIECES];

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

static void
put16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

/* The Internet checksum over bytes, RFC 1071, byte by byte; 0xffff: right, with the checksum in it.
 */
static uint32_t
sum16(uint32_t sum, const uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* A super-frame of n payload bytes, as the kernel gives it. */
static void
make(bool v6, bool tagged, uint32_t n)
{
	uint8_t *ip, *tcp;

	memset(frame, 0, sizeof(frame));
	memset(frame, 2, 12);
	l3 = tagged ? 18 : 14;
	l4 = l3 + (v6 ? 40 : 20);
	payload = l4 + 20 + OPTIONS;
	len = payload + n;
	if (tagged)
		put16(frame + 12, 0x8100);
	put16(frame + l3 - 2, v6 ? 0x86dd : 0x0800);
	ip = frame + l3;
	if (v6) {
		ip[0] = 0x60;
		put16(ip + 4, 20 + OPTIONS + n);
		ip[6] = 6;
		memset(ip + 8, 0x33, 32);
	} else {
		ip[0] = 0x45;
		put16(ip + 2, 40 + OPTIONS + n);
		put16(ip + 4, FIRST_ID);
		ip[9] = 6;
		memset(ip + 12, 0x44, 8);
	}
	tcp = frame + l4;
	put16(tcp + 4, FIRST_SEQ >> 16);
	put16(tcp + 6, FIRST_SEQ & 0xffff);
	tcp[12] = (20 + OPTIONS) / 4 << 4;
	tcp[13] = FLAGS;
	memset(tcp + 20, 1, OPTIONS);
	for (uint32_t i = 0; i < n; i++)
		frame[payload + i] = (uint8_t)(i * 7 + i / 256);
	vh = (struct virtio_net_hdr){
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4,
		.gso_size = MSS,
		.csum_start = (uint16_t)l4,
		.csum_offset = 16,
	};
}

/* Cuts a copy of exactly len bytes, so that ASan detects a read past it. */
static uint32_t
cut(uint32_t max)
{
	uint8_t *copy = malloc(len != 0 ? len : 1);
	uint32_t n;

	assert_non_null(copy);
	memcpy(copy, frame, len);
	n = hostif_cut(&vh, copy, len, pool, m, max);
	free(copy);
	return n;
}

static void
nothing_is_held(void)
{
	assert_int_equal(rte_mempool_avail_count(pool), pool->size);
}

static uint32_t
tcp_sum(const uint8_t *f, uint32_t n, bool v6)
{
	uint32_t sum = 6 + n - l4; /* pseudo header: protocol, length, addresses */

	sum = v6 ? sum16(sum, f + l3 + 8, 32) : sum16(sum, f + l3 + 12, 8);
	return sum16(sum, f + l4, n - l4);
}

/* Checks piece i of n, which carries bytes of the payload from `from` on. Returns how many. */
static uint32_t
check_piece(const uint8_t *f, uint32_t bytes, uint32_t i, uint32_t n, uint32_t from, bool v6)
{
	uint32_t data = bytes - payload;

	assert_memory_equal(f, frame, l3);
	assert_memory_equal(f + payload, frame + payload + from, data);
	assert_int_equal(data, i + 1 < n ? MSS : len - payload - from);
	assert_int_equal(be32(f + l4 + 4), (uint32_t)(FIRST_SEQ + from));
	assert_int_equal(f[l4 + 13], 0x10 | (i == 0 ? 0x80 : 0) | (i + 1 == n ? 0x09 : 0));
	assert_int_equal(tcp_sum(f, bytes, v6), 0xffff);
	if (v6) {
		assert_int_equal(be16(f + l3 + 4), bytes - l4);
	} else {
		assert_int_equal(be16(f + l3 + 2), bytes - l3);
		assert_int_equal(be16(f + l3 + 4), (FIRST_ID + i) & 0xffff);
		assert_int_equal(sum16(0, f + l3, 20), 0xffff);
	}
	return data;
}

static void
check_cut(bool v6, bool tagged, uint32_t bytes)
{
	uint32_t from = 0, n;

	make(v6, tagged, bytes);
	n = cut(HOSTIF_PIECES);
	assert_int_equal(n, (bytes + MSS - 1) / MSS);
	for (uint32_t i = 0; i < n; i++)
		from += check_piece(rte_pktmbuf_mtod(m[i], uint8_t *), m[i]->data_len, i, n, from,
				    v6);
	assert_int_equal(from, bytes);
	rte_pktmbuf_free_bulk(m, n);
	nothing_is_held();
}

UNIT_TEST(pieces_carry_every_byte_in_its_place)
{
	static const uint32_t sizes[] = {1, 999, 1000, 1001, 2000, 64000, 65000};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (unsigned kind = 0; kind < 4; kind++)
			check_cut(kind & 1, kind & 2, sizes[i]);
	}
}

UNIT_TEST(an_unfinished_checksum_is_finished)
{
	uint32_t sum;

	make(false, false, 100);
	vh.gso_type = VIRTIO_NET_HDR_GSO_NONE;
	/* the kernel leaves the sum of the pseudo header, not complemented */
	sum = sum16(6 + len - l4, frame + l3 + 12, 8);
	put16(frame + l4 + 16, sum);
	assert_int_equal(cut(1), 1);
	assert_int_equal(m[0]->data_len, len);
	assert_int_equal(tcp_sum(rte_pktmbuf_mtod(m[0], uint8_t *), len, false), 0xffff);
	rte_pktmbuf_free(m[0]);
	nothing_is_held();
}

UNIT_TEST(a_plain_frame_stays_as_it_is)
{
	make(true, false, 300);
	memset(&vh, 0, sizeof(vh));
	assert_int_equal(cut(1), 1);
	assert_int_equal(m[0]->data_len, len);
	assert_memory_equal(rte_pktmbuf_mtod(m[0], uint8_t *), frame, len);
	rte_pktmbuf_free(m[0]);
}

static void
refused(void)
{
	assert_int_equal(cut(HOSTIF_PIECES), 0);
	nothing_is_held();
}

UNIT_TEST(lengths_that_do_not_fit_are_refused)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		make(v6, false, 5000);
		vh.gso_size = 0;
		refused();
		make(v6, false, 5000);
		vh.csum_start = (uint16_t)(l3 + 4);
		refused();
		make(v6, false, 5000);
		vh.csum_start = UINT16_MAX;
		refused();
		make(v6, false, 5000);
		frame[l4 + 12] = 0x40; /* TCP header of 16 bytes */
		refused();
		make(v6, false, 20);
		frame[l4 + 12] = 0xf0; /* longer than the frame */
		refused();
		make(v6, false, 5000);
		vh.gso_type = VIRTIO_NET_HDR_GSO_UDP;
		refused();
		make(v6, false, 5000);
		put16(frame + 12, 0x0806);
		refused();
	}
	make(false, false, 5000);
	frame[14] = 0x46; /* options, but TCP begins before their end */
	refused();
	make(false, false, 100);
	vh.gso_type = VIRTIO_NET_HDR_GSO_NONE;
	vh.csum_offset = (uint16_t)(len - l4 - 1);
	refused();
	vh.csum_start = (uint16_t)len;
	refused();
}

UNIT_TEST(frames_that_are_cut_off_are_refused)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		make(v6, v6, 100);
		for (uint32_t all = len, n = 0; n < all; n++) {
			len = n;
			vh.gso_size = MSS;
			rte_pktmbuf_free_bulk(m, cut(HOSTIF_PIECES));
			nothing_is_held();
		}
		len = payload;
		refused();
	}
}

UNIT_TEST(more_pieces_than_there_is_space_for_are_refused)
{
	struct rte_mbuf *behind = (void *)&m;

	make(false, false, 5000);
	m[4] = behind;
	assert_int_equal(cut(4), 0);
	assert_ptr_equal(m[4], behind); /* it may be something else's */
	nothing_is_held();
	assert_int_equal(cut(0), 0);
	/* more than the pool has buffers */
	make(false, false, 65000);
	vh.gso_size = 48;
	refused();
}

UNIT_TEST(any_header_bytes_do_no_harm)
{
	srand(1);
	for (unsigned i = 0; i < 20000; i++) {
		make(i & 1, i & 2, 3000);
		for (unsigned k = 0; k < 4; k++)
			frame[(unsigned)rand() % payload] = (uint8_t)rand();
		((uint8_t *)&vh)[(unsigned)rand() % sizeof(vh)] = (uint8_t)rand();
		rte_pktmbuf_free_bulk(m, cut(HOSTIF_PIECES));
		nothing_is_held();
	}
}

/* ---- the way back: lib/hostif/merge.c ---- */

/* Cuts the frame of make, whose flags become ACK and PSH. Returns the pieces in m. */
static uint32_t
pieces(bool v6, uint32_t n)
{
	make(v6, false, n);
	frame[l4 + 13] = 0x18;
	return cut(HOSTIF_PIECES);
}

/* Checks that parts v[0 .. k) are what make made: the super-frame as the kernel would give it. */
static void
check_merged(const struct virtio_net_hdr *h, const struct iovec *v, uint32_t k, bool v6)
{
	static uint8_t got[HOSTIF_SUPER];
	uint32_t n = 0, sum = 6 + len - l4;

	for (uint32_t i = 0; i < k; i++) {
		memcpy(got + n, v[i].iov_base, v[i].iov_len);
		n += (uint32_t)v[i].iov_len;
	}
	assert_int_equal(n, len);
	assert_int_equal(h->flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
	assert_int_equal(h->gso_type, vh.gso_type);
	assert_int_equal(h->gso_size, MSS);
	assert_int_equal(h->hdr_len, payload);
	assert_int_equal(h->csum_start, l4);
	assert_int_equal(h->csum_offset, 16);
	sum = v6 ? sum16(sum, got + l3 + 8, 32) : sum16(sum, got + l3 + 12, 8);
	assert_int_equal(be16(got + l4 + 16), sum);
	if (!v6)
		assert_int_equal(sum16(0, got + l3, 20), 0xffff);
	memset(got + l4 + 16, 0, 2);
	memcpy(got + l3 + 10, v6 ? got + l3 + 10 : frame + l3 + 10, 2);
	assert_memory_equal(got, frame, len);
}

UNIT_TEST(pieces_become_a_super_frame)
{
	static const uint32_t bytes[] = {2 * MSS, MSS + 1, 5 * MSS - 1, 60 * MSS};
	struct virtio_net_hdr h;
	struct iovec v[HOSTIF_BURST];

	for (uint32_t i = 0; i < 8; i++) {
		bool v6 = i & 1;
		uint32_t n = pieces(v6, bytes[i / 2]);

		assert_true(n > 1 && n <= HOSTIF_BURST);
		if (i == 3) /* a short Ethernet frame is padded */
			memset(rte_pktmbuf_append(m[n - 1], 5), 9, 5);
		assert_int_equal(hostif_merge(m, n, &h, v), n);
		check_merged(&h, v, n, v6);
		rte_pktmbuf_free_bulk(m, n);
	}
	nothing_is_held();
}

/* Makes the TCP checksum of f right again. */
static void
seal_tcp(uint8_t *f, uint32_t n, bool v6)
{
	memset(f + l4 + 16, 0, 2);
	put16(f + l4 + 16, ~tcp_sum(f, n, v6) & 0xffff);
}

/* A byte of the third of five pieces differs: the super-frame ends before it. */
UNIT_TEST(other_frames_end_a_super_frame)
{
	static const struct {
		int off; /* from the IP header; TCP: from 100 on; payload: from 200 on */
		uint8_t flip;
		bool seal;
	} cases[] = {
		{-14, 2, true},    {1, 1, true},      {8, 1, true},      {9, 1, true},
		{5, 1, false},     {6, 0x20, false},  {15, 1, true},     {100, 1, true},
		{103, 1, true},    {107, 1, true},    {111, 1, true},    {113, 0x01, true},
		{113, 0x02, true}, {113, 0x04, true}, {113, 0x20, true}, {113, 0x80, true},
		{115, 1, true},    {117, 1, false},   {119, 1, true},    {121, 1, true},
		{200, 1, false},
	};
	struct virtio_net_hdr h;
	struct iovec v[HOSTIF_BURST];

	for (uint32_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		bool v6 = i & 1;
		int off = cases[i / 2].off;
		uint32_t n = pieces(v6, 5 * MSS);
		uint8_t *f = rte_pktmbuf_mtod(m[2], uint8_t *);
		int at = off < 100 ? (int)l3 + off : off < 200 ? (int)l4 + off - 100 : (int)payload;

		f[at] ^= cases[i / 2].flip;
		if (cases[i / 2].seal)
			seal_tcp(f, m[2]->data_len, v6);
		if (cases[i / 2].seal && !v6) {
			memset(f + l3 + 10, 0, 2);
			put16(f + l3 + 10, ~sum16(0, f + l3, 20) & 0xffff);
		}
		assert_int_equal(n, 5);
		assert_int_equal(hostif_merge(m, n, &h, v), 2);
		assert_int_equal(v[0].iov_len + v[1].iov_len, payload + 2 * MSS);
		rte_pktmbuf_free_bulk(m, n);
	}
	nothing_is_held();
}

/* PSH is of the last piece; one that another holds is given as it is. */
UNIT_TEST(frames_that_cannot_merge_stay_alone)
{
	struct virtio_net_hdr h;
	struct iovec v[HOSTIF_BURST];
	uint8_t before[2048];
	uint32_t n, bytes;

	for (uint32_t i = 0; i < 3; i++) {
		uint8_t *f;

		n = pieces(false, 3 * MSS);
		f = rte_pktmbuf_mtod(m[0], uint8_t *);
		bytes = m[0]->data_len;
		if (i == 0) {
			f[l4 + 13] |= 8; /* PSH */
			seal_tcp(f, bytes, false);
		} else if (i == 1) {
			rte_mbuf_refcnt_update(m[0], 1);
		} else {
			f[payload] ^= 1;
		}
		memcpy(before, f, bytes);
		assert_int_equal(hostif_merge(m, n, &h, v), 1);
		assert_int_equal(h.gso_type, VIRTIO_NET_HDR_GSO_NONE);
		assert_int_equal(h.flags, 0);
		assert_int_equal(v[0].iov_len, bytes);
		assert_memory_equal(v[0].iov_base, before, bytes);
		if (i == 1)
			rte_mbuf_refcnt_update(m[0], -1);
		rte_pktmbuf_free_bulk(m, n);
	}
	nothing_is_held();
}

/* Frames with any bytes changed, cut off anywhere: every part lies in its mbuf. */
UNIT_TEST(random_frames_are_merged_within_bounds)
{
	struct virtio_net_hdr h;
	struct iovec v[HOSTIF_BURST];

	srandom(7);
	for (uint32_t round = 0; round < 20000; round++) {
		uint32_t n = pieces(random() & 1, 4 * MSS), k;

		for (uint32_t i = 0; i < n; i++) {
			uint8_t *f = rte_pktmbuf_mtod(m[i], uint8_t *);

			if (random() % 4 == 0)
				f[12 + (uint32_t)random() % 80] = (uint8_t)random();
			if (random() % 8 == 0)
				rte_pktmbuf_trim(m[i], (uint16_t)((uint32_t)random() %
								  (m[i]->data_len - 14)));
		}
		k = hostif_merge(m, n, &h, v);
		assert_in_range(k, 1, n);
		for (uint32_t i = 0; i < k; i++) {
			const uint8_t *f = rte_pktmbuf_mtod(m[i], uint8_t *);

			assert_true((const uint8_t *)v[i].iov_base >= f);
			assert_true((const uint8_t *)v[i].iov_base + v[i].iov_len <=
				    f + m[i]->data_len);
		}
		rte_pktmbuf_free_bulk(m, n);
	}
	nothing_is_held();
}

static int
start(void **state)
{
	pool = unit_eal_pool(127, 4096);
	return pool != NULL ? 0 : -1;
}

UNIT_PROGRAM(start, NULL);
