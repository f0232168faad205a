/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies to requests and echoes, and hostile frames. */
#include <stdlib.h>
#include "frames.h"
#include "suite.h"

static struct net_dev dev;
static struct net_frame out;
static const struct net_neigh *changed;

static const struct frame {
	const char *name;
	const uint8_t *bytes;
	uint32_t len;
	const uint8_t *want; /* answer, or NULL */
	uint32_t want_len;
} frames[] = {
	{"arp request", arp_request, sizeof(arp_request), want_arp_reply, sizeof(want_arp_reply)},
	{"arp reply", arp_reply, sizeof(arp_reply), NULL, 0},
	{"solicitation", ns, sizeof(ns), want_na, sizeof(want_na)},
	{"duplicate address probe", dad, sizeof(dad), want_dad_na, sizeof(want_dad_na)},
	{"advertisement", na, sizeof(na), NULL, 0},
	{"ping", ping, sizeof(ping), want_pong, sizeof(want_pong)},
	{"ping6", ping6, sizeof(ping6), want_pong6, sizeof(want_pong6)},
};
#define NFRAMES (sizeof(frames) / sizeof(frames[0]))

/* Receives from a block of exactly len bytes, so that ASan detects a read past it. */
static bool
rx_exact(const uint8_t *bytes, uint32_t len)
{
	uint8_t *copy = malloc(len != 0 ? len : 1);
	bool news;

	assert_non_null(copy);
	memcpy(copy, bytes, len);
	memset(&out, 0xa5, sizeof(out));
	news = net_rx(&dev, copy, len, 0, &out, &changed);
	assert_int_equal(news, changed != NULL);
	assert_true(out.len <= NET_FRAME_MAX && (out.len == 0 || out.len >= 60));
	free(copy);
	return news;
}

/* What the kernel answers for, and what is learned all the same. */
UNIT_TEST(the_kernel_answers_for_its_addresses)
{
	for (unsigned kernel = 0; kernel < 4; kernel++) {
		make_dev(&dev);
		dev.kernel_v4 = kernel & 1;
		dev.kernel_v6 = kernel & 2;
		for (size_t i = 0; i < NFRAMES; i++) {
			bool v6 = frames[i].bytes[12] == 0x86;

			rx_exact(frames[i].bytes, frames[i].len);
			assert_int_equal(out.len != 0,
					 frames[i].want != NULL &&
						 !(v6 ? dev.kernel_v6 : dev.kernel_v4));
		}
	}
}

UNIT_TEST(replies_equal_those_of_linux)
{
	make_dev(&dev);
	for (size_t i = 0; i < NFRAMES; i++) {
		rx_exact(frames[i].bytes, frames[i].len);
		if (frames[i].want == NULL) {
			assert_int_equal(out.len, 0);
			continue;
		}
		print_message("%s\n", frames[i].name);
		assert_true(out.len >= frames[i].want_len);
		assert_memory_equal(out.bytes, frames[i].want, frames[i].want_len);
	}
}

UNIT_TEST(device_beside_the_stack_learns_but_does_not_answer)
{
	struct net_addr addr[2] = {{.plen = 24, .v4 = true, .used = true},
				   {.plen = 64, .used = true}};
	uint64_t added, gone;
	uint32_t news = 0;
	uint8_t gid[16];

	net_host_init(&dev, our_mac, 0);
	gid_of("10.0.0.1", addr[0].gid);
	gid_of("fd00::1", addr[1].gid);
	net_host_addrs_set(&dev, addr, 2, &added, &gone);
	assert_true(net_neigh_ask(&dev, gid_of("10.0.0.2", gid), 0, 0, &out));
	assert_true(out.len >= 60); /* its own request */
	for (size_t i = 0; i < NFRAMES; i++) {
		news += rx_exact(frames[i].bytes, frames[i].len);
		assert_int_equal(out.len, 0);
	}
	assert_int_equal(news, 1);
	assert_non_null(net_neigh_mac(&dev, gid_of("10.0.0.2", gid)));
	assert_false(net_announce(&dev, 1, &out));
}

