/* SPDX-License-Identifier: BSD-3-Clause */
/* Actions of the tables' cells: build, send and keep messages. */
#include <errno.h>
#include <string.h>
#include "cm/parts.h"

#define ACK_TIMEOUT_USUAL 19 /* for TIMEWAIT when a REQ has none */

void
cm_msg_begin(struct wire_cm *m, uint32_t attr, uint64_t tid)
{
	memset(m, 0, sizeof(*m));
	m->attr = (uint8_t)attr;
	m->tid = tid;
}

uint64_t
cm_response_ns(uint32_t code)
{
	if (code < CM_MIN_TIMEOUT)
		code = CM_MIN_TIMEOUT;
	return wire_cm_time_ns(code < CM_MAX_TIMEOUT ? code : CM_MAX_TIMEOUT);
}

void
cm_send(struct cm *cm, const struct cm_addr *addr, const uint8_t mad[WIRE_MAD_LEN])
{
	/* the low byte of the attribute id */
	cm->counters.tx[WIRE_CM_INDEX(mad[17])]++;
	cm->ops.send(cm->ctx, addr, mad);
}

void
cm_send_msg(struct cm *cm, const struct cm_addr *addr, const struct wire_cm *m)
{
	uint8_t mad[WIRE_MAD_LEN];

	wire_cm_build(m, mad);
	cm_send(cm, addr, mad);
}

/* Send m, which the timer retransmits until a response arrives. */
void
cm_send_request(struct cm *cm, struct cm_id *id, const struct wire_cm *m, struct cm_args *a)
{
	wire_cm_build(m, id->request);
	id->retries_left = id->max_retries;
	a->arm_ns = a->now_ns + id->response_ns;
	cm_send(cm, &id->addr, id->request);
}

/* Send m, and keep it as the reply to copies of the message that it answers. */
void
cm_send_reply(struct cm *cm, struct cm_id *id, const struct wire_cm *m)
{
	wire_cm_build(m, id->reply);
	cm_send(cm, &id->addr, id->reply);
}

/* Copy a call's private data to m. -EINVAL: too long. */
int
cm_put_private(struct wire_cm *m, const void *data, uint32_t len)
{
	uint32_t room;
	uint8_t *p = wire_cm_private(m, &room);

	if (len > room)
		return -EINVAL;
	if (len != 0)
		memcpy(p, data, len);
	return 0;
}

/* cm_msg_of writes through one of the members, all of which begin with the same fields. */
#define SAME_IDS(member)                                                                           \
	_Static_assert(offsetof(struct wire_cm, member.local_comm_id) ==                           \
				       offsetof(struct wire_cm, rtu.local_comm_id) &&              \
			       offsetof(struct wire_cm, member.remote_comm_id) ==                  \
				       offsetof(struct wire_cm, rtu.remote_comm_id),               \
		       "communication ids come first")
SAME_IDS(mra);
SAME_IDS(rej);
SAME_IDS(rep);
SAME_IDS(dreq);
SAME_IDS(lap);
SAME_IDS(apr);

int
cm_msg_of(const struct cm_id *id, struct wire_cm *m, uint32_t attr, uint64_t tid, const void *data,
	  uint32_t len)
{
	cm_msg_begin(m, attr, tid);
	m->rtu.local_comm_id = id->comm_id;
	m->rtu.remote_comm_id = id->remote_comm_id;
	return cm_put_private(m, data, len);
}

uint64_t
cm_timewait_ns(const struct cm *cm, uint32_t code)
{
	code = code == 0 ? ACK_TIMEOUT_USUAL : code;

	return wire_cm_time_ns(code < cm->config.max_timewait ? code : cm->config.max_timewait);
}

