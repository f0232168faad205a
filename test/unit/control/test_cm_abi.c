/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands of rdma_cm: their sizes, errnos and structs. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include "cm_client.h"

#define IN(type) sizeof(struct rdma_ucm_##type)
#define NUMBER   4u
#define ROUTE    offsetof(struct rdma_ucm_query_route_resp, ibdev_index)

/*
 * Every command: minimum sizes and the offset of the id. The kernel's structs from before ECE and
 * before the device index are legal.
 */
static const struct {
	uint32_t cmd, in, out, id;
} commands[] = {
	{RDMA_USER_CM_CMD_CREATE_ID, IN(create_id), NUMBER, UINT32_MAX},
	{RDMA_USER_CM_CMD_DESTROY_ID, IN(destroy_id), NUMBER, 8},
	{RDMA_USER_CM_CMD_BIND_IP, 40, 0, 36},
	{RDMA_USER_CM_CMD_RESOLVE_IP, IN(resolve_ip), 0, 56},
	{RDMA_USER_CM_CMD_RESOLVE_ROUTE, IN(resolve_route), 0, 0},
	{RDMA_USER_CM_CMD_QUERY_ROUTE, IN(query), ROUTE, 8},
	{RDMA_USER_CM_CMD_CONNECT, 280, 0, 272},
	{RDMA_USER_CM_CMD_LISTEN, IN(listen), 0, 0},
	{RDMA_USER_CM_CMD_ACCEPT, 288, 0, 280},
	{RDMA_USER_CM_CMD_REJECT, IN(reject), 0, 0},
	{RDMA_USER_CM_CMD_DISCONNECT, IN(disconnect), 0, 0},
	{RDMA_USER_CM_CMD_INIT_QP_ATTR, IN(init_qp_attr), sizeof(struct ib_uverbs_qp_attr), 8},
	{RDMA_USER_CM_CMD_GET_EVENT, IN(get_event), 324, UINT32_MAX},
	{RDMA_USER_CM_CMD_SET_OPTION, IN(set_option), 0, 8},
	{RDMA_USER_CM_CMD_NOTIFY, IN(notify), 0, 0},
	{RDMA_USER_CM_CMD_JOIN_IP_MCAST, 48, NUMBER, 44},
	{RDMA_USER_CM_CMD_LEAVE_MCAST, IN(destroy_id), NUMBER, 8},
	{RDMA_USER_CM_CMD_MIGRATE_ID, IN(migrate_id), NUMBER, 8},
	{RDMA_USER_CM_CMD_QUERY, IN(query), NUMBER, 8},
	{RDMA_USER_CM_CMD_BIND, IN(bind), 0, 0},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, IN(resolve_addr), 0, 0},
	{RDMA_USER_CM_CMD_JOIN_MCAST, IN(join_mcast), NUMBER, 16},
	{UROCE_CM_RESOLVE_IB_SERVICE, 4, 0, 0},
	{UROCE_CM_WRITE_EVENT, 24, 0, 0},
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

REQUIREMENT("CM-12")
CM_TEST(a_command_that_is_too_short_is_refused)
{
	static const uint8_t body[512];
	uint8_t rep[512];

	for (unsigned i = 0; i < NCOMMANDS; i++) {
		assert_int_equal(cm_ask(&one, commands[i].cmd, body, commands[i].in - 1, rep,
					sizeof(rep)),
				 EINVAL);
		if (commands[i].out > 0)
			assert_int_equal(cm_ask(&one, commands[i].cmd, body, commands[i].in, rep,
						commands[i].out - 1),
					 ENOSPC);
	}
	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_GET_OPTION, body, 64, rep, 64), ENOSYS);
	assert_int_equal(cm_ask(&one, UROCE_CM_WRITE_EVENT + 1, body, 64, rep, 64), EINVAL);
	assert_int_equal(cm_ask(&one, UINT32_MAX, body, 64, rep, 64), EINVAL);
}

