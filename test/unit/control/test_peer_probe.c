/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to peers' daemons (control/peer_probe.h), with frames in place of a peer. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "control/neigh.h"
#include "control/peer_probe.h"
#include "control/slow_path.h"
#include "control/vendor_mad.h"
#include "fake.h"
#include "wire/parse.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

#define ATTRIBUTE 0x5052
#define MTU       1024u /* of the fake device */
#define PATH_MTU  42

static const uint8_t peer[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};
static struct rte_mempool *pool;
static struct daemon d;
static struct device *dev;
static struct session *s;
static int client;

static int
setup(void **state)
{
	fake_open(&d);
	d.pool = pool;
	dev = d.dev[0];
	fake_sends = true;
	fake_sent = NULL;
	s = fake_session(&d, &client);
	return 0;
}

static int
teardown(void **state)
{
	rte_pktmbuf_free(fake_sent);
	fake_sent = NULL;
	fake_sends = false;
	close(client);
	fake_close(&d);
	assert_int_equal(rte_mempool_in_use_count(pool), 0);
	return 0;
}

static void
learn_mac(void)
{
	static const uint8_t frame[] = {
		2, 0, 0, 0, 0, 1, 2, 0,  0, 0, 0, 2, 8, 6, 0, 1, 8, 0,  6, 4, 0,
		2, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
	};

	rte_pktmbuf_free(fake_sent); /* an ARP request */
	fake_sent = NULL;
	neigh_rx_bytes(dev, frame, sizeof(frame));
	rte_pktmbuf_free(fake_sent);
	fake_sent = NULL;
}

/* Asks the daemon, as urocectl does, to send len bytes to `to`, or how `number` is. */
static int
ask(const uint8_t to[16], uint32_t len, uint64_t number, struct uroce_ask_peer_rep *rep)
{
	struct uroce_ask_peer_req q = {.device = "t0",
				       .gid_index = 1,
				       .len = len,
				       .number = number};
	const struct ctrl_req req = {.body = &q};
	struct ctrl_rep rp = {.body = rep};

	memset(rep, 0, sizeof(*rep));
	memcpy(q.remote, to, 16);
	return peer_probe_request(s, &req, &rp);
}

/* Takes the frame sent, which is a MAD of this method. Returns its length; mad: its first bytes. */
static uint32_t
mad_sent(uint8_t method, uint8_t mad[WIRE_MAD_LEN])
{
	struct wire_pkt pkt;
	uint32_t len;

	assert_non_null(fake_sent);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(fake_sent, uint8_t *), fake_sent->data_len,
				    &pkt),
			 WIRE_OK);
	assert_int_equal(pkt.qpn, 1);
	memcpy(mad, pkt.payload, WIRE_MAD_LEN);
	assert_int_equal(mad[VENDOR_MAD_METHOD], method);
	len = pkt.payload_len;
	rte_pktmbuf_free(fake_sent);
	fake_sent = NULL;
	return len;
}

