/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "rc_connect.h"

#define IOVA 0x100000000ull
#define PD   1
#define RKEY 0x100005a5

void *
rc_zalloc(size_t bytes)
{
	size_t pages = RTE_ALIGN_CEIL(bytes, 4096);
	void *p = aligned_alloc(4096, pages);

	return p != NULL ? memset(p, 0, pages) : NULL;
}

uint32_t
rc_entries(uint32_t n)
{
	return rte_align32pow2(RTE_MAX(n, 16u));
}

uint64_t
rc_addr(uint64_t offset)
{
	return IOVA + offset;
}

bool
rc_side_open(struct rc_side *s, unsigned side, uint8_t *host, uint32_t bytes, uint32_t nconns,
	     uint32_t entries)
{
	if (mr_table_init(&s->mrs, 16) != 0 ||
	    qp_table_init(&s->qps, rc_entries(nconns + RC_QPN_BASE)) != 0)
		return false;
	s->cq_hdr = rc_zalloc(UROCE_CQ_HDR + (size_t)entries * sizeof(struct uroce_cqe));
	s->conn = calloc(nconns, sizeof(*s->conn));
	if (s->cq_hdr == NULL || s->conn == NULL)
		return false;
	s->nconns = nconns;
	s->qpn_base = RC_QPN_BASE;
	s->worker = 0;
	s->cq_mask = entries - 1;
	s->cq_cons = 0;
	cq_init(&s->cq, s->cq_hdr, entries);
	s->mr = (struct mr){.iova = IOVA,
			    .len = bytes,
			    .host = host,
			    .pd = PD,
			    .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ |
				      MEM_REMOTE_ATOMIC};
	for (uint32_t i = 0; i < bytes; i++)
		host[i] = (uint8_t)((i * 2654435761u) >> 24) ^ (uint8_t)(side * 0x5a);
	return mr_table_add(&s->mrs, &s->mr, RKEY) == 0;
}

void
rc_side_close(struct rc_side *s)
{
	for (uint32_t i = 0; i < s->nconns; i++) {
		free(s->conn[i].sq.hdr);
		free(s->conn[i].rq.hdr);
	}
	free(s->conn);
	free(s->cq_hdr);
	qp_table_free(&s->qps);
	mr_table_free(&s->mrs);
}

/* The queue that r describes, as the client's engine sees it. */
static struct qp_ring
ring_make(struct rc_ring *r, uint32_t entries, uint32_t stride)
{
	r->hdr = rc_zalloc(UROCE_RING_HDR + (size_t)entries * stride);
	r->slots = (uint8_t *)r->hdr + UROCE_RING_HDR;
	r->mask = entries - 1;
	r->stride = stride;
	r->prod = 0;
	return (struct qp_ring){
		.hdr = r->hdr, .slots = r->slots, .mask = r->mask, .stride = stride, .max_sge = 1};
}

bool
rc_conn_open(struct rc_side *s, uint32_t i, uint32_t sq, uint32_t rq, uint16_t port,
	     struct counter_block *counters)
{
	struct rc_conn *c = &s->conn[i];
	struct qp_create q = {
		.qpn = s->qpn_base + i,
		.worker = s->worker,
		.type = QP_TYPE_RC,
		.dev_mtu = 5,
		.port = port,
		.pd = PD,
		.send_cq = &s->cq,
		.recv_cq = &s->cq,
		.user_handle = i,
		.cap = {sq, rq, 1, 1, 0},
		.counters = counters,
		.fixed = !s->moves,
	};

	q.sq = ring_make(&c->sq, sq, uroce_sq_stride(1, 0));
	q.rq = ring_make(&c->rq, rq, uroce_rq_stride(1));
	if (c->sq.hdr != NULL)
		c->sq.hdr->worker = s->worker;
	c->qp = c->sq.hdr != NULL && c->rq.hdr != NULL ? qp_create(&q) : NULL;
	if (c->qp != NULL)
		s->qps.slot[q.qpn & s->qps.mask] = c->qp;
	return c->qp != NULL;
}

void
rc_post_recv(struct rc_side *s, struct rc_conn *c, uint64_t wr_id, uint64_t offset, uint32_t size)
{
	struct uroce_recv_wqe w = {.wr_id = wr_id, .num_sge = 1};
	struct uroce_sge sge = {.addr = IOVA + offset, .length = size, .lkey = s->mr.key};
	uint8_t *slot = rc_next_slot(&c->rq);

	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), &sge, sizeof(sge));
	__atomic_store_n(&c->rq.hdr->prod, c->rq.prod, __ATOMIC_RELEASE);
}

bool
rc_connect(struct qp_env *env, struct qp *qp, uint32_t mtu, uint32_t dest_qpn, uint8_t timeout,
	   const struct qp_path *path)
{
	static const uint32_t mask[] = {
		QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS,
		QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN | QP_MAX_DEST_RD_ATOMIC |
			QP_MIN_RNR_TIMER,
		QP_SQ_PSN | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC,
	};
	static const struct qp_limits limits = {.max_mtu = 5,
						.npkeys = 1,
						.ngids = 1,
						.gid_valid = 1};
	struct uroce_qp_attr a = {
		.qp_access_flags =
			MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC,
		.port_num = 1,
		.path_mtu = qp_mtu_code(mtu + WIRE_MAX_OVERHEAD),
		.dest_qp_num = dest_qpn,
		.max_rd_atomic = QP_MAX_RD_ATOMIC,
		.max_dest_rd_atomic = QP_MAX_RD_ATOMIC,
		.min_rnr_timer = 1,
		.timeout = timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah = {.is_global = 1, .port_num = 1},
	};

	for (a.qp_state = QP_INIT; a.qp_state <= QP_RTS; a.qp_state++) {
		uint32_t m = QP_STATE | mask[a.qp_state - 1];

		if (qp_modify_check(qp, m, &a, &limits, NULL) != 0)
			return false;
		qp_modify_apply(env, qp, m, &a, m & QP_AV ? path : NULL, NULL);
	}
	return true;
}

struct qp_path
rc_path(const uint8_t smac[6], const uint8_t dmac[6], unsigned side, uint32_t qpn)
{
	struct qp_path path = {.path_ok = true};
	struct wire_path *w = &path.wire;

	memcpy(w->sgid, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 1}, 16);
	memcpy(w->dgid, w->sgid, 16);
	w->sgid[15] += (uint8_t)side;
	w->dgid[15] += (uint8_t)(1 - side);
	memcpy(w->smac, smac, 6);
	memcpy(w->dmac, dmac, 6);
	w->udp_sport = wire_udp_sport(0, qpn, qpn);
	w->hop_limit = 64;
	return path;
}
