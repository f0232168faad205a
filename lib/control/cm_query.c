/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts results of lib/cm to the structs of rdma/rdma_user_cm.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include "control/cm_parts.h"

#define PORT          1u
#define NO_INDEX      UINT32_MAX /* the provider's devices have no index: found by their GUID */
#define EXACTLY       2u         /* selector of a path record: exactly this value */
#define PATH_FLAGS    (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL)
#define ACCESS_WRITE  (1u << 1) /* IBV_ACCESS_REMOTE_WRITE .. */
#define ACCESS_READ   (1u << 2)
#define ACCESS_ATOMIC (1u << 3)

static uint32_t
least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Returns the device of an id; NULL: none yet. */
static const struct device *
device_of(const struct ucma_call *c, const struct cma_info *info)
{
	return info->dev == CM_DEV_ANY ? NULL : daemon_device(c->ch->svc->d, info->dev);
}

static void
query_device(const struct ucma_call *c, const struct cma_info *info,
	     struct rdma_ucm_query_addr_resp *r)
{
	const struct device *dev = device_of(c, info);

	r->ibdev_index = NO_INDEX;
	if (dev == NULL)
		return;
	r->node_guid = device_guid(dev);
	r->port_num = PORT;
	r->pkey = htons(dev->pkey[0]);
}

/* Writes an address of an id as ucma_addr_put. A link-local one gets the scope of the id's device.
 */
static uint32_t
id_addr_put(const struct ucma_call *c, const struct cma_info *info, const struct cma_addr *from,
	    void *sockaddr)
{
	const struct device *dev = device_of(c, info);
	uint32_t scope = dev != NULL && ucma_gid_needs_scope(from->gid) ? ucma_scope_of(dev) : 0;
	struct cma_addr a = *from;

	if (scope != 0)
		a.scope = scope;
	return ucma_addr_put(&a, info->space, sockaddr);
}

static void
query_addr(struct ucma_call *c, const struct cma_info *info)
{
	struct rdma_ucm_query_addr_resp *r = c->rep;

	query_device(c, info, r);
	r->src_size = (uint16_t)id_addr_put(c, info, &info->src, &r->src_addr);
	r->dst_size = (uint16_t)id_addr_put(c, info, &info->dst, &r->dst_addr);
	c->rep_len = least(c->req->out, sizeof(*r));
}

/* Gets the GIDs of an id: those of its path if it has one. */
static void
gids_of(const struct cma_info *info, const uint8_t **src, const uint8_t **dst)
{
	bool resolved = info->state >= CMA_ADDR_RESOLVED && info->state < CMA_REMOVED;

	*src = resolved ? info->path.addr.local : info->src.gid;
	*dst = resolved ? info->path.addr.remote : info->dst.gid;
}

static void
query_gid(struct ucma_call *c, const struct cma_info *info)
{
	struct rdma_ucm_query_addr_resp *r = c->rep;
	const uint8_t *src, *dst;

	gids_of(info, &src, &dst);
	query_device(c, info, r);
	r->src_size = (uint16_t)ucma_gid_put(src, info->space, info->src.port, &r->src_addr);
	r->dst_size = (uint16_t)ucma_gid_put(dst, info->space, info->dst.port, &r->dst_addr);
	c->rep_len = least(c->req->out, sizeof(*r));
}

/* Writes a path record in the format of the subnet administrator (IBTA vol. 1, 15.2.5.16). */
static void
path_put(uint8_t *rec, const struct cma_path *p)
{
	const struct cm_addr *a = &p->addr;

	memcpy(rec + 8, a->remote, 16);
	memcpy(rec + 24, a->local, 16);
	rec[44] = (uint8_t)(a->flow_label >> 16 & 15);
	rec[45] = (uint8_t)(a->flow_label >> 8);
	rec[46] = (uint8_t)a->flow_label;
	rec[47] = a->hop_limit;
	rec[48] = a->traffic_class;
	rec[49] = 0x80 | 1; /* reversible; one path */
	rec[50] = (uint8_t)(a->pkey >> 8);
	rec[51] = (uint8_t)a->pkey;
	rec[53] = p->sl;
	rec[54] = (uint8_t)(EXACTLY << 6 | p->mtu);
	rec[55] = (uint8_t)(EXACTLY << 6 | p->rate);
	rec[56] = (uint8_t)(EXACTLY << 6 | p->packet_lifetime);
}

