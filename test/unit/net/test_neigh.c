/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbours over time: requests, retries, checks, eviction. */
#include <stdio.h>
#include "frames.h"
#include "net/frame.h"
#include "suite.h"

#define MS 1000000ull

static struct net_dev dev;
static struct net_frame out;
static const struct net_neigh *changed;

UNIT_TEST(neighbour_request_equals_those_of_linux)
{
	uint8_t gid[16];

	make_dev(&dev);
	assert_true(net_neigh_ask(&dev, gid_of("10.0.0.2", gid), 0, 0, &out));
	assert_int_equal(out.len, 60);
	assert_memory_equal(out.bytes, want_arp_request, sizeof(want_arp_request));
	assert_true(net_neigh_ask(&dev, gid_of("fd00::2", gid), 0, 0, &out));
	assert_int_equal(out.len, sizeof(want_ns));
	assert_memory_equal(out.bytes, want_ns, sizeof(want_ns));
	/* asked for already */
	assert_true(net_neigh_ask(&dev, gid, 0, 0, &out));
	assert_int_equal(out.len, 0);
}

UNIT_TEST(answers_make_neighbours_known)
{
	uint8_t v4[16], v6[16];

	make_dev(&dev);
	net_neigh_ask(&dev, gid_of("10.0.0.2", v4), 0, 0, &out);
	net_neigh_ask(&dev, gid_of("fd00::2", v6), 0, 0, &out);
	assert_null(net_neigh_mac(&dev, v4));
	assert_true(net_rx(&dev, arp_reply, sizeof(arp_reply), 5, &out, &changed));
	assert_memory_equal(changed->ip, v4, 16);
	assert_memory_equal(net_neigh_mac(&dev, v4), peer_mac, 6);
	assert_int_equal(out.len, 0);
	assert_true(net_rx(&dev, na, sizeof(na), 5, &out, &changed));
	assert_memory_equal(changed->ip, v6, 16);
	assert_memory_equal(net_neigh_mac(&dev, v6), peer_mac, 6);
	/* the same again is not reported */
	assert_false(net_rx(&dev, arp_reply, sizeof(arp_reply), 6, &out, &changed));
	assert_null(changed);
}

UNIT_TEST(unrequested_neighbours_are_not_learned)
{
	make_dev(&dev);
	assert_false(net_rx(&dev, arp_reply, sizeof(arp_reply), 0, &out, &changed));
	assert_false(net_rx(&dev, arp_request, sizeof(arp_request), 0, &out, &changed));
	assert_false(net_rx(&dev, na, sizeof(na), 0, &out, &changed));
	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++)
		assert_int_equal(dev.neigh[i].state, NET_NEIGH_FREE);
}

UNIT_TEST(changed_mac_of_a_known_neighbour_is_reported)
{
	uint8_t moved[sizeof(arp_reply)], v4[16];

	make_dev(&dev);
	net_neigh_ask(&dev, gid_of("10.0.0.2", v4), 0, 0, &out);
	assert_true(net_rx(&dev, arp_reply, sizeof(arp_reply), 0, &out, &changed));
	memcpy(moved, arp_reply, sizeof(moved));
	moved[11] = moved[27] = 0x77;
	assert_true(net_rx(&dev, moved, sizeof(moved), 0, &out, &changed));
	assert_int_equal(changed->mac[5], 0x77);
	/* a group's address is no station's */
	moved[22] = 0xff;
	assert_false(net_rx(&dev, moved, sizeof(moved), 0, &out, &changed));
	/* nor is our own address a neighbour */
	memcpy(moved + 22, our_mac, 6);
	assert_false(net_rx(&dev, moved, sizeof(moved), 0, &out, &changed));
	assert_int_equal(net_neigh_mac(&dev, v4)[5], 0x77);
}

