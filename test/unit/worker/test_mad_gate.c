/* SPDX-License-Identifier: BSD-3-Clause */
/* How many MADs of whom reach the control thread (lib/worker/mad_gate.h). Time is a number here. */
#include <string.h>
#include "wire/mad.h"
#include "wire/parse.h"
#include "worker/mad_gate.h"
#include "../../kit/unit.h"

#define MS           1000000ull
#define START        (5 * MS)
#define BURST        800u /* MADs of a lone host at once */
#define FLOOD        50000u
#define VENDOR_CLASS 0x3eu

static struct mad_gate gate;
static uint32_t last_ticket;
static bool last_peer;

static int
setup(void **state)
{
	memset(&gate, 0, sizeof(gate));
	gate.key = 0x1234567;
	return 0;
}

struct sent {
	uint8_t class;
	uint16_t attr;
};

/* A MAD of host (its number) at now_ns. Returns true if the control thread gets it. */
static bool
mad(uint32_t host, struct sent s, uint64_t now_ns)
{
	struct wire_ipv4 ip = {
		.src = {10, (uint8_t)(host >> 16), (uint8_t)(host >> 8), (uint8_t)host}};
	uint8_t bytes[WIRE_MAD_LEN] = {1, s.class, [16] = (uint8_t)(s.attr >> 8), (uint8_t)s.attr};
	struct wire_pkt pkt = {.ip = (const uint8_t *)&ip,
			       .payload = bytes,
			       .payload_len = sizeof(bytes)};

	return mad_gate_admit(&gate, &pkt, now_ns, &last_ticket, &last_peer);
}

/* n MADs at once. Returns how many the control thread gets. */
static uint32_t
burst(uint32_t host, struct sent s, uint32_t n, uint64_t now_ns)
{
	uint32_t got = 0;

	while (n-- > 0)
		got += mad(host, s, now_ns);
	return got;
}

static const struct sent req = {WIRE_CM_CLASS, WIRE_CM_REQ};

/* Kinds of the same group share what their host may send. */
static const struct {
	const char *name;
	struct sent s;
	enum mad_kind group;
} kinds[] = {
	{"REQ", {WIRE_CM_CLASS, WIRE_CM_REQ}, MAD_REQUEST},
	{"SIDR_REQ", {WIRE_CM_CLASS, WIRE_CM_SIDR_REQ}, MAD_REQUEST},
	{"MRA", {WIRE_CM_CLASS, WIRE_CM_MRA}, MAD_CONNECTION},
	{"REJ", {WIRE_CM_CLASS, WIRE_CM_REJ}, MAD_CONNECTION},
	{"REP", {WIRE_CM_CLASS, WIRE_CM_REP}, MAD_CONNECTION},
	{"RTU", {WIRE_CM_CLASS, WIRE_CM_RTU}, MAD_CONNECTION},
	{"DREQ", {WIRE_CM_CLASS, WIRE_CM_DREQ}, MAD_CONNECTION},
	{"DREP", {WIRE_CM_CLASS, WIRE_CM_DREP}, MAD_CONNECTION},
	{"SIDR_REP", {WIRE_CM_CLASS, WIRE_CM_SIDR_REP}, MAD_CONNECTION},
	{"LAP", {WIRE_CM_CLASS, WIRE_CM_LAP}, MAD_CONNECTION},
	{"APR", {WIRE_CM_CLASS, WIRE_CM_APR}, MAD_CONNECTION},
	{"selective repeat", {VENDOR_CLASS, 0x5352}, MAD_OTHER},
	{"doctor", {VENDOR_CLASS, 0x5052}, MAD_OTHER},
	{"unknown attribute", {WIRE_CM_CLASS, 0x1b}, MAD_OTHER},
	{"unknown class", {0xff, 0x10}, MAD_OTHER},
};
#define NKINDS     (sizeof(kinds) / sizeof(kinds[0]))

#define TEST(name) UNIT_TEST_IN(name, setup, NULL)

REQUIREMENT("CM-16")
TEST(a_flood_of_each_kind_is_bounded_and_reaches_no_other_host_or_group)
{
	for (size_t i = 0; i < NKINDS; i++) {
		setup(state);
		print_message("%s\n", kinds[i].name);
		assert_int_equal(burst(1, kinds[i].s, FLOOD, START), BURST);
		for (size_t k = 0; k < NKINDS; k++) {
			assert_int_equal(mad(1, kinds[k].s, START),
					 kinds[k].group != kinds[i].group);
			assert_true(mad(2, kinds[k].s, START));
		}
	}
}

REQUIREMENT("CM-16")
TEST(a_host_in_debt_is_heard_once_in_a_while)
{
	uint32_t got = 0;

	burst(1, req, FLOOD, START);
	/* 50 in each millisecond, for ten seconds */
	for (uint32_t ms = 0; ms < 10000; ms++)
		got += burst(1, req, 50, START + ms * MS);
	assert_in_range(got, 9900, 10300);
	/* and as at first when it has been silent */
	assert_int_equal(burst(1, req, FLOOD, START + 20000 * MS), BURST);
}

REQUIREMENT("CM-16")
TEST(useful_mads_are_unlimited)
{
	/* the connects of two seconds at once, with their other messages */
	for (uint32_t i = 0; i < 6000; i++) {
		for (size_t k = 0; k < NKINDS; k++) {
			assert_true(mad(1, kinds[k].s, START));
			mad_gate_forgive(&gate, last_ticket);
		}
	}
	/* none of it is left */
	assert_int_equal(burst(1, req, FLOOD, START), BURST);
}

/* A burst of five hundred hosts, with a request, its copy and a query, in a millisecond. */
REQUIREMENT("CM-16")
TEST(many_hosts_connect_at_once)
{
	static const struct sent query = {VENDOR_CLASS, 0x5352};

	for (uint32_t host = 0; host < 500; host++) {
		assert_true(mad(host, req, START));
		mad_gate_forgive(&gate, last_ticket);
		assert_true(mad(host, req, START));
		assert_true(mad(host, query, START));
	}
}

REQUIREMENT("CM-16")
TEST(a_flood_of_many_addresses_is_bounded_and_reaches_no_peer)
{
	static const uint8_t peer[16] = {[10] = 0xff, 0xff, 10, 0xff, 0, 1};
	uint32_t got = 0;

	mad_gate_connected(&gate, peer, true);
	for (uint32_t i = 0; i < FLOOD; i++)
		got += mad(i, req, START);
	assert_in_range(got, BURST, 4100); /* strangers share places with the peer */
	got = 0;
	for (uint32_t i = 0; i < FLOOD; i++)
		got += mad(FLOOD + i, req, START + 1000 * MS);
	assert_in_range(got, 3000, 4100); /* four a millisecond */
	assert_false(last_peer);
	assert_true(mad(0xff0001, req, START + 1000 * MS));
	assert_true(last_peer);
	/* its last QP has ended */
	mad_gate_connected(&gate, peer, false);
	assert_false(mad(0xff0001, req, START + 1000 * MS));
}
