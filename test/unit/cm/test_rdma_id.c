/* SPDX-License-Identifier: BSD-3-Clause */
/* The rdma_cm layer: channels, ids, addresses, routes, and the removal of each. */
#include <errno.h>
#include "rdma_harness.h"

static struct host *const a = &hosts[0], *const p = &hosts[1];

REQUIREMENT("CM-12")
HOSTS_TEST(ids_of_one_channel_are_unknown_to_another)
{
	uint32_t other, id = do_create(a, 1, WIRE_CM_PS_TCP), reported;
	struct cm_param c = conn_args(0x11);
	struct cma_addr any = {.family = CMA_IPV4};
	struct cma_qp_attr attr;
	struct cma_info info;
	uint32_t const wrong[2] = {id, id + 1};

	assert_int_equal(cma_channel_open(a->r, a, &other), 0);
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t w = wrong[i];
		int want = i == 0 ? -EINVAL : -ENOENT;

		assert_int_equal(cma_bind(a->r, other, w, &any), want);
		assert_int_equal(cma_listen(a->r, other, w, 1), want);
		assert_int_equal(cma_resolve_addr(a->r, other, w, NULL, &any, 1, a->now), want);
		assert_int_equal(cma_resolve_route(a->r, other, w, 1, a->now), want);
		assert_int_equal(cma_connect(a->r, other, w, &c, a->now), want);
		assert_int_equal(cma_accept(a->r, other, w, 1, &c, a->now), want);
		assert_int_equal(cma_reject(a->r, other, w, 0, NULL, 0, a->now), want);
		assert_int_equal(cma_disconnect(a->r, other, w, a->now), want);
		assert_int_equal(cma_notify(a->r, other, w, 4, a->now), want);
		assert_int_equal(cma_migrate(a->r, a->ch, other, w, &reported), want);
		assert_int_equal(cma_set_tos(a->r, other, w, 1), want);
		assert_int_equal(cma_set_reuse(a->r, other, w, true), want);
		assert_int_equal(cma_set_afonly(a->r, other, w, true), want);
		assert_int_equal(cma_set_ack_timeout(a->r, other, w, 1), want);
		assert_int_equal(cma_query(a->r, other, w, &info), want);
		assert_int_equal(cma_qp_attr_get(a->r, other, w, CMA_QPS_INIT, &attr), want);
		assert_int_equal(cma_destroy(a->r, other, w, &reported, a->now), want);
	}
	assert_int_equal(cma_destroy(a->r, a->ch, id, &reported, a->now), 0);
	assert_int_equal(cma_destroy(a->r, a->ch, id, &reported, a->now), -ENOENT);
}

REQUIREMENT("CM-12")
HOSTS_TEST(calls_in_a_wrong_state_are_einval)
{
	struct cma_addr any = {.family = CMA_IPV4}, none = {.family = CMA_NO_ADDR};
	struct cm_param c = conn_args(0x11);
	uint32_t id = do_create(a, 1, WIRE_CM_PS_TCP);

	assert_int_equal(cma_resolve_route(a->r, a->ch, id, 1, a->now), -EINVAL);
	assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), -EINVAL);
	assert_int_equal(cma_accept(a->r, a->ch, id, 1, &c, a->now), -EINVAL);
	assert_int_equal(cma_reject(a->r, a->ch, id, 0, NULL, 0, a->now), -EINVAL);
	assert_int_equal(cma_disconnect(a->r, a->ch, id, a->now), -EINVAL);
	assert_int_equal(cma_notify(a->r, a->ch, id, 4, a->now), -EINVAL);
	assert_int_equal(cma_bind(a->r, a->ch, id, &none), -EAFNOSUPPORT);
	assert_int_equal(cma_bind(a->r, a->ch, id, &any), 0);
	assert_int_equal(cma_bind(a->r, a->ch, id, &any), -EINVAL);
	assert_int_equal(cma_set_afonly(a->r, a->ch, id, true), -EINVAL);
	assert_int_equal(cma_listen(a->r, a->ch, id, 1), 0);
	assert_int_equal(cma_listen(a->r, a->ch, id, 1), -EINVAL);
	assert_int_equal(cma_set_reuse(a->r, a->ch, id, true), -EINVAL);
	assert_int_equal(cma_resolve_addr(a->r, a->ch, id, NULL, &any, 1, a->now), -EINVAL);
	assert_int_equal(cma_create(a->r, a->ch, 1, 0x0002, CMA_QP_UD, &id), -EINVAL);
	assert_int_equal(cma_create(a->r, a->ch, 1, WIRE_CM_PS_IB, 9, &id), -EINVAL);
	assert_int_equal(cma_create(a->r, 9, 1, WIRE_CM_PS_TCP, 0, &id), -ENOENT);
}

