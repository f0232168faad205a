/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received requests: a REQ or SIDR_REQ creates a new id, is a copy of one that did, or is refused.
 */
#include <string.h>
#include "cm/parts.h"

static void
reject_req(struct cm_mad *rx, uint16_t reason)
{
	cm_rx_reject(rx, WIRE_CM_ABOUT_REQ, reason, 0, rx->msg.req.local_comm_id);
}

/* Returns a new id for a received request, or NULL if a limit is reached. */
static struct cm_id *
request_new(struct cm_mad *rx, struct cm_id *listener)
{
	struct cm_id *id = cm_request_new(rx->cm, listener, rx->addr);

	if (id == NULL)
		return NULL;
	id->tid = rx->msg.tid;
	id->first_hash = cm_mad_hash(rx->mad);
	id->made_ns = rx->now_ns;
	rx->useful = true;
	return id;
}

/* Sets the connection's attributes from a REQ, as seen from this side. */
static void
req_take(struct cm_mad *rx, struct cm_id *id)
{
	const struct wire_cm_req *r = &rx->msg.req;

	id->state = CM_REQ_RCVD;
	id->remote_comm_id = r->local_comm_id;
	id->service_id = r->service_id;
	id->max_retries = r->max_retries;
	id->response_ns = cm_response_ns(r->local_response_timeout);
	id->linger_ns = cm_response_ns(r->remote_response_timeout) * (r->max_retries + 1u);
	id->timewait_ns = cm_timewait_ns(rx->cm, r->primary.ack_timeout);
	id->peer_ece = (struct cm_ece){r->vendor_id, rx->msg.modifier};
	id->qp = (struct cm_qp_attr){
		.dest_qpn = r->qpn,
		.dest_qkey = r->qkey,
		.sq_psn = r->psn,
		.transport = r->transport,
		.mtu = r->mtu,
		/* until the REP states how much is granted */
		.responder_resources = r->initiator_depth,
		.initiator_depth = r->responder_resources,
		.ack_timeout = r->primary.ack_timeout,
		.retry_count = r->retry_count,
		.rnr_retry = r->rnr_retry,
		.pkey = r->pkey,
		.primary = cm_path_turned(&r->primary),
		.alternate = cm_path_turned(&r->alternate),
	};
	cm_key_add(rx->cm, id, CM_KEY_REMOTE, r->local_comm_id);
	cm_key_add(rx->cm, id, CM_KEY_REMOTE_QPN, r->qpn);
}

/* Returns why the REQ is refused regardless of its listener; 0: it is not. */
static uint16_t
req_flaw(const struct wire_cm_req *r)
{
	if (r->transport != WIRE_CM_RC && r->transport != WIRE_CM_UC)
		return WIRE_CM_REJ_INVALID_TRANSPORT;
	if (r->qpn <= WIRE_GSI_QPN)
		return WIRE_CM_REJ_NO_QP;
	if (r->mtu < 1 || r->mtu > 5)
		return WIRE_CM_REJ_INVALID_MTU;
	return 0;
}

/*
 * Handles a REQ that is a copy, or whose sender has forgotten its connection. Returns false for any
 * other REQ. A peer is identified by its address, not by the CA GUID that it states, which would
 * let anybody end the connections of others.
 */
static bool
req_known(struct cm_mad *rx)
{
	const struct wire_cm_req *r = &rx->msg.req;
	struct cm_id *id = cm_key_find(rx->cm, CM_KEY_REMOTE, rx->addr->dev, rx->addr->remote,
				       r->local_comm_id);

	if (id != NULL && id->passive && id->first_hash == cm_mad_hash(rx->mad)) {
		cm_rx_input(rx, id, CM_IN_REQ, 0);
		return true;
	}
	/* a rejected sender may try again with the same id */
	if (id != NULL && id->state == CM_REJ_SENT) {
		cm_key_del(rx->cm, id, CM_KEY_REMOTE);
		id = NULL;
	}
	if (id == NULL)
		id = cm_key_find(rx->cm, CM_KEY_REMOTE_QPN, rx->addr->dev, rx->addr->remote,
				 r->qpn);
	if (id == NULL)
		return false;
	rx->cm->counters.stale++;
	reject_req(rx, WIRE_CM_REJ_STALE);
	cm_rx_input(rx, id, CM_IN_STALE, WIRE_CM_REJ_STALE);
	return true;
}

void
cm_rx_req(struct cm_mad *rx)
{
	const struct wire_cm_req *r = &rx->msg.req;
	struct cm_id *listener, *id;
	uint16_t flaw;

	if (r->local_comm_id == 0) {
		cm_rx_drop(rx, CM_DROP_FIELD);
		return;
	}
	if (req_known(rx))
		return;
	flaw = req_flaw(r);
	if (flaw != 0) {
		reject_req(rx, flaw);
		return;
	}
	listener = cm_listener_find(rx->cm, rx->addr, r->service_id, false);
	if (listener == NULL) {
		rx->cm->counters.no_listener++;
		reject_req(rx, WIRE_CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	id = request_new(rx, listener);
	if (id == NULL) {
		reject_req(rx, WIRE_CM_REJ_NO_RESOURCES);
		return;
	}
	req_take(rx, id);
	cm_pending_begin(rx->cm, id);
	cm_report_request(rx->cm, id, &rx->msg);
}

static void
sidr_refuse(struct cm_mad *rx, uint8_t status)
{
	struct wire_cm m;

	cm_msg_begin(&m, WIRE_CM_SIDR_REP, rx->msg.tid);
	m.sidr_rep.request_id = rx->msg.sidr_req.request_id;
	m.sidr_rep.status = status;
	m.sidr_rep.service_id = rx->msg.sidr_req.service_id;
	cm_send_msg(rx->cm, rx->addr, &m);
}

void
cm_rx_sidr_req(struct cm_mad *rx)
{
	const struct wire_cm_sidr_req *r = &rx->msg.sidr_req;
	uint64_t num = CM_SIDR_BIT | r->request_id;
	struct cm_id *listener, *id;

	id = cm_key_find(rx->cm, CM_KEY_REMOTE, rx->addr->dev, rx->addr->remote, num);
	if (id != NULL && id->first_hash == cm_mad_hash(rx->mad)) {
		cm_rx_input(rx, id, CM_IN_SIDR_REQ, 0);
		return;
	}
	/* the id now names a new query: the old one is still answered, but its copies are not */
	if (id != NULL)
		cm_key_del(rx->cm, id, CM_KEY_REMOTE);
	listener = cm_listener_find(rx->cm, rx->addr, r->service_id, true);
	if (listener == NULL) {
		rx->cm->counters.no_listener++;
		sidr_refuse(rx, WIRE_SIDR_UNSUPPORTED);
		return;
	}
	id = request_new(rx, listener);
	if (id == NULL) {
		sidr_refuse(rx, WIRE_SIDR_REJECTED);
		return;
	}
	id->state = CM_SIDR_REQ_RCVD;
	id->sidr = true;
	id->remote_comm_id = r->request_id;
	id->service_id = r->service_id;
	cm_key_add(rx->cm, id, CM_KEY_REMOTE, num);
	cm_pending_begin(rx->cm, id);
	cm_report_request(rx->cm, id, &rx->msg);
}
