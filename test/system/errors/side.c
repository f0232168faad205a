/* SPDX-License-Identifier: BSD-3-Clause */
/* Device, regions and queue pairs. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "errmatrix.h"

#define QUEUE_WRS      16
#define CQ_ENTRIES     64
#define RNR_TIMER      12 /* 0.64 ms */
#define RETRIES        6  /* 7 means no limit on rxe */
#define RETRIES_SILENT 1  /* for a peer that never responds */
#define TIMEOUT_SILENT 12 /* 17 ms: no response will come */
#define ALL_RIGHTS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

bool
run_failed(struct run *r, const char *fmt, ...)
{
	va_list ap;

	if (r->rep.failed[0])
		return false;
	va_start(ap, fmt);
	vsnprintf(r->rep.failed, sizeof(r->rep.failed), fmt, ap);
	va_end(ap);
	return false;
}

static void
device_open(struct side *s)
{
	s->ctx = verbs_open(s->opt->dev);
	if (!s->ctx)
		die("verbs device %s: %s", s->opt->dev ? s->opt->dev : "of any name",
		    strerror(errno));
	if (fcntl(s->ctx->async_fd, F_SETFL, fcntl(s->ctx->async_fd, F_GETFL) | O_NONBLOCK))
		die("async_fd: %s", strerror(errno));
}

uint64_t
area_addr(const struct side *s, enum area area)
{
	return (uintptr_t)s->arena.mem + area_offset(area);
}

void
side_open(struct side *s, const struct options *opt)
{
	struct ibv_port_attr port;

	s->opt = opt;
	device_open(s);
	if (ibv_query_port(s->ctx, opt->ib_port, &port) ||
	    ibv_query_gid(s->ctx, opt->ib_port, opt->gid_index, &s->gid))
		die("no port %u or no GID %u", opt->ib_port, opt->gid_index);
	s->port_mtu = port.active_mtu;
	s->pd = ibv_alloc_pd(s->ctx);
	s->other_pd = ibv_alloc_pd(s->ctx);
	if (!s->pd || !s->other_pd)
		die("ibv_alloc_pd: %s", strerror(errno));
	arena_open(&s->arena);
	for (int i = 0; i <= AREA_RECV; i++) {
		size_t len = i == AREA_RECV ? s->arena.bytes - area_offset(i) : area_bytes(i);

		s->area[i] = ibv_reg_mr(s->pd, s->arena.mem + area_offset(i), len, ALL_RIGHTS);
		if (!s->area[i])
			die("ibv_reg_mr of %zu bytes: %s", len, strerror(errno));
	}
}

void
side_close(struct side *s)
{
	int rc = 0;

	for (int i = 0; i <= AREA_RECV; i++)
		rc |= ibv_dereg_mr(s->area[i]);
	rc |= ibv_dealloc_pd(s->pd);
	rc |= ibv_dealloc_pd(s->other_pd);
	rc |= ibv_close_device(s->ctx);
	if (rc)
		die("an object could not be destroyed: %d", rc);
}

struct ibv_mr *
extra_mr(struct run *r, struct ibv_pd *pd, enum area area, size_t len, int access)
{
	void *at = (void *)(uintptr_t)area_addr(r->s, area);
	struct ibv_mr *mr = ibv_reg_mr(pd, at, len, access);

	if (!mr)
		run_failed(r, "ibv_reg_mr of %zu bytes, access %#x: %s", len, access,
			   strerror(errno));
	else
		r->mr[r->nmrs++] = mr;
	return mr;
}

bool
extra_dereg(struct run *r, struct ibv_mr *mr)
{
	int rc;

	if (!mr)
		return false;
	rc = ibv_dereg_mr(mr);
	if (rc)
		return run_failed(r, "ibv_dereg_mr: %s", strerror(rc));
	r->nmrs--; /* always the most recent one */
	return true;
}

static struct ibv_qp *
qp_make(struct run *r, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.send_cq = r->scq,
		.recv_cq = r->rcq,
		.srq = r->srq,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = QUEUE_WRS,
			.max_recv_wr = r->srq ? 0 : QUEUE_WRS,
			.max_send_sge = 2,
			.max_recv_sge = r->srq ? 0 : 1},
	};
	struct ibv_qp *qp = ibv_create_qp(r->s->pd, &init);

	if (!qp)
		run_failed(r, "ibv_create_qp: %s", strerror(errno));
	return qp;
}

/* Remote rights of the responder's queue pair: all, except the one that the row tests. */
static int
qp_rights(const struct run *r)
{
	int rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	if (row_type(r->row) == IBV_QPT_RC)
		rights |= IBV_ACCESS_REMOTE_ATOMIC;
	if (r->s->requester || r->row->cause != QP_NO_RIGHT)
		return rights;
	if (r->row->op == OP_READ)
		return rights & ~IBV_ACCESS_REMOTE_READ;
	if (r->row->op == OP_CMP_SWAP || r->row->op == OP_FETCH_ADD)
		return rights & ~IBV_ACCESS_REMOTE_ATOMIC;
	return rights & ~IBV_ACCESS_REMOTE_WRITE;
}

static uint8_t
reads_taken(const struct run *r)
{
	if (!r->s->requester && r->row->cause == DEPTH_ZERO)
		return 0;
	return !r->s->requester && r->row->cause == DEPTH_OVERRUN ? 1 : 8;
}

