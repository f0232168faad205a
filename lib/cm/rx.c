/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts received MADs to inputs of ids. MADs are hostile: one acts on an id only if it comes
 * from the address of the id's peer and names both communication ids as far as they are known.
 */
#include <errno.h>
#include <string.h>
#include "cm/parts.h"

void
cm_rx_drop(struct cm_mad *rx, enum cm_drop why)
{
	rx->cm->counters.dropped[why]++;
}

void
cm_rx_input(struct cm_mad *rx, struct cm_id *id, enum cm_input in, uint16_t reason)
{
	struct cm_args a = {.now_ns = rx->now_ns, .msg = &rx->msg, .reason = reason};
	bool moves = cm_moves(id, in);
	int rc = cm_step(rx->cm, id, in, &a);

	if (rc == -EINVAL)
		cm_rx_drop(rx, CM_DROP_UNEXPECTED);
	/* CM_IN_STALE: a request with another id has revealed it */
	rx->useful |= rc == 0 && moves && in != CM_IN_STALE;
}

void
cm_rx_reject(struct cm_mad *rx, uint8_t about, uint16_t reason, uint32_t local, uint32_t remote)
{
	struct wire_cm m;

	cm_msg_begin(&m, WIRE_CM_REJ, rx->msg.tid);
	m.rej.local_comm_id = local;
	m.rej.remote_comm_id = remote;
	m.rej.about = about;
	m.rej.reason = reason;
	cm_send_msg(rx->cm, rx->addr, &m);
}

/* Ends the connection of this number, which its peer has evidently forgotten. */
static void
end_stale(struct cm_mad *rx, uint32_t comm_id)
{
	struct cm_id *old = cm_find(rx->cm, comm_id);

	if (old != NULL)
		cm_rx_input(rx, old, CM_IN_STALE, WIRE_CM_REJ_STALE);
}

static bool
from_peer(const struct cm_mad *rx, const struct cm_id *id)
{
	return id->addr.dev == rx->addr->dev && memcmp(id->addr.remote, rx->addr->remote, 16) == 0;
}

/*
 * Finds the id that a message names by the receiver's (ours) and the sender's (theirs) number.
 * Returns NULL and *why if there is none. An id that does not know the sender's number yet accepts
 * any.
 */
static struct cm_id *
find(const struct cm_mad *rx, uint32_t ours, uint32_t theirs, enum cm_drop *why)
{
	struct cm_id *id = cm_find(rx->cm, ours);

	*why = CM_DROP_UNKNOWN_ID;
	/* not for ids that have exchanged no MAD yet, nor for queries */
	if (id == NULL || id->sidr || id->state == CM_IDLE || id->state == CM_LISTEN)
		return NULL;
	*why = CM_DROP_WRONG_PEER;
	if (!from_peer(rx, id))
		return NULL;
	if (id->remote_comm_id != 0 && id->remote_comm_id != theirs)
		return NULL;
	return id;
}

/* Returns the number of another connection with the REP's sender that has this id or QPN, or 0. */
static uint32_t
rep_conflict(const struct cm_mad *rx, const struct cm_id *id)
{
	const struct wire_cm_rep *r = &rx->msg.rep;
	const struct cm_id *other = cm_key_find(rx->cm, CM_KEY_REMOTE, rx->addr->dev,
						rx->addr->remote, r->local_comm_id);

	if (other == NULL || other == id)
		other = cm_key_find(rx->cm, CM_KEY_REMOTE_QPN, rx->addr->dev, rx->addr->remote,
				    r->qpn);
	return other == NULL || other == id ? 0 : other->comm_id;
}

static void
rx_rep(struct cm_mad *rx)
{
	const struct wire_cm_rep *r = &rx->msg.rep;
	enum cm_drop why;
	struct cm_id *id = find(rx, r->remote_comm_id, r->local_comm_id, &why);
	bool waits = id != NULL && (id->state == CM_REQ_SENT || id->state == CM_MRA_REQ_RCVD);
	uint32_t stale;

	if (id == NULL) {
		/* stop the sender's retransmissions */
		if (why == CM_DROP_UNKNOWN_ID)
			cm_rx_reject(rx, WIRE_CM_ABOUT_REP, WIRE_CM_REJ_INVALID_COMM_ID,
				     r->remote_comm_id, r->local_comm_id);
		cm_rx_drop(rx, why);
		return;
	}
	if (id->passive || r->local_comm_id == 0 || r->qpn <= WIRE_GSI_QPN) {
		cm_rx_drop(rx, id->passive ? CM_DROP_UNEXPECTED : CM_DROP_FIELD);
		return;
	}
	stale = waits ? rep_conflict(rx, id) : 0;
	if (stale == 0) {
		cm_rx_input(rx, id, CM_IN_REP, 0);
		return;
	}
	rx->cm->counters.stale++;
	cm_rx_reject(rx, WIRE_CM_ABOUT_REP, WIRE_CM_REJ_STALE, id->comm_id, r->local_comm_id);
	cm_rx_input(rx, id, CM_IN_REJ_STALE, WIRE_CM_REJ_STALE);
	end_stale(rx, stale);
}

