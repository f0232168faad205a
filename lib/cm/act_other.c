/* SPDX-License-Identifier: BSD-3-Clause */
/* Actions other than connecting: service queries (SIDR) and alternate paths (LAP, APR). */
#include <errno.h>
#include <string.h>
#include "cm/parts.h"

#define SIDR_LINGER_CODE  20 /* the kernel's response timeout .. */
#define SIDR_LINGER_TIMES 16 /* .. and how often it sends a SIDR_REQ */

struct wire_cm_path
cm_path_turned(const struct wire_cm_path *p)
{
	struct wire_cm_path t = *p;

	t.local_lid = p->remote_lid;
	t.remote_lid = p->local_lid;
	memcpy(t.local_gid, p->remote_gid, 16);
	memcpy(t.remote_gid, p->local_gid, 16);
	return t;
}

int
cm_act_send_lap(struct cm *cm, struct cm_id *id, struct cm_args *a)
{
	struct wire_cm m;

	if (id->passive || cm_msg_of(id, &m, WIRE_CM_LAP, 0, a->data, a->len) != 0)
		return -EINVAL;
	m.tid = id->lap_tid = cm_random(cm);
	id->loading = *(const struct wire_cm_path *)a->call;
	m.lap.remote_qpn = id->qp.dest_qpn;
	m.lap.response_timeout = CM_DEFAULT_TIMEOUT;
	m.lap.alternate = id->loading;
	cm_send_request(cm, id, &m, a);
	return 0;
}

int
cm_act_send_apr(struct cm *cm, struct cm_id *id, const struct cm_args *a)
{
	struct wire_cm m;

	if (cm_msg_of(id, &m, WIRE_CM_APR, id->lap_tid, a->data, a->len) != 0)
		return -EINVAL;
	m.apr.status = a->code;
	if (a->code == WIRE_APR_OK)
		id->qp.alternate = id->loading;
	wire_cm_build(&m, id->apr);
	id->has_apr = true;
	cm_send(cm, &id->addr, id->apr);
	return 0;
}

int
cm_act_send_sidr_req(struct cm *cm, struct cm_id *id, struct cm_args *a)
{
	const struct cm_sidr_ask *q = a->call;
	struct wire_cm m;

	cm_msg_begin(&m, WIRE_CM_SIDR_REQ, 0);
	if (q->max_retries > 15 || cm_put_private(&m, q->private_data, q->private_len) != 0)
		return -EINVAL;
	if (q->response_timeout != 0 &&
	    (q->response_timeout < CM_MIN_TIMEOUT || q->response_timeout > CM_MAX_TIMEOUT))
		return -EINVAL;
	m.tid = id->tid = cm_random(cm);
	m.sidr_req.request_id = id->comm_id;
	m.sidr_req.pkey = q->addr.pkey;
	m.sidr_req.service_id = q->service_id;
	id->sidr = true;
	id->addr = q->addr;
	id->service_id = q->service_id;
	id->max_retries = q->max_retries;
	id->response_ns =
		cm_response_ns(q->response_timeout != 0 ? q->response_timeout : CM_SIDR_TIMEOUT);
	id->made_ns = a->now_ns;
	cm_send_request(cm, id, &m, a);
	return 0;
}

int
cm_act_send_sidr_rep(struct cm *cm, struct cm_id *id, const struct cm_sidr_answer *s)
{
	struct wire_cm m;

	cm_msg_begin(&m, WIRE_CM_SIDR_REP, id->tid);
	if (s->info_len > WIRE_CM_INFO ||
	    cm_put_private(&m, s->p.private_data, s->p.private_len) != 0)
		return -EINVAL;
	m.modifier = s->p.ece.options;
	wire_cm_set_vendor(&m, s->p.ece.vendor_id);
	m.sidr_rep.request_id = id->remote_comm_id;
	m.sidr_rep.status = s->status;
	m.sidr_rep.info_len = (uint8_t)s->info_len;
	m.sidr_rep.service_id = id->service_id;
	if (s->status == WIRE_SIDR_OK) {
		m.sidr_rep.qpn = s->p.qpn;
		m.sidr_rep.qkey = s->p.qkey;
	}
	if (s->info_len != 0)
		memcpy(m.sidr_rep.info, s->info, s->info_len);
	id->linger_ns = SIDR_LINGER_TIMES * wire_cm_time_ns(SIDR_LINGER_CODE);
	cm_send_reply(cm, id, &m);
	return 0;
}