/* A body of the command for id, with addresses and lengths that are legal. */
static void
fill(uint8_t body[512], unsigned i, uint32_t id)
{
	const struct sockaddr_in in = cm_ipv4("10.0.0.1", 0);
	uint16_t len = sizeof(in), family = AF_INET;

	memset(body, 0, 512);
	switch (commands[i].cmd) {
	case RDMA_USER_CM_CMD_BIND_IP:
		memcpy(body + 8, &in, sizeof(in));
		break;
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		memcpy(body + 28, &in, sizeof(in));
		break;
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
		memcpy(body + 16, &in, sizeof(in));
		break;
	case RDMA_USER_CM_CMD_BIND:
		memcpy(body + 4, &len, 2);
		memcpy(body + 8, &in, sizeof(in));
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
		memcpy(body + 10, &len, 2);
		memcpy(body + 16 + 128, &family, 2);
		break;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		memcpy(body + 20, &len, 2);
		memcpy(body + 24, &in, sizeof(in));
		break;
	case UROCE_CM_WRITE_EVENT:
		body[8] = CMA_EV_USER;
		break;
	case RDMA_USER_CM_CMD_CONNECT:
		body[271] = 1; /* valid */
		break;
	}
	memcpy(body + commands[i].id, &id, sizeof(id));
}

REQUIREMENT("CM-12")
CM_TEST(ids_of_others_and_unknown_ids_are_refused)
{
	uint32_t theirs = cm_make_id(&two, 1, RDMA_PS_TCP);
	uint8_t body[512], rep[512];

	cm_from = one.secret;
	for (unsigned i = 0; i < NCOMMANDS; i++) {
		uint32_t wrong = commands[i].cmd == RDMA_USER_CM_CMD_LEAVE_MCAST ? ENOENT : EINVAL;

		if (commands[i].id == UINT32_MAX)
			continue;
		fill(body, i, theirs);
		assert_int_equal(cm_ask(&one, commands[i].cmd, body, commands[i].in, rep,
					sizeof(rep)),
				 wrong);
		fill(body, i, theirs + (1u << 20));
		assert_int_equal(cm_ask(&one, commands[i].cmd, body, commands[i].in, rep,
					sizeof(rep)),
				 ENOENT);
	}
	cm_from = NULL;
	assert_int_equal(cm_end_id(&two, theirs), 0);
}

/* Bytes of a sockaddr_ib: its service id in network order, and the mask of its valid bits. */
static void
ib_address(uint8_t sa[48], uint16_t space, uint16_t port, const uint8_t gid[16])
{
	const uint16_t family = AF_IB;

	memset(sa, 0, 48);
	memcpy(sa, &family, 2);
	memcpy(sa + 8, gid, 16);
	sa[28] = (uint8_t)(space >> 8);
	sa[29] = (uint8_t)space;
	sa[30] = (uint8_t)(port >> 8);
	sa[31] = (uint8_t)port;
	memset(sa + 32, 0xff, 8);
}

static uint32_t
bind_bytes(uint32_t id, const void *sa, uint16_t len)
{
	struct rdma_ucm_bind q = {.id = id, .addr_size = len};

	memcpy(&q.addr, sa, len <= sizeof(q.addr) ? len : 16);
	return cm_ask(&one, RDMA_USER_CM_CMD_BIND, &q, sizeof(q), NULL, 0);
}

static void
query(uint32_t id, uint32_t option, struct rdma_ucm_query_addr_resp *r)
{
	const struct rdma_ucm_query q = {.id = id, .option = option};

	memset(r, 0, sizeof(*r));
	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_QUERY, &q, sizeof(q), r, sizeof(*r)), 0);
}

REQUIREMENT("CM-12")
CM_TEST(addresses_of_three_families_are_bound_and_reported)
{
	struct sockaddr_in in = cm_ipv4("10.0.0.1", 7000);
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(7001)};
	uint8_t ib[48];
	struct rdma_ucm_query_addr_resp r;
	uint32_t id = cm_make_id(&one, 1, RDMA_PS_TCP);

	query(id, RDMA_USER_CM_QUERY_ADDR, &r);
	assert_int_equal(r.src_size, 0);
	assert_int_equal(r.node_guid, 0);
	assert_int_equal(bind_bytes(id, &in, sizeof(in)), 0);
	query(id, RDMA_USER_CM_QUERY_ADDR, &r);
	assert_int_equal(r.src_size, sizeof(in));
	assert_memory_equal(&r.src_addr, &in, sizeof(in));
	assert_true(r.node_guid == device_guid(d.dev[0]));
	assert_int_equal(r.port_num, 1);
	assert_int_equal(r.ibdev_index, UINT32_MAX);
	query(id, RDMA_USER_CM_QUERY_GID, &r);
	assert_int_equal(r.src_size, sizeof(ib));
	ib_address(ib, RDMA_PS_TCP, 7000, d.dev[0]->net.gid[1].gid);
	assert_memory_equal((uint8_t *)&r.src_addr + 8, ib + 8, 40);

	id = cm_make_id(&one, 1, RDMA_PS_TCP);
	assert_int_equal(inet_pton(AF_INET6, "fd00::1", &in6.sin6_addr), 1);
	assert_int_equal(bind_bytes(id, &in6, sizeof(in6)), 0);
	query(id, RDMA_USER_CM_QUERY_ADDR, &r);
	assert_int_equal(r.src_size, sizeof(in6));
	assert_memory_equal(&r.src_addr, &in6, sizeof(in6));

	/* librdmacm's probe for AF_IB: a wildcard, any port */
	id = cm_make_id(&one, 1, RDMA_PS_IB);
	ib_address(ib, RDMA_PS_TCP, 0, (const uint8_t[16]){0});
	memset(ib + 38, 0, 2);
	assert_int_equal(bind_bytes(id, ib, sizeof(ib)), 0);
	query(id, RDMA_USER_CM_QUERY_ADDR, &r);
	assert_int_equal(r.src_size, sizeof(ib));
	assert_memory_equal((uint8_t *)&r.src_addr + 28, "\x01\x06", 2);
	assert_int_not_equal(((uint8_t *)&r.src_addr)[30], 0);
}