REQUIREMENT("CM-10")
HOSTS_TEST(binding_follows_the_rules_of_ports)
{
	struct cma_addr local = addr_of(a, PORT), foreign = addr_of(p, PORT);
	struct cma_addr v6 = {.family = CMA_IPV6, .port = PORT};
	uint32_t id[6];
	struct cma_info info;

	for (uint32_t i = 0; i < 6; i++)
		id[i] = do_create(a, i, i == 2 ? WIRE_CM_PS_UDP : WIRE_CM_PS_TCP);
	assert_int_equal(cma_bind(a->r, a->ch, id[0], &foreign), -EADDRNOTAVAIL);
	assert_int_equal(cma_bind(a->r, a->ch, id[0], &local), 0);
	assert_int_equal(cma_bind(a->r, a->ch, id[1], &local), -EADDRINUSE);
	assert_int_equal(cma_bind(a->r, a->ch, id[2], &local), 0);
	assert_int_equal(cma_bind(a->r, a->ch, id[3], &v6), -EADDRINUSE);
	assert_int_equal(cma_set_afonly(a->r, a->ch, id[3], true), 0);
	assert_int_equal(cma_bind(a->r, a->ch, id[3], &v6), 0);
	assert_int_equal(cma_query(a->r, a->ch, id[0], &info), 0);
	assert_int_equal(info.dev, 0);
	assert_int_equal(info.state, CMA_BOUND);
	/* the port is free again when its id goes */
	assert_int_equal(cma_destroy(a->r, a->ch, id[0], &id[0], a->now), 0);
	assert_int_equal(cma_set_reuse(a->r, a->ch, id[1], true), 0);
	assert_int_equal(cma_set_reuse(a->r, a->ch, id[4], true), 0);
	assert_int_equal(cma_bind(a->r, a->ch, id[1], &local), 0);
	assert_int_equal(cma_bind(a->r, a->ch, id[4], &local), 0);
	assert_int_equal(cma_listen(a->r, a->ch, id[1], 1), -EADDRINUSE);
	/* an id that listens without a port gets one */
	assert_int_equal(cma_listen(a->r, a->ch, id[5], 1), 0);
	assert_int_equal(cma_query(a->r, a->ch, id[5], &info), 0);
	assert_true(info.src.port >= 32768);
}

REQUIREMENT("CM-12")
HOSTS_TEST(the_af_ib_form_needs_no_header)
{
	/* what librdmacm tries first: a service id of the TCP space with an id of the IB space */
	struct cma_addr any = {.family = CMA_IB, .space = WIRE_CM_PS_TCP, .port = PORT}, to = any;
	struct cm_param c = conn_args(0x11);
	uint32_t id = do_create(p, 3, WIRE_CM_PS_IB), active = do_create(a, 1, WIRE_CM_PS_IB);
	struct cma_event *e;

	assert_int_equal(cma_bind(p->r, p->ch, id, &any), 0);
	assert_int_equal(cma_listen(p->r, p->ch, id, 1), 0);
	memcpy(to.gid, p->gid, 16);
	assert_int_equal(cma_resolve_addr(a->r, a->ch, active, NULL, &to, 1, a->now), 0);
	host_event(a, CMA_EV_ADDR_RESOLVED);
	assert_int_equal(cma_resolve_route(a->r, a->ch, active, 1, a->now), 0);
	host_event(a, CMA_EV_ROUTE_RESOLVED);
	c.private_len = 93;
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), -EINVAL);
	c.private_len = 7;
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	hosts_deliver();
	e = host_event(p, CMA_EV_CONNECT_REQUEST);
	assert_int_equal(e->conn.private_len, 92);
	assert_memory_equal(e->conn.private_data, "private", 8);
}

