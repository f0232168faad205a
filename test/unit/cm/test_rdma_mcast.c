/* SPDX-License-Identifier: BSD-3-Clause */
/* The rdma_cm layer: multicast groups. */
#include <errno.h>
#include "rdma_harness.h"

static struct host *const a = &hosts[0];

static const struct cma_addr group4 = {.family = CMA_IPV4,
				       .gid = {[10] = 0xff, 0xff, 239, 0, 0, 9}},
			     group6 = {.family = CMA_IPV6, .gid = {0xff, 0x02, [15] = 9}};

/* A UD id that is bound to a's address. */
static uint32_t
bound(uint64_t uid)
{
	struct cma_addr local = addr_of(a, 0);
	uint32_t id = do_create(a, uid, WIRE_CM_PS_UDP);

	assert_int_equal(cma_bind(a->r, a->ch, id, &local), 0);
	return id;
}

REQUIREMENT("CM-13")
HOSTS_TEST(joining_tells_the_groups_attributes)
{
	uint32_t id = bound(1), four, six, reported;
	struct cma_event *e;

	assert_int_equal(cma_join(a->r, a->ch, id, 4, &group4, false, &four), 0);
	assert_int_equal(cma_join(a->r, a->ch, id, 6, &group6, false, &six), 0);
	assert_int_equal(a->joined, 2);
	e = host_event(a, CMA_EV_MULTICAST_JOIN);
	assert_int_equal(e->uid, 4);
	assert_int_equal(e->id, four);
	assert_true(e->ud);
	assert_int_equal(e->conn.qpn, 0xffffff);
	assert_int_equal(e->conn.qkey, CMA_UD_QKEY);
	assert_memory_equal(e->path.addr.remote, group4.gid, 16);
	assert_memory_equal(e->path.addr.local, a->gid, 16);
	/* a pending event is dropped with its group */
	assert_int_equal(cma_leave(a->r, a->ch, six, &reported), 0);
	assert_int_equal(reported, 0);
	host_quiet(a);
	assert_int_equal(cma_leave(a->r, a->ch, four, &reported), 0);
	assert_int_equal(reported, 1);
	assert_int_equal(a->joined, 0);
	assert_int_equal(cma_leave(a->r, a->ch, four, &reported), -ENOENT);
	assert_int_equal(cma_leave(a->r, a->ch, 0, &reported), -ENOENT);
	/* they count towards their id, too */
	assert_int_equal(cma_destroy(a->r, a->ch, id, &reported, a->now), 0);
	assert_int_equal(reported, 1);
}

REQUIREMENT("CM-13")
HOSTS_TEST(only_bound_ud_ids_join_multicast_addresses)
{
	struct cma_addr unicast = addr_of(a, 0), any = {.family = CMA_IPV4}, none = {0};
	uint32_t id = bound(1), rc = do_create(a, 2, WIRE_CM_PS_TCP), wild, group, other, reported;

	wild = do_create(a, 3, WIRE_CM_PS_UDP);
	assert_int_equal(cma_join(a->r, a->ch, wild, 4, &group4, false, &group), -EINVAL);
	assert_int_equal(cma_bind(a->r, a->ch, wild, &any), 0);
	assert_int_equal(cma_join(a->r, a->ch, wild, 4, &group4, false, &group), -EINVAL);
	assert_int_equal(cma_bind(a->r, a->ch, rc, &unicast), 0);
	assert_int_equal(cma_join(a->r, a->ch, rc, 4, &group4, false, &group), -EINVAL);
	assert_int_equal(cma_join(a->r, a->ch, id, 4, &unicast, false, &group), -EINVAL);
	assert_int_equal(cma_join(a->r, a->ch, id, 4, &none, false, &group), -EAFNOSUPPORT);
	assert_int_equal(cma_join(a->r, a->ch, 77, 4, &group4, false, &group), -ENOENT);
	assert_int_equal(cma_channel_open(a->r, a, &other), 0);
	assert_int_equal(cma_join(a->r, other, id, 4, &group4, false, &group), -EINVAL);
	a->refuse = -ENOBUFS;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(cma_join(a->r, a->ch, id, 4, &group4, false, &group), -ENOBUFS);
	a->refuse = 0;
	host_quiet(a);
	/* senders are not members on the wire */
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(cma_join(a->r, a->ch, id, 4, &group4, true, &group), 0);
	assert_int_equal(cma_leave(a->r, other, group, &reported), -EINVAL);
	assert_int_equal(cma_join(a->r, a->ch, id, 4, &group4, true, &group), -ENOMEM);
	assert_int_equal(a->joined, 0);
}

