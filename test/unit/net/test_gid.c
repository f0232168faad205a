/* SPDX-License-Identifier: BSD-3-Clause */
/* GID table: slots, valid addresses, text. */
#include <errno.h>
#include <stdio.h>
#include "net/frame.h"
#include "suite.h"

static struct net_dev dev;

UNIT_TEST(first_gid_is_the_link_local_address_of_the_mac)
{
	static const uint8_t mac[6] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55};
	uint8_t want[16];

	net_dev_init(&dev, mac);
	assert_true(dev.gid[0].used);
	assert_false(dev.gid[0].v4);
	assert_memory_equal(dev.gid[0].gid, gid_of("fe80::211:22ff:fe33:4455", want), 16);
	assert_int_equal(net_gid_find(&dev, want), 0);
}

UNIT_TEST(slot_1_is_kept_for_ipv4)
{
	uint8_t gid[16];

	net_dev_init(&dev, our_mac);
	assert_int_equal(net_addr_add(&dev, "fd00::1/64"), 2);
	assert_int_equal(net_addr_add(&dev, "10.0.0.1/24"), 1);
	assert_int_equal(net_addr_add(&dev, "10.0.1.1/24"), 3);
	assert_int_equal(net_gid_find(&dev, gid_of("10.0.1.1", gid)), 3);
	assert_int_equal(net_gid_find(&dev, gid_of("10.0.1.2", gid)), -ENOENT);
}

UNIT_TEST(addresses_that_no_host_has_are_refused)
{
	static const char *const bad[] = {
		"",
		"10.0.0.1",
		"10.0.0.1/",
		"10.0.0.1/33",
		"10.0.0.1/24x",
		"10.0.0/24",
		"10.0.0.0/24",
		"10.0.0.255/24",
		"0.0.0.5/24",
		"127.0.0.1/8",
		"224.0.0.1/4",
		"255.1.1.1/24",
		"10.0.0.1/-1",
		"10.0.0.1/0",
		"::/64",
		"::1/128",
		"ff02::1/64",
		"fd00::1/129",
		"fd00::1",
		"::ffff:10.0.0.1/120",
		"/24",
		"10.0.0.1/ 24",
		"10.0.0.1/99999999999999999999",
		"1111111111111111111111111111111111111111111111111111111111111111111111111111/24",
	};

	net_dev_init(&dev, our_mac);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (net_addr_add(&dev, bad[i]) != -EINVAL)
			fail_msg("took \"%s\"", bad[i]);
	}
	assert_int_equal(net_addr_add(&dev, "10.0.0.0/31"), 1);
	assert_int_equal(net_addr_add(&dev, "10.9.9.9/32"), 2);
	assert_int_equal(net_addr_add(&dev, "10.9.9.9/24"), -EEXIST);
}

UNIT_TEST(full_gid_table_refuses_addresses)
{
	char text[32];

	net_dev_init(&dev, our_mac);
	for (int i = 2; i < UROCE_MAX_GIDS; i++) {
		snprintf(text, sizeof(text), "fd00::%x/64", i);
		assert_int_equal(net_addr_add(&dev, text), i);
	}
	assert_int_equal(net_addr_add(&dev, "fd00::9999/64"), -ENOSPC);
	assert_int_equal(net_addr_add(&dev, "10.0.0.1/24"), 1);
	assert_int_equal(net_addr_add(&dev, "10.0.0.2/24"), -ENOSPC);
}

REQUIREMENT("EVT-12")
UNIT_TEST(removed_address_empties_its_slot)
{
	static const char *const bad[] = {
		"",        "10.0.0",       "10.0.0.1/",      "10.0.0.1/33",
		"fd00::g", "10.0.0.1/24x", "::ffff:10.0.0.1"};
	uint8_t gid[16];

	net_dev_init(&dev, our_mac);
	assert_int_equal(net_addr_add(&dev, "10.0.0.1/24"), 1);
	assert_int_equal(net_addr_add(&dev, "10.0.1.1/24"), 2);
	assert_int_equal(net_addr_add(&dev, "fd00::1/64"), 3);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (net_addr_del(&dev, bad[i]) != -EINVAL)
			fail_msg("took \"%s\"", bad[i]);
	}
	assert_int_equal(net_addr_del(&dev, "10.0.0.2/24"), -ENOENT);
	assert_int_equal(net_addr_del(&dev, "10.0.0.1/25"), -ENOENT); /* its prefix is another */
	assert_int_equal(net_addr_del(&dev, "fd00::1"), 3);
	assert_int_equal(net_addr_del(&dev, "fd00::1"), -ENOENT);
	assert_int_equal(net_addr_del(&dev, "10.0.0.1/24"), 1);
	assert_false(dev.gid[1].used);
	assert_int_equal(net_gid_find(&dev, gid_of("10.0.0.1", gid)), -ENOENT);
	assert_false(net_on_link(&dev, gid_of("10.0.0.7", gid)));
	assert_true(net_on_link(&dev, gid_of("10.0.1.7", gid)));
	/* Its slot is free for the next address. */
	assert_int_equal(net_addr_add(&dev, "10.0.2.1/24"), 1);
}