static int
query_path(struct ucma_call *c, const struct cma_info *info)
{
	struct rdma_ucm_query_path_resp *r = c->rep;

	if (c->req->out < sizeof(*r))
		return -ENOSPC;
	c->rep_len = sizeof(*r);
	r->num_paths = info->has_path;
	if (!info->has_path || c->req->out < sizeof(*r) + sizeof(r->path_data[0]))
		return 0;
	r->path_data[0].flags = PATH_FLAGS;
	path_put((uint8_t *)r->path_data[0].path_rec, &info->path);
	c->rep_len += sizeof(r->path_data[0]);
	return 0;
}

int
ucma_query(struct ucma_call *c)
{
	const struct rdma_ucm_query *q = c->body;
	struct cma_info info;
	int rc = cma_query(c->cma, c->ch->number, q->id, &info);

	if (rc != 0)
		return rc;
	switch (q->option) {
	case RDMA_USER_CM_QUERY_ADDR:
	case RDMA_USER_CM_QUERY_GID:
		if (c->req->out < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
			return -ENOSPC;
		if (q->option == RDMA_USER_CM_QUERY_ADDR)
			query_addr(c, &info);
		else
			query_gid(c, &info);
		return 0;
	case RDMA_USER_CM_QUERY_PATH:
		return query_path(c, &info);
	case UROCE_CM_QUERY_IB_SERVICE:
		return c->req->out < 2 * sizeof(uint32_t) ? -ENOSPC : -ENODATA;
	default:
		return -ENOSYS;
	}
}

static void
route_put(struct rdma_ucm_query_route_resp *r, const struct cma_info *info)
{
	struct ib_user_path_rec *route = &r->ib_route[0];
	const struct cma_path *p = &info->path;
	const uint8_t *src, *dst;

	gids_of(info, &src, &dst);
	memcpy(route->sgid, src, 16);
	memcpy(route->dgid, dst, 16);
	route->pkey = htons(WIRE_PKEY_DEFAULT);
	if (!info->has_path)
		return;
	r->num_paths = 1;
	route->pkey = htons(p->addr.pkey);
	route->flow_label = htonl(p->addr.flow_label);
	route->reversible = 1;
	route->mtu = p->mtu;
	route->hop_limit = p->addr.hop_limit;
	route->traffic_class = p->addr.traffic_class;
	route->sl = p->sl;
	route->mtu_selector = route->rate_selector = route->packet_life_time_selector = EXACTLY;
	route->rate = p->rate;
	route->packet_life_time = p->packet_lifetime;
}

int
ucma_query_route(struct ucma_call *c)
{
	struct rdma_ucm_query_route_resp *r = c->rep;
	const struct rdma_ucm_query *q = c->body;
	const struct device *dev;
	struct cma_info info;
	int rc = cma_query(c->cma, c->ch->number, q->id, &info);

	if (rc != 0)
		return rc;
	/* the struct holds only IPv4 and IPv6 addresses */
	if (info.src.family != CMA_IB)
		id_addr_put(c, &info, &info.src, &r->src_addr);
	if (info.dst.family != CMA_IB)
		id_addr_put(c, &info, &info.dst, &r->dst_addr);
	r->ibdev_index = NO_INDEX;
	dev = device_of(c, &info);
	if (dev != NULL) {
		r->node_guid = device_guid(dev);
		r->port_num = PORT;
		route_put(r, &info);
	}
	c->rep_len = least(c->req->out, sizeof(*r));
	return 0;
}

/* Gets the address vector of a path from dev. */
static void
av_put(struct ib_uverbs_ah_attr *ah, const struct device *dev, const uint8_t sgid[16],
       const uint8_t dgid[16], uint32_t flow_label, uint8_t hop_limit, uint8_t traffic_class)
{
	int index = net_gid_find(&dev->net, sgid);

	memcpy(ah->grh.dgid, dgid, 16);
	ah->grh.sgid_index = (uint8_t)(index >= 0 ? index : 0);
	ah->grh.flow_label = flow_label;
	ah->grh.hop_limit = hop_limit;
	ah->grh.traffic_class = traffic_class;
	ah->is_global = 1;
	ah->port_num = PORT;
}

static void
qp_attr_put(struct ib_uverbs_qp_attr *r, const struct cma_qp_attr *a)
{
	r->qp_attr_mask = a->mask;
	r->qkey = a->qkey;
	r->qp_access_flags = (a->remote_write ? ACCESS_WRITE : 0) |
			     (a->remote_read ? ACCESS_READ | ACCESS_ATOMIC : 0);
	r->port_num = PORT;
	r->path_mtu = a->cm.mtu;
	r->rq_psn = a->cm.rq_psn;
	r->sq_psn = a->cm.sq_psn;
	r->dest_qp_num = a->cm.dest_qpn;
	r->max_rd_atomic = a->cm.initiator_depth;
	r->max_dest_rd_atomic = a->cm.responder_resources;
	r->timeout = a->cm.ack_timeout;
	r->retry_cnt = a->cm.retry_count;
	r->rnr_retry = a->cm.rnr_retry;
}

int
ucma_init_qp_attr(struct ucma_call *c)
{
	const struct rdma_ucm_init_qp_attr *q = c->body;
	struct ib_uverbs_qp_attr *r = c->rep;
	const struct wire_cm_path *way;
	const struct device *dev;
	struct cma_qp_attr a;
	struct cma_info info;
	int rc = cma_query(c->cma, c->ch->number, q->id, &info);

	if (rc == 0)
		rc = cma_qp_attr_get(c->cma, c->ch->number, q->id, q->qp_state, &a);
	if (rc != 0)
		return rc;
	dev = device_of(c, &info);
	if (dev == NULL)
		return -EINVAL;
	qp_attr_put(r, &a);
	r->qp_state = q->qp_state;
	way = &a.cm.primary;
	if (a.mask & CMA_QPM_AV)
		av_put(&r->ah_attr, dev, way->local_gid, way->remote_gid, way->flow_label,
		       way->hop_limit, way->traffic_class);
	c->rep_len = sizeof(*r);
	return 0;
}

static void
event_conn_put(struct rdma_ucm_conn_param *p, const struct cm_param *conn)
{
	p->qp_num = conn->qpn;
	p->srq = conn->srq;
	p->responder_resources = conn->responder_resources;
	p->initiator_depth = conn->initiator_depth;
	p->flow_control = conn->flow_control;
	p->retry_count = conn->retry_count;
	p->rnr_retry_count = conn->rnr_retry;
	p->private_data_len = (uint8_t)conn->private_len;
	if (conn->private_data != NULL)
		memcpy(p->private_data, conn->private_data, conn->private_len);
}

static void
event_ud_put(struct rdma_ucm_ud_param *p, const struct daemon *d, const struct cma_event *ev)
{
	const struct cm_addr *a = &ev->path.addr;
	const struct device *dev = daemon_device(d, a->dev);

	p->qp_num = ev->conn.qpn;
	p->qkey = ev->conn.qkey;
	p->private_data_len = (uint8_t)ev->conn.private_len;
	if (ev->conn.private_data != NULL)
		memcpy(p->private_data, ev->conn.private_data, ev->conn.private_len);
	if (dev != NULL)
		av_put(&p->ah_attr, dev, a->local, a->remote, a->flow_label, a->hop_limit,
		       a->traffic_class);
}

int
ucma_get_event(struct ucma_call *c)
{
	struct rdma_ucm_event_resp *r = c->rep;
	struct cma_event ev;
	int rc = cma_event_get(c->cma, c->ch->number, &ev);

	if (rc != 0)
		return rc;
	r->uid = ev.uid;
	r->id = ev.id;
	r->event = ev.type;
	r->status = (uint32_t)ev.status;
	if (ev.type == CMA_EV_USER || ev.type == CMA_EV_INTERNAL)
		memcpy(&r->param, &ev.arg, sizeof(ev.arg));
	else if (ev.ud)
		event_ud_put(&r->param.ud, c->ch->svc->d, &ev);
	else
		event_conn_put(&r->param.conn, &ev.conn);
	r->ece.vendor_id = ev.conn.ece.vendor_id;
	r->ece.attr_mod = ev.conn.ece.options;
	c->rep_len = least(c->req->out, sizeof(*r));
	return 0;
}
