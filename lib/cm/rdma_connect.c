/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls about connections and UD services. */
#include <errno.h>
#include <string.h>
#include "cm/rdma_parts.h"

#define COMM_EST      4 /* IBV_EVENT_COMM_EST */
#define VENDOR_OPTION 35
#define RETRIES       7u /* the maximum of a QP */

/* The private data of a REQ or SIDR_REQ: rdma_cm's header, if any, and the program's. */
struct payload {
	uint8_t data[WIRE_CM_MAX_PRIVATE];
	uint32_t len;
};

static int
payload_make(struct payload *p, const struct cma_id *id, const struct cm_param *c, uint32_t room)
{
	struct wire_cm_ip ip = {.ip = id->dst.family == CMA_IPV4 ? 4 : 6, .port = id->src.port};

	p->len = id->dst.family == CMA_IB ? 0 : WIRE_CM_IP_LEN;
	if (c->private_len > room - p->len)
		return -EINVAL;
	memcpy(ip.src, id->path.addr.local, 16);
	memcpy(ip.dst, id->path.addr.remote, 16);
	if (p->len != 0)
		wire_cm_ip_build(&ip, p->data);
	if (c->private_len != 0)
		memcpy(p->data + p->len, c->private_data, c->private_len);
	p->len += c->private_len;
	return 0;
}

static struct wire_cm_path
path_record(const struct cma_id *id)
{
	const struct cma_path *p = &id->path;
	/* round trip: twice the packet lifetime */
	uint8_t ack = (uint8_t)(p->packet_lifetime < 31 ? p->packet_lifetime + 1 : 31);
	struct wire_cm_path w = {.local_lid = 0xffff,
				 .remote_lid = 0xffff,
				 .flow_label = p->addr.flow_label,
				 .rate = p->rate,
				 .traffic_class = p->addr.traffic_class,
				 .hop_limit = p->addr.hop_limit,
				 .sl = p->sl,
				 .subnet_local = p->addr.hop_limit <= 1,
				 .ack_timeout = id->has_ack_timeout ? id->ack_timeout : ack};

	memcpy(w.local_gid, p->addr.local, 16);
	memcpy(w.remote_gid, p->addr.remote, 16);
	return w;
}

/* Returns c within the ranges of messages, with the PSN of id. qkey: that of UD only. */
static struct cm_param
param_of(const struct cma_id *id, const struct cm_param *c)
{
	struct cm_param p = *c;

	p.psn = id->psn;
	p.qkey = 0;
	p.retry_count = c->retry_count < RETRIES ? c->retry_count : RETRIES;
	p.rnr_retry = c->rnr_retry < RETRIES ? c->rnr_retry : RETRIES;
	p.flow_control = c->flow_control != 0;
	p.srq = c->srq != 0;
	return p;
}

static int
connect_qp(struct cma *r, struct cma_id *id, const struct cm_param *c)
{
	struct payload data;
	struct cma_dev dev;
	struct cm_connect m;

	if (payload_make(&data, id, c, WIRE_CM_REQ_PRIVATE) != 0)
		return -EINVAL;
	if (!r->ops.dev(r->ctx, id->dev, &dev))
		return -ENODEV;
	if (r->ops.label != NULL)
		id->path.addr.flow_label = r->ops.label(r->ctx, id->id, c->qpn, &id->path);
	m = (struct cm_connect){
		.addr = id->path.addr,
		.service_id = cma_service(id, &id->dst),
		.ca_guid = dev.guid,
		.transport = id->qp_type == CMA_QP_UC ? WIRE_CM_UC : WIRE_CM_RC,
		.mtu = id->path.mtu,
		.max_retries = CM_DEFAULT_RETRIES,
		.primary = path_record(id),
		.p = param_of(id, c),
	};
	m.p.private_data = data.data;
	m.p.private_len = data.len;
	return cm_connect(r->cm, id->cm, &m, r->now_ns);
}

static int
ask_service(struct cma *r, struct cma_id *id, const struct cm_param *c)
{
	struct payload data;
	struct cm_sidr_ask m;

	if (payload_make(&data, id, c, WIRE_CM_SIDR_REQ_PRIVATE) != 0)
		return -EINVAL;
	m = (struct cm_sidr_ask){
		.addr = id->path.addr,
		.service_id = cma_service(id, &id->dst),
		.max_retries = CM_DEFAULT_RETRIES,
		.private_data = data.data,
		.private_len = data.len,
	};
	return cm_sidr_ask(r->cm, id->cm, &m, r->now_ns);
}

