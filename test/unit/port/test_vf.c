/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port whose driver demands a reset, or whose link was away, and what a VF's PF tells: net_ring,
 * with the calls of ethdev that concern resets replaced (--wrap).
 */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>
#include "port/burst.h"
#include "port/port.h"
#include "port/ethdev.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

static struct rte_mempool *pool;
static struct port a, b;

/* The driver beneath: what it was asked, and how it answers. */
static struct {
	rte_eth_dev_cb_fn event;
	uint16_t id; /* of the port that it is */
	int reset_rc;
	unsigned resets, configured, rx_queues;
	bool link_down, has_mac;
	struct rte_ether_addr mac, mac_set;
} fake;

int __wrap_rte_eth_dev_callback_register(uint16_t id, enum rte_eth_event_type type,
					 rte_eth_dev_cb_fn fn, void *arg);
int __wrap_rte_eth_dev_callback_unregister(uint16_t id, enum rte_eth_event_type type,
					   rte_eth_dev_cb_fn fn, void *arg);
int __wrap_rte_eth_dev_reset(uint16_t id);
int __wrap_rte_eth_dev_configure(uint16_t id, uint16_t rxq, uint16_t txq,
				 const struct rte_eth_conf *conf);
int __real_rte_eth_dev_configure(uint16_t id, uint16_t rxq, uint16_t txq,
				 const struct rte_eth_conf *conf);
int __wrap_rte_eth_rx_queue_setup(uint16_t id, uint16_t q, uint16_t n, unsigned socket,
				  const struct rte_eth_rxconf *conf, struct rte_mempool *mp);
int __real_rte_eth_rx_queue_setup(uint16_t id, uint16_t q, uint16_t n, unsigned socket,
				  const struct rte_eth_rxconf *conf, struct rte_mempool *mp);
int __wrap_rte_eth_link_get_nowait(uint16_t id, struct rte_eth_link *link);
int __real_rte_eth_link_get_nowait(uint16_t id, struct rte_eth_link *link);
int __wrap_rte_eth_macaddr_get(uint16_t id, struct rte_ether_addr *mac);
int __real_rte_eth_macaddr_get(uint16_t id, struct rte_ether_addr *mac);
int __wrap_rte_eth_dev_default_mac_addr_set(uint16_t id, struct rte_ether_addr *mac);

int
__wrap_rte_eth_dev_callback_register(uint16_t id, enum rte_eth_event_type type,
				     rte_eth_dev_cb_fn fn, void *arg)
{
	assert_int_equal(type, RTE_ETH_EVENT_INTR_RESET);
	if (id == fake.id)
		fake.event = fn;
	return 0;
}

int
__wrap_rte_eth_dev_callback_unregister(uint16_t id, enum rte_eth_event_type type,
				       rte_eth_dev_cb_fn fn, void *arg)
{
	if (id == fake.id && fake.event == fn)
		fake.event = NULL;
	return 0;
}

int
__wrap_rte_eth_dev_reset(uint16_t id)
{
	fake.resets++;
	return fake.reset_rc;
}

int
__wrap_rte_eth_dev_configure(uint16_t id, uint16_t rxq, uint16_t txq,
			     const struct rte_eth_conf *conf)
{
	fake.configured++;
	return __real_rte_eth_dev_configure(id, rxq, txq, conf);
}

int
__wrap_rte_eth_rx_queue_setup(uint16_t id, uint16_t q, uint16_t n, unsigned socket,
			      const struct rte_eth_rxconf *conf, struct rte_mempool *mp)
{
	assert_ptr_equal(mp, pool);
	fake.rx_queues++;
	return __real_rte_eth_rx_queue_setup(id, q, n, socket, conf, mp);
}

int
__wrap_rte_eth_link_get_nowait(uint16_t id, struct rte_eth_link *link)
{
	int rc = __real_rte_eth_link_get_nowait(id, link);

	if (fake.link_down && id == fake.id)
		link->link_status = RTE_ETH_LINK_DOWN;
	return rc;
}

int
__wrap_rte_eth_macaddr_get(uint16_t id, struct rte_ether_addr *mac)
{
	if (!fake.has_mac || id != fake.id)
		return __real_rte_eth_macaddr_get(id, mac);
	*mac = fake.mac;
	return 0;
}

int
__wrap_rte_eth_dev_default_mac_addr_set(uint16_t id, struct rte_ether_addr *mac)
{
	fake.mac_set = *mac;
	return 0;
}

/* The driver's message, on EAL's interrupt thread. */
static void
demand_reset(void)
{
	assert_non_null(fake.event);
	fake.event(fake.id, RTE_ETH_EVENT_INTR_RESET, NULL, NULL);
}

