/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of rdma_cm on a device with its own addresses: what is reported on the wire. */
#include <arpa/inet.h>
#include <rte_mbuf.h>
#include "cm_client.h"
#include "control/cm_parts.h"

#define IGMP_AT   38u /* after Ethernet and 24 bytes of IPv4 */
#define RECORD_AT 46u /* in a report of IGMPv3 */

enum { OLD_REPORT_V1 = 0x12, OLD_REPORT_V2 = 0x16, OLD_LEAVE = 0x17 }; /* types of IGMP */

/* The record of the report that was sent since the last call, or the type of an old one; 0: none.
 */
static int
said(void)
{
	int record = 0;

	if (fake_sent != NULL) {
		const uint8_t *frame = rte_pktmbuf_mtod(fake_sent, const uint8_t *);
		bool old = frame[IGMP_AT] != 0x22;

		assert_int_equal(frame[23], 2); /* IGMP */
		assert_memory_equal(frame + (old ? IGMP_AT : RECORD_AT) + 4,
				    ((const uint8_t[]){239, 1, 1, 7}), 4);
		record = frame[old ? IGMP_AT : RECORD_AT];
		rte_pktmbuf_free(fake_sent);
		fake_sent = NULL;
	}
	return record;
}

static uint32_t
make_member(uint32_t *group)
{
	struct sockaddr_in any = cm_ipv4("10.0.0.1", 0), to = cm_ipv4("239.1.1.7", 0);
	struct rdma_ucm_create_id create = {.ps = RDMA_PS_UDP, .qp_type = 4};
	struct rdma_ucm_join_mcast q = {.addr_size = sizeof(to),
					.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER};
	struct rdma_ucm_create_id_resp r = {0};

	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), &r,
				sizeof(r)),
			 0);
	cm_bind_to(&one, r.id, &any);
	q.id = r.id;
	memcpy(&q.addr, &to, sizeof(to));
	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_JOIN_MCAST, &q, sizeof(q), group,
				sizeof(*group)),
			 0);
	return r.id;
}

static void
leave(uint32_t group)
{
	const struct rdma_ucm_destroy_id q = {.id = group};
	struct rdma_ucm_destroy_id_resp r;

	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_LEAVE_MCAST, &q, sizeof(q), &r, sizeof(r)),
			 0);
}

static void
pass(uint64_t seconds)
{
	ucma_groups_tick(d.ucma, daemon_now_ns() + seconds * NS_PER_S);
}

REQUIREMENT("CM-13")
CM_TEST(the_first_member_joins_and_the_last_leaves_twice_each)
{
	uint32_t groups[2];

	make_member(&groups[0]);
	assert_int_equal(said(), NET_GROUP_JOINED);
	make_member(&groups[1]);
	assert_int_equal(said(), 0);
	pass(0);
	assert_int_equal(said(), 0);
	pass(2);
	assert_int_equal(said(), NET_GROUP_JOINED);
	pass(100);
	assert_int_equal(said(), 0);
	leave(groups[0]);
	assert_int_equal(said(), 0);
	leave(groups[1]);
	assert_int_equal(said(), NET_GROUP_LEFT);
	pass(2);
	assert_int_equal(said(), NET_GROUP_LEFT);
	pass(1000);
	assert_int_equal(said(), 0);
	assert_true(LIST_EMPTY(&d.ucma->groups));
}

REQUIREMENT("CM-13")
CM_TEST(a_group_is_reported_again_as_long_as_it_has_members)
{
	uint32_t group, id = make_member(&group);

	pass(2);
	for (uint64_t i = 1; i < 4; i++) {
		said();
		pass(2 + 125 * i);
		assert_int_equal(said(), NET_GROUP_MEMBER);
	}
	cm_end_id(&one, id); /* it leaves what it has joined */
	assert_int_equal(said(), NET_GROUP_LEFT);
	/* an id that joins again before the second report is a member */
	make_member(&group);
	assert_int_equal(said(), NET_GROUP_JOINED);
	pass(2);
	assert_int_equal(said(), NET_GROUP_JOINED);
}