UNIT_TEST(advertisement_without_override_does_not_replace)
{
	uint8_t other[sizeof(na)], v6[16];
	uint16_t sum;

	make_dev(&dev);
	net_neigh_ask(&dev, gid_of("fd00::2", v6), 0, 0, &out);
	assert_true(net_rx(&dev, na, sizeof(na), 0, &out, &changed));
	memcpy(other, na, sizeof(other));
	other[58] &= (uint8_t)~0x20;
	other[85] = 0x12; /* was 2: last byte of the target's MAC */
	memcpy(&sum, other + 56, 2);
	/* RFC 1624: bytes 58 (high) less 0x20 and 85 (low) more 0x10 */
	sum = htons((uint16_t)(ntohs(sum) + 0x2000 - 0x10));
	memcpy(other + 56, &sum, 2);
	assert_false(net_rx(&dev, other, sizeof(other), 0, &out, &changed));
	assert_memory_equal(net_neigh_mac(&dev, v6), peer_mac, 6);
	/* that it is the flag and not the checksum which decides: not known yet, it is taken */
	net_dev_init(&dev, our_mac);
	net_addr_add(&dev, "10.0.0.1/24");
	net_addr_add(&dev, "fd00::1/64");
	net_neigh_ask(&dev, v6, 0, 0, &out);
	assert_true(net_rx(&dev, other, sizeof(other), 0, &out, &changed));
	assert_int_equal(net_neigh_mac(&dev, v6)[5], 0x12);
}

UNIT_TEST(silent_neighbour_is_asked_again_and_then_abandoned)
{
	static const uint64_t gap_ms[] = {100, 200, 400, 800, 1600, 1600, 1600};
	uint64_t now = 1000 * MS, next;
	uint32_t requests = 1;
	uint8_t gid[16];

	make_dev(&dev);
	assert_false(net_tick(&dev, now, &out, &next));
	assert_true(next == UINT64_MAX);
	net_neigh_ask(&dev, gid_of("10.0.0.2", gid), 0, now, &out);
	for (size_t i = 0; i < sizeof(gap_ms) / sizeof(gap_ms[0]); i++) {
		assert_false(net_tick(&dev, now, &out, &next));
		assert_true(next == now + gap_ms[i] * MS);
		assert_false(net_tick(&dev, next - 1, &out, &next));
		now = next;
		assert_true(net_tick(&dev, now, &out, &next));
		assert_memory_equal(out.bytes, want_arp_request, sizeof(want_arp_request));
		requests++;
	}
	while (net_tick(&dev, now, &out, &next) || next != UINT64_MAX) {
		requests += out.len > 0;
		now = next;
	}
	assert_int_equal(requests, NET_NEIGH_GIVE_UP);
	assert_true(net_neigh_ask(&dev, gid, 0, now, &out));
	assert_true(out.len > 0);
}

/* The host's interface vanishes with its addresses while a neighbour is asked for: no address to
 * ask from. */
UNIT_TEST(neighbour_is_not_asked_without_an_address)
{
	struct net_addr addr[2] = {{.plen = 24, .v4 = true}, {.plen = 64}};
	uint64_t added, gone, next;
	uint8_t v6[16];

	gid_of("10.0.0.1", addr[0].gid);
	gid_of("fd00::1", addr[1].gid);
	net_host_init(&dev, our_mac, 0);
	net_host_addrs_set(&dev, addr, 2, &added, &gone);
	assert_true(net_neigh_ask(&dev, gid_of("fd00::2", v6), 0, 0, &out));
	assert_true(out.len > 0);
	net_host_addrs_set(&dev, addr, 0, &added, &gone);
	assert_true(net_tick(&dev, 100 * MS, &out, &next));
	assert_int_equal(out.len, 0);
	assert_false(net_tick(&dev, 100 * MS, &out, &next));
	/* it is asked as soon as there is an address again */
	net_host_addrs_set(&dev, addr, 2, &added, &gone);
	assert_true(net_tick(&dev, next, &out, &next));
	assert_true(out.len > 0);
}

UNIT_TEST(known_neighbour_is_revalidated)
{
	uint64_t now = 0, next;
	uint8_t gid[16];

	make_dev(&dev);
	net_neigh_ask(&dev, gid_of("10.0.0.2", gid), 0, now, &out);
	net_rx(&dev, arp_reply, sizeof(arp_reply), now, &out, &changed);
	for (int i = 0; i < 300; i++) {
		assert_false(net_tick(&dev, now, &out, &next));
		assert_true(next == now + 30000 * MS);
		now = next;
		assert_true(net_tick(&dev, now, &out, &next));
		/* one at first, then all */
		assert_memory_equal(out.bytes, i < 3 ? peer_mac : (const uint8_t *)"\xff\xff", 2);
		assert_memory_equal(net_neigh_mac(&dev, gid), peer_mac, 6);
	}
	assert_false(net_rx(&dev, arp_reply, sizeof(arp_reply), now, &out, &changed));
	assert_false(net_tick(&dev, now, &out, &next));
	assert_true(net_tick(&dev, next, &out, &next));
	assert_memory_equal(out.bytes, peer_mac, 6);
}