/* Build the REQ of a connect. */
static int
req_fill(struct wire_cm *m, const struct cm_id *id, const struct cm_connect *c)
{
	uint8_t timeout = c->response_timeout != 0 ? c->response_timeout : CM_DEFAULT_TIMEOUT;

	m->modifier = c->p.ece.options;
	m->req = (struct wire_cm_req){
		.local_comm_id = id->comm_id,
		.vendor_id = c->p.ece.vendor_id,
		.service_id = c->service_id,
		.ca_guid = c->ca_guid,
		.qkey = c->p.qkey,
		.qpn = c->p.qpn,
		.responder_resources = c->p.responder_resources,
		.initiator_depth = c->p.initiator_depth,
		.remote_response_timeout = timeout,
		.transport = c->transport,
		.flow_control = c->p.flow_control,
		.psn = c->p.psn,
		.local_response_timeout = timeout,
		.retry_count = c->p.retry_count,
		.pkey = c->addr.pkey,
		.mtu = c->mtu,
		.rnr_retry = c->p.rnr_retry,
		.max_retries = c->max_retries,
		.srq = c->p.srq,
		.primary = c->primary,
		.alternate = c->alternate,
	};
	return cm_put_private(m, c->p.private_data, c->p.private_len);
}

static bool
connect_valid(const struct cm_connect *c)
{
	return c->transport <= WIRE_CM_UC && c->mtu >= 1 && c->mtu <= 5 &&
	       c->p.qpn > WIRE_GSI_QPN && c->p.qpn <= 0xffffff && c->max_retries <= 15 &&
	       (c->response_timeout == 0 ||
		(c->response_timeout >= CM_MIN_TIMEOUT && c->response_timeout <= CM_MAX_TIMEOUT));
}

static int
act_send_req(struct cm *cm, struct cm_id *id, struct cm_args *a)
{
	const struct cm_connect *c = a->call;
	struct wire_cm m;

	cm_msg_begin(&m, WIRE_CM_REQ, 0);
	if (!connect_valid(c) || req_fill(&m, id, c) != 0)
		return -EINVAL;
	if (cm_qpn_held(cm, c->addr.dev, c->p.qpn))
		return -EBUSY;
	m.tid = id->tid = cm_random(cm);
	id->addr = c->addr;
	id->service_id = c->service_id;
	id->ca_guid = c->ca_guid;
	id->local_qpn = c->p.qpn;
	id->max_retries = c->max_retries;
	id->response_ns = cm_response_ns(m.req.remote_response_timeout);
	id->linger_ns = id->response_ns * (c->max_retries + 1u);
	id->timewait_ns = cm_timewait_ns(cm, c->primary.ack_timeout);
	id->made_ns = a->now_ns;
	id->qp = (struct cm_qp_attr){
		.rq_psn = c->p.psn,
		.transport = c->transport,
		.mtu = c->mtu,
		.responder_resources = c->p.responder_resources,
		.initiator_depth = c->p.initiator_depth,
		.ack_timeout = c->primary.ack_timeout,
		.retry_count = c->p.retry_count,
		.rnr_retry = c->p.rnr_retry,
		.pkey = c->addr.pkey,
		.primary = c->primary,
		.alternate = c->alternate,
	};
	cm_key_add(cm, id, CM_KEY_LOCAL_QPN, c->p.qpn);
	cm_send_request(cm, id, &m, a);
	return 0;
}

/*
 * Return the code of an ACK timeout that covers the round trip and the peer's target ACK delay,
 * both given as codes: the sum of two powers of two, rounded up when they are close to each other
 * (IBTA 9.7.6.1.3).
 */
static uint8_t
ack_timeout(uint32_t ack_delay, uint32_t path)
{
	uint32_t high = ack_delay > path ? ack_delay : path;
	uint32_t low = ack_delay > path ? path : ack_delay;
	uint32_t sum = high + (high - low <= 1);

	return (uint8_t)(sum < 31 ? sum : 31);
}

