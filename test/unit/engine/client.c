/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of the bench: what a provider does with the rings. */
#include <string.h>
#include "qp/doorbell.h"
#include "harness.h"

static uint8_t *
slot_of(struct bench_ring *r, uint32_t i)
{
	return r->slots + (size_t)(i & (r->entries - 1)) * r->stride;
}

static struct uroce_send_wqe
wqe_of(const struct wr *wr)
{
	return (struct uroce_send_wqe){
		.wr_id = wr->id,
		.opcode = wr->op,
		.flags = wr->flags,
		.imm = wr->imm,
		.rdma.remote_addr = wr->raddr != 0 ? wr->raddr : PEER_VA,
		.rdma.rkey = wr->rkey != 0 ? wr->rkey : PEER_RKEY,
	};
}

void
post_quiet(struct conn *c, struct wr wr)
{
	struct uroce_sge one = {.addr = LOCAL_VA, .length = wr.len, .lkey = c->local->mr.key};
	struct uroce_send_wqe w = wqe_of(&wr);
	uint8_t *slot = slot_of(&c->sq, c->sq.prod);

	if (wr.sge == NULL) {
		wr.sge = &one;
		wr.nsge = wr.len != 0;
	}
	w.num = (uint16_t)wr.nsge;
	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), wr.sge, wr.nsge * sizeof(*wr.sge));
	c->sq.prod++;
}

void
post_inline(struct conn *c, struct wr wr, const void *data, uint32_t len)
{
	struct uroce_send_wqe w = wqe_of(&wr);
	uint8_t *slot = slot_of(&c->sq, c->sq.prod++);

	w.flags |= UROCE_WQE_INLINE;
	w.num = (uint16_t)len;
	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), data, len);
	ring_doorbell(c);
}

static void
publish(struct conn *c, struct bench_ring *r)
{
	if (qp_doorbell_publish(r->hdr, r->prod))
		engine_doorbell(&c->b->engine, c->qp->conn.qpn);
}

void
ring_doorbell(struct conn *c)
{
	publish(c, &c->sq);
}

void
post(struct conn *c, struct wr wr)
{
	post_quiet(c, wr);
	ring_doorbell(c);
}

void
client_does(struct conn *c, uint64_t id, uint8_t op, uint32_t len)
{
	post(c, (struct wr){.id = id, .op = op, .flags = SIG, .len = len});
}

void
client_sends(struct conn *c, uint64_t id, uint32_t len)
{
	client_does(c, id, UROCE_WR_SEND, len);
}

void
recv_post_sges(struct conn *c, uint64_t id, const struct uroce_sge *sge, uint32_t n)
{
	struct uroce_recv_wqe w = {.wr_id = id, .num_sge = n};
	uint8_t *slot = slot_of(&c->rq, c->rq.prod++);

	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), sge, n * sizeof(*sge));
	publish(c, &c->rq);
}

void
recv_post(struct conn *c, uint64_t id, uint32_t off, uint32_t len)
{
	struct uroce_sge sge = {.addr = LOCAL_VA + off, .length = len, .lkey = c->local->mr.key};

	recv_post_sges(c, id, &sge, 1);
}

void
srq_post_sges(struct bench_srq *s, uint64_t id, const struct uroce_sge *sge, uint32_t n)
{
	struct uroce_recv_wqe w = {.wr_id = id, .num_sge = n};
	uint8_t *slot = slot_of(&s->ring, s->ring.prod++);

	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), sge, n * sizeof(*sge));
	__atomic_store_n(&s->ring.hdr->prod, s->ring.prod, __ATOMIC_RELEASE);
}

void
srq_post(struct bench_srq *s, uint64_t id, uint32_t off, uint32_t len)
{
	struct uroce_sge sge = {.addr = LOCAL_VA + off, .length = len, .lkey = s->mem->mr.key};

	srq_post_sges(s, id, &sge, 1);
}

bool
cqe_poll(struct bench_cq *cq, struct uroce_cqe *cqe)
{
	struct uroce_cqe *slot = (struct uroce_cqe *)((uint8_t *)cq->hdr + UROCE_CQ_HDR) +
				 (cq->cons & (cq->entries - 1));
	uint32_t lap = cq->cons / cq->entries;

	if (__atomic_load_n(&slot->phase, __ATOMIC_ACQUIRE) != lap + 1)
		return false;
	*cqe = *slot;
	cq->cons++;
	__atomic_store_n(&cq->hdr->cons, cq->cons, __ATOMIC_RELEASE);
	return true;
}

struct uroce_cqe
cqe_expect_at(struct conn *c, struct bench_cq *cq, uint64_t id, uint32_t status, const char *file,
	      int line)
{
	struct uroce_cqe cqe = {0};

	bench_run(c->b);
	_assert_true(cqe_poll(cq, &cqe), "a completion", file, line);
	_assert_int_equal(cqe.wr_id, id, file, line);
	_assert_int_equal(cqe.status, status, file, line);
	_assert_int_equal(cqe.qp_num, c->qp->conn.qpn, file, line);
	_assert_int_equal(cqe.qp_cookie,
			  cqe.opcode >= UROCE_CQE_RECV && c->qp->bind.srq != NULL
				  ? c->qp->bind.srq->user_handle
				  : c->qp->bind.user_handle,
			  file, line);
	return cqe;
}

void
cqe_none_at(struct conn *c, const char *file, int line)
{
	struct uroce_cqe cqe;

	bench_run(c->b);
	_assert_true(!cqe_poll(&c->scq, &cqe), "no send completion", file, line);
	_assert_true(!cqe_poll(&c->rcq, &cqe), "no receive completion", file, line);
}

void
event_expect_at(struct bench *b, enum qp_event ev, const char *file, int line)
{
	bench_run(b);
	_assert_true(b->events_seen < b->nevents, "an asynchronous event", file, line);
	_assert_int_equal(b->event[b->events_seen++].ev, ev, file, line);
}

void
event_none_at(struct bench *b, const char *file, int line)
{
	bench_run(b);
	_assert_int_equal(b->nevents - b->events_seen, 0, file, line);
}
