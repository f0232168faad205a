/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of rdma_cm on a device with its own addresses: what is reported on the wire. */
#include <arpa/inet.h>
#include <rte_mbuf.h>
#include "cm_client.h"
#include "control/cm_parts.h"
#include "../../kit/requirement.h"

#define RECORD_AT 46u /* in an IGMP report: after Ethernet, 24 bytes of IPv4 and 8 of IGMP */

/* The record of the report that was sent since the last call; 0: none. */
static int
said(void)
{
	int record = 0;

	if (fake_sent != NULL) {
		const uint8_t *frame = rte_pktmbuf_mtod(fake_sent, const uint8_t *);

		assert_int_equal(frame[23], 2); /* IGMP */
		assert_memory_equal(frame + RECORD_AT + 4, ((const uint8_t[]){239, 1, 1, 7}), 4);
		record = frame[RECORD_AT];
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
	cms_groups_tick(d.cms, daemon_now_ns() + seconds * NS_PER_S);
}

REQUIREMENT("CM-13")
static void
the_first_member_joins_and_the_last_leaves_twice_each(void **state)
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
	assert_true(LIST_EMPTY(&d.cms->groups));
}

REQUIREMENT("CM-13")
static void
a_group_is_reported_again_as_long_as_it_has_members(void **state)
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
static void
a_query_is_answered_once(void **state)
{
	const uint8_t all[16] = {[10] = 0xff, 0xff}, all6[16] = {0};
	uint8_t other[16] = {[10] = 0xff, 0xff, 239, 1, 1, 8};
	uint32_t group;

	make_member(&group);
	said();
	pass(2);
	assert_int_equal(said(), NET_GROUP_JOINED);
	cms_group_queried(d.dev[0], all6, NS_PER_S);
	cms_group_queried(d.dev[0], other, NS_PER_S);
	pass(10);
	assert_int_equal(said(), 0);
	for (uint32_t i = 0; i < 100; i++)
		cms_group_queried(d.dev[0], all, 10ull * NS_PER_S);
	pass(10);
	assert_int_equal(said(), NET_GROUP_MEMBER);
	pass(100);
	assert_int_equal(said(), 0);
	other[15] = 7;
	cms_group_queried(d.dev[0], other, 0);
	pass(1);
	assert_int_equal(said(), NET_GROUP_MEMBER);
}

REQUIREMENT("CM-13")
static void
a_device_that_goes_forgets_its_groups(void **state)
{
	uint32_t group;

	make_member(&group);
	said();
	cms_device_gone(d.dev[0]);
	pass(1000);
	assert_int_equal(said(), 0);
	assert_true(LIST_EMPTY(&d.cms->groups));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CM_TEST(the_first_member_joins_and_the_last_leaves_twice_each),
		CM_TEST(a_group_is_reported_again_as_long_as_it_has_members),
		CM_TEST(a_query_is_answered_once),
		CM_TEST(a_device_that_goes_forgets_its_groups),
	};

	return CM_RUN(tests);
}
