/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include "rdma_harness.h"

struct host hosts[2];

static void
keep_sent(void *ctx, const struct cm_addr *addr, const uint8_t *mad)
{
	struct host *h = ctx;

	assert_true(h->nsent < SENT);
	h->sent[h->nsent].addr = *addr;
	memcpy(h->sent[h->nsent++].mad, mad, WIRE_MAD_LEN);
}

static void
count_readable(void *ctx, void *user)
{
	struct host *h = ctx;

	assert_ptr_equal(user, h);
	h->readable++;
}

static int
bind_local(void *ctx, const struct cma_addr *addr, uint16_t *dev)
{
	const struct host *h = ctx;

	if (memcmp(addr->gid, h->gid, 16) != 0 && memcmp(addr->gid, h->gid6, 16) != 0)
		return -EADDRNOTAVAIL;
	*dev = 0;
	return 0;
}

struct cma_path
host_path(const struct host *h)
{
	struct cma_path p = {.addr = {.pkey = 0xffff, .hop_limit = 64},
			     .mtu = 3,
			     .rate = 0x2c,
			     .packet_lifetime = 16};

	memcpy(p.addr.local, h->gid, 16);
	memcpy(p.addr.remote, hosts[h == &hosts[0]].gid, 16);
	return p;
}

static int
resolve(void *ctx, uint32_t id, const struct cma_addr *src, const struct cma_addr *dst, uint8_t tos,
	struct cma_path *path)
{
	struct host *h = ctx;

	h->asked = id;
	h->tos = tos;
	if (h->answer == 0)
		path->addr = host_path(h).addr;
	path->addr.traffic_class = tos;
	return h->answer;
}

static int
route(void *ctx, uint32_t id, struct cma_path *path)
{
	struct host *h = ctx;

	h->asked = id;
	if (h->answer == 0)
		*path = host_path(h);
	return h->answer;
}

static void
cancel(void *ctx, uint32_t id)
{
	struct host *h = ctx;

	h->cancelled = id;
	h->ncancelled++;
}

static bool
dev_attr(void *ctx, uint16_t dev, struct cma_dev *out)
{
	const struct host *h = ctx;

	*out = (struct cma_dev){.guid = 0x0200000000000000u + h->gid[15], .ack_delay = 15};
	return dev == 0;
}

static int
mcast(void *ctx, uint16_t dev, const uint8_t mgid[16], bool join)
{
	struct host *h = ctx;

	assert_int_equal(mgid[15], 9);
	if (join && h->refuse != 0)
		return h->refuse;
	h->joined += join ? 1 : -1;
	return 0;
}

static int
hosts_make_of(uint32_t max_ids)
{
	static const struct cma_ops ops = {.send = keep_sent,
					   .readable = count_readable,
					   .bind = bind_local,
					   .resolve = resolve,
					   .route = route,
					   .cancel = cancel,
					   .dev = dev_attr,
					   .mcast = mcast};

	for (uint32_t i = 0; i < 2; i++) {
		struct cma_config c = {.max_channels = 4,
				       .max_ids = max_ids,
				       .max_groups = max_ids == 16 ? 3 : max_ids,
				       .cm = {.max_ids = 4 * max_ids, .seed = i + 1}};
		struct host *h = &hosts[i];

		memset(h, 0, sizeof(*h));
		h->gid[10] = h->gid[11] = 0xff;
		h->gid[12] = 10;
		h->gid6[0] = 0xfd;
		h->gid[15] = h->gid6[15] = (uint8_t)(i + 1);
		h->now = START;
		assert_true(cma_bytes(&c) != 0);
		h->mem = aligned_alloc(64, cma_bytes(&c));
		assert_non_null(h->mem);
		h->r = cma_init(h->mem, &c, &ops, h);
		assert_int_equal(cma_channel_open(h->r, h, &h->ch), 0);
	}
	return 0;
}

int
hosts_make(void **state)
{
	return hosts_make_of(16);
}

int
hosts_make_large(void **state)
{
	return hosts_make_of(4096);
}

int
hosts_free(void **state)
{
	free(hosts[0].mem);
	free(hosts[1].mem);
	return 0;
}

struct cma_event *
host_event(struct host *h, enum cma_event_type type)
{
	int rc = cma_event_get(h->r, h->ch, &h->ev);

	if (rc != 0)
		fail_msg("no event, want %s", cma_event_name[type]);
	assert_string_equal(cma_event_name[h->ev.type], cma_event_name[type]);
	return &h->ev;
}