int
cma_connect(struct cma *r, uint32_t channel, uint32_t id, const struct cm_param *conn,
	    uint64_t now_ns)
{
	int rc;
	struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->state != CMA_ROUTE_RESOLVED)
		return -EINVAL;
	r->now_ns = now_ns;
	rc = cm_create(r->cm, i, &i->cm);
	if (rc != 0)
		return rc;
	rc = i->qp_type == CMA_QP_UD ? ask_service(r, i, conn) : connect_qp(r, i, conn);
	if (rc != 0) {
		cm_destroy(r->cm, i->cm, now_ns);
		i->cm = 0;
		return rc;
	}
	i->state = CMA_CONNECT;
	return 0;
}

static int
accept_qp(struct cma *r, struct cma_id *id, const struct cm_param *c)
{
	struct cma_dev dev;
	struct cm_accept m;

	if (!r->ops.dev(r->ctx, id->dev, &dev))
		return -ENODEV;
	m = (struct cm_accept){
		.ca_guid = dev.guid,
		.target_ack_delay = dev.ack_delay,
		.p = param_of(id, c),
	};
	return cm_accept(r->cm, id->cm, &m, r->now_ns);
}

static int
answer_service(struct cma *r, struct cma_id *id, const struct cm_param *c)
{
	struct cm_sidr_answer m = {.status = WIRE_SIDR_OK, .p = *c};

	if (m.p.qkey == 0)
		m.p.qkey = CMA_UD_QKEY;
	return cm_sidr_answer(r->cm, id->cm, &m, r->now_ns);
}

/* Returns an id in CONNECT that has a connection or query. NULL with *rc on error. */
static struct cma_id *
find_connected(struct cma *r, uint32_t channel, uint32_t id, uint64_t now_ns, int *rc)
{
	struct cma_id *i = cma_find(r, channel, id, rc);

	r->now_ns = now_ns;
	if (i == NULL || i->state == CMA_CONNECT)
		return i;
	*rc = -EINVAL;
	return NULL;
}

/* Sends a REJ or a refusing SIDR_REP, if the state of id allows it. */
static int
reject(struct cma *r, struct cma_id *id, uint8_t reason, const void *data, uint32_t len)
{
	struct cm_sidr_answer refusal = {.status = WIRE_SIDR_REJECTED,
					 .p = {.private_data = data, .private_len = len}};
	struct cm_reject m = {.reason = reason, .private_data = data, .private_len = len};

	return id->qp_type == CMA_QP_UD ? cm_sidr_answer(r->cm, id->cm, &refusal, r->now_ns)
					: cm_reject(r->cm, id->cm, &m, r->now_ns);
}

int
cma_accept(struct cma *r, uint32_t channel, uint32_t id, uint64_t uid, const struct cm_param *conn,
	   uint64_t now_ns)
{
	int rc;
	struct cma_id *i = find_connected(r, channel, id, now_ns, &rc);

	if (i == NULL)
		return rc;
	if (conn == NULL)
		rc = cm_ready(r->cm, i->cm, NULL, 0, now_ns);
	else
		rc = i->qp_type == CMA_QP_UD ? answer_service(r, i, conn) : accept_qp(r, i, conn);
	if (rc != 0)
		(void)reject(r, i, WIRE_CM_REJ_CONSUMER, NULL, 0);
	if (rc != 0 || conn == NULL)
		return rc;
	i->uid = uid;
	i->mute = false;
	return 0;
}

int
cma_reject(struct cma *r, uint32_t channel, uint32_t id, uint8_t reason, const void *data,
	   uint32_t len, uint64_t now_ns)
{
	int rc;
	struct cma_id *i = find_connected(r, channel, id, now_ns, &rc);

	if (i == NULL)
		return rc;
	if (reason == 0)
		reason = WIRE_CM_REJ_CONSUMER;
	if (reason != WIRE_CM_REJ_CONSUMER && reason != VENDOR_OPTION)
		return -EINVAL;
	return reject(r, i, reason, data, len);
}