/* getaddrinfo returns such addresses on a host with IPv6. */
REQUIREMENT("CM-13")
HOSTS_TEST(mapped_ipv4_group_is_joined)
{
	struct cma_addr mapped = group4, unicast = addr_of(a, 0);
	uint32_t id = bound(1), group;

	mapped.family = CMA_IPV6;
	unicast.family = CMA_IPV6;
	assert_int_equal(cma_join(a->r, a->ch, id, 4, &mapped, false, &group), 0);
	assert_memory_equal(host_event(a, CMA_EV_MULTICAST_JOIN)->path.addr.remote, group4.gid, 16);
	assert_int_equal(cma_join(a->r, a->ch, id, 4, &unicast, false, &group), -EINVAL);
}

REQUIREMENT("CM-13")
HOSTS_TEST(groups_end_with_their_id)
{
	uint32_t id = bound(1), other = bound(2), group, kept, reported;

	assert_int_equal(cma_join(a->r, a->ch, other, 5, &group4, false, &kept), 0);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(cma_join(a->r, a->ch, id, 4, &group4, false, &group), 0);
		assert_int_equal(a->joined, 2);
		assert_int_equal(cma_destroy(a->r, a->ch, id, &reported, a->now), 0);
		assert_int_equal(a->joined, 1);
		assert_int_equal(cma_leave(a->r, a->ch, group, &reported), -ENOENT);
		id = bound(1);
	}
	assert_int_equal(host_event(a, CMA_EV_MULTICAST_JOIN)->id, kept);
	host_quiet(a);
	/* a removed device has no groups to leave */
	cma_device_removed(a->r, 0, a->now);
	assert_int_equal(cma_destroy(a->r, a->ch, other, &reported, a->now), 0);
	assert_int_equal(reported, 1);
	assert_int_equal(a->joined, 1);
}

/* Whatever waits: joins of groups in any order, resolved routes. */
REQUIREMENT("CM-12", "CM-13")
HOSTS_TEST(groups_and_events_end_with_their_channel)
{
	uint32_t id = bound(1), other = bound(2), group[3], ch, reported;
	struct cma_addr to = addr_of(&hosts[1], 7);

	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(cma_join(a->r, a->ch, i == 1 ? other : id, i, &group4, false,
					  &group[i]),
				 0);
	assert_int_equal(cma_resolve_addr(a->r, a->ch, do_create(a, 3, WIRE_CM_PS_TCP), NULL, &to,
					  2000, a->now),
			 0);
	assert_true(cma_channel_close(a->r, a->ch, UINT32_MAX, a->now));
	assert_int_equal(a->joined, 0);
	assert_int_equal(cma_channel_open(a->r, a, &ch), 0);
	assert_int_equal(ch, a->ch);
	assert_int_equal(cma_events_waiting(a->r, ch), 0);
	/* all groups are free; any of an id's can be left first */
	id = bound(1);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(cma_join(a->r, ch, id, i, &group4, false, &group[i]), 0);
	assert_int_equal(cma_leave(a->r, ch, group[1], &reported), 0);
	assert_int_equal(cma_leave(a->r, ch, group[0], &reported), 0);
	assert_int_equal(host_event(a, CMA_EV_MULTICAST_JOIN)->id, group[2]);
	host_quiet(a);
	assert_int_equal(cma_destroy(a->r, ch, id, &reported, a->now), 0);
	assert_int_equal(a->joined, 0);
}

/* librdmacm keeps them in an int, by which it indexes a table if it is below 65536. */
REQUIREMENT("CM-12")
HOSTS_TEST(numbers_of_ids_and_groups_are_positive)
{
	uint32_t group, reported;

	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t id = bound(1);

		assert_in_range(id, 1, INT32_MAX);
		assert_int_equal(cma_join(a->r, a->ch, id, 4, &group4, false, &group), 0);
		assert_in_range(group, 1, INT32_MAX);
		assert_int_equal(cma_destroy(a->r, a->ch, id, &reported, a->now), 0);
	}
}

REQUIREMENT("CM-12", "CM-13")
HOSTS_TEST(groups_migrate_with_their_id)
{
	uint32_t id = bound(1), group, other, reported;
	struct cma_event ev;

	assert_int_equal(cma_join(a->r, a->ch, id, 4, &group4, false, &group), 0);
	assert_int_equal(cma_channel_open(a->r, a, &other), 0);
	assert_int_equal(cma_migrate(a->r, other, a->ch, id, &reported), 0);
	host_quiet(a);
	assert_int_equal(cma_events_waiting(a->r, other), 1);
	assert_int_equal(cma_event_get(a->r, other, &ev), 0);
	assert_int_equal(ev.uid, 4);
	assert_int_equal(cma_leave(a->r, a->ch, group, &reported), -EINVAL);
	assert_int_equal(cma_leave(a->r, other, group, &reported), 0);
	assert_int_equal(reported, 1);
}
