/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps operations to handlers. An operation without one is well formed but not offered yet. */
#include <errno.h>
#include <string.h>
#include "control/cm.h"
#include "control/handler.h"
#include "control/device.h"
#include "control/obj.h"
#include "control/peer_probe.h"

static int
query_device(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep)
{
	device_attr(s->dev, s->user, rep->body);
	return 0;
}

static int
query_clock(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep)
{
	struct uroce_clock_rep *r = rep->body;

	r->now_ns = timer_now_ns();
	return 0;
}

static int
query_port(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep)
{
	const struct uroce_port_req *q = req->body;

	return device_port_attr(s->dev, q->port, rep->body);
}

static int
query_gid(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep)
{
	const struct uroce_gid_req *q = req->body;

	return device_gid(s->dev, q->port, q->index, rep->body);
}

static int
query_pkey(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep)
{
	const struct uroce_pkey_req *q = req->body;

	return device_pkey(s->dev, q->port, q->index, rep->body);
}

static int
list_devices(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep)
{
	device_list(s->d, rep->body);
	return 0;
}

/* PAUSE_THREADS, RESUME_THREADS: the broker has done it. */
static int
threads_done(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep)
{
	return -req->found->err;
}

static ctrl_handler *const handler[UROCE_CTRL_OPS] = {
	[UROCE_CTRL_HELLO] = session_hello,
	[UROCE_CTRL_QUERY_DEVICE] = query_device,
	[UROCE_CTRL_QUERY_CLOCK] = query_clock,
	[UROCE_CTRL_QUERY_PORT] = query_port,
	[UROCE_CTRL_QUERY_GID] = query_gid,
	[UROCE_CTRL_ALLOC_PD] = pd_alloc,
	[UROCE_CTRL_REG_MR] = mr_reg,
	[UROCE_CTRL_REREG_MR] = mr_rereg,
	[UROCE_CTRL_DEREG_MR] = mr_dereg,
	[UROCE_CTRL_ALLOC_MW] = mw_alloc,
	[UROCE_CTRL_CREATE_AH] = ah_create,
	[UROCE_CTRL_ATTACH_MCAST] = mcast_attach,
	[UROCE_CTRL_DETACH_MCAST] = mcast_detach,
	[UROCE_CTRL_CREATE_SRQ] = srq_create,
	[UROCE_CTRL_MODIFY_SRQ] = srq_modify,
	[UROCE_CTRL_RESIZE_SRQ] = srq_resize,
	[UROCE_CTRL_QUERY_SRQ] = srq_query,
	[UROCE_CTRL_CREATE_CHANNEL] = channel_create,
	[UROCE_CTRL_CREATE_CQ] = cq_create,
	[UROCE_CTRL_RESIZE_CQ] = cq_resize_obj,
	[UROCE_CTRL_CREATE_QP] = qp_obj_create,
	[UROCE_CTRL_MODIFY_QP] = qp_obj_modify,
	[UROCE_CTRL_QUERY_QP] = qp_obj_query,
	[UROCE_CTRL_LIST_DEVICES] = list_devices,
	[UROCE_CTRL_EXPORT] = context_export,
	[UROCE_CTRL_IMPORT_PD] = pd_import,
	[UROCE_CTRL_IMPORT_MR] = mr_import,
	[UROCE_CTRL_QUERY_PKEY] = query_pkey,
	[UROCE_CTRL_SET] = set_request,
	[UROCE_CTRL_CM_OPEN] = ucma_channel_open,
	[UROCE_CTRL_ASK_PEER] = peer_probe_request,
	[UROCE_CTRL_PAUSE_THREADS] = threads_done,
	[UROCE_CTRL_RESUME_THREADS] = threads_done,
	[UROCE_CTRL_SEGMENT] = context_segment,
};

/* Operations that destroy the object they name. DEREG_MR has additional reasons to refuse. */
static const struct object_kind *const destroyed[UROCE_CTRL_OPS] = {
	[UROCE_CTRL_DEALLOC_PD] = &pd_kind,   [UROCE_CTRL_DEALLOC_MW] = &mw_kind,
	[UROCE_CTRL_DESTROY_AH] = &ah_kind,   [UROCE_CTRL_DESTROY_CQ] = &cq_kind,
	[UROCE_CTRL_DESTROY_SRQ] = &srq_kind, [UROCE_CTRL_DESTROY_QP] = &qp_kind,
};

static ctrl_handler *
handler_of(const struct control_program *p, uint16_t op)
{
	switch (op) {
	case UROCE_CTRL_SHOW:
		return p->show;
	case UROCE_CTRL_IMPAIR:
		return p->impair;
	case UROCE_CTRL_CAPTURE:
		return p->capture;
	default:
		return handler[op];
	}
}

int
dispatch(struct session *s, uint16_t op, const struct ctrl_req *req, struct ctrl_rep *rep)
{
	ctrl_handler *run = handler_of(s->d->program, op);
	const struct uroce_handle *h = req->body;

	if (destroyed[op] != NULL)
		return object_destroy(destroyed[op], s, h->handle);
	return run != NULL ? run(s, req, rep) : EOPNOTSUPP;
}
