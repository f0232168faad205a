/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agreement on selective repeat (control/sr_peer.h), with frames in place of a peer. EAL is
 * used only for its mbufs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "control/neigh.h"
#include "control/slow_path.h"
#include "control/sr_peer.h"
#include "fake.h"
#include "port/socket.h"
#include "wire/sack.h"
#include "wire/parse.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

#define UID    7
#define ASK    0x01
#define ANSWER 0x81
/* Offsets in a MAD (doc/selective-repeat.md). */
#define METHOD  3
#define STATUS  4
#define TID     8
#define VERSION 40
#define FLAGS   41
#define BUFFER  42

/* A query as the peer sends it, with transaction id 9. */
#define PEERS_QUERY                                                                                \
	{                                                                                          \
		1, 0x3e, 1, ASK, [TID] = 9, [16] = 0x53, 0x52, [37] = 2, 'u',                      \
				 'r', [VERSION] = WIRE_SACK_VERSION                                \
	}

static const uint8_t peer[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};
static struct rte_mempool *pool;
static struct daemon d;
static struct device *dev;
static const uint8_t *us;
static uint8_t peers_buffer; /* in the peer's MADs */

static int
setup(void **state)
{
	fake_open(&d);
	d.pool = pool;
	dev = d.dev[0];
	us = dev->net.gid[1].gid;
	dev->sr.on = true;
	peers_buffer = 0;
	fake_sends = true;
	fake_sent = NULL;
	return 0;
}

static int
teardown(void **state)
{
	rte_pktmbuf_free(fake_sent);
	fake_sent = NULL;
	fake_sends = false;
	fake_close(&d);
	assert_int_equal(rte_mempool_in_use_count(pool), 0);
	return 0;
}

/* Takes the last frame, which is a MAD for the peer's QP1. Returns its bytes, valid until the next.
 */
static const uint8_t *
mad_sent(uint8_t method)
{
	static uint8_t mad[256];
	struct wire_pkt pkt;

	assert_non_null(fake_sent);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(fake_sent, uint8_t *), fake_sent->data_len,
				    &pkt),
			 WIRE_OK);
	assert_int_equal(pkt.qpn, 1);
	assert_int_equal(pkt.payload_len, sizeof(mad));
	memcpy(mad, pkt.payload, sizeof(mad));
	assert_int_equal(mad[METHOD], method);
	rte_pktmbuf_free(fake_sent);
	fake_sent = NULL;
	return mad;
}

/* Is the last frame an ARP request? Takes it. */
static bool
arp_sent(void)
{
	bool is = fake_sent != NULL && rte_pktmbuf_mtod(fake_sent, uint8_t *)[12] == 8 &&
		  rte_pktmbuf_mtod(fake_sent, uint8_t *)[13] == 6;

	rte_pktmbuf_free(fake_sent);
	fake_sent = NULL;
	return is;
}

static void
arp_reply(void)
{
	static const uint8_t frame[] = {
		2, 0, 0, 0, 0, 1, 2, 0,  0, 0, 0, 2, 8, 6, 0, 1, 8, 0,  6, 4, 0,
		2, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
	};

	neigh_rx_bytes(dev, frame, sizeof(frame));
}

/* A MAD of the peer, like mad but with these. Returns true if it was one of ours. */
static bool
peer_mad(const uint8_t *like, uint8_t method, uint8_t flags)
{
	uint8_t mad[256];
	struct slow_datagram g = {.dev = dev,
				  .local_qpn = 1,
				  .remote_qpn = 1,
				  .qkey = 0x80010000u,
				  .pkey = 0xffff,
				  .payload = mad,
				  .len = sizeof(mad)};

	memcpy(mad, like, sizeof(mad));
	mad[METHOD] = method;
	mad[FLAGS] = flags;
	mad[BUFFER] = peers_buffer;
	memcpy(g.local, us, 16);
	memcpy(g.remote, peer, 16);
	return sr_peer_rx(&g);
}

/* Our query, after the peer's MAC was learned. */
static const uint8_t *
query(void)
{
	sr_peer_ask(dev, us, peer, UID);
	assert_true(arp_sent());
	arp_reply();
	return mad_sent(ASK);
}