REQUIREMENT("EVT-12")
UNIT_TEST(link_local_address_cannot_be_removed)
{
	char text[64];

	net_dev_init(&dev, our_mac);
	assert_true(net_gid_to_text(dev.gid[0].gid, text, sizeof(text)) > 0);
	assert_int_equal(net_addr_del(&dev, text), -EPERM);
	assert_true(dev.gid[0].used);
}

REQUIREMENT("EVT-12")
UNIT_TEST(slot_still_in_use_is_not_given_away)
{
	net_dev_init(&dev, our_mac);
	assert_int_equal(net_addr_add(&dev, "10.0.0.1/24"), 1);
	assert_int_equal(net_addr_del(&dev, "10.0.0.1"), 1);
	dev.held = 1ull << 1 | 1ull << 2;
	assert_int_equal(net_addr_add(&dev, "10.0.0.4/24"), 3);
	/* it is held for the address that it had */
	assert_int_equal(net_addr_add(&dev, "10.0.0.1/24"), 1);
	assert_int_equal(net_addr_del(&dev, "10.0.0.1"), 1);
	dev.held = 0;
	assert_int_equal(net_addr_add(&dev, "10.0.0.2/24"), 1);
	/* of 64 all are taken or held */
	dev.held = UINT64_MAX;
	assert_int_equal(net_addr_add(&dev, "10.0.0.3/24"), -ENOSPC);
	dev.held = UINT64_MAX >> 1;
	assert_int_equal(net_addr_add(&dev, "10.0.0.3/24"), 63);
}

/* As ip(8) removes the routes that an address brought. */
REQUIREMENT("EVT-12")
UNIT_TEST(gateway_goes_with_its_prefix)
{
	static const uint8_t none[16];

	net_dev_init(&dev, our_mac);
	assert_int_equal(net_addr_add(&dev, "10.0.0.1/24"), 1);
	assert_int_equal(net_addr_add(&dev, "10.0.0.2/24"), 2);
	assert_int_equal(net_addr_add(&dev, "fd00::1/64"), 3);
	assert_int_equal(net_gateway_set(&dev, "10.0.0.254"), 0);
	assert_int_equal(net_gateway_set(&dev, "fd00::fe"), 0);
	assert_int_equal(net_addr_add(&dev, "10.0.0.254/24"), -EADDRINUSE);
	assert_int_equal(net_addr_add(&dev, "fd00::fe/64"), -EADDRINUSE);
	assert_int_equal(net_addr_del(&dev, "10.0.0.1"), 1);
	assert_memory_not_equal(dev.gw4, none, 16); /* another address has the prefix */
	assert_int_equal(net_addr_del(&dev, "10.0.0.2"), 2);
	assert_memory_equal(dev.gw4, none, 16);
	assert_memory_not_equal(dev.gw6, none, 16);
	assert_int_equal(net_addr_del(&dev, "fd00::1"), 3);
	assert_memory_equal(dev.gw6, none, 16);
}

UNIT_TEST(gids_are_printed_and_parsed)
{
	char text[46];
	uint8_t gid[16];

	assert_int_equal(net_gid_to_text(gid_of("10.0.0.1", gid), text, sizeof(text)), 8);
	assert_string_equal(text, "10.0.0.1");
	assert_int_equal(net_gid_to_text(gid_of("fd00::12", gid), text, sizeof(text)), 8);
	assert_string_equal(text, "fd00::12");
	assert_int_equal(net_gid_to_text(gid, text, 8), -ENOSPC);
}

UNIT_TEST(gateway_must_be_on_link)
{
	make_dev(&dev);
	assert_int_equal(net_gateway_set(&dev, "10.0.1.254"), -ENETUNREACH);
	assert_int_equal(net_gateway_set(&dev, "10.0.0.1"), -EINVAL);
	assert_int_equal(net_gateway_set(&dev, "gateway"), -EINVAL);
	assert_int_equal(net_gateway_set(&dev, "ff02::2"), -EINVAL);
	assert_int_equal(net_gateway_set(&dev, "10.0.0.254"), 0);
	assert_int_equal(net_gateway_set(&dev, "fe80::fe"), 0);
}