REQUIREMENT("CM-11")
HOSTS_TEST(addresses_and_routes_are_resolved_later)
{
	struct cma_addr to = addr_of(p, PORT), six = {.family = CMA_IPV6};
	struct cma_path path = host_path(a);
	uint32_t id = do_create(a, 1, WIRE_CM_PS_TCP);
	struct cma_info info;

	a->answer = -EINPROGRESS;
	assert_int_equal(cma_resolve_addr(a->r, a->ch, id, &six, &to, 100, a->now), -EINVAL);
	assert_int_equal(cma_set_tos(a->r, a->ch, id, 0x20), 0);
	assert_int_equal(cma_resolve_addr(a->r, a->ch, id, NULL, &to, 100, a->now), 0);
	assert_int_equal(a->tos, 0x20);
	assert_int_equal(cma_resolve_addr(a->r, a->ch, id, NULL, &to, 100, a->now), -EINVAL);
	host_quiet(a);
	cma_resolved(a->r, a->asked, -EHOSTUNREACH, NULL, a->now);
	assert_int_equal(host_event(a, CMA_EV_ADDR_ERROR)->status, -EHOSTUNREACH);
	/* it may be tried again */
	assert_int_equal(cma_resolve_addr(a->r, a->ch, id, NULL, &to, 100, a->now), 0);
	cma_resolved(a->r, a->asked, 0, &path, a->now);
	cma_resolved(a->r, a->asked, 0, &path, a->now);
	host_event(a, CMA_EV_ADDR_RESOLVED);
	assert_int_equal(cma_query(a->r, a->ch, id, &info), 0);
	assert_memory_equal(info.src.gid, a->gid, 16);
	assert_false(info.has_path);
	assert_int_equal(cma_resolve_route(a->r, a->ch, id, 100, a->now), 0);
	cma_resolved(a->r, a->asked, -ENETUNREACH, NULL, a->now);
	assert_int_equal(host_event(a, CMA_EV_ROUTE_ERROR)->status, -ENETUNREACH);
	assert_int_equal(cma_resolve_route(a->r, a->ch, id, 100, a->now), 0);
	cma_resolved(a->r, a->asked, 0, &path, a->now);
	host_event(a, CMA_EV_ROUTE_RESOLVED);
	host_quiet(a);
	/* nothing is due any more */
	hosts_pass(SEC);
	host_quiet(a);
	/* an immediate error is returned by the call */
	a->answer = -ENETUNREACH;
	id = do_create(a, 1, WIRE_CM_PS_TCP);
	assert_int_equal(cma_resolve_addr(a->r, a->ch, id, NULL, &to, 100, a->now), -ENETUNREACH);
	host_quiet(a);
}