static void
rx_rej(struct cm_mad *rx)
{
	const struct wire_cm_rej *r = &rx->msg.rej;
	enum cm_drop why;
	struct cm_id *id = cm_find(rx->cm, r->remote_comm_id);

	/* a peer that rejects a REQ may have no id; one that timed out may not know ours */
	if (r->local_comm_id == 0 && id != NULL)
		id = find(rx, r->remote_comm_id, id->remote_comm_id, &why);
	else
		id = find(rx, r->remote_comm_id, r->local_comm_id, &why);
	if (r->remote_comm_id == 0 && r->reason == WIRE_CM_REJ_TIMEOUT && r->local_comm_id != 0)
		id = cm_key_find(rx->cm, CM_KEY_REMOTE, rx->addr->dev, rx->addr->remote,
				 r->local_comm_id);
	if (id == NULL) {
		cm_rx_drop(rx, why);
		return;
	}
	cm_rx_input(rx, id, r->reason == WIRE_CM_REJ_STALE ? CM_IN_REJ_STALE : CM_IN_REJ,
		    r->reason);
	rx->useful &= r->remote_comm_id != 0;
}

static void
rx_mra(struct cm_mad *rx)
{
	static const enum cm_input in[] = {[WIRE_CM_ABOUT_REQ] = CM_IN_MRA_REQ,
					   [WIRE_CM_ABOUT_REP] = CM_IN_MRA_REP,
					   [WIRE_CM_ABOUT_OTHER] = CM_IN_MRA_LAP};
	const struct wire_cm_mra *r = &rx->msg.mra;
	enum cm_drop why;
	struct cm_id *id = find(rx, r->remote_comm_id, r->local_comm_id, &why);

	if (id == NULL)
		cm_rx_drop(rx, why);
	else if (r->about > WIRE_CM_ABOUT_OTHER)
		cm_rx_drop(rx, CM_DROP_FIELD);
	else if (id->passive != (r->about == WIRE_CM_ABOUT_REP))
		cm_rx_drop(rx, CM_DROP_UNEXPECTED);
	else
		cm_rx_input(rx, id, in[r->about], 0);
}

static void
rx_rtu(struct cm_mad *rx)
{
	enum cm_drop why;
	struct cm_id *id = find(rx, rx->msg.rtu.remote_comm_id, rx->msg.rtu.local_comm_id, &why);

	if (id == NULL || !id->passive)
		cm_rx_drop(rx, id == NULL ? why : CM_DROP_UNEXPECTED);
	else
		cm_rx_input(rx, id, CM_IN_RTU, 0);
}

static void
rx_dreq(struct cm_mad *rx)
{
	const struct wire_cm_dreq *r = &rx->msg.dreq;
	enum cm_drop why;
	struct cm_id *id = find(rx, r->remote_comm_id, r->local_comm_id, &why);
	struct wire_cm m;

	if (id != NULL && id->local_qpn != r->remote_qpn) {
		cm_rx_drop(rx, CM_DROP_FIELD);
		return;
	}
	if (id != NULL) {
		cm_rx_input(rx, id, CM_IN_DREQ, 0);
		return;
	}
	cm_rx_drop(rx, why);
	if (why != CM_DROP_UNKNOWN_ID)
		return;
	/* the connection has already ended here, which is what the sender requests */
	cm_msg_begin(&m, WIRE_CM_DREP, rx->msg.tid);
	m.drep.local_comm_id = r->remote_comm_id;
	m.drep.remote_comm_id = r->local_comm_id;
	cm_send_msg(rx->cm, rx->addr, &m);
}

static void
rx_drep(struct cm_mad *rx)
{
	enum cm_drop why;
	struct cm_id *id = find(rx, rx->msg.drep.remote_comm_id, rx->msg.drep.local_comm_id, &why);

	if (id == NULL)
		cm_rx_drop(rx, why);
	else
		cm_rx_input(rx, id, CM_IN_DREP, 0);
}