static enum qp_sr_state
state_now(void)
{
	uint8_t buffer;

	return sr_peer_state(dev, us, peer, &buffer);
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

REQUIREMENT("SR-01")
TEST(a_query_waits_for_the_mac_and_its_reply_agrees)
{
	const uint8_t *q;

	assert_int_equal(state_now(), QP_SR_CAN);
	q = query();
	assert_int_equal(q[VERSION], WIRE_SACK_VERSION);
	assert_int_equal(q[FLAGS], 1);
	assert_int_equal(state_now(), QP_SR_CAN);
	assert_true(peer_mad(q, ANSWER, 1));
	assert_int_equal(state_now(), QP_SR_ON);
	assert_null(fake_sent);
	sr_peer_tick(dev); /* nothing is due */
	assert_null(fake_sent);
}

REQUIREMENT("SR-01")
TEST(a_peer_without_selective_repeat_is_not_agreed_with)
{
	assert_true(peer_mad(query(), ANSWER, 0));
	assert_int_equal(state_now(), QP_SR_CAN);
}

/* A reply tells how much the device's socket holds; other ports have no such limit. */
REQUIREMENT("SR-01")
TEST(the_receive_buffer_is_told)
{
	static const struct {
		uint32_t bytes;
		uint8_t units;
	} row[] = {{0, 0}, {425984, 13}, {2 * 8388608, 255}};
	struct port_socket *s = calloc(1, sizeof(*s));
	uint8_t q[256] = PEERS_QUERY;

	assert_int_equal(query()[BUFFER], 0);
	dev->port.sockets = s;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		s->rx_buffer = row[i].bytes;
		assert_true(peer_mad(q, ASK, 1));
		assert_int_equal(mad_sent(ANSWER)[BUFFER], row[i].units);
	}
	dev->port.sockets = NULL;
	free(s);
}

REQUIREMENT("SR-01")
TEST(a_told_receive_buffer_is_for_later_qps_too)
{
	const uint8_t *q = query();
	uint8_t buffer = 1;

	assert_int_equal(sr_peer_state(dev, us, peer, &buffer), QP_SR_CAN);
	assert_int_equal(buffer, 0);
	peers_buffer = 13;
	assert_true(peer_mad(q, ANSWER, 1));
	assert_int_equal(sr_peer_state(dev, us, peer, &buffer), QP_SR_ON);
	assert_int_equal(buffer, 13);
	/* Also to a QP that begins when it has to be agreed again. */
	fake_now_ns += SR_PEER_FRESH_NS;
	buffer = 1;
	assert_int_equal(sr_peer_state(dev, us, peer, &buffer), QP_SR_CAN);
	assert_int_equal(buffer, 13);
	sr_peer_ask(dev, us, peer, UID);
	/* one that limits no window is none */
	peers_buffer = 255;
	assert_true(peer_mad(mad_sent(ASK), ANSWER, 1));
	assert_int_equal(sr_peer_state(dev, us, peer, &buffer), QP_SR_ON);
	assert_int_equal(buffer, 0);
}

/*
 * A peer that does not know the class may send the query back as a response with a status
 * (UnsupMethodAttrib): Linux's MAD layer does for drivers such as mlx5's.
 */
REQUIREMENT("SR-01")
TEST(a_query_that_is_returned_as_unsupported_agrees_to_nothing)
{
	uint8_t returned[256];

	memcpy(returned, query(), sizeof(returned));
	returned[STATUS + 1] = 0x0c;
	assert_false(peer_mad(returned, ANSWER, 1));
	assert_int_equal(state_now(), QP_SR_CAN);
	returned[STATUS + 1] = 0;
	assert_true(peer_mad(returned, ANSWER, 1));
	assert_int_equal(state_now(), QP_SR_ON);
}

REQUIREMENT("SR-01")
TEST(only_the_reply_to_the_query_counts)
{
	uint8_t forged[256];

	memcpy(forged, query(), sizeof(forged));
	forged[TID + 3] ^= 1;
	assert_true(peer_mad(forged, ANSWER, 1));
	assert_int_equal(state_now(), QP_SR_CAN);
	forged[TID + 3] ^= 1;
	forged[VERSION] = WIRE_SACK_VERSION - 1;
	assert_false(peer_mad(forged, ANSWER, 1));
	assert_int_equal(state_now(), QP_SR_CAN);
	forged[VERSION] = WIRE_SACK_VERSION;
	assert_true(peer_mad(forged, ANSWER, 1));
	assert_int_equal(state_now(), QP_SR_ON);
	/* A second reply to one query changes nothing. */
	assert_true(peer_mad(forged, ANSWER, 0));
	assert_int_equal(state_now(), QP_SR_ON);
}