REQUIREMENT("CM-11")
HOSTS_TEST(resolving_takes_as_long_as_its_timeout_says)
{
	struct cma_addr to = addr_of(p, PORT);
	uint32_t slow, fast, reported;

	slow = do_create(a, 1, WIRE_CM_PS_TCP);
	fast = do_create(a, 2, WIRE_CM_PS_TCP);
	a->answer = -EINPROGRESS;
	assert_int_equal(cma_resolve_addr(a->r, a->ch, slow, NULL, &to, 200, a->now), 0);
	assert_int_equal(cma_resolve_addr(a->r, a->ch, fast, NULL, &to, 100, a->now), 0);
	assert_int_equal(cma_next_ns(a->r), START + 100 * MS);
	hosts_pass(100 * MS - 1);
	host_quiet(a);
	hosts_pass(1);
	assert_int_equal(host_event(a, CMA_EV_ADDR_ERROR)->status, -ETIMEDOUT);
	assert_int_equal(a->cancelled, fast);
	host_quiet(a);
	hosts_pass(100 * MS);
	assert_int_equal(host_event(a, CMA_EV_ADDR_ERROR)->uid, 1);
	/* the route likewise */
	a->answer = 0;
	assert_int_equal(cma_resolve_addr(a->r, a->ch, fast, NULL, &to, 100, a->now), 0);
	host_event(a, CMA_EV_ADDR_RESOLVED);
	a->answer = -EINPROGRESS;
	assert_int_equal(cma_resolve_route(a->r, a->ch, fast, 100, a->now), 0);
	hosts_pass(100 * MS);
	assert_int_equal(host_event(a, CMA_EV_ROUTE_ERROR)->status, -ETIMEDOUT);
	/* a lookup ends with its id */
	assert_int_equal(cma_resolve_addr(a->r, a->ch, slow, NULL, &to, 100, a->now), 0);
	assert_int_equal(cma_destroy(a->r, a->ch, slow, &reported, a->now), 0);
	assert_int_equal(a->cancelled, slow);
	cma_resolved(a->r, slow, 0, NULL, a->now);
	hosts_pass(SEC);
	host_quiet(a);
}

REQUIREMENT("CM-12")
HOSTS_TEST(events_of_an_id_are_bounded)
{
	struct cma_addr to = addr_of(p, PORT);
	uint32_t id = do_create(a, 1, WIRE_CM_PS_TCP), reported;

	a->answer = -EINPROGRESS;
	for (uint32_t i = 0; i < CMA_CALL_EVENTS; i++) {
		assert_int_equal(cma_resolve_addr(a->r, a->ch, id, NULL, &to, 1, a->now), 0);
		cma_resolved(a->r, id, -EHOSTUNREACH, NULL, a->now);
	}
	assert_int_equal(cma_resolve_addr(a->r, a->ch, id, NULL, &to, 1, a->now), -ENOMEM);
	assert_int_equal(a->readable, 1);
	host_event(a, CMA_EV_ADDR_ERROR);
	assert_int_equal(cma_resolve_addr(a->r, a->ch, id, NULL, &to, 1, a->now), 0);
	/* pending events are dropped with their id, those of other ids stay */
	a->answer = 0;
	assert_int_equal(cma_resolve_addr(a->r, a->ch, do_create(a, 2, WIRE_CM_PS_TCP), NULL, &to,
					  1, a->now),
			 0);
	assert_int_equal(cma_destroy(a->r, a->ch, id, &reported, a->now), 0);
	assert_int_equal(reported, 1);
	assert_int_equal(cma_events_waiting(a->r, a->ch), 1);
	assert_int_equal(host_event(a, CMA_EV_ADDR_RESOLVED)->uid, 2);
	host_quiet(a);
}

REQUIREMENT("CM-12")
HOSTS_TEST(an_id_migrates_with_its_events)
{
	struct cma_pair ids = do_cma_pair();
	uint32_t other, reported, old = p->ch;
	struct cma_event ev;

	assert_int_equal(cma_channel_open(p->r, p, &other), 0);
	assert_int_equal(cma_disconnect(a->r, a->ch, ids.active, a->now), 0);
	hosts_deliver();
	assert_int_equal(cma_migrate(p->r, 9, old, ids.passive, &reported), -ENOENT);
	p->readable = 0;
	assert_int_equal(cma_migrate(p->r, other, old, ids.passive, &reported), 0);
	assert_int_equal(reported, 1);
	assert_int_equal(p->readable, 1);
	assert_int_equal(cma_event_get(p->r, old, &ev), -EAGAIN);
	assert_int_equal(cma_event_get(p->r, other, &ev), 0);
	assert_int_equal(ev.type, CMA_EV_DISCONNECTED);
	assert_int_equal(ev.uid, 2);
	assert_int_equal(cma_destroy(p->r, old, ids.passive, &reported, p->now), -EINVAL);
	assert_int_equal(cma_destroy(p->r, other, ids.passive, &reported, p->now), 0);
	assert_int_equal(reported, 2);
}

