/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts the commands of rdma/rdma_user_cm.h, ABI 4, to calls of lib/cm. Their structs are
 * hostile input. Errnos are the kernel's.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include "control/cm_parts.h"
#include "control/session.h"

#define QPN_MASK   0xffffffu
#define PATH_BYTES 64u /* a path record, packed */
#define PATH_FLAGS (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL)
#define END(type, at)                                                                              \
	(offsetof(struct rdma_ucm_##type, at) + sizeof(((struct rdma_ucm_##type *)0)->at))

static void
reply(struct ucma_call *c, uint32_t number)
{
	memcpy(c->rep, &number, sizeof(number));
	c->rep_len = sizeof(number);
}

static int
create_id(struct ucma_call *c)
{
	const struct rdma_ucm_create_id *q = c->body;
	uint32_t id;
	int rc = cma_create(c->cma, c->ch->number, q->uid, q->ps, q->qp_type, &id);

	if (rc == 0)
		reply(c, id);
	return rc;
}

static int
destroy_id(struct ucma_call *c)
{
	const struct rdma_ucm_destroy_id *q = c->body;
	uint32_t reported;
	int rc = cma_destroy(c->cma, c->ch->number, q->id, &reported, c->now_ns);

	if (rc == 0)
		reply(c, reported);
	return rc;
}

/* Reads an IPv4 or IPv6 address from the space of a sockaddr_in6. */
static int
ip_get(struct cma_addr *to, const struct sockaddr_in6 *sa)
{
	uint16_t family = sa->sin6_family;

	if (family != AF_INET && family != AF_INET6)
		return -EINVAL;
	return ucma_addr_get(to, sa, ucma_addr_len(family));
}

static int
bind_to(struct ucma_call *c, uint32_t id, struct cma_addr *addr)
{
	ucma_addr_local(addr);
	return cma_bind(c->cma, c->ch->number, id, addr);
}

static int
bind_ip(struct ucma_call *c)
{
	const struct rdma_ucm_bind_ip *q = c->body;
	struct cma_addr addr;
	int rc = ip_get(&addr, &q->addr);

	return rc == 0 ? bind_to(c, q->id, &addr) : rc;
}

static int
bind_addr(struct ucma_call *c)
{
	const struct rdma_ucm_bind *q = c->body;
	struct cma_addr addr;
	int rc = q->reserved == 0 ? ucma_addr_get(&addr, &q->addr, q->addr_size) : -EINVAL;

	return rc == 0 ? bind_to(c, q->id, &addr) : rc;
}

static int
resolve(struct ucma_call *c, uint32_t id, struct cma_addr *src, struct cma_addr *dst,
	uint32_t timeout_ms)
{
	ucma_addr_local(src);
	ucma_addr_remote(dst);
	return cma_resolve_addr(c->cma, c->ch->number, id, src, dst, timeout_ms, c->now_ns);
}

static int
resolve_ip(struct ucma_call *c)
{
	const struct rdma_ucm_resolve_ip *q = c->body;
	struct cma_addr src = {0}, dst;
	int rc = ip_get(&dst, &q->dst_addr);

	if (rc == 0 && q->src_addr.sin6_family != 0)
		rc = ip_get(&src, &q->src_addr);
	return rc == 0 ? resolve(c, q->id, &src, &dst, q->timeout_ms) : rc;
}

static int
resolve_addr(struct ucma_call *c)
{
	const struct rdma_ucm_resolve_addr *q = c->body;
	struct cma_addr src = {0}, dst;
	int rc = q->reserved == 0 ? ucma_addr_get(&dst, &q->dst_addr, q->dst_size) : -EINVAL;

	if (rc == 0 && q->src_size != 0)
		rc = ucma_addr_get(&src, &q->src_addr, q->src_size);
	return rc == 0 ? resolve(c, q->id, &src, &dst, q->timeout_ms) : rc;
}

static int
resolve_route(struct ucma_call *c)
{
	const struct rdma_ucm_resolve_route *q = c->body;

	return cma_resolve_route(c->cma, c->ch->number, q->id, q->timeout_ms, c->now_ns);
}

static int
listen_on(struct ucma_call *c)
{
	const struct rdma_ucm_listen *q = c->body;

	return cma_listen(c->cma, c->ch->number, q->id, q->backlog);
}

/* Refuses a QP of another user, whose owner could otherwise no longer connect it. */
static int
check_qpn(const struct ucma_call *c, uint32_t qpn)
{
	const struct qp *qp = qp_table_find(&c->ch->svc->d->qps, qpn);
	const struct obj_qp *q = qp != NULL ? qp->bind.owner : NULL;

	return q != NULL && !c->ch->user->privileged &&
			       quota_who(q->o.s->user, q->o.s->peer.uid) !=
				       quota_who(c->ch->user, c->ch->uid)
		       ? -EPERM
		       : 0;
}

/* Converts p to *conn, which refers to the private data in p. */
static int
conn_get(const struct ucma_call *c, uint32_t id, const struct rdma_ucm_conn_param *p,
	 const struct rdma_ucm_ece *ece, struct cm_param *conn)
{
	struct cma_info info;
	int rc = cma_query(c->cma, c->ch->number, id, &info);

	if (rc != 0)
		return rc;
	*conn = (struct cm_param){
		.qpn = p->qp_num & QPN_MASK,
		.qkey = info.src.family == CMA_IB ? p->qkey : 0,
		.srq = p->srq,
		.responder_resources = p->responder_resources,
		.initiator_depth = p->initiator_depth,
		.flow_control = p->flow_control,
		.retry_count = p->retry_count,
		.rnr_retry = p->rnr_retry_count,
		.ece = {.vendor_id = ece->vendor_id, .options = ece->attr_mod},
		.private_data = p->private_data,
		.private_len = p->private_data_len,
	};
	return check_qpn(c, conn->qpn);
}

static int
connect_id(struct ucma_call *c)
{
	struct rdma_ucm_connect q = {0};
	struct cm_param conn;
	int rc;

	memcpy(&q, c->body, c->req->in < sizeof(q) ? c->req->in : sizeof(q));
	if (!q.conn_param.valid)
		return -EINVAL;
	rc = conn_get(c, q.id, &q.conn_param, &q.ece, &conn);
	return rc == 0 ? cma_connect(c->cma, c->ch->number, q.id, &conn, c->now_ns) : rc;
}

static int
accept_id(struct ucma_call *c)
{
	struct rdma_ucm_accept q = {0};
	struct cm_param conn;
	int rc;

	memcpy(&q, c->body, c->req->in < sizeof(q) ? c->req->in : sizeof(q));
	if (!q.conn_param.valid)
		return cma_accept(c->cma, c->ch->number, q.id, q.uid, NULL, c->now_ns);
	rc = conn_get(c, q.id, &q.conn_param, &q.ece, &conn);
	if (rc == 0)
		return cma_accept(c->cma, c->ch->number, q.id, q.uid, &conn, c->now_ns);
	/* as cma_accept does on errors */
	(void)cma_reject(c->cma, c->ch->number, q.id, 0, NULL, 0, c->now_ns);
	return rc;
}

static int
reject_id(struct ucma_call *c)
{
	const struct rdma_ucm_reject *q = c->body;

	return cma_reject(c->cma, c->ch->number, q->id, q->reason, q->private_data,
			  q->private_data_len, c->now_ns);
}

static int
disconnect_id(struct ucma_call *c)
{
	const struct rdma_ucm_disconnect *q = c->body;

	return cma_disconnect(c->cma, c->ch->number, q->id, c->now_ns);
}

/* NOTIFY of an established QP. -EISCONN: the RTU has already established the connection. */
static int
notify(struct ucma_call *c)
{
	const struct rdma_ucm_notify *q = c->body;

	return cma_notify(c->cma, c->ch->number, q->id, q->event, c->now_ns);
}

static int
set_option_of_id(struct ucma_call *c, const struct rdma_ucm_set_option *q, const void *value)
{
	uint32_t ch = c->ch->number;
	uint8_t byte;
	int number;

	switch (q->optname) {
	case RDMA_OPTION_ID_TOS:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (q->optlen != sizeof(byte))
			return -EINVAL;
		memcpy(&byte, value, sizeof(byte));
		return q->optname == RDMA_OPTION_ID_TOS
			       ? cma_set_tos(c->cma, ch, q->id, byte)
			       : cma_set_ack_timeout(c->cma, ch, q->id, byte);
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (q->optlen != sizeof(number))
			return -EINVAL;
		memcpy(&number, value, sizeof(number));
		return q->optname == RDMA_OPTION_ID_REUSEADDR
			       ? cma_set_reuse(c->cma, ch, q->id, number != 0)
			       : cma_set_afonly(c->cma, ch, q->id, number != 0);
	default:
		return -ENOSYS;
	}
}

/* Reads a path record in the format of the subnet administrator (IBTA vol. 1, 15.2.5.16). */
static int
path_get(struct cma_path *path, const uint8_t *rec)
{
	*path = (struct cma_path){
		.addr = {.pkey = (uint16_t)(rec[50] << 8 | rec[51]),
			 .flow_label = (rec[44] & 15u) << 16 | (uint32_t)rec[45] << 8 | rec[46],
			 .traffic_class = rec[48],
			 .hop_limit = rec[47]},
		.sl = rec[53] & 15,
		.mtu = rec[54] & 63,
		.rate = rec[55] & 63,
		.packet_lifetime = rec[56] & 63,
	};
	return path->mtu >= 1 && path->mtu <= 5 && path->packet_lifetime <= 31 ? 0 : -EINVAL;
}

/* Returns the first record that is valid in both directions. */
static int
set_path(struct ucma_call *c, const struct rdma_ucm_set_option *q, const uint8_t *value)
{
	struct ib_path_rec_data data;
	struct cma_path path;
	int rc;

	_Static_assert(sizeof(data.path_rec) == PATH_BYTES, "length of a path record");
	if (q->optlen % sizeof(data) != 0)
		return -EINVAL;
	for (uint32_t at = 0; at < q->optlen; at += sizeof(data)) {
		memcpy(&data, value + at, sizeof(data));
		if (data.flags != PATH_FLAGS)
			continue;
		rc = path_get(&path, (const uint8_t *)data.path_rec);
		return rc == 0 ? cma_set_path(c->cma, c->ch->number, q->id, &path) : rc;
	}
	return -EINVAL;
}

static int
set_option(struct ucma_call *c)
{
	const struct rdma_ucm_set_option *q = c->body;
	const uint8_t *value = (const uint8_t *)(q + 1);
	struct cma_info info;
	int rc = cma_query(c->cma, c->ch->number, q->id, &info);

	if (rc != 0)
		return rc;
	if (q->optlen > c->req->in - sizeof(*q))
		return -EINVAL;
	if (q->level == RDMA_OPTION_ID)
		return set_option_of_id(c, q, value);
	if (q->level == RDMA_OPTION_IB && q->optname == RDMA_OPTION_IB_PATH)
		return set_path(c, q, value);
	return -ENOSYS;
}

static int
join(struct ucma_call *c, uint32_t id, uint64_t uid, const struct cma_addr *addr, uint16_t flags)
{
	uint32_t group;
	int rc;

	if (flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	rc = cma_join(c->cma, c->ch->number, id, uid, addr,
		      flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, &group);
	if (rc == 0)
		reply(c, group);
	return rc;
}

static int
join_ip_mcast(struct ucma_call *c)
{
	const struct rdma_ucm_join_ip_mcast *q = c->body;
	struct cma_addr addr;
	int rc = ip_get(&addr, &q->addr);

	return rc == 0 ? join(c, q->id, q->uid, &addr, RDMA_MC_JOIN_FLAG_FULLMEMBER) : rc;
}

static int
join_mcast(struct ucma_call *c)
{
	const struct rdma_ucm_join_mcast *q = c->body;
	struct cma_addr addr;
	int rc = ucma_addr_get(&addr, &q->addr, q->addr_size);

	return rc == 0 ? join(c, q->id, q->uid, &addr, q->join_flags) : rc;
}

static int
leave_mcast(struct ucma_call *c)
{
	const struct rdma_ucm_destroy_id *q = c->body;
	uint32_t reported;
	int rc = cma_leave(c->cma, c->ch->number, q->id, &reported);

	if (rc == 0)
		reply(c, reported);
	return rc;
}

static int
migrate_id(struct ucma_call *c)
{
	const struct rdma_ucm_migrate_id *q = c->body;
	uint32_t reported;
	int rc;

	if (c->from == 0)
		return -EINVAL;
	rc = cma_migrate(c->cma, c->ch->number, c->from, q->id, &reported);
	if (rc == 0)
		reply(c, reported);
	return rc;
}

/* The kernel has service records of InfiniBand's subnet administrator only. */
static int
resolve_service(struct ucma_call *c)
{
	const struct uroce_cm_ib_service *q = c->body;

	return cma_resolve_service(c->cma, c->ch->number, q->id);
}

static int
write_event(struct ucma_call *c)
{
	const struct uroce_cm_write_event *q = c->body;

	return cma_write_event(c->cma, c->ch->number, q->id, q->event, (int32_t)q->status, q->arg);
}

struct command {
	int (*run)(struct ucma_call *c);
	uint32_t in, out; /* minimum lengths of command and response */
};
#define ROW(name, run, in, out) [RDMA_USER_CM_CMD_##name] = {run, in, out}
#define IN(type)                sizeof(struct rdma_ucm_##type)
#define NUMBER                  sizeof(uint32_t)

/* The last fields of events, and of responses to queries, are newer than the ABI: optional. */
#define EVENT_OUT                                                                                  \
	(sizeof(struct rdma_ucm_event_resp) - sizeof(uint32_t) - sizeof(struct rdma_ucm_ece))
#define ROUTE_OUT offsetof(struct rdma_ucm_query_route_resp, ibdev_index)

static const struct command commands[] = {
	ROW(CREATE_ID, create_id, IN(create_id), NUMBER),
	ROW(DESTROY_ID, destroy_id, IN(destroy_id), NUMBER),
	ROW(BIND_IP, bind_ip, END(bind_ip, id), 0),
	ROW(RESOLVE_IP, resolve_ip, IN(resolve_ip), 0),
	ROW(RESOLVE_ROUTE, resolve_route, IN(resolve_route), 0),
	ROW(QUERY_ROUTE, ucma_query_route, IN(query), ROUTE_OUT),
	ROW(CONNECT, connect_id, END(connect, reserved), 0),
	ROW(LISTEN, listen_on, IN(listen), 0),
	ROW(ACCEPT, accept_id, END(accept, reserved), 0),
	ROW(REJECT, reject_id, IN(reject), 0),
	ROW(DISCONNECT, disconnect_id, IN(disconnect), 0),
	ROW(INIT_QP_ATTR, ucma_init_qp_attr, IN(init_qp_attr), sizeof(struct ib_uverbs_qp_attr)),
	ROW(GET_EVENT, ucma_get_event, IN(get_event), EVENT_OUT),
	ROW(SET_OPTION, set_option, IN(set_option), 0),
	ROW(NOTIFY, notify, IN(notify), 0),
	ROW(JOIN_IP_MCAST, join_ip_mcast, END(join_ip_mcast, id), NUMBER),
	ROW(LEAVE_MCAST, leave_mcast, IN(destroy_id), NUMBER),
	ROW(MIGRATE_ID, migrate_id, IN(migrate_id), NUMBER),
	ROW(QUERY, ucma_query, IN(query), NUMBER),
	ROW(BIND, bind_addr, IN(bind), 0),
	ROW(RESOLVE_ADDR, resolve_addr, IN(resolve_addr), 0),
	ROW(JOIN_MCAST, join_mcast, IN(join_mcast), NUMBER),
	[UROCE_CM_RESOLVE_IB_SERVICE] = {resolve_service, sizeof(struct uroce_cm_ib_service), 0},
	[UROCE_CM_WRITE_EVENT] = {write_event, sizeof(struct uroce_cm_write_event), 0},
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

int
ucma_perform(struct ucma_call *c)
{
	const struct command *row;

	if (c->req->cmd >= NCOMMANDS)
		return -EINVAL;
	row = &commands[c->req->cmd];
	if (row->run == NULL)
		return -ENOSYS; /* GET_OPTION: the kernel does not implement it either */
	if (c->req->in < row->in)
		return -EINVAL;
	if (c->req->out < row->out)
		return -ENOSPC;
	return row->run(c);
}
