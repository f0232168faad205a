/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of a client as JSON. */
#include "control/qp_history.h"
#include "map/mrmap.h"
#include "qp/deadline.h"
#include "qp/migrate.h"
#include "show.h"

json_t *
show_access(uint32_t access)
{
	return json_sprintf("%s%s%s%s%s%s", "local_read",
			    access & MEM_LOCAL_WRITE ? ",local_write" : "",
			    access & MEM_REMOTE_READ ? ",remote_read" : "",
			    access & MEM_REMOTE_WRITE ? ",remote_write" : "",
			    access & MEM_REMOTE_ATOMIC ? ",remote_atomic" : "",
			    access & MEM_MW_BIND ? ",mw_bind" : "");
}

json_t *
show_owned_by(const struct session *s, bool all)
{
	json_t *o = json_object();

	if (all) {
		show_set_int(o, "client", s->id);
		show_set_int(o, "pid", s->peer.pid);
		show_set(o, "program", json_string(s->comm));
	}
	show_set_int(o, "uid", s->peer.uid);
	show_set(o, "device", json_string(s->dev->name));
	return o;
}

/* Returns how many WQEs of a queue the client has posted and the daemon has not retired. */
static int64_t
queue_depth(const struct qp_ring *ring, uint32_t tail)
{
	int64_t n = ring->hdr != NULL ? (uint32_t)(ring->hdr->prod - tail) : 0;

	return n <= (int64_t)ring->mask + 1 ? n : -1;
}

/* By enum qp_sr_state. */
static const char *const sr_state[] = {
	[QP_SR_OFF] = "off",
	[QP_SR_CAN] = "not agreed",
	[QP_SR_ON] = "on",
};

static void
put_requester(json_t *o, const struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;

	show_set_int(o, "sq_entries", qp->bind.sq.mask + 1);
	show_set_int(o, "sq_waiting", queue_depth(&qp->bind.sq, snd->tail));
	show_set_int(o, "sq_in_flight", (int64_t)(uint32_t)(snd->head - snd->tail));
	show_set_int(o, "una_psn", snd->una_psn);
	show_set_int(o, "next_psn", snd->next_psn);
	show_set_int(o, "high_psn", snd->high_psn);
	show_set_int(o, "sq_retired", snd->tail);
	show_set_int(o, "tx_bytes", (int64_t)qp->conn.tx_bytes);
	show_set_int(o, "reads_out", snd->rd_out);
	show_set_int(o, "retry_cnt", qp->conn.attr.retry_cnt);
	show_set_int(o, "retries_left", snd->retry_left);
	show_set_int(o, "rnr_retry", qp->conn.attr.rnr_retry);
	show_set_int(o, "rnr_left", snd->rnr_left);
	show_set(o, "rnr_wait", json_boolean(qp_deadline_is_set(&qp->conn, QP_DEADLINE_RNR)));
	show_set_int(o, "timeout_us", (int64_t)(qp->conn.loss.timeout_ns / 1000));
	show_set_int(o, "round_trip_us", (int64_t)qp->conn.loss.srtt_ns / 1000);
	show_set_int(o, "probe_after_us", (int64_t)(snd->wait_ns / 1000));
	show_set(o, "probe", json_string(qp->bind.plain & QP_PLAIN_TIMERS ? "off" : "on"));
	show_set_int(o, "window", snd->cc.window_pkts);
	show_set(o, "sr", json_string(sr_state[qp->conn.sr.state]));
	show_set_int(o, "sr_resent", qp->conn.sr.resent);
	show_set_int(o, "sr_spurious", qp->conn.sr.spurious);
	show_set_int(o, "sr_threshold", qp_sr_threshold(&qp->conn.sr));
}

/* Adds the state of congestion control: the policy, its rate and window, marks and CNPs. */
static void
put_congestion(json_t *o, const struct qp *qp)
{
	const struct cc_ops *ops = cc_policies[qp->conn.snd.cc.policy];
	const struct qp_ecn *ecn = &qp->conn.ecn;
	struct cc_view v = {0};

	if (ops->view != NULL)
		ops->view(&qp->conn.snd.cc, &qp->conn.cc_flow, &v);
	show_set(o, "policy", json_string(ops->name));
	if (ops->view != NULL)
		show_set_int(o, "rate_kbps",
			     v.rate_kbps != 0 ? v.rate_kbps : qp->conn.cc_flow.param.max_kbps);
	if (qp->conn.snd.cc.policy == CC_DCQCN)
		show_set(o, "alpha", json_real(v.alpha_ppm / 1e6));
	if (qp->conn.snd.cc.policy == CC_SWIFT)
		show_set(o, "cwnd", json_real(v.cwnd_ppm / 1e6));
	if (v.delay_ns != 0)
		show_set_int(o, "delay_us", v.delay_ns / 1000);
	show_set_int(o, "marked_packets", (int64_t)ecn->marks);
	show_set_int(o, "cnps_sent", (int64_t)ecn->cnps_sent);
	show_set_int(o, "cnps_received", (int64_t)ecn->cnps_got);
	show_set_int(o, "retransmitted_bytes", (int64_t)ecn->again_bytes);
}