REQUIREMENT("CM-12")
HOSTS_TEST(everything_of_a_channel_goes_with_it)
{
	struct cm_param c = conn_args(0x12);
	uint32_t waiting, ch;

	do_cma_pair();
	waiting = do_resolve(a, 5, WIRE_CM_PS_TCP);
	assert_int_equal(cma_connect(a->r, a->ch, waiting, &c, a->now), 0);
	hosts_deliver();
	assert_true(cma_channel_close(p->r, p->ch, UINT32_MAX, p->now));
	assert_true(cma_channel_close(p->r, p->ch, UINT32_MAX, p->now));
	hosts_deliver();
	/* the listener is the channel's first id */
	assert_int_equal(host_event(a, CMA_EV_REJECTED)->uid, 5);
	host_event(a, CMA_EV_DISCONNECTED);
	assert_int_equal(cma_event_get(p->r, p->ch, &p->ev), -ENOENT);
	hosts_pass(60 * SEC);
	assert_int_equal(cm_nids(cma_cm(p->r)), 0);
	/* its port is free, and so are its ids */
	assert_int_equal(cma_channel_open(p->r, p, &p->ch), 0);
	do_listener(p, 3, WIRE_CM_PS_TCP);
	for (uint32_t i = 0; i < 15; i++)
		do_create(p, i, WIRE_CM_PS_TCP);
	assert_int_equal(cma_create(p->r, p->ch, 0, WIRE_CM_PS_TCP, 0, &ch), -ENOMEM);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(cma_channel_open(p->r, p, &ch), 0);
	assert_int_equal(cma_channel_open(p->r, p, &ch), -ENOMEM);
}

#define MANY 2000u

/* MANY ids whose lookups time out at the same time. */
static void
look_up_many(uint32_t timeout_ms)
{
	struct cma_addr to = addr_of(p, PORT);

	a->answer = -EINPROGRESS;
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(cma_resolve_addr(a->r, a->ch, do_create(a, i, WIRE_CM_PS_TCP),
						  NULL, &to, timeout_ms, a->now),
				 0);
}

/* A call ends a bounded number of lookups, so that the caller serves others in between. */
REQUIREMENT("CM-11")
UNIT_TEST_IN(many_lookups_time_out_in_slices, hosts_make_large, hosts_free)
{
	uint32_t calls = 0;

	look_up_many(100);
	a->now += 100 * MS;
	for (; cma_next_ns(a->r) <= a->now; calls++) {
		uint32_t before = a->ncancelled;

		cma_tick(a->r, a->now);
		assert_in_range(a->ncancelled - before, 1, CM_TICK_MOST);
	}
	assert_int_equal(a->ncancelled, MANY);
	assert_int_equal(calls, (MANY + CM_TICK_MOST - 1) / CM_TICK_MOST);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(host_event(a, CMA_EV_ADDR_ERROR)->status, -ETIMEDOUT);
	host_quiet(a);
}