static struct net_addr
host_addr(const char *text, uint8_t plen)
{
	struct net_addr a = {.plen = plen};

	gid_of(text, a.gid);
	a.v4 = net_gid_is_v4(a.gid);
	return a;
}

REQUIREMENT("EVT-12")
UNIT_TEST(host_addresses_are_followed)
{
	struct net_addr addr[3] = {host_addr("fd00::1", 64), host_addr("10.0.0.1", 24),
				   host_addr("fe80::1", 64)};
	uint64_t added, gone;
	uint8_t gid[16];

	net_host_init(&dev, our_mac, 4791);
	net_host_addrs_set(&dev, addr, 3, &added, &gone);
	assert_int_equal(added, 7);
	assert_int_equal(gone, 0);
	assert_int_equal(net_gid_find(&dev, gid_of("fe80::1", gid)), 0);
	assert_int_equal(net_gid_find(&dev, gid_of("10.0.0.1", gid)), 1);
	assert_int_equal(net_gid_find(&dev, gid_of("fd00::1", gid)), 2);
	addr[1] = host_addr("127.0.0.1", 8);
	dev.held = 2;
	net_host_addrs_set(&dev, addr, 2, &added, &gone);
	assert_int_equal(gone, 3);
	assert_int_equal(added, 9);
	assert_int_equal(net_gid_find(&dev, gid_of("127.0.0.1", gid)), 3);
	assert_memory_equal(dev.gid[0].gid, gid, 16);
	net_host_addrs_set(&dev, addr, 2, &added, &gone);
	assert_int_equal(added | gone, 0);
	/* the address returns while a QP that was created with it exists */
	addr[1] = host_addr("10.0.0.1", 24);
	net_host_addrs_set(&dev, addr, 2, &added, &gone);
	assert_int_equal(gone, 9);
	assert_int_equal(net_gid_find(&dev, gid_of("10.0.0.1", gid)), 1);
}

static void
assert_slot(int i, const char *text)
{
	uint8_t gid[16];

	assert_true(dev.gid[i].used);
	assert_memory_equal(dev.gid[i].gid, gid_of(text, gid), 16);
}

/* Programs that do not ask for a GID index use 0. */
REQUIREMENT("EVT-12")
UNIT_TEST(first_slot_has_an_address_on_a_host_without_ipv6)
{
	struct net_addr v4 = host_addr("10.0.0.1", 24), ll = host_addr("fe80::1", 64);
	struct net_addr both[2] = {v4, ll}, v6 = host_addr("fd00::1", 64);
	uint64_t added, gone;
	uint8_t gid[16];

	net_host_init(&dev, our_mac, 4791);
	net_host_addrs_set(&dev, &v4, 1, &added, &gone);
	assert_int_equal(added, 3);
	assert_slot(0, "10.0.0.1");
	assert_slot(1, "10.0.0.1");
	assert_int_equal(net_gid_find(&dev, gid_of("10.0.0.1", gid)), 1);
	net_host_addrs_set(&dev, &v4, 1, &added, &gone);
	assert_int_equal(added | gone, 0);
	v4.plen = 16;
	net_host_addrs_set(&dev, &v4, 1, &added, &gone);
	assert_int_equal(dev.gid[0].plen, 16);

	/* a link-local address takes the place of the copy, unless a QP uses that slot */
	dev.held = 1;
	net_host_addrs_set(&dev, both, 2, &added, &gone);
	assert_int_equal(gone, 0);
	assert_slot(0, "10.0.0.1");
	assert_slot(2, "fe80::1");
	net_host_addrs_set(&dev, &v4, 1, &added, &gone);
	dev.held = 0;
	net_host_addrs_set(&dev, both, 2, &added, &gone);
	assert_int_equal(gone, 1);
	assert_int_equal(added, 1);
	assert_slot(0, "fe80::1");
	assert_slot(1, "10.0.0.1");
	net_host_addrs_set(&dev, &v4, 1, &added, &gone);
	assert_int_equal(gone, 1);
	assert_int_equal(added, 1);
	assert_slot(0, "10.0.0.1");

	net_host_addrs_set(&dev, &v6, 1, &added, &gone);
	assert_int_equal(gone, 3);
	assert_slot(0, "fd00::1");
	assert_false(dev.gid[1].used);
	net_host_addrs_set(&dev, &v6, 0, &added, &gone);
	assert_false(dev.gid[0].used);
}