/* Any number of queries causes one report, at a time within that of the query. */
REQUIREMENT("CM-13")
CM_TEST(a_query_is_answered_once)
{
	const struct net_query all = {.gid = {[10] = 0xff, 0xff}, .within_ns = 10ull * NS_PER_S};
	const struct net_query all6 = {.within_ns = NS_PER_S};
	struct net_query other = {.gid = {[10] = 0xff, 0xff, 239, 1, 1, 8}, .within_ns = NS_PER_S};
	uint32_t group;

	make_member(&group);
	said();
	pass(2);
	assert_int_equal(said(), NET_GROUP_JOINED);
	ucma_group_queried(d.dev[0], &all6);
	ucma_group_queried(d.dev[0], &other);
	pass(10);
	assert_int_equal(said(), 0);
	for (uint32_t i = 0; i < 100; i++)
		ucma_group_queried(d.dev[0], &all);
	pass(10);
	assert_int_equal(said(), NET_GROUP_MEMBER);
	pass(100);
	assert_int_equal(said(), 0);
	other.gid[15] = 7;
	other.within_ns = 0;
	ucma_group_queried(d.dev[0], &other);
	pass(1);
	assert_int_equal(said(), NET_GROUP_MEMBER);
}

/* A query for all groups at this time from now. */
static void
ask_at(enum net_group_version version, uint64_t seconds)
{
	const struct net_query q = {.gid = {[10] = 0xff, 0xff},
				    .within_ns = NS_PER_S,
				    .version = version};

	ucma_groups_query(d.ucma, d.dev[0], &q, daemon_now_ns() + seconds * NS_PER_S);
}

/* RFC 3376 7.2.1: the oldest version of the last 260 s, whatever else is heard. */
REQUIREMENT("CM-13")
CM_TEST(reports_have_the_version_of_the_oldest_router)
{
	struct net_query one_group = {.gid = {[10] = 0xff, 0xff, 239, 1, 1, 7},
				      .within_ns = NS_PER_S,
				      .version = NET_GROUP_OLDER};
	uint32_t group;

	make_member(&group);
	said();
	/* for a router that asks for one group only, nothing changes */
	ucma_group_queried(d.dev[0], &one_group);
	pass(2);
	assert_int_equal(said(), NET_GROUP_JOINED);
	ask_at(NET_GROUP_OLDER, 10);
	pass(11);
	assert_int_equal(said(), OLD_REPORT_V2);
	ask_at(NET_GROUP_OLDEST, 20);
	ask_at(NET_GROUP_OLDER, 30);
	ask_at(NET_GROUP_NEWEST, 30);
	pass(31);
	assert_int_equal(said(), OLD_REPORT_V1);
	/* version 1 until 280 s, version 2 until 290 s */
	pass(279);
	assert_int_equal(said(), OLD_REPORT_V1);
	ask_at(NET_GROUP_NEWEST, 281);
	pass(282);
	assert_int_equal(said(), OLD_REPORT_V2);
	ask_at(NET_GROUP_NEWEST, 291);
	pass(292);
	assert_int_equal(said(), NET_GROUP_MEMBER);
}

/* What was due for a router of another version is not sent; later reports are. */
REQUIREMENT("CM-13")
CM_TEST(another_version_cancels_what_is_due)
{
	uint32_t group;

	make_member(&group);
	said();
	ask_at(NET_GROUP_OLDEST, 0);
	pass(2);
	assert_int_equal(said(), OLD_REPORT_V1); /* the answer alone, no second report of joining */
	pass(100);
	assert_int_equal(said(), 0);
	leave(group); /* version 1 has no message for it */
	assert_int_equal(said(), 0);
	pass(200);
	assert_int_equal(said(), 0);
	assert_true(LIST_EMPTY(&d.ucma->groups));

	d.dev[0]->igmp_v1_until_ns = 0;
	make_member(&group);
	leave(group);
	said();
	ask_at(NET_GROUP_OLDER, 0);
	assert_true(LIST_EMPTY(&d.ucma->groups));
	pass(200);
	assert_int_equal(said(), 0);
	make_member(&group);
	assert_int_equal(said(), OLD_REPORT_V2);
	leave(group);
	assert_int_equal(said(), OLD_LEAVE);
}

REQUIREMENT("CM-13")
CM_TEST(a_device_that_goes_forgets_its_groups)
{
	uint32_t group;

	make_member(&group);
	said();
	ucma_device_gone(d.dev[0]);
	pass(1000);
	assert_int_equal(said(), 0);
	assert_true(LIST_EMPTY(&d.ucma->groups));
}