REQUIREMENT("CM-12")
UNIT_TEST_IN(a_channel_ends_in_slices, hosts_make_large, hosts_free)
{
	struct cm_param c = conn_args(0x12);
	uint32_t other, waiting, calls = 0, kept;

	/* p's listener ends with its channel; a's ids include one that connects to it */
	do_listener(p, 3, WIRE_CM_PS_TCP);
	for (uint32_t i = 0; i < 7; i++)
		do_create(p, i, WIRE_CM_PS_TCP);
	waiting = do_resolve(a, 5, WIRE_CM_PS_TCP);
	assert_false(cma_channel_close(p->r, p->ch, 2, p->now));
	p->readable = 0;
	/* requests are refused meanwhile, whether or not the listener is gone */
	assert_int_equal(cma_connect(a->r, a->ch, waiting, &c, a->now), 0);
	hosts_deliver();
	host_event(a, CMA_EV_REJECTED);
	assert_int_equal(p->readable, 0);
	while (!cma_channel_close(p->r, p->ch, 2, p->now))
		calls++;
	assert_int_equal(calls, 3);
	assert_true(cma_channel_close(p->r, p->ch, 2, p->now));
	/* the number of a channel is free once it is closed, and ids of others stay */
	assert_int_equal(cma_channel_open(a->r, a, &other), 0);
	assert_int_equal(cma_create(a->r, other, 1, WIRE_CM_PS_TCP, 0, &kept), 0);
	look_up_many(100);
	a->ncancelled = 0;
	for (calls = 0; !cma_channel_close(a->r, a->ch, 50, a->now); calls++)
		assert_in_range(a->ncancelled, calls * 50, (calls + 1) * 50);
	assert_int_equal(a->ncancelled, MANY);
	assert_in_range(calls, MANY / 50, MANY / 50 + 1);
	assert_int_equal(cma_next_ns(a->r) > a->now + SEC, true);
	assert_int_equal(cma_destroy(a->r, other, kept, &calls, a->now), 0);
}

/* The first slice frees the ports that a channel listens on, whatever else it holds. */
REQUIREMENT("CM-12")
HOSTS_TEST(a_server_that_starts_again_listens_at_once)
{
	struct cm_param c;
	uint32_t old, ch;

	do_listener(p, 3, WIRE_CM_PS_TCP);
	for (uint32_t i = 0; i < 4; i++) {
		c = conn_args(0x12 + i);
		do_create(p, i, WIRE_CM_PS_TCP);
		assert_int_equal(cma_connect(a->r, a->ch, do_resolve(a, 5, WIRE_CM_PS_TCP), &c,
					     a->now),
				 0);
	}
	hosts_deliver();
	assert_false(cma_channel_close(p->r, p->ch, 1, p->now));
	assert_int_equal(cma_channel_open(p->r, p, &ch), 0);
	old = p->ch;
	p->ch = ch;
	do_listener(p, 3, WIRE_CM_PS_TCP);
	while (!cma_channel_close(p->r, old, 1, p->now))
		continue;
	c = conn_args(0x22);
	assert_int_equal(cma_connect(a->r, a->ch, do_resolve(a, 6, WIRE_CM_PS_TCP), &c, a->now), 0);
	hosts_deliver();
	host_event(p, CMA_EV_CONNECT_REQUEST);
}

REQUIREMENT("CM-15")
HOSTS_TEST(every_id_learns_once_that_its_device_is_gone)
{
	struct cma_pair ids = do_cma_pair();
	struct cma_addr to = addr_of(a, PORT);
	uint32_t unbound = do_create(p, 7, WIRE_CM_PS_TCP), query = do_create(p, 8, WIRE_CM_PS_TCP);
	struct cma_addr local = addr_of(p, 99);
	uint32_t reported;

	assert_int_equal(cma_bind(p->r, p->ch, query, &local), 0);
	p->answer = -EINPROGRESS;
	assert_int_equal(cma_resolve_addr(p->r, p->ch, query, NULL, &to, 100, p->now), 0);
	cma_device_removed(p->r, 0, p->now);
	cma_device_removed(p->r, 0, p->now);
	assert_int_equal(p->cancelled, query);
	reported = host_event(p, CMA_EV_DEVICE_REMOVAL)->id;
	reported += host_event(p, CMA_EV_DEVICE_REMOVAL)->id;
	assert_int_equal(reported, ids.passive + query);
	hosts_pass(SEC);
	host_quiet(p);
	assert_int_equal(cma_disconnect(p->r, p->ch, ids.passive, p->now), -EINVAL);
	assert_int_equal(cma_bind(p->r, p->ch, unbound, &local), -EADDRINUSE);
	assert_int_equal(cma_destroy(p->r, p->ch, query, &reported, p->now), 0);
	assert_int_equal(reported, 1);
	hosts_deliver();
	host_event(a, CMA_EV_DISCONNECTED);
}