/* Its sender's MAC is often unknown: the query was sent as soon as the sender knew ours. */
REQUIREMENT("SR-01")
TEST(a_reply_waits_for_the_mac_of_the_next_hop)
{
	static const uint8_t none[256];
	uint8_t q[256] = PEERS_QUERY;

	assert_true(peer_mad(q, ASK, 1));
	assert_true(arp_sent());
	q[TID] = 10; /* the peer asks again, and later wants the reply to this one */
	assert_true(peer_mad(q, ASK, 1));
	rte_pktmbuf_free(fake_sent);
	fake_sent = NULL;
	fake_reset();
	arp_reply();
	assert_string_equal(fake_said, "frame");
	assert_int_equal(mad_sent(ANSWER)[TID], 10);
	sr_peer_tick(dev); /* it is sent once */
	assert_null(fake_sent);
	/* Now that the MAC is known: at once. */
	assert_true(peer_mad(q, ASK, 1));
	assert_int_equal(mad_sent(ANSWER)[FLAGS], 1);
	assert_false(peer_mad(none, ASK, 1));
}

/* A device without selective repeat replies, too, and says so. */
REQUIREMENT("SR-01")
TEST(a_device_without_selective_repeat_says_so)
{
	uint8_t q[256] = PEERS_QUERY;

	dev->sr.on = false;
	assert_true(peer_mad(q, ASK, 1));
	assert_true(arp_sent());
	arp_reply();
	assert_int_equal(mad_sent(ANSWER)[FLAGS], 0);
	assert_int_equal(state_now(), QP_SR_OFF);
}

static void
discard_sent(void)
{
	fake_reset();
	rte_pktmbuf_free(fake_sent);
	fake_sent = NULL;
}

/* Queries of n hosts whose MACs are not known. */
static void
queries_of_strangers(unsigned n)
{
	uint8_t q[256] = PEERS_QUERY;
	struct slow_datagram g = {.dev = dev,
				  .local_qpn = 1,
				  .remote_qpn = 1,
				  .qkey = 0x80010000u,
				  .pkey = 0xffff,
				  .payload = q,
				  .len = sizeof(q)};

	memcpy(g.local, us, 16);
	memcpy(g.remote, peer, 16);
	for (unsigned i = 0; i < n; i++) {
		discard_sent();
		g.remote[15] = (uint8_t)(10 + i);
		assert_true(sr_peer_rx(&g));
	}
}

/* Hosts that send many queries do not use up memory. */
TEST(replies_that_wait_are_bounded)
{
	unsigned waiting = 0;

	queries_of_strangers(3 * SR_PEER_OWED);
	for (unsigned i = 0; i < SR_PEER_OWED; i++)
		waiting += dev->sr.owed[i].since_ns != 0;
	assert_int_equal(waiting, SR_PEER_OWED / 2);
}

/* .. nor do they displace the reply to the peer of a QP. */
REQUIREMENT("SR-01")
TEST(strangers_do_not_displace_the_reply_to_a_peer)
{
	uint8_t q[256] = PEERS_QUERY;

	sr_peer_ask(dev, us, peer, UID);
	discard_sent();
	assert_true(peer_mad(q, ASK, 1));
	queries_of_strangers(3 * SR_PEER_OWED);
	discard_sent();
	dev->sr.peer[0].tries = 0; /* its own query is not sent again */
	arp_reply();
	(void)mad_sent(ANSWER);
}

/* QPs of a user with more peers than the table has entries. */
REQUIREMENT("SR-01")
TEST(a_user_with_many_peers_leaves_entries_to_others)
{
	uint8_t other[16] = {[10] = 0xff, 0xff, 10, 0, 0, 3}, q[256];

	memcpy(q, query(), sizeof(q));
	for (unsigned i = 0; i < 2 * SR_PEERS; i++) {
		discard_sent();
		other[14] = (uint8_t)(1 + i / 200);
		other[15] = (uint8_t)(1 + i % 200);
		sr_peer_ask(dev, us, other, UID + 1);
	}
	assert_true(peer_mad(q, ANSWER, 1));
	assert_int_equal(state_now(), QP_SR_ON);
}

/* The queries of a peer without a MAC count as lost after 5 s: nobody asks it forever. */
REQUIREMENT("SR-01")
TEST(a_peer_without_a_mac_is_given_up)
{
	uint64_t first_ns = fake_now_ns;

	sr_peer_ask(dev, us, peer, UID);
	while (fake_now_ns - first_ns < 10ull * NS_PER_S) {
		fake_now_ns += NS_PER_S / 10;
		sr_peer_tick(dev);
	}
	discard_sent();
	arp_reply();
	sr_peer_tick(dev);
	assert_null(fake_sent);
}

static int
start(void **state)
{
	pool = unit_eal_pool(127, 2048);
	return pool != NULL ? 0 : -1;
}

UNIT_PROGRAM(start, NULL);