UNIT_TEST(addresses_of_others_get_no_reply)
{
	net_dev_init(&dev, our_mac);
	net_addr_add(&dev, "10.0.0.9/24");
	net_addr_add(&dev, "fd00::9/64");
	for (size_t i = 0; i < NFRAMES; i++) {
		rx_exact(frames[i].bytes, frames[i].len);
		assert_int_equal(out.len, 0);
	}
}

/* fuzz_net. The reply would go to ourselves. */
UNIT_TEST(arp_with_our_mac_as_its_sender_gets_no_reply)
{
	uint8_t frame[sizeof(arp_request)];

	make_dev(&dev);
	memcpy(frame, arp_request, sizeof(frame));
	memcpy(frame + 22, our_mac, 6);
	assert_false(rx_exact(frame, sizeof(frame)));
	assert_int_equal(out.len, 0);
}

UNIT_TEST(truncated_frames_have_no_effect)
{
	uint8_t gid[16];

	make_dev(&dev);
	net_neigh_ask(&dev, gid_of("10.0.0.2", gid), 0, 0, &out);
	net_neigh_ask(&dev, gid_of("fd00::2", gid), 0, 0, &out);
	for (size_t i = 0; i < NFRAMES; i++) {
		for (uint32_t len = 0; len < frames[i].len; len++) {
			assert_false(rx_exact(frames[i].bytes, len));
			assert_int_equal(out.len, 0);
		}
	}
}

UNIT_TEST(padded_frames_are_accepted)
{
	uint8_t padded[128];

	make_dev(&dev);
	for (size_t i = 0; i < NFRAMES; i++) {
		memset(padded, 0x5a, sizeof(padded));
		memcpy(padded, frames[i].bytes, frames[i].len);
		rx_exact(padded, sizeof(padded));
		assert_int_equal(out.len != 0, frames[i].want != NULL);
		if (frames[i].want != NULL)
			assert_memory_equal(out.bytes, frames[i].want, frames[i].want_len);
	}
}

/* Any single wrong bit under a checksum: no reply. */
UNIT_TEST(damaged_echoes_and_discovery_are_ignored)
{
	uint8_t copy[128];

	make_dev(&dev);
	for (size_t i = 2; i < NFRAMES; i++) {
		bool v4 = frames[i].bytes == ping;
		/* of IPv6 the checksum covers all but class, flow label and hop limit */
		uint32_t from = v4 ? WIRE_ETH_LEN : WIRE_ETH_LEN + 8;

		for (uint32_t bit = from * 8; bit < frames[i].len * 8; bit++) {
			memcpy(copy, frames[i].bytes, frames[i].len);
			copy[bit / 8] ^= (uint8_t)(1u << (bit % 8));
			assert_false(rx_exact(copy, frames[i].len));
			assert_int_equal(out.len, 0);
		}
	}
}

UNIT_TEST(discovery_from_behind_a_router_is_ignored)
{
	uint8_t copy[sizeof(ns)];

	make_dev(&dev);
	memcpy(copy, ns, sizeof(copy));
	copy[21] = 254;
	rx_exact(copy, sizeof(copy));
	assert_int_equal(out.len, 0);
}

UNIT_TEST(discovery_with_broken_options_is_ignored)
{
	uint8_t copy[sizeof(ns)];
	uint16_t sum;

	make_dev(&dev);
	memcpy(copy, ns, sizeof(copy));
	/* option length 0, then longer than the message; the checksum repaired each time */
	memcpy(&sum, copy + 56, 2);
	copy[79] = 0;
	*(uint16_t *)(void *)(copy + 56) = htons((uint16_t)(ntohs(sum) + 1));
	rx_exact(copy, sizeof(copy));
	assert_int_equal(out.len, 0);
	copy[79] = 2;
	*(uint16_t *)(void *)(copy + 56) = htons((uint16_t)(ntohs(sum) - 1));
	rx_exact(copy, sizeof(copy));
	assert_int_equal(out.len, 0);
	/*
	 * the same change with the correct length is answered: the checksum is not the reason of
	 * the drop
	 */
	copy[79] = 1;
	memcpy(copy + 56, &sum, 2);
	rx_exact(copy, sizeof(copy));
	assert_true(out.len > 0);
}