REQUIREMENT("CM-15")
HOSTS_TEST(every_id_learns_once_that_its_address_is_gone)
{
	struct cma_pair ids = do_cma_pair();

	cma_address_removed(p->r, 0, a->gid);
	cma_address_removed(p->r, 1, p->gid);
	host_quiet(p);
	cma_address_removed(p->r, 0, p->gid);
	cma_address_removed(p->r, 0, p->gid);
	assert_int_equal(host_event(p, CMA_EV_ADDR_CHANGE)->id, ids.passive);
	host_quiet(p);
}

REQUIREMENT("CM-16")
HOSTS_TEST(requests_beyond_the_ids_are_rejected)
{
	struct cm_param c = conn_args(0x11);
	uint32_t id;

	do_listener(p, 3, WIRE_CM_PS_TCP);
	for (uint32_t i = 0; i < 15; i++)
		do_create(p, i, WIRE_CM_PS_TCP);
	id = do_resolve(a, 1, WIRE_CM_PS_TCP);
	assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), 0);
	hosts_deliver();
	host_quiet(p);
	assert_int_equal(host_event(a, CMA_EV_REJECTED)->status, WIRE_CM_REJ_NO_RESOURCES);
}

REQUIREMENT("CM-12")
HOSTS_TEST(a_path_is_given_instead_of_resolved)
{
	struct cma_path path = host_path(p);
	struct cma_addr to = addr_of(p, PORT);
	uint32_t id = do_create(a, 1, WIRE_CM_PS_TCP);
	struct cma_info info;

	path.mtu = 5;
	assert_int_equal(cma_set_path(a->r, a->ch, id, &path), -EINVAL);
	assert_int_equal(cma_resolve_addr(a->r, a->ch, id, NULL, &to, 1, a->now), 0);
	assert_int_equal(cma_set_path(a->r, a->ch, id, &path), 0);
	assert_int_equal(cma_set_path(a->r, a->ch, id, &path), -EINVAL);
	host_event(a, CMA_EV_ADDR_RESOLVED);
	host_event(a, CMA_EV_ROUTE_RESOLVED);
	assert_int_equal(cma_query(a->r, a->ch, id, &info), 0);
	assert_int_equal(info.path.mtu, 5);
	assert_memory_equal(info.path.addr.local, a->gid, 16);
	assert_memory_equal(info.path.addr.remote, p->gid, 16);
}

REQUIREMENT("CM-12")
HOSTS_TEST(the_ack_timeout_option_is_in_the_req)
{
	struct cm_param c = conn_args(0x11);
	uint32_t id = do_resolve(a, 1, WIRE_CM_PS_TCP), ud = do_create(a, 2, WIRE_CM_PS_UDP);
	struct wire_cm m;

	assert_int_equal(cma_set_ack_timeout(a->r, a->ch, ud, 10), -EINVAL);
	assert_int_equal(cma_set_ack_timeout(a->r, a->ch, id, 32), -EINVAL);
	assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), 0);
	assert_int_equal(wire_cm_parse(a->sent[0].mad, WIRE_MAD_LEN, &m), WIRE_CM_OK);
	assert_int_equal(m.req.primary.ack_timeout, 17);
	c.qpn = 0x12;
	id = do_resolve(a, 1, WIRE_CM_PS_TCP);
	assert_int_equal(cma_set_ack_timeout(a->r, a->ch, id, 21), 0);
	assert_int_equal(cma_connect(a->r, a->ch, id, &c, a->now), 0);
	assert_int_equal(wire_cm_parse(a->sent[1].mad, WIRE_MAD_LEN, &m), WIRE_CM_OK);
	assert_int_equal(m.req.primary.ack_timeout, 21);
}