static void
act_take_rep(struct cm *cm, struct cm_id *id, const struct wire_cm *m)
{
	const struct wire_cm_rep *r = &m->rep;

	id->remote_comm_id = r->local_comm_id;
	id->peer_ece = (struct cm_ece){wire_cm_vendor(m), m->modifier};
	id->qp.dest_qpn = r->qpn;
	id->qp.dest_qkey = r->qkey;
	id->qp.sq_psn = r->psn;
	/* each side may have as many requests in flight as the other side can hold */
	id->qp.initiator_depth = r->responder_resources;
	id->qp.responder_resources = r->initiator_depth;
	id->qp.rnr_retry = r->rnr_retry;
	if (id->qp.ack_timeout != 0)
		id->qp.ack_timeout = ack_timeout(r->target_ack_delay, id->qp.ack_timeout);
	cm_key_add(cm, id, CM_KEY_REMOTE, r->local_comm_id);
	cm_key_add(cm, id, CM_KEY_REMOTE_QPN, r->qpn);
}

static int
act_send_rep(struct cm *cm, struct cm_id *id, struct cm_args *a)
{
	const struct cm_accept *c = a->call;
	struct wire_cm m;

	if (cm_msg_of(id, &m, WIRE_CM_REP, id->tid, c->p.private_data, c->p.private_len) != 0 ||
	    c->p.qpn <= WIRE_GSI_QPN || c->p.qpn > 0xffffff)
		return -EINVAL;
	if (cm_qpn_held(cm, id->addr.dev, c->p.qpn))
		return -EBUSY;
	m.modifier = c->p.ece.options;
	wire_cm_set_vendor(&m, c->p.ece.vendor_id);
	m.rep.qkey = c->p.qkey;
	m.rep.qpn = c->p.qpn;
	m.rep.psn = c->p.psn;
	m.rep.responder_resources = c->p.responder_resources;
	m.rep.initiator_depth = c->p.initiator_depth;
	m.rep.target_ack_delay = c->target_ack_delay;
	m.rep.failover = c->failover;
	m.rep.flow_control = c->p.flow_control;
	m.rep.rnr_retry = c->p.rnr_retry;
	m.rep.srq = c->p.srq;
	m.rep.ca_guid = c->ca_guid;
	id->ca_guid = c->ca_guid;
	id->local_qpn = c->p.qpn;
	id->qp.rq_psn = c->p.psn;
	id->qp.responder_resources = c->p.responder_resources;
	id->qp.initiator_depth = c->p.initiator_depth;
	cm_key_add(cm, id, CM_KEY_LOCAL_QPN, c->p.qpn);
	/* retransmitted by the timer, and in reply to a copy of the REQ */
	cm_send_request(cm, id, &m, a);
	memcpy(id->reply, id->request, sizeof(id->reply));
	return 0;
}

static int
act_send_rtu(struct cm *cm, struct cm_id *id, const struct cm_args *a)
{
	struct wire_cm m;

	if (cm_msg_of(id, &m, WIRE_CM_RTU, id->tid, a->data, a->len) != 0)
		return -EINVAL;
	cm_send_reply(cm, id, &m);
	return 0;
}

/* Return which message a REJ of id rejects, according to its state. */
static uint8_t
rej_about(const struct cm_id *id)
{
	switch (id->state) {
	case CM_REQ_RCVD:
		return WIRE_CM_ABOUT_REQ;
	case CM_REP_RCVD:
		return WIRE_CM_ABOUT_REP;
	default:
		return WIRE_CM_ABOUT_OTHER;
	}
}

static int
act_send_rej(struct cm *cm, struct cm_id *id, const struct cm_reject *r)
{
	struct wire_cm m;

	if (cm_msg_of(id, &m, WIRE_CM_REJ, id->tid, r->private_data, r->private_len) != 0 ||
	    r->info_len > WIRE_CM_INFO)
		return -EINVAL;
	m.rej.about = rej_about(id);
	m.rej.reason = r->reason;
	m.rej.info_len = (uint8_t)r->info_len;
	if (r->info_len != 0)
		memcpy(m.rej.info, r->info, r->info_len);
	cm_send_reply(cm, id, &m);
	return 0;
}