/*
 * Two stations claim an address by turns. Each change would be work for every address handle, so
 * there are few, and all stations are asked after each.
 */
UNIT_TEST(flapping_mac_changes_seldom)
{
	uint8_t gid[16], mac[2][6] = {{2, 1}, {2, 2}};
	uint64_t now = 1000 * MS, next, step = MS / 10;
	uint32_t changes = 0, i;

	make_dev(&dev);
	net_neigh_ask(&dev, gid_of("10.0.0.2", gid), 0, now, &out);
	assert_true(net_neigh_learn(&dev, gid, mac[0], true, now, &changed));
	/* The first change is taken at once: the address has moved. */
	assert_true(net_neigh_learn(&dev, gid, mac[1], true, now, &changed));
	for (i = 0; i < 10000; i++, now += step)
		changes += net_neigh_learn(&dev, gid, mac[i % 2], true, now, &changed);
	assert_in_range(changes, 1, 10000 * step / NET_NEIGH_HOLD_NS);
	/* All are asked at the end of the hold. */
	i = memcmp(net_neigh_mac(&dev, gid), mac[0], 6) == 0;
	now = dev.neigh[0].hold_ns - 1;
	assert_false(net_neigh_learn(&dev, gid, mac[i], true, now, &changed));
	assert_false(net_tick(&dev, now, &out, &next));
	assert_int_equal(next, now + 1);
	assert_true(net_tick(&dev, next, &out, &next));
	assert_memory_equal(out.bytes, "\xff\xff\xff\xff\xff\xff", 6);
	assert_true(net_neigh_learn(&dev, gid, mac[i], true, now + 2, &changed));
	assert_memory_equal(net_neigh_mac(&dev, gid), mac[i], 6);
}

/*
 * A station that claims a neighbour's address once, or twice, keeps it for the hold only: then all
 * stations are asked, again and again until one responds, and no longer than that.
 */
UNIT_TEST(forged_claim_is_undone)
{
	static const uint8_t forged[6] = {2, 0, 0, 0, 0, 0x66};
	uint8_t gid[16];

	for (unsigned claims = 1; claims < 3; claims++) {
		uint64_t now = 1000 * MS, next;

		make_dev(&dev);
		net_neigh_ask(&dev, gid_of("10.0.0.2", gid), 0, now, &out);
		net_rx(&dev, arp_reply, sizeof(arp_reply), now, &out, &changed);
		for (unsigned i = 0; i < claims; i++)
			net_neigh_learn(&dev, gid, forged, true, now, &changed);
		assert_memory_equal(net_neigh_mac(&dev, gid), forged, 6);
		for (unsigned lost = 0; lost < 4; lost++) {
			assert_false(net_tick(&dev, now, &out, &next));
			assert_in_range(next, now + 1, now + 1600 * MS);
			now = next;
			assert_true(net_tick(&dev, now, &out, &next));
			assert_memory_equal(out.bytes, "\xff\xff\xff\xff\xff\xff", 6);
		}
		assert_true(net_rx(&dev, arp_reply, sizeof(arp_reply), now, &out, &changed));
		assert_memory_equal(net_neigh_mac(&dev, gid), peer_mac, 6);
		assert_false(net_tick(&dev, now, &out, &next));
		now = next;
		assert_true(net_tick(&dev, now, &out, &next));
		assert_false(net_rx(&dev, arp_reply, sizeof(arp_reply), now, &out, &changed));
		assert_false(net_tick(&dev, now, &out, &next));
		assert_int_equal(next, now + 30000 * MS);
	}
}

UNIT_TEST(full_table_drops_silent_neighbours_first)
{
	uint64_t now = 0, next;
	uint8_t gid[16];
	char text[32];

	make_dev(&dev);
	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++) {
		snprintf(text, sizeof(text), "fd00::1:%x", i);
		assert_true(net_neigh_ask(&dev, gid_of(text, gid), 0, now, &out));
	}
	/* none has been silent for long */
	assert_false(net_neigh_ask(&dev, gid_of("10.0.0.2", gid), 0, now, &out));
	for (now = 0; now < 1000 * MS; now += 100 * MS) {
		while (net_tick(&dev, now, &out, &next))
			;
	}
	assert_true(net_neigh_ask(&dev, gid, 0, now, &out));
	assert_true(net_rx(&dev, arp_reply, sizeof(arp_reply), now, &out, &changed));
	/* a neighbour that responds is not evicted */
	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++) {
		snprintf(text, sizeof(text), "fd00::2:%x", i);
		net_neigh_ask(&dev, gid_of(text, gid), 0, now, &out);
	}
	assert_memory_equal(net_neigh_mac(&dev, gid_of("10.0.0.2", gid)), peer_mac, 6);
}