/* Of any state; the reader gets them in order, and they count as reported. */
REQUIREMENT("CM-12")
HOSTS_TEST(a_program_writes_events_of_its_ids)
{
	uint32_t listener = do_listener(p, 3, WIRE_CM_PS_TCP), id, reported, passive;
	uint32_t active = do_resolve(a, 1, WIRE_CM_PS_TCP);
	struct cm_param c = conn_args(0x11);
	struct cma_event *e;

	assert_int_equal(cma_write_event(p->r, p->ch, 99, CMA_EV_USER, 0, 0), -ENOENT);
	assert_int_equal(cma_write_event(p->r, p->ch, listener, CMA_EV_ESTABLISHED, 0, 0), -EINVAL);
	for (uint64_t i = 0; i < CMA_USER_EVENTS; i++)
		assert_int_equal(cma_write_event(p->r, p->ch, listener,
						 i % 2 ? CMA_EV_USER : CMA_EV_INTERNAL, (int)i - 3,
						 i << 40),
				 0);
	assert_int_equal(cma_write_event(p->r, p->ch, listener, CMA_EV_USER, 0, 0), -ENOMEM);
	/* they take no place of others, and each id has its own */
	id = do_create(p, 7, WIRE_CM_PS_TCP);
	assert_int_equal(cma_write_event(p->r, p->ch, id, CMA_EV_USER, 1, 2), 0);
	assert_int_equal(cma_connect(a->r, a->ch, active, &c, a->now), 0);
	hosts_deliver();
	for (uint64_t i = 0; i < CMA_USER_EVENTS; i++) {
		e = host_event(p, i % 2 ? CMA_EV_USER : CMA_EV_INTERNAL);
		assert_int_equal(e->uid, 3);
		assert_int_equal(e->id, listener);
		assert_int_equal(e->status, (int)i - 3);
		assert_true(e->arg == i << 40);
	}
	assert_int_equal(host_event(p, CMA_EV_USER)->uid, 7);
	passive = host_event(p, CMA_EV_CONNECT_REQUEST)->id;
	/* the program has given this one no uid yet */
	assert_int_equal(cma_write_event(p->r, p->ch, passive, CMA_EV_USER, 0, 0), -EINVAL);
	host_quiet(p);
	assert_int_equal(cma_write_event(p->r, p->ch, listener, CMA_EV_USER, 0, 0), 0);
	assert_int_equal(cma_destroy(p->r, p->ch, listener, &reported, p->now), 0);
	assert_int_equal(reported, CMA_USER_EVENTS + 1);
	host_quiet(p);
}

/* As on every RoCE device of the kernel. */
REQUIREMENT("CM-11")
HOSTS_TEST(no_service_records_are_resolved)
{
	uint32_t id = do_create(a, 7, WIRE_CM_PS_TCP);
	struct cma_addr local = addr_of(a, 99);

	assert_int_equal(cma_resolve_service(a->r, a->ch, 99), -ENOENT);
	assert_int_equal(cma_resolve_service(a->r, a->ch, id), -EINVAL);
	assert_int_equal(cma_bind(a->r, a->ch, id, &local), 0);
	assert_int_equal(cma_resolve_service(a->r, a->ch, id), -EOPNOTSUPP);
	assert_int_equal(cma_listen(a->r, a->ch, id, 1), 0);
	assert_int_equal(cma_resolve_service(a->r, a->ch, id), -EINVAL);
	host_quiet(a);
}

UNIT_TEST(states_and_events_have_names_and_configurations_bounds)
{
	struct cma_config c = {.max_channels = 1, .max_ids = 1, .cm = {.max_ids = 1}}, d;

	for (uint32_t i = 0; i < CMA_NEVENTS; i++)
		assert_non_null(cma_event_name[i]);
	for (uint32_t i = 0; i < CMA_NSTATES; i++)
		assert_non_null(cma_state_name[i]);
	assert_true(cma_bytes(&c) != 0);
	d = c;
	d.max_ids = 0;
	assert_int_equal(cma_bytes(&d), 0);
	d.max_ids = (1u << 18) + 1;
	assert_int_equal(cma_bytes(&d), 0);
	d = c;
	d.max_channels = 0;
	assert_int_equal(cma_bytes(&d), 0);
	d.max_channels = (1u << 16) + 1;
	assert_int_equal(cma_bytes(&d), 0);
	d = c;
	d.cm.max_ids = 0;
	assert_int_equal(cma_bytes(&d), 0);
}