REQUIREMENT("CM-12")
CM_TEST(addresses_that_are_wrong_have_their_errnos)
{
	struct sockaddr_in in = cm_ipv4("10.0.0.9", 7000);
	uint32_t id = cm_make_id(&one, 1, RDMA_PS_TCP);
	uint8_t ib[48];

	assert_int_equal(bind_bytes(id, &in, sizeof(in)), EADDRNOTAVAIL);
	assert_int_equal(bind_bytes(id, &in, sizeof(in) - 1), EINVAL);
	assert_int_equal(bind_bytes(id, &in, 0), EINVAL);
	assert_int_equal(bind_bytes(id, &in, UINT16_MAX), EINVAL);
	in.sin_family = AF_UNIX;
	assert_int_equal(bind_bytes(id, &in, sizeof(in)), EINVAL);
	ib_address(ib, 0x0999, 0, (const uint8_t[16]){0});
	assert_int_equal(bind_bytes(id, ib, sizeof(ib)), EPROTONOSUPPORT);
	in = cm_ipv4("10.0.0.1", 7000);
	assert_int_equal(bind_bytes(id, &in, sizeof(in)), 0);
	assert_int_equal(bind_bytes(id, &in, sizeof(in)), EINVAL);
	id = cm_make_id(&one, 1, RDMA_PS_TCP);
	assert_int_equal(bind_bytes(id, &in, sizeof(in)), EADDRINUSE);
	/* a destination that no device leads to */
	in = cm_ipv4("192.0.2.1", 7000);
	assert_int_equal(cm_ask_addr(&one, id, &in), ENETUNREACH);
}

static uint32_t
option(uint32_t id, uint32_t level, uint32_t name, const void *value, uint32_t len, uint32_t sent)
{
	struct {
		struct rdma_ucm_set_option q;
		uint8_t value[256];
	} m = {.q = {.id = id, .level = level, .optname = name, .optlen = len}};

	memcpy(m.value, value, sent);
	return cm_ask(&one, RDMA_USER_CM_CMD_SET_OPTION, &m, sizeof(m.q) + sent, NULL, 0);
}

REQUIREMENT("CM-12")
CM_TEST(options_are_checked)
{
	static const uint8_t path[2 * sizeof(struct ib_path_rec_data)];
	uint32_t id = cm_make_id(&one, 1, RDMA_PS_TCP);
	const uint8_t tos = 0x20, code = 32;
	const int yes = 1;

	assert_int_equal(option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1, 1), 0);
	assert_int_equal(option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &yes, 4, 4), EINVAL);
	/* a missing value */
	assert_int_equal(option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1, 0), EINVAL);
	assert_int_equal(option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, 4, 4), 0);
	assert_int_equal(option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, 1, 4), EINVAL);
	assert_int_equal(option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, 4, 4), 0);
	assert_int_equal(option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &code, 1, 1),
			 EINVAL);
	assert_int_equal(option(id, RDMA_OPTION_ID, 9, &yes, 4, 4), ENOSYS);
	assert_int_equal(option(id, 9, 0, &yes, 4, 4), ENOSYS);
	assert_int_equal(option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, sizeof(path),
				sizeof(path)),
			 EINVAL);
	assert_int_equal(option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, 1, 1), EINVAL);
	assert_int_equal(option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, UINT32_MAX, 1),
			 EINVAL);
}