UNIT_TEST(frames_to_other_stations_are_ignored)
{
	uint8_t copy[128];

	make_dev(&dev);
	for (size_t i = 0; i < NFRAMES; i++) {
		memcpy(copy, frames[i].bytes, frames[i].len);
		memcpy(copy, "\x02\x00\x00\x00\x00\x55", 6);
		rx_exact(copy, frames[i].len);
		assert_int_equal(out.len, 0);
		/* from a group, and from ourselves */
		memcpy(copy, frames[i].bytes, frames[i].len);
		copy[6] |= 1;
		rx_exact(copy, frames[i].len);
		assert_int_equal(out.len, 0);
		memcpy(copy + 6, our_mac, 6);
		rx_exact(copy, frames[i].len);
		assert_int_equal(out.len, 0);
	}
	/* a broadcast echo: every host would reply */
	memcpy(copy, ping, sizeof(ping));
	memset(copy, 0xff, 6);
	rx_exact(copy, sizeof(ping));
	assert_int_equal(out.len, 0);
}

UNIT_TEST(vlan_tag_is_required_and_set)
{
	uint8_t tagged[sizeof(ping) + 4];

	memcpy(tagged, ping, 12);
	memcpy(tagged + 12, "\x81\x00\x60\x64", 4);
	memcpy(tagged + 16, ping + 12, sizeof(ping) - 12);
	make_dev(&dev);
	rx_exact(tagged, sizeof(tagged));
	assert_int_equal(out.len, 0);
	tagged[15] = 0; /* priority tag */
	rx_exact(tagged, sizeof(tagged));
	assert_memory_equal(out.bytes, want_pong, sizeof(want_pong));
	dev.vlan_tci = 100;
	rx_exact(tagged, sizeof(tagged));
	assert_int_equal(out.len, 0);
	rx_exact(ping, sizeof(ping));
	assert_int_equal(out.len, 0);
	tagged[15] = 100;
	rx_exact(tagged, sizeof(tagged));
	assert_memory_equal(out.bytes + 12, "\x81\x00\x00\x64\x08\x00", 6);
	assert_memory_equal(out.bytes + 18, want_pong + 14, sizeof(want_pong) - 14);
}

UNIT_TEST(long_echo_is_answered_up_to_the_buffer_size)
{
	static uint8_t big[NET_FRAME_MAX + 64];

	make_dev(&dev);
	for (uint32_t len = 4000; len < sizeof(big); len += 7) {
		struct wire_ipv4 *ip = (struct wire_ipv4 *)(big + WIRE_ETH_LEN);
		uint32_t sum = 0;

		memcpy(big, ping, sizeof(ping));
		ip->total_len = htons((uint16_t)(len - WIRE_ETH_LEN));
		ip->csum = 0;
		for (uint32_t i = 0; i < 20; i += 2)
			sum += (uint32_t)big[14 + i] << 8 | big[15 + i];
		ip->csum = htons((uint16_t) ~(sum % 0xffff));
		rx_exact(big, len);
		assert_int_equal(out.len, len <= NET_FRAME_MAX - 58 + 34 ? len : 0);
	}
}

/* For any bytes nothing past them is read, and the reply has a sane length. */
UNIT_TEST(random_frames_are_harmless)
{
	uint8_t copy[160], gid[16];
	uint32_t seed = 1;

	make_dev(&dev);
	net_neigh_ask(&dev, gid_of("10.0.0.2", gid), 0, 0, &out);
	net_neigh_ask(&dev, gid_of("fd00::2", gid), 0, 0, &out);
	for (int round = 0; round < 200000; round++) {
		const struct frame *f = &frames[round % (int)NFRAMES];
		uint32_t len = f->len, flips;

		memcpy(copy, f->bytes, len);
		seed = seed * 1664525 + 1013904223;
		for (flips = seed >> 29; flips > 0; flips--) {
			seed = seed * 1664525 + 1013904223;
			copy[(seed >> 8) % len] = (uint8_t)(seed >> 24);
		}
		seed = seed * 1664525 + 1013904223;
		if (seed >> 30 == 0)
			len = (seed >> 8) % (len + 1);
		rx_exact(copy, len);
	}
}