/* The peer's MAD arrives, followed by zeros up to len. Returns peer_probe_rx. */
static bool
arrive(const uint8_t from[16], const uint8_t mad[WIRE_MAD_LEN], uint32_t len)
{
	static uint8_t payload[8192];
	struct slow_datagram g = {.dev = dev,
				  .local_qpn = 1,
				  .remote_qpn = 1,
				  .qkey = WIRE_GSI_QKEY,
				  .pkey = 0xffff,
				  .payload = payload,
				  .len = len};

	memset(payload, 0, sizeof(payload));
	memcpy(payload, mad, WIRE_MAD_LEN);
	memcpy(g.local, dev->net.gid[1].gid, 16);
	memcpy(g.remote, from, 16);
	return peer_probe_rx(&g);
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

TEST(an_answer_has_the_length_and_number_of_the_question)
{
	uint8_t mad[WIRE_MAD_LEN];
	struct uroce_ask_peer_rep rep;

	assert_int_equal(ask(peer, 256, 0, &rep), 0);
	assert_int_equal(rep.state, UROCE_ASK_NO_MAC); /* and an ARP request was sent */
	learn_mac();
	assert_int_equal(ask(peer, MTU, 0, &rep), 0);
	assert_int_equal(rep.state, UROCE_ASK_SENT);
	assert_int_equal(mad_sent(VENDOR_MAD_ASK, mad), MTU);
	assert_int_equal(mad[PATH_MTU] << 8 | mad[PATH_MTU + 1], MTU);
	/* the same MAD as a peer's question: it is returned */
	assert_true(arrive(peer, mad, 512));
	assert_int_equal(mad_sent(VENDOR_MAD_ANSWER, mad), 512);
	mad[PATH_MTU] = 16; /* a peer of path MTU 4096 */
	mad[PATH_MTU + 1] = 0;
	assert_true(arrive(peer, mad, MTU));
	assert_int_equal(ask(peer, 0, rep.number, &rep), 0);
	assert_int_equal(rep.state, UROCE_ASK_ANSWERED);
	assert_int_equal(rep.path_mtu, 4096);
}

TEST(only_the_peer_s_answer_to_this_question_counts)
{
	static const uint8_t other[16] = {[10] = 0xff, 0xff, 10, 0, 0, 3};
	uint8_t mad[WIRE_MAD_LEN], forged[WIRE_MAD_LEN];
	struct uroce_ask_peer_rep rep;
	uint64_t number;

	assert_int_equal(ask(peer, 256, 0, &rep), 0);
	learn_mac();
	assert_int_equal(ask(peer, 256, 0, &rep), 0);
	number = rep.number;
	mad_sent(VENDOR_MAD_ASK, mad);
	mad[VENDOR_MAD_METHOD] = VENDOR_MAD_ANSWER;
	assert_true(arrive(other, mad, 256));
	memcpy(forged, mad, sizeof(forged));
	forged[VENDOR_MAD_TID] ^= 1;
	assert_true(arrive(peer, forged, 256));
	memcpy(forged, mad, sizeof(forged));
	forged[VENDOR_MAD_VERSION]++;
	assert_false(arrive(peer, forged, 256));
	assert_int_equal(ask(peer, 0, number, &rep), 0);
	assert_int_equal(rep.state, UROCE_ASK_SENT);
	assert_int_equal(ask(peer, 0, number + 2, &rep), ENOENT);
	assert_true(arrive(peer, mad, 256));
	assert_int_equal(ask(peer, 0, number, &rep), 0);
	assert_int_equal(rep.state, UROCE_ASK_ANSWERED);
	/* forgotten after PEER_PROBES others */
	for (unsigned i = 0; i < PEER_PROBES; i++) {
		assert_int_equal(ask(peer, 256, 0, &rep), 0);
		rte_pktmbuf_free(fake_sent);
		fake_sent = NULL;
	}
	assert_int_equal(ask(peer, 0, number, &rep), ENOENT);
}

TEST(lengths_and_addresses_are_checked)
{
	static const uint8_t far[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};
	static const uint32_t wrong[] = {4, 252, 257, MTU + 4, 0x80000000u};
	uint8_t mad[WIRE_MAD_LEN] = {0};
	struct uroce_ask_peer_rep rep;

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(ask(peer, wrong[i], 0, &rep), EINVAL);
	assert_int_equal(ask(far, 256, 0, &rep), ENETUNREACH);
	assert_null(fake_sent);
	/* too short for a MAD, too long for an answer, longer than our path MTU */
	vendor_mad_init(mad, VENDOR_MAD_ASK, ATTRIBUTE, 7);
	mad[VENDOR_MAD_VERSION] = 1;
	assert_false(arrive(peer, mad, 255));
	assert_false(arrive(peer, mad, 8192));
	(void)arrive(peer, mad, 256);
	learn_mac();
	assert_true(arrive(peer, mad, MTU + 4));
	assert_null(fake_sent);
}

static int
start(void **state)
{
	pool = unit_eal_pool(127, 2048);
	return pool != NULL ? 0 : -1;
}

UNIT_PROGRAM(start, NULL);