static void
carries_frames(void)
{
	for (uint16_t q = 0; q < 2; q++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool), *got;

		assert_non_null(m);
		assert_non_null(rte_pktmbuf_append(m, 60));
		assert_int_equal(port_tx_burst(b.id, q, &m, 1), 1);
		assert_int_equal(port_rx_burst(a.id, q, &got, 1), 1);
		rte_pktmbuf_free(got);
	}
}

static int
open_ports(void **state)
{
	static unsigned tests; /* rings live as long as the process */
	char name[2][16], full[32];
	struct port_params params = {.nqueues = 2, .name = full};

	memset(&fake, 0, sizeof(fake));
	for (unsigned i = 0; i < 2; i++)
		snprintf(name[i], sizeof(name[i]), "v%u%c", tests, "ab"[i]);
	tests++;
	if (port_ring_pair(name[0], name[1], 2, 64) != 0)
		return -1;
	snprintf(full, sizeof(full), "net_ring_%s", name[0]);
	if (rte_eth_dev_get_port_by_name(full, &fake.id) != 0 || port_open(&a, &params, pool) != 0)
		return -1;
	snprintf(full, sizeof(full), "net_ring_%s", name[1]);
	return port_open(&b, &params, pool);
}

static int
close_ports(void **state)
{
	port_close(&a);
	port_close(&b);
	return fake.event == NULL ? 0 : -1;
}

#define VF_TEST(name) UNIT_TEST_IN(name, open_ports, close_ports)

VF_TEST(a_device_whose_driver_demands_it_is_reset_and_set_up_again)
{
	assert_false(port_wants_restart(&a));
	demand_reset();
	assert_true(port_wants_restart(&a));
	assert_false(port_wants_restart(&b));
	fake.configured = fake.rx_queues = 0;
	assert_int_equal(port_restart(&a), 0);
	assert_int_equal(fake.resets, 1);
	assert_int_equal(fake.configured, 1);
	assert_int_equal(fake.rx_queues, 2);
	assert_false(port_wants_restart(&a));
	/* the link was up before and is up now: nothing to report */
	assert_true(a.link_up);
	assert_false(port_poll_link(&a));
	carries_frames();
}

VF_TEST(a_driver_without_a_reset_is_started_again)
{
	fake.reset_rc = -ENOTSUP;
	demand_reset();
	fake.configured = 0;
	assert_int_equal(port_restart(&a), 0);
	assert_int_equal(fake.resets, 1);
	assert_int_equal(fake.configured, 0);
	assert_false(port_wants_restart(&a));
	carries_frames();
}

VF_TEST(a_reset_that_fails_is_tried_again)
{
	fake.reset_rc = -EIO;
	demand_reset();
	assert_int_equal(port_restart(&a), -EIO);
	assert_false(a.started);
	assert_true(port_wants_restart(&a));
	/* clients hear that the link is down */
	assert_true(port_poll_link(&a));
	assert_false(a.link_up);
	fake.reset_rc = 0;
	assert_int_equal(port_restart(&a), 0);
	assert_int_equal(fake.resets, 2);
	assert_true(port_poll_link(&a));
	assert_true(a.link_up);
	assert_false(port_wants_restart(&a));
	carries_frames();
}

VF_TEST(a_demand_during_the_reset_is_not_lost)
{
	demand_reset();
	assert_true(port_vf_restart(&a));
	demand_reset();
	assert_true(port_wants_restart(&a));
}

VF_TEST(the_mac_stays_over_a_reset)
{
	static const uint8_t other[6] = {2, 0, 0, 0, 0, 7};
	uint8_t before[6];

	memcpy(before, a.mac, 6);
	memcpy(fake.mac.addr_bytes, other, 6);
	fake.has_mac = true;
	demand_reset();
	assert_int_equal(port_restart(&a), 0);
	assert_memory_equal(a.mac, before, 6);
	assert_memory_equal(fake.mac_set.addr_bytes, before, 6);
}

static bool
link_is(bool up)
{
	fake.link_down = !up;
	return port_poll_link(&a);
}

/* A PF that goes down and up resets its VFs, and not all drivers of VFs hear of it. */
VF_TEST(a_vf_whose_link_comes_back_is_started_again)
{
	strcpy(a.driver, "net_e1000_igb_vf");
	assert_false(link_is(true));
	assert_true(link_is(false));
	assert_false(port_wants_restart(&a));
	assert_true(link_is(true));
	assert_true(port_wants_restart(&a));
	assert_int_equal(port_restart(&a), 0);
	assert_int_equal(fake.resets, 0);
	assert_false(port_wants_restart(&a));
	carries_frames();
	/* a link that goes down because of the start, and comes back */
	assert_true(link_is(false));
	assert_true(link_is(true));
	assert_false(port_wants_restart(&a));
	/* and once more because of the PF */
	assert_true(link_is(false));
	assert_true(link_is(true));
	assert_true(port_wants_restart(&a));
	/* down for long after a start */
	assert_int_equal(port_restart(&a), 0);
	assert_true(link_is(false));
	for (unsigned i = 0; i < 20; i++)
		assert_false(link_is(false));
	assert_true(link_is(true));
	assert_true(port_wants_restart(&a));
	assert_int_equal(port_restart(&a), 0);
}