int
cma_disconnect(struct cma *r, uint32_t channel, uint32_t id, uint64_t now_ns)
{
	int rc;
	struct cma_id *i = find_connected(r, channel, id, now_ns, &rc);

	return i == NULL ? rc : cm_disconnect(r->cm, i->cm, NULL, 0, now_ns);
}

int
cma_notify(struct cma *r, uint32_t channel, uint32_t id, uint32_t event, uint64_t now_ns)
{
	struct cm_info info;
	int rc;
	struct cma_id *i = find_connected(r, channel, id, now_ns, &rc);

	if (i == NULL)
		return rc;
	if (event != COMM_EST || cm_info_get(r->cm, i->cm, &info) != 0)
		return -EINVAL;
	if (info.state == CM_ESTABLISHED)
		return -EISCONN;
	return cm_established(r->cm, i->cm, now_ns);
}

static void
get_info(const struct cma *r, const struct cma_id *i, struct cma_info *info)
{
	*info = (struct cma_info){
		.id = i->id,
		.user = i->channel != CMA_NONE ? r->channels[i->channel].user : NULL,
		.payer = i->payer,
		.waiting = i->nwaiting,
		.state = i->state,
		.space = i->space,
		.qp_type = i->qp_type,
		.dev = i->dev,
		.cm = i->cm,
		.src = i->src,
		.dst = i->dst,
		.has_path = i->state == CMA_ROUTE_RESOLVED || i->state == CMA_CONNECT,
		.path = i->path,
	};
}

int
cma_query(const struct cma *r, uint32_t channel, uint32_t id, struct cma_info *info)
{
	int rc;
	const struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i != NULL)
		get_info(r, i, info);
	return rc;
}

bool
cma_next(const struct cma *r, uint32_t *pos, struct cma_info *info)
{
	while (*pos < r->nids) {
		const struct cma_id *i = &r->ids[(*pos)++];

		if (i->id == 0)
			continue;
		get_info(r, i, info);
		return true;
	}
	return false;
}

static int
qp_attr_of_connection(const struct cma_id *id, enum cma_qp_state state, struct cma_qp_attr *a)
{
	bool rc = id->qp_type == CMA_QP_RC;

	if (state == CMA_QPS_RTR)
		a->mask = CMA_QPM_STATE | CMA_QPM_AV | CMA_QPM_PATH_MTU | CMA_QPM_DEST_QPN |
			  CMA_QPM_RQ_PSN |
			  (rc ? CMA_QPM_MAX_DEST_RD_ATOMIC | CMA_QPM_MIN_RNR_TIMER : 0);
	else if (state == CMA_QPS_RTS)
		a->mask = CMA_QPM_STATE | CMA_QPM_SQ_PSN |
			  (rc ? CMA_QPM_TIMEOUT | CMA_QPM_RETRY_CNT | CMA_QPM_RNR_RETRY |
					   CMA_QPM_MAX_RD_ATOMIC
			      : 0);
	else
		return -EINVAL;
	return 0;
}

int
cma_qp_attr_get(const struct cma *r, uint32_t channel, uint32_t id, enum cma_qp_state state,
		struct cma_qp_attr *attr)
{
	bool known;
	int rc;
	const struct cma_id *i = cma_find(r, channel, id, &rc);

	if (i == NULL)
		return rc;
	if (i->dev == CM_DEV_ANY || i->state == CMA_REMOVED)
		return -EINVAL;
	*attr = (struct cma_qp_attr){.mask = CMA_QPM_STATE | CMA_QPM_PKEY_INDEX | CMA_QPM_PORT};
	if (i->qp_type == CMA_QP_UD) {
		attr->mask |= CMA_QPM_QKEY;
		attr->qkey = CMA_UD_QKEY;
		return 0;
	}
	known = i->cm != 0 && cm_qp_attr_get(r->cm, i->cm, &attr->cm) == 0;
	/* the passive side queries before it accepts; the REP has the same PSN */
	attr->cm.rq_psn = i->psn;
	if (state == CMA_QPS_INIT) {
		attr->mask |= CMA_QPM_ACCESS;
		attr->remote_write = known;
		attr->remote_read = known && attr->cm.responder_resources > 0;
		return 0;
	}
	return known ? qp_attr_of_connection(i, state, attr) : -EINVAL;
}