/* An owner with more entries than all others cannot take theirs, known neighbours or not. */
UNIT_TEST(full_table_is_shared_by_owners)
{
	enum { HOG = 7, GUEST, OTHERS = 100 };
	uint32_t known, i;
	uint8_t gid[16];
	char text[32];

	for (known = 0; known < 2; known++) {
		make_dev(&dev);
		for (i = 0; i < NET_MAX_NEIGH; i++) {
			snprintf(text, sizeof(text), "fd00::1:%x", i);
			assert_true(net_neigh_ask(&dev, gid_of(text, gid), HOG, 0, &out));
			if (known)
				dev.neigh[i].state = NET_NEIGH_KNOWN;
		}
		assert_false(net_neigh_ask(&dev, gid_of("10.0.0.2", gid), HOG, 0, &out));
		for (i = 0; i < OTHERS; i++) {
			snprintf(text, sizeof(text), "fd00::2:%x", i);
			assert_true(net_neigh_ask(&dev, gid_of(text, gid), GUEST + i % 2, 0, &out));
			assert_int_equal(out.len != 0, 1);
		}
		/* it does not take them back, silent as they are */
		for (i = 0; i < NET_MAX_NEIGH; i++) {
			if (dev.neigh[i].owner != HOG)
				dev.neigh[i].requests = 5;
		}
		assert_false(net_neigh_ask(&dev, gid_of("10.0.0.2", gid), HOG, 0, &out));
		/* and an owner evicts entries of the largest owner first */
		assert_true(net_neigh_ask(&dev, gid_of("10.0.0.2", gid), GUEST, 0, &out));
	}
}

UNIT_TEST(own_addresses_are_announced)
{
	uint8_t want[sizeof(want_dad_na)];

	make_dev(&dev);
	assert_true(net_announce(&dev, 1, &out));
	memcpy(want, want_arp_request, sizeof(want_arp_request));
	want[41] = 1; /* for our own address */
	assert_memory_equal(out.bytes, want, sizeof(want_arp_request));
	assert_true(net_announce(&dev, 2, &out));
	assert_memory_equal(out.bytes, want_dad_na, sizeof(want_dad_na));
	assert_false(net_announce(&dev, 3, &out));
	assert_false(net_announce(&dev, UROCE_MAX_GIDS, &out));
	assert_int_equal(out.len, 0);
}

static const uint8_t *
numbered_gid(unsigned group, uint32_t i, uint8_t gid[16])
{
	char text[32];

	snprintf(text, sizeof(text), "fd00::%u:%x", group, i);
	return gid_of(text, gid);
}

/* In a full table each neighbour is found, also those that took the places of silent ones. */
UNIT_TEST(neighbours_of_a_full_table_are_found)
{
	uint64_t now, next;
	uint8_t gid[16], mac[6] = {2};

	make_dev(&dev);
	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++) {
		assert_true(net_neigh_ask(&dev, numbered_gid(1, i, gid), 7, 0, &out));
		memcpy(&mac[2], &i, 4);
		if (i % 2 != 0)
			assert_true(net_neigh_learn(&dev, gid, mac, true, 0, &changed));
	}
	for (now = 0; now < 5000 * MS; now += 100 * MS) {
		while (net_tick(&dev, now, &out, &next))
			;
	}
	for (uint32_t i = 0; i < NET_MAX_NEIGH / 2; i++) {
		assert_true(net_neigh_ask(&dev, numbered_gid(2, i, gid), 7, now, &out));
		assert_int_not_equal(out.len, 0);
	}
	for (uint32_t i = 0; i < NET_MAX_NEIGH / 2; i++) {
		assert_true(net_neigh_ask(&dev, numbered_gid(2, i, gid), 7, now, &out));
		assert_int_equal(out.len, 0); /* it has been asked for */
	}
	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++) {
		memcpy(&mac[2], &i, 4);
		numbered_gid(1, i, gid);
		if (i % 2 != 0)
			assert_memory_equal(net_neigh_mac(&dev, gid), mac, 6);
		else
			assert_null(net_neigh_mac(&dev, gid));
	}
}