/*
 * Reject after a timeout, or because the owner destroyed the id before the response. The peer finds
 * the connection by our communication id and by our CA's GUID in the additional information (IBTA
 * 12.6.7.2).
 */
static void
act_send_rej_timeout(struct cm *cm, struct cm_id *id)
{
	uint8_t guid[8];
	struct cm_reject r = {.reason = WIRE_CM_REJ_TIMEOUT,
			      .info = guid,
			      .info_len = sizeof(guid)};

	for (uint32_t i = 0; i < 8; i++)
		guid[i] = (uint8_t)(id->ca_guid >> (56 - 8 * i));
	act_send_rej(cm, id, &r);
}

/* Reject a REP: the connection no longer exists. */
static void
act_send_rej_unknown(struct cm *cm, struct cm_id *id, const struct wire_cm *rep)
{
	struct wire_cm m;

	cm_msg_begin(&m, WIRE_CM_REJ, rep->tid);
	m.rej.local_comm_id = id->comm_id;
	m.rej.remote_comm_id = rep->rep.local_comm_id;
	m.rej.about = WIRE_CM_ABOUT_REP;
	m.rej.reason = WIRE_CM_REJ_INVALID_COMM_ID;
	cm_send_msg(cm, &id->addr, &m);
}

static int
act_send_mra(struct cm *cm, struct cm_id *id, const struct cm_args *a)
{
	struct wire_cm m;

	if (cm_msg_of(id, &m, WIRE_CM_MRA, id->state == CM_ESTABLISHED ? id->lap_tid : id->tid,
		      a->data, a->len) != 0)
		return -EINVAL;
	m.mra.about = rej_about(id);
	m.mra.service_timeout = a->code;
	if (id->mra_ns < wire_cm_time_ns(a->code))
		id->mra_ns = wire_cm_time_ns(a->code);
	cm_send_msg(cm, &id->addr, &m);
	return 0;
}

static void
act_again_mra(struct cm *cm, struct cm_id *id)
{
	struct cm_args a = {.code = id->state == CM_REP_RCVD ? cm->config.mra_rep_timeout
							     : cm->config.mra_req_timeout};

	cm->counters.duplicates++;
	act_send_mra(cm, id, &a);
}

static int
act_send_dreq(struct cm *cm, struct cm_id *id, struct cm_args *a)
{
	struct wire_cm m;

	if (cm_msg_of(id, &m, WIRE_CM_DREQ, 0, a->data, a->len) != 0)
		return -EINVAL;
	m.tid = cm_random(cm);
	m.dreq.remote_qpn = id->qp.dest_qpn;
	cm_send_request(cm, id, &m, a);
	if (cm->hurry_ns != 0)
		a->arm_ns = cm_hurried_ns(cm, id, a->now_ns);
	return 0;
}

static void
act_send_drep(struct cm *cm, struct cm_id *id, const struct wire_cm *dreq)
{
	struct wire_cm m;

	cm_msg_begin(&m, WIRE_CM_DREP, dreq->tid);
	m.drep.local_comm_id = id->comm_id;
	m.drep.remote_comm_id = dreq->dreq.local_comm_id;
	cm_send_msg(cm, &id->addr, &m);
}

/* The timer has expired: retransmit. */
static void
act_resend(struct cm *cm, struct cm_id *id, struct cm_args *a)
{
	id->retries_left--;
	cm->counters.retries++;
	a->arm_ns = a->now_ns + id->response_ns;
	cm_send(cm, &id->addr, id->request);
}

static void
act_again(struct cm *cm, struct cm_id *id, const uint8_t mad[WIRE_MAD_LEN])
{
	cm->counters.duplicates++;
	cm_send(cm, &id->addr, mad);
}