void
host_quiet(struct host *h)
{
	if (cma_event_get(h->r, h->ch, &h->ev) == 0)
		fail_msg("event %s", cma_event_name[h->ev.type]);
}

void
hosts_deliver(void)
{
	while (hosts[0].delivered < hosts[0].nsent || hosts[1].delivered < hosts[1].nsent) {
		struct host *h = &hosts[hosts[0].delivered == hosts[0].nsent];
		struct host *to = &hosts[h == &hosts[0]];
		struct cm_rx_info info = {.qkey = WIRE_GSI_QKEY, .src_qpn = WIRE_GSI_QPN};

		info.addr = h->sent[h->delivered].addr;
		memcpy(info.addr.local, h->sent[h->delivered].addr.remote, 16);
		memcpy(info.addr.remote, h->sent[h->delivered].addr.local, 16);
		cma_rx(to->r, &info, h->sent[h->delivered++].mad, WIRE_MAD_LEN, to->now);
	}
}

void
hosts_pass(uint64_t ns)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct host *h = &hosts[i];
		uint64_t until = h->now + ns;

		while (cma_next_ns(h->r) <= until) {
			h->now = cma_next_ns(h->r) > h->now ? cma_next_ns(h->r) : h->now;
			assert_true(cma_tick(h->r, h->now) > h->now);
		}
		h->now = until;
	}
}

struct cma_addr
addr_of(const struct host *h, uint16_t port)
{
	struct cma_addr a = {.family = CMA_IPV4, .port = port};

	memcpy(a.gid, h->gid, 16);
	return a;
}

struct cm_param
conn_args(uint32_t qpn)
{
	return (struct cm_param){.qpn = qpn,
				 .responder_resources = 4,
				 .initiator_depth = 2,
				 .retry_count = 7,
				 .rnr_retry = 6,
				 .private_data = "private",
				 .private_len = 7};
}

uint32_t
do_create(struct host *h, uint64_t uid, uint16_t space)
{
	uint32_t id;

	assert_int_equal(cma_create(h->r, h->ch, uid, space, CMA_QP_RC, &id), 0);
	return id;
}

uint32_t
do_listener(struct host *h, uint64_t uid, uint16_t space)
{
	struct cma_addr a = {.family = CMA_IPV4, .port = PORT};
	uint32_t id = do_create(h, uid, space);

	assert_int_equal(cma_bind(h->r, h->ch, id, &a), 0);
	assert_int_equal(cma_listen(h->r, h->ch, id, 0), 0);
	return id;
}

uint32_t
do_resolve(struct host *h, uint64_t uid, uint16_t space)
{
	struct cma_addr to = addr_of(&hosts[h == &hosts[0]], PORT);
	uint32_t id = do_create(h, uid, space);

	assert_int_equal(cma_resolve_addr(h->r, h->ch, id, NULL, &to, 2000, h->now), 0);
	assert_int_equal(host_event(h, CMA_EV_ADDR_RESOLVED)->uid, uid);
	assert_int_equal(cma_resolve_route(h->r, h->ch, id, 2000, h->now), 0);
	assert_int_equal(host_event(h, CMA_EV_ROUTE_RESOLVED)->uid, uid);
	host_quiet(h);
	return id;
}

struct cma_pair
do_cma_pair(void)
{
	struct host *a = &hosts[0], *p = &hosts[1];
	struct cm_param c = conn_args(0x11);
	struct cma_pair ids = {.listener = do_listener(p, 3, WIRE_CM_PS_TCP),
			       .active = do_resolve(a, 1, WIRE_CM_PS_TCP)};

	assert_int_equal(cma_connect(a->r, a->ch, ids.active, &c, a->now), 0);
	hosts_deliver();
	ids.passive = host_event(p, CMA_EV_CONNECT_REQUEST)->id;
	c = conn_args(0x22);
	assert_int_equal(cma_accept(p->r, p->ch, ids.passive, 2, &c, p->now), 0);
	hosts_deliver();
	host_event(a, CMA_EV_CONNECT_RESPONSE);
	assert_int_equal(cma_accept(a->r, a->ch, ids.active, 1, NULL, a->now), 0);
	hosts_deliver();
	assert_int_equal(host_event(p, CMA_EV_ESTABLISHED)->uid, 2);
	host_quiet(a);
	host_quiet(p);
	return ids;
}