static void
put_responder(json_t *o, const struct qp *qp)
{
	const struct qp_rcv *rcv = &qp->conn.rcv;

	show_set_int(o, "rq_entries", qp->bind.rq.mask + 1);
	show_set_int(o, "rq_waiting", queue_depth(&qp->bind.rq, rcv->head));
	show_set_int(o, "rq_taken", rcv->head);
	show_set_int(o, "expected_psn", rcv->epsn);
	show_set_int(o, "msn", rcv->msn);
	show_set_int(o, "rx_bytes", (int64_t)qp->conn.rx_bytes);
	/* Read from the worker's memory, which outlives the QP: the QPN may have been reused. */
	show_set_int(o, "sr_held",
		     qp->bind.reorder != NULL
			     ? __atomic_load_n(&qp->bind.reorder->n, __ATOMIC_RELAXED)
			     : 0);
	show_set_int(o, "reads_in", rcv->rdq_n);
	show_set_int(o, "wrong_keys", qp->conn.wrong_keys.total);
}

/* The destination of a path. */
static json_t *
path_kind(bool loopback, bool path_ok)
{
	return json_string(loopback ? "loopback" : path_ok ? "wire" : "unresolved");
}

/* Migration: its state and the alternate path (REQ-11). */
static void
put_alternate(json_t *o, const struct qp *qp)
{
	const struct qp_path *alt = &qp->conn.alt;
	bool loaded = qp->conn.alt_loaded;

	show_set(o, "path_mig_state", json_string(qp_mig_name[qp->conn.mig]));
	show_set(o, "alt_local", loaded ? show_gid_text(alt->wire.sgid) : json_null());
	show_set(o, "alt_remote", loaded ? show_gid_text(alt->wire.dgid) : json_null());
	show_set(o, "alt_path", loaded ? path_kind(alt->loopback, alt->path_ok) : json_null());
}

json_t *
show_qp(const void *obj, bool all)
{
	static const char *const type[] = {
		[QP_TYPE_RC] = "RC", [QP_TYPE_UC] = "UC", [QP_TYPE_UD] = "UD"};
	static struct qp copy; /* large, and there is one control thread */
	const struct obj_qp *q = obj;
	const struct qp *qp = &copy;
	json_t *o = show_owned_by(q->o.s, all);

	qp_history_copy(&copy, q->qp);
	if (all)
		show_set_int(o, "qpn", qp->conn.qpn);
	show_set(o, "type", json_string(type[qp->conn.type]));
	show_set(o, "state", json_string(qp_state_name[qp->conn.state]));
	show_set(o, "local", show_gid_text(qp->conn.sgid));
	show_set(o, "remote", show_gid_text(qp->conn.dgid));
	if (!all)
		return o;
	show_set_int(o, "worker", qp->bind.worker);
	show_set_int(o, "pd", q->o.pd->id);
	show_set_int(o, "send_cq", q->send_cq->cq.id);
	show_set_int(o, "recv_cq", q->recv_cq->cq.id);
	show_set(o, "srq", q->srq != NULL ? json_integer(q->srq->o.handle) : json_null());
	show_set_int(o, "dest_qpn", qp->conn.attr.dest_qp_num);
	show_set(o, "path", path_kind(qp->conn.loopback, qp->conn.path_ok));
	put_alternate(o, qp);
	show_set_int(o, "path_mtu", qp->conn.mtu);
	show_cm_ece(o, q->o.s, qp->conn.qpn);
	put_requester(o, qp);
	put_congestion(o, qp);
	put_responder(o, qp);
	show_fault(o, q->qp->bind.recorder, qp->conn.why);
	return o;
}

json_t *
show_cq(const void *obj, bool all)
{
	const struct obj_cq *q = obj;
	json_t *o = show_owned_by(q->o.s, all);

	if (!all)
		return o;
	show_set_int(o, "cq", q->cq.id);
	show_set_int(o, "entries", q->cq.ring->mask + 1);
	show_set_int(o, "posted", q->cq.ring->prod);
	show_set_int(o, "waiting", (int64_t)(uint32_t)(q->cq.ring->prod - q->cq.ring->hdr->cons));
	show_set(o, "armed", json_boolean(q->cq.ring->hdr->arm != UROCE_CQ_UNARMED));
	show_set(o, "channel", json_boolean(q->channel != NULL));
	show_set_int(o, "queues", q->o.refs);
	show_set(o, "error", json_boolean(q->cq.dead));
	return o;
}

json_t *
show_mr(const void *obj, bool all)
{
	static const char *const path[] = {
		[UROCE_MR_PATH_COPY] = "copy",
		[UROCE_MR_PATH_ADOPTED] = "adopted",
		[UROCE_MR_PATH_SHARED] = "shared",
	};
	const struct obj_mr *m = obj;
	json_t *o = show_owned_by(m->o.s, all);

	if (!all)
		return o;
	show_set(o, "key", show_hex(m->mr.key));
	show_set_int(o, "pd", m->mr.pd);
	show_set_int(o, "windows", m->mr.windows);
	show_set(o, "address", show_hex(m->mr.va));
	show_set(o, "iova", show_hex(m->mr.iova));
	show_set_int(o, "length", (int64_t)m->mr.len);
	show_set(o, "access", show_access(m->mr.access));
	show_set(o, "path", json_string(path[mrmap_path(m->map)]));
	show_set(o, "failed", json_boolean(mrmap_failed(m->map)));
	return o;
}