static struct ibv_qp_attr
qp_attr(const struct run *r, uint32_t dest)
{
	bool gone = row_peer_gone(r->row);
	union ibv_gid gid;
	struct ibv_qp_attr attr;

	memcpy(gid.raw, r->peer.gid, sizeof(gid.raw));
	attr = verbs_attr(dest, &gid);
	attr.port_num = attr.ah_attr.port_num = r->s->opt->ib_port;
	attr.ah_attr.grh.sgid_index = r->s->opt->gid_index;
	attr.qp_access_flags = (unsigned int)qp_rights(r);
	/* Small, so that the preceding READ is still being executed when the next arrives. */
	attr.path_mtu = r->row->cause == DEPTH_OVERRUN ? IBV_MTU_256 : r->plan->mtu;
	attr.max_dest_rd_atomic = reads_taken(r);
	attr.max_rd_atomic = r->s->requester && r->row->cause == NO_CREDIT ? 0 : 8;
	attr.min_rnr_timer = RNR_TIMER;
	attr.timeout = gone ? TIMEOUT_SILENT : (uint8_t)r->plan->timeout;
	attr.retry_cnt = gone ? RETRIES_SILENT : RETRIES;
	attr.rnr_retry = r->row->cause == RECV_NONE ? RETRIES_SILENT : RETRIES;
	return attr;
}

/* One modify of qp; name is for the error message. */
static bool
qp_step(struct run *r, struct ibv_qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to,
	const char *name)
{
	int rc = verbs_modify(qp, attr, to, 0);

	return rc ? run_failed(r, "modify to %s: %s", name, strerror(rc)) : true;
}

static bool
qp_init(struct run *r, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = qp_attr(r, 0);

	return qp_step(r, qp, &attr, IBV_QPS_INIT, "INIT");
}

/* From INIT to RTS. */
static bool
qp_connect(struct run *r, struct ibv_qp *qp, uint32_t dest, uint32_t rq_psn, uint32_t sq_psn)
{
	struct ibv_qp_attr attr = qp_attr(r, dest);

	attr.rq_psn = rq_psn;
	attr.sq_psn = sq_psn;
	return qp_step(r, qp, &attr, IBV_QPS_RTR, "RTR") &&
	       qp_step(r, qp, &attr, IBV_QPS_RTS, "RTS");
}

static bool
srq_make(struct run *r)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = QUEUE_WRS, .max_sge = 1}};

	r->srq = ibv_create_srq(r->s->pd, &init);
	return r->srq ? true : run_failed(r, "ibv_create_srq: %s", strerror(errno));
}

bool
queues_make(struct run *r, struct address *mine)
{
	memcpy(mine->gid, r->s->gid.raw, sizeof(mine->gid));
	r->scq = ibv_create_cq(r->s->ctx, CQ_ENTRIES, NULL, NULL, 0);
	r->rcq = ibv_create_cq(r->s->ctx, CQ_ENTRIES, NULL, NULL, 0);
	if (!r->scq || !r->rcq)
		return run_failed(r, "ibv_create_cq: %s", strerror(errno));
	if ((r->row->flags & ROW_SRQ) && !r->s->requester && !srq_make(r))
		return false;
	r->qp = qp_make(r, row_type(r->row));
	if (!r->qp)
		return false;
	r->rep.qp_num = mine->qpn = r->qp->qp_num;
	/* Close to the end of the PSN range, so that rows with a few packets wrap. */
	mine->psn = 0xfffffe;
	return qp_init(r, r->qp);
}

bool
queues_connect(struct run *r, const struct address *mine)
{
	bool nobody = r->s->requester && r->row->cause == PEER_NONE;
	struct ibv_qp_attr attr = qp_attr(r, 0);

	if (!qp_connect(r, r->qp, nobody ? 0xfffff0 : r->peer.qpn, r->peer.psn, mine->psn))
		return false;
	if (row_type(r->row) != IBV_QPT_UD)
		return true;
	r->ah = ibv_create_ah(r->s->pd, &attr.ah_attr);
	r->other_ah = ibv_create_ah(r->s->other_pd, &attr.ah_attr);
	return r->ah && r->other_ah ? true : run_failed(r, "ibv_create_ah: %s", strerror(errno));
}

bool
helper_make(struct run *r)
{
	r->helper = qp_make(r, row_type(r->row));
	return r->helper && qp_init(r, r->helper) && qp_connect(r, r->helper, 0xfffff1, 0, 0);
}

void
queues_free(struct run *r)
{
	int rc = 0;

	/* The window first: on rxe a bound window prevents the destruction of its queue pair. */
	if (r->mw)
		rc |= ibv_dealloc_mw(r->mw);
	if (r->helper)
		rc |= ibv_destroy_qp(r->helper);
	if (r->qp)
		rc |= ibv_destroy_qp(r->qp);
	if (r->srq)
		rc |= ibv_destroy_srq(r->srq);
	if (r->ah)
		rc |= ibv_destroy_ah(r->ah);
	if (r->other_ah)
		rc |= ibv_destroy_ah(r->other_ah);
	if (r->scq)
		rc |= ibv_destroy_cq(r->scq);
	if (r->rcq)
		rc |= ibv_destroy_cq(r->rcq);
	while (r->nmrs)
		rc |= ibv_dereg_mr(r->mr[--r->nmrs]);
	if (rc)
		run_failed(r, "an object could not be destroyed: %d", rc);
}