static void
rx_lap(struct cm_mad *rx)
{
	const struct wire_cm_lap *r = &rx->msg.lap;
	enum cm_drop why;
	struct cm_id *id = find(rx, r->remote_comm_id, r->local_comm_id, &why);
	uint64_t hash;

	if (id == NULL || !id->passive) {
		cm_rx_drop(rx, id == NULL ? why : CM_DROP_UNEXPECTED);
		return;
	}
	if (id->local_qpn != r->remote_qpn) {
		cm_rx_drop(rx, CM_DROP_FIELD);
		return;
	}
	hash = cm_mad_hash(rx->mad);
	if (hash == id->lap_hash) {
		cm_rx_input(rx, id, CM_IN_LAP_AGAIN, 0);
		return;
	}
	/* a refused LAP is not remembered: its copy is refused again */
	if (id->state == CM_ESTABLISHED && id->lap == CM_LAP_NONE)
		id->lap_hash = hash;
	cm_rx_input(rx, id, CM_IN_LAP, 0);
}

static void
rx_apr(struct cm_mad *rx)
{
	enum cm_drop why;
	struct cm_id *id = find(rx, rx->msg.apr.remote_comm_id, rx->msg.apr.local_comm_id, &why);

	if (id == NULL || id->passive)
		cm_rx_drop(rx, id == NULL ? why : CM_DROP_UNEXPECTED);
	else if (id->lap != CM_LAP_NONE && rx->msg.tid != id->lap_tid)
		cm_rx_drop(rx, CM_DROP_UNEXPECTED); /* of an earlier LAP */
	else
		cm_rx_input(rx, id, CM_IN_APR, 0);
}

static void
rx_sidr_rep(struct cm_mad *rx)
{
	struct cm_id *id = cm_find(rx->cm, rx->msg.sidr_rep.request_id);

	if (id == NULL || !id->sidr || id->passive || id->state == CM_LISTEN)
		cm_rx_drop(rx, CM_DROP_UNKNOWN_ID);
	else if (!from_peer(rx, id))
		cm_rx_drop(rx, CM_DROP_WRONG_PEER);
	else
		cm_rx_input(rx, id, CM_IN_SIDR_REP, 0);
}

static bool
parse(struct cm_mad *rx, const struct cm_rx_info *info, uint32_t len)
{
	static const enum cm_drop drops[WIRE_CM_NVERDICTS] = {
		[WIRE_CM_BAD_LENGTH] = CM_DROP_LENGTH,
		[WIRE_CM_BAD_BASE_VERSION] = CM_DROP_BASE_VERSION,
		[WIRE_CM_BAD_CLASS] = CM_DROP_CLASS,
		[WIRE_CM_BAD_CLASS_VERSION] = CM_DROP_CLASS_VERSION,
		[WIRE_CM_BAD_METHOD] = CM_DROP_METHOD,
		[WIRE_CM_BAD_ATTR] = CM_DROP_ATTR,
	};
	enum wire_cm_verdict v;

	if (info->qkey != WIRE_GSI_QKEY || info->src_qpn != WIRE_GSI_QPN) {
		cm_rx_drop(rx, info->qkey != WIRE_GSI_QKEY ? CM_DROP_QKEY : CM_DROP_SRC_QPN);
		return false;
	}
	v = wire_cm_parse(rx->mad, len, &rx->msg);
	if (v != WIRE_CM_OK)
		cm_rx_drop(rx, drops[v]);
	return v == WIRE_CM_OK;
}

bool
cm_rx(struct cm *cm, const struct cm_rx_info *info, const uint8_t *mad, uint32_t len,
      uint64_t now_ns)
{
	static void (*const handlers[WIRE_CM_NATTRS])(struct cm_mad *) = {
		[WIRE_CM_INDEX(WIRE_CM_REQ)] = cm_rx_req,
		[WIRE_CM_INDEX(WIRE_CM_MRA)] = rx_mra,
		[WIRE_CM_INDEX(WIRE_CM_REJ)] = rx_rej,
		[WIRE_CM_INDEX(WIRE_CM_REP)] = rx_rep,
		[WIRE_CM_INDEX(WIRE_CM_RTU)] = rx_rtu,
		[WIRE_CM_INDEX(WIRE_CM_DREQ)] = rx_dreq,
		[WIRE_CM_INDEX(WIRE_CM_DREP)] = rx_drep,
		[WIRE_CM_INDEX(WIRE_CM_SIDR_REQ)] = cm_rx_sidr_req,
		[WIRE_CM_INDEX(WIRE_CM_SIDR_REP)] = rx_sidr_rep,
		[WIRE_CM_INDEX(WIRE_CM_LAP)] = rx_lap,
		[WIRE_CM_INDEX(WIRE_CM_APR)] = rx_apr,
	};
	/* copy: info may point into an id, which an event may free */
	struct cm_addr addr = info->addr;
	struct cm_mad rx = {.cm = cm, .addr = &addr, .mad = mad, .now_ns = now_ns};

	if (!parse(&rx, info, len))
		return false;
	cm->counters.rx[WIRE_CM_INDEX(rx.msg.attr)]++;
	handlers[WIRE_CM_INDEX(rx.msg.attr)](&rx);
	return rx.useful;
}
