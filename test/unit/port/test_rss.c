/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue that a NIC's hash chooses, against a hash written from its definition. */
#include <arpa/inet.h>
#include <string.h>
#include <rte_ethdev.h>
#include "port/port.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

/* The key of "Verifying the RSS Hash Calculation" (Microsoft), which many drivers have. */
static const uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
				0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
				0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
				0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

/* Toeplitz, bit by bit. in: addresses and ports as in the packet; the key is 4 bytes longer. */
static uint32_t
toeplitz(const uint8_t *in, uint32_t len)
{
	uint32_t hash = 0;

	for (uint32_t bit = 0; bit < 8 * len; bit++) {
		uint32_t window = 0;

		for (uint32_t i = bit; i < bit + 32; i++)
			window = window << 1 | (key[i / 8] >> (7 - i % 8) & 1u);
		if ((in[bit / 8] >> (7 - bit % 8) & 1) != 0)
			hash ^= window;
	}
	return hash;
}

static uint32_t
hash_of(int family, const char *src, const char *dst, uint16_t sport, uint16_t dport)
{
	uint32_t len = family == AF_INET ? 4 : 16;
	uint8_t in[36];

	assert_int_equal(inet_pton(family, src, in), 1);
	assert_int_equal(inet_pton(family, dst, in + len), 1);
	in[2 * len] = (uint8_t)(sport >> 8);
	in[2 * len + 1] = (uint8_t)sport;
	in[2 * len + 2] = (uint8_t)(dport >> 8);
	in[2 * len + 3] = (uint8_t)dport;
	return toeplitz(in, 2 * len + 4);
}

static void
gid_of(int family, const char *text, uint8_t gid[16])
{
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	assert_int_equal(inet_pton(family, text, gid + (family == AF_INET ? 12 : 0)), 1);
}

static int
queue_of(const struct port_rss *rss, int family, const char *src, const char *dst, uint16_t sport)
{
	uint8_t s[16], d[16];

	gid_of(family, src, s);
	gid_of(family, dst, d);
	return port_rss_queue(rss, s, d, sport);
}

static void
make_rss(struct port_rss *rss)
{
	memset(rss, 0, sizeof(*rss));
	memcpy(rss->key, key, sizeof(key));
	rss->n = PORT_RSS_RETA;
	rss->v4 = rss->v6 = true;
	for (uint16_t i = 0; i < rss->n; i++)
		rss->reta[i] = i;
}

UNIT_TEST(the_test_hashes_as_published)
{
	assert_int_equal(hash_of(AF_INET, "66.9.149.187", "161.142.100.80", 2794, 1766),
			 0x51ccc178);
	assert_int_equal(hash_of(AF_INET, "199.92.111.2", "65.69.140.83", 14230, 4739), 0xc626b0ea);
	assert_int_equal(hash_of(AF_INET6, "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794,
				 1766),
			 0x40207d3d);
}

UNIT_TEST(the_queue_is_that_of_the_published_hash)
{
	static const struct {
		int family;
		const char *src, *dst;
	} hosts[] = {{AF_INET, "66.9.149.187", "161.142.100.80"},
		     {AF_INET, "10.9.0.2", "10.9.0.1"},
		     {AF_INET6, "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1"},
		     {AF_INET6, "fd00::2", "fd00::1"}};
	struct port_rss rss;

	make_rss(&rss);
	for (uint32_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		for (uint32_t sport = 0xc000; sport <= 0xffff; sport += 97) {
			uint32_t hash = hash_of(hosts[i].family, hosts[i].src, hosts[i].dst,
						(uint16_t)sport, 4791);

			assert_int_equal(queue_of(&rss, hosts[i].family, hosts[i].src, hosts[i].dst,
						  (uint16_t)sport),
					 hash % PORT_RSS_RETA);
		}
	}
}

UNIT_TEST(no_queue_is_known_without_a_table_or_a_hash_of_the_ports)
{
	struct port_rss rss;

	make_rss(&rss);
	rss.v6 = false;
	assert_int_equal(queue_of(&rss, AF_INET6, "fd00::2", "fd00::1", 0xc000), -1);
	assert_true(queue_of(&rss, AF_INET, "10.0.0.2", "10.0.0.1", 0xc000) >= 0);
	rss.v4 = false;
	assert_int_equal(queue_of(&rss, AF_INET, "10.0.0.2", "10.0.0.1", 0xc000), -1);
	make_rss(&rss);
	rss.n = 0;
	assert_int_equal(queue_of(&rss, AF_INET, "10.0.0.2", "10.0.0.1", 0xc000), -1);
}

/* net_null keeps a key and a table, although it hashes nothing. */
UNIT_TEST(the_driver_is_asked_for_its_key_and_table)
{
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("pool", 4095, 0, 0, 4608 + RTE_PKTMBUF_HEADROOM,
					SOCKET_ID_ANY);
	struct port_params params = {.name = "net_null0", .nqueues = 2, .link_mtu = 1500};
	struct rte_eth_rss_reta_entry64 group[2] = {{.mask = UINT64_MAX}, {.mask = UINT64_MAX}};
	struct rte_eth_rss_conf conf = {.rss_key = (uint8_t *)(uintptr_t)key,
					.rss_key_len = sizeof(key),
					.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_UDP};
	struct rte_eth_dev_info info;
	struct port p;

	assert_non_null(pool);
	assert_int_equal(port_open(&p, &params, pool), 0);
	assert_int_equal(p.nrxq, 2);
	assert_int_equal(p.rss.n, 128);
	assert_true(p.rss.v4 && p.rss.v6);
	for (uint32_t i = 0; i < 128; i++)
		group[i / 64].reta[i % 64] = i % 3 == 0;
	assert_int_equal(rte_eth_dev_rss_reta_update(p.id, group, 128), 0);
	assert_int_equal(rte_eth_dev_rss_hash_update(p.id, &conf), 0);
	assert_int_equal(rte_eth_dev_info_get(p.id, &info), 0);
	port_rss_ask(&p.rss, p.id, &info);
	assert_int_equal(queue_of(&p.rss, AF_INET, "10.9.0.2", "10.9.0.1", 0xc123),
			 hash_of(AF_INET, "10.9.0.2", "10.9.0.1", 0xc123, 4791) % 128 % 3 == 0);
	port_close(&p);

	/* one queue: nothing to choose */
	params.name = "net_null1";
	params.nqueues = 1;
	assert_int_equal(port_open(&p, &params, pool), 0);
	assert_int_equal(p.rss.n, 0);
	port_close(&p);
	rte_mempool_free(pool);
}

static int
start_eal(void **state)
{
	static const char *const vdevs[] = {"net_null0", "net_null1"};

	(void)state;
	return unit_eal_with(NULL, "critical", vdevs, 2) < 0 ? -1 : 0;
}

static int
stop_eal(void **state)
{
	(void)state;
	return rte_eal_cleanup();
}

UNIT_PROGRAM(start_eal, stop_eal);

int
main(void)
{
	return unit_run();
}
