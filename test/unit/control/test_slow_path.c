/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams of QP1, out and in (lib/control/slow_path.h). EAL is used only for its mbufs. */
#include <errno.h>
#include <string.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "control/slow_path.h"
#include "fake.h"
#include "wire/parse.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

#define QP1      1
#define GSI_QKEY 0x80010000u

static struct rte_mempool *pool;
static struct daemon d;
static uint8_t mad[256];

static struct {
	unsigned n;
	struct slow_datagram last;
	uint8_t payload[256];
} got;

static bool
consume(void *ctx, const struct slow_datagram *g)
{
	assert_ptr_equal(ctx, &got);
	assert_in_range(g->len, 0, sizeof(got.payload));
	got.n++;
	got.last = *g;
	memcpy(got.payload, g->payload, g->len);
	return got.n % 2 != 0;
}

static int
setup(void **state)
{
	fake_open(&d);
	d.pool = pool;
	fake_sends = true;
	fake_sent = NULL;
	memset(&got, 0, sizeof(got));
	for (unsigned i = 0; i < sizeof(mad); i++)
		mad[i] = (uint8_t)(7 * i);
	return 0;
}

static int
teardown(void **state)
{
	rte_pktmbuf_free(fake_sent);
	fake_sends = false;
	fake_close(&d);
	assert_int_equal(rte_mempool_in_use_count(pool), 0);
	return 0;
}

/* Sends a MAD from the device's address of index i to remote. */
static struct slow_datagram
datagram(unsigned i, const uint8_t remote[16])
{
	struct slow_datagram g = {.dev = d.dev[0],
				  .local_qpn = QP1,
				  .remote_qpn = QP1,
				  .qkey = GSI_QKEY,
				  .pkey = 0xffff,
				  .traffic_class = 0x68,
				  .payload = mad,
				  .len = sizeof(mad)};

	memcpy(g.local, g.dev->net.gid[i].gid, 16);
	memcpy(g.remote, remote, 16);
	return g;
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

TEST(a_datagram_to_the_device_itself_comes_back)
{
	struct slow_datagram g = datagram(1, d.dev[0]->net.gid[1].gid);
	struct wire_pkt pkt;

	assert_int_equal(slow_path_register(&d, QP1, consume, &got), 0);
	for (unsigned i = 0; i < FAKE_WORKERS; i++)
		assert_int_equal(worker_engine(worker_get(d.workers, i))->consumer_qpn, QP1);
	fake_reset();
	assert_int_equal(slow_path_send(&g, 0), 0);
	assert_string_equal(fake_said, "loopback");
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(fake_sent, uint8_t *), fake_sent->data_len,
				    &pkt),
			 WIRE_OK);
	assert_true(wire_icrc_check(&pkt));
	assert_true(slow_path_rx(d.dev[0], fake_sent)); /* what the consumer says */
	assert_int_equal(got.n, 1);
	assert_int_equal(got.last.local_qpn, QP1);
	assert_int_equal(got.last.remote_qpn, QP1);
	assert_int_equal(got.last.qkey, GSI_QKEY);
	assert_int_equal(got.last.pkey, 0xffff);
	assert_int_equal(got.last.traffic_class, 0x68);
	assert_memory_equal(got.last.local, g.remote, 16);
	assert_memory_equal(got.last.remote, g.local, 16);
	assert_int_equal(got.last.len, sizeof(mad));
	assert_memory_equal(got.payload, mad, sizeof(mad));
	assert_false(slow_path_rx(d.dev[0], fake_sent));
}

/* The neighbour is looked up, and the caller must send the datagram again. */
TEST(a_neighbour_is_asked_for)
{
	static const uint8_t peer[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};
	static const uint8_t arp_reply[] = {
		2, 0, 0, 0, 0, 1, 2, 0,  0, 0, 0, 2, 8, 6, 0, 1, 8, 0,  6, 4, 0,
		2, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
	};
	struct slow_datagram g = datagram(1, peer);
	const struct net_neigh *changed;
	struct net_frame out;
	struct wire_pkt pkt;

	assert_int_equal(slow_path_send(&g, 0), -EAGAIN);
	assert_string_equal(fake_said, "frame"); /* ARP */
	rte_pktmbuf_free(fake_sent);
	assert_true(net_rx(&d.dev[0]->net, arp_reply, sizeof(arp_reply), 1, &out, &changed));
	fake_reset();
	assert_int_equal(slow_path_send(&g, 0), 0);
	assert_string_equal(fake_said, "frame");
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(fake_sent, uint8_t *), fake_sent->data_len,
				    &pkt),
			 WIRE_OK);
	assert_int_equal(pkt.qpn, QP1);
	assert_int_equal(pkt.l2[5], 2); /* the neighbour's MAC */
}

TEST(what_cannot_be_sent)
{
	static const uint8_t far[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};
	struct slow_datagram g = datagram(1, far);

	assert_int_equal(slow_path_send(&g, 0), -ENETUNREACH);
	g.len = (128u << g.dev->max_mtu) + 4;
	assert_int_equal(slow_path_send(&g, 0), -EMSGSIZE);
	memcpy(g.local, far, 16);
	assert_int_equal(slow_path_send(&g, 0), -EADDRNOTAVAIL);
	assert_null(fake_sent);
}

TEST(consumers_are_one_for_a_qpn)
{
	struct slow_datagram g = datagram(1, d.dev[0]->net.gid[1].gid);

	assert_int_equal(slow_path_register(&d, 0, consume, &got), -EINVAL);
	assert_int_equal(slow_path_register(&d, 2, consume, &got), -EINVAL);
	assert_int_equal(slow_path_register(&d, QP1, consume, &got), 0);
	assert_int_equal(slow_path_register(&d, QP1, consume, &got), -EEXIST);
	slow_path_unregister(&d, QP1);
	assert_int_equal(worker_engine(worker_get(d.workers, 0))->consumer_qpn, 0);
	/* one that was on its way */
	assert_int_equal(slow_path_send(&g, 0), 0);
	assert_false(slow_path_rx(d.dev[0], fake_sent));
	assert_int_equal(got.n, 0);
}

REQUIREMENT("WIRE-09")
TEST(another_partition_s_datagrams_are_not_for_us)
{
	struct slow_datagram g = datagram(1, d.dev[0]->net.gid[1].gid);

	assert_int_equal(slow_path_register(&d, QP1, consume, &got), 0);
	g.pkey = 0x8001;
	assert_int_equal(slow_path_send(&g, 0), 0);
	slow_path_rx(d.dev[0], fake_sent);
	assert_int_equal(got.n, 0);
}

static int
start(void **state)
{
	pool = unit_eal_pool(127, 2048);
	return pool != NULL ? 0 : -1;
}

UNIT_PROGRAM(start, NULL);
