/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports about multicast groups: frames as scapy makes them, in the kernel's form. */
#include "suite.h"
#include "../../kit/requirement.h"

static const uint8_t want_igmp[] = {
	0x01, 0x00, 0x5e, 0x00, 0x00, 0x16, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00,
	0x46, 0xc0, 0x00, 0x28, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02, 0xf9, 0xf8, 0x0a, 0x00,
	0x00, 0x01, 0xe0, 0x00, 0x00, 0x16, 0x94, 0x04, 0x00, 0x00, 0x22, 0x00, 0xe9, 0xf5,
	0x00, 0x00, 0x00, 0x01, 0x04, 0x00, 0x00, 0x00, 0xef, 0x01, 0x01, 0x07,
};
static const uint8_t want_mld[] = {
	0x33, 0x33, 0x00, 0x00, 0x00, 0x16, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x86, 0xdd, 0x60,
	0x00, 0x00, 0x00, 0x00, 0x24, 0x00, 0x01, 0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0xff, 0xfe, 0x00, 0x00, 0x01, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x16, 0x3a, 0x00, 0x05, 0x02, 0x00, 0x00,
	0x01, 0x00, 0x8f, 0x00, 0x71, 0xe5, 0x00, 0x00, 0x00, 0x01, 0x03, 0x00, 0x00, 0x00, 0xff,
	0x1e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x05,
};

static struct net_dev dev;
static struct net_frame frame;

/* The report about group is want, padded to the least length of a frame. */
static void
check(const char *group, enum net_group_record record, const uint8_t *want, uint32_t len)
{
	uint8_t gid[16];

	assert_true(net_group_report(&dev, gid_of(group, gid), record, &frame));
	assert_int_equal(frame.len, len < 60 ? 60 : len);
	assert_memory_equal(frame.bytes, want, len);
}

REQUIREMENT("CM-13")
static void
reports_are_those_of_igmp_v3_and_mld_v2(void **state)
{
	make_dev(&dev);
	check("239.1.1.7", NET_GROUP_JOINED, want_igmp, sizeof(want_igmp));
	check("ff1e::4:5", NET_GROUP_LEFT, want_mld, sizeof(want_mld));
}

REQUIREMENT("CM-13")
static void
some_groups_are_never_reported(void **state)
{
	static const char *const groups[] = {"224.0.0.1", "ff02::1", "ff01::5", "10.0.0.2",
					     "fd00::2"};
	uint8_t gid[16];

	make_dev(&dev);
	for (uint32_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		assert_false(
			net_group_report(&dev, gid_of(groups[i], gid), NET_GROUP_JOINED, &frame));
		assert_int_equal(frame.len, 0);
	}
	assert_true(net_group_report(&dev, gid_of("224.0.0.251", gid), NET_GROUP_JOINED, &frame));
	assert_true(net_group_report(&dev, gid_of("ff02::fb", gid), NET_GROUP_JOINED, &frame));
}

static void
a_device_reports_only_from_an_address_of_its_own(void **state)
{
	uint8_t gid[16];

	net_dev_init(&dev, our_mac);
	assert_false(net_group_report(&dev, gid_of("239.1.1.7", gid), NET_GROUP_JOINED, &frame));
	assert_true(net_group_report(&dev, gid_of("ff1e::4:5", gid), NET_GROUP_JOINED, &frame));
	net_host_init(&dev, our_mac, 0);
	assert_false(net_group_report(&dev, gid_of("ff1e::4:5", gid), NET_GROUP_JOINED, &frame));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_are_those_of_igmp_v3_and_mld_v2),
		cmocka_unit_test(some_groups_are_never_reported),
		cmocka_unit_test(a_device_reports_only_from_an_address_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