REQUIREMENT("CM-12")
CM_TEST(legacy_forms_do_the_same)
{
	struct rdma_ucm_bind_ip bind = {.id = cm_make_id(&one, 1, RDMA_PS_UDP)};
	struct rdma_ucm_resolve_ip resolve = {.timeout_ms = 1000};
	struct rdma_ucm_query q = {0};
	struct rdma_ucm_query_route_resp r = {0};
	struct sockaddr_in in = cm_ipv4("10.0.0.1", 7000);

	memcpy(&bind.addr, &in, sizeof(in));
	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_BIND_IP, &bind, 40, NULL, 0), 0);
	resolve.id = cm_make_id(&one, 2, RDMA_PS_UDP);
	memcpy(&resolve.dst_addr, &in, sizeof(in));
	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_RESOLVE_IP, &resolve, sizeof(resolve), NULL,
				0),
			 0);
	cm_event(&one, CMA_EV_ADDR_RESOLVED, NULL);
	q.id = resolve.id;
	/* without the index of the device */
	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_QUERY_ROUTE, &q, sizeof(q), &r, ROUTE), 0);
	assert_true(r.node_guid == device_guid(d.dev[0]));
	assert_int_equal(r.num_paths, 0);
	assert_memory_equal(r.ib_route[0].dgid, d.dev[0]->net.gid[1].gid, 16);
	assert_memory_equal(&r.dst_addr, &in, sizeof(in));
	assert_int_equal(r.port_num, 1);
}

REQUIREMENT("CM-11")
CM_TEST(loopback_leads_to_the_device)
{
	struct sockaddr_in in = cm_ipv4("127.0.0.1", 7000), own = cm_ipv4("10.0.0.1", 0);
	uint32_t id = cm_make_id(&one, 1, RDMA_PS_TCP);
	struct rdma_ucm_query_addr_resp r;

	cm_resolve_to(&one, id, &in);
	query(id, RDMA_USER_CM_QUERY_ADDR, &r);
	assert_memory_equal((uint8_t *)&r.src_addr + 4, &own.sin_addr, 4);
	query(id, RDMA_USER_CM_QUERY_GID, &r);
	assert_memory_equal((uint8_t *)&r.dst_addr + 8, d.dev[0]->net.gid[1].gid, 16);
	d.dev[0]->port.link_up = false;
	id = cm_make_id(&one, 1, RDMA_PS_TCP);
	assert_int_equal(cm_ask_addr(&one, id, &in), ENODEV);
}

/* What rdma_resolve_addrinfo and rdma_write_cm_event of librdmacm 60 and later use. */
REQUIREMENT("CM-12")
CM_TEST(events_are_written_and_services_unknown)
{
	uint32_t id = cm_make_id(&one, 5, RDMA_PS_TCP), n[2];
	struct rdma_ucm_query q = {.id = id, .option = UROCE_CM_QUERY_IB_SERVICE};
	struct uroce_cm_write_event w = {.id = id,
					 .event = CMA_EV_INTERNAL,
					 .status = 7,
					 .arg = 0x123456789abcdef0};
	struct uroce_cm_ib_service s = {.id = id};
	struct sockaddr_in in = cm_ipv4("10.0.0.1", 7000);
	struct rdma_ucm_event_resp e;

	assert_int_equal(cm_ask(&one, UROCE_CM_WRITE_EVENT, &w, sizeof(w), NULL, 0), 0);
	cm_event(&one, CMA_EV_INTERNAL, &e);
	assert_int_equal(e.uid, 5);
	assert_int_equal(e.status, 7);
	assert_memory_equal(&e.param, &w.arg, sizeof(w.arg));
	w.event = CMA_EV_ADDRINFO_RESOLVED;
	assert_int_equal(cm_ask(&one, UROCE_CM_WRITE_EVENT, &w, sizeof(w), NULL, 0), EINVAL);
	assert_int_equal(cm_ask(&one, UROCE_CM_RESOLVE_IB_SERVICE, &s, sizeof(s), NULL, 0), EINVAL);
	assert_int_equal(bind_bytes(id, &in, sizeof(in)), 0);
	assert_int_equal(cm_ask(&one, UROCE_CM_RESOLVE_IB_SERVICE, &s, sizeof(s), NULL, 0),
			 EOPNOTSUPP);
	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_QUERY, &q, sizeof(q), n, sizeof(n)),
			 ENODATA);
	assert_int_equal(cm_ask(&one, RDMA_USER_CM_CMD_QUERY, &q, sizeof(q), n, 4), ENOSPC);
}