/*
 * A PF that is down when the VF's link returns does not answer the VF's reset, and the link may
 * stay up when the PF comes.
 */
VF_TEST(a_vf_whose_pf_comes_up_is_started_again)
{
	struct port_vf_config c = {.pf_ups = 3};

	strcpy(a.driver, "net_e1000_igb_vf");
	port_vf_follow(&a, &c);
	assert_false(port_wants_restart(&a));
	assert_true(link_is(false));
	assert_true(link_is(true));
	assert_int_equal(port_restart(&a), 0);
	port_vf_follow(&a, &c);
	assert_false(port_wants_restart(&a));
	/* also during the time in which a link that returns is ignored */
	c.pf_ups = 4;
	port_vf_follow(&a, &c);
	assert_true(port_wants_restart(&a));
	assert_int_equal(port_restart(&a), 0);
	port_vf_follow(&a, &c);
	assert_false(port_wants_restart(&a));
}

VF_TEST(other_ports_stay_when_their_link_comes_back)
{
	assert_false(link_is(true));
	assert_true(link_is(false));
	assert_true(link_is(true));
	assert_false(port_wants_restart(&a));
}

/* A message about an interface with two VFs, as the kernel writes it. */
static size_t
put(uint8_t *at, unsigned short type, const void *data, size_t len)
{
	struct rtattr head = {.rta_len = (unsigned short)RTA_LENGTH(len), .rta_type = type};

	memset(at, 0, RTA_SPACE(len));
	memcpy(at, &head, sizeof(head));
	if (len != 0)
		memcpy(at + RTA_LENGTH(0), data, len);
	return RTA_SPACE(len);
}

static size_t
message(uint8_t out[512], uint16_t vlan)
{
	const uint32_t ups = 7;
	uint8_t info[2][256], list[512];
	struct nlmsghdr h = {.nlmsg_type = RTM_NEWLINK};
	size_t len = 0, n = 0;

	for (uint32_t vf = 0; vf < 2; vf++) {
		struct ifla_vf_mac mac = {.vf = vf, .mac = {2, 0, 0, 0, 0, (uint8_t)(0x10 + vf)}};
		struct ifla_vf_vlan v = {.vf = vf, .vlan = vf == 1 ? vlan : 0};

		n = put(info[vf], IFLA_VF_MAC, &mac, sizeof(mac));
		n += put(info[vf] + n, IFLA_VF_VLAN, &v, sizeof(v));
		len += put(list + len, IFLA_VF_INFO, info[vf], n);
	}
	n = NLMSG_SPACE(sizeof(struct ifinfomsg));
	memset(out, 0, n);
	n += put(out + n, IFLA_IFNAME, "pf0", 4);
	n += put(out + n, IFLA_CARRIER_UP_COUNT, &ups, sizeof(ups));
	n += put(out + n, IFLA_VFINFO_LIST | NLA_F_NESTED, list, len);
	h.nlmsg_len = (uint32_t)n;
	memcpy(out, &h, sizeof(h));
	return n;
}

UNIT_TEST(the_settings_of_a_vf_are_found_in_its_pfs_message)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 0x11};
	_Alignas(struct nlmsghdr) uint8_t bytes[512];
	struct port_vf_config c;
	size_t len = message(bytes, 5);

	assert_true(port_vf_parse(bytes, len, 1, &c));
	assert_memory_equal(c.mac, mac, 6);
	assert_int_equal(c.vlan, 5);
	assert_int_equal(c.pf_ups, 7);
	assert_true(port_vf_parse(bytes, len, 0, &c));
	assert_int_equal(c.mac[5], 0x10);
	assert_int_equal(c.vlan, 0);
	assert_false(port_vf_parse(bytes, len, 2, &c));
	/* cut anywhere: no read beyond its end */
	for (size_t cut = 0; cut < len; cut++)
		assert_false(port_vf_parse(bytes, cut, 1, &c));
	((struct nlmsghdr *)bytes)->nlmsg_type = NLMSG_ERROR;
	assert_false(port_vf_parse(bytes, len, 1, &c));
}

static int
start_eal(void **state)
{
	if (unit_eal_with(NULL, "critical", NULL, 0) < 0)
		return -1;
	pool = rte_pktmbuf_pool_create("pool", 4095, 0, 0, 4608 + RTE_PKTMBUF_HEADROOM,
				       SOCKET_ID_ANY);
	return pool != NULL ? 0 : -1;
}

static int
stop_eal(void **state)
{
	return rte_eal_cleanup();
}

UNIT_PROGRAM(start_eal, stop_eal);