/* The actions that send a REJ. */
static int
act_reject(struct cm *cm, struct cm_id *id, enum cm_act act, struct cm_args *a)
{
	static const struct cm_reject consumer = {.reason = WIRE_CM_REJ_CONSUMER};
	static const struct cm_reject stale = {.reason = WIRE_CM_REJ_STALE};

	if (act == CM_ACT_SEND_REJ_CONSUMER)
		return act_send_rej(cm, id, &consumer);
	if (act == CM_ACT_SEND_REJ_STALE)
		return act_send_rej(cm, id, &stale);
	if (act == CM_ACT_SEND_REJ_TIMEOUT)
		act_send_rej_timeout(cm, id);
	else if (act == CM_ACT_SEND_REJ_UNKNOWN)
		act_send_rej_unknown(cm, id, a->msg);
	else
		return act_send_rej(cm, id, a->call);
	return 0;
}

int
cm_act(struct cm *cm, struct cm_id *id, enum cm_act act, struct cm_args *a)
{
	static const struct cm_sidr_answer refusal = {.status = WIRE_SIDR_REJECTED};

	switch (act) {
	case CM_ACT_REFUSE:
		return -EINVAL;
	case CM_ACT_NOTHING:
	case CM_ACT_LAP: /* step.c uses the second table */
	case CM_NACTS:
		return 0;
	case CM_ACT_IGNORE:
		cm->counters.duplicates++;
		return 0;
	case CM_ACT_LISTEN:
		return cm_act_listen(cm, id, a->call);
	case CM_ACT_SEND_REQ:
		return act_send_req(cm, id, a);
	case CM_ACT_SEND_REP:
		return act_send_rep(cm, id, a);
	case CM_ACT_SEND_RTU:
		return act_send_rtu(cm, id, a);
	case CM_ACT_SEND_REJ:
	case CM_ACT_SEND_REJ_CONSUMER:
	case CM_ACT_SEND_REJ_TIMEOUT:
	case CM_ACT_SEND_REJ_STALE:
	case CM_ACT_SEND_REJ_UNKNOWN:
		return act_reject(cm, id, act, a);
	case CM_ACT_SEND_MRA:
		return act_send_mra(cm, id, a);
	case CM_ACT_AGAIN_MRA:
		act_again_mra(cm, id);
		return 0;
	case CM_ACT_SEND_DREQ:
		return act_send_dreq(cm, id, a);
	case CM_ACT_SEND_DREP:
		act_send_drep(cm, id, a->msg);
		return 0;
	case CM_ACT_SEND_LAP:
		return cm_act_send_lap(cm, id, a);
	case CM_ACT_SEND_APR:
		return cm_act_send_apr(cm, id, a);
	case CM_ACT_SEND_SIDR_REQ:
		return cm_act_send_sidr_req(cm, id, a);
	case CM_ACT_SEND_SIDR_REP:
		return cm_act_send_sidr_rep(cm, id, a->call);
	case CM_ACT_REFUSE_SIDR:
		return cm_act_send_sidr_rep(cm, id, &refusal);
	case CM_ACT_RESEND:
		act_resend(cm, id, a);
		return 0;
	case CM_ACT_AGAIN_REPLY:
		act_again(cm, id, id->reply);
		return 0;
	case CM_ACT_AGAIN_APR:
		act_again(cm, id, id->apr);
		return 0;
	case CM_ACT_WAIT:
		a->arm_ns =
			a->now_ns + id->response_ns + wire_cm_time_ns(a->msg->mra.service_timeout);
		return 0;
	case CM_ACT_TAKE_REP:
		act_take_rep(cm, id, a->msg);
		return 0;
	case CM_ACT_TAKE_LAP:
		id->loading = cm_path_turned(&a->msg->lap.alternate);
		id->lap_tid = a->msg->tid;
		return 0;
	case CM_ACT_TAKE_APR:
		if (a->msg->apr.status == WIRE_APR_OK)
			id->qp.alternate = id->loading;
		return 0;
	}
	return 0;
}
