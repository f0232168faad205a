/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake's worker: what a test makes it do to the rings, step by step as ring.h has it. */
#include "fake.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

/* An entry of a CQ; note (or NULL) says which it is of WQE index wqe. */
static void
complete(struct fake_cq *c, const struct uroce_cqe *cqe, uint64_t *note, uint32_t wqe,
	 enum fake_stop stop)
{
	struct uroce_cqe *slot = &c->ring[c->prod % c->entries];

	if (note)
		__atomic_store_n(note, uroce_ring_entry(wqe, c->prod), __ATOMIC_RELEASE);
	memcpy(slot, cqe, offsetof(struct uroce_cqe, phase));
	if (stop == FAKE_AT_PHASE)
		return;
	__atomic_store_n(&slot->phase, c->prod / c->entries + 1, __ATOMIC_RELEASE);
	c->prod++;
}

void
fake_complete(struct fake *f, unsigned int cq, struct uroce_cqe cqe)
{
	complete(&f->cq[cq], &cqe, NULL, 0, FAKE_WHOLE);
}

/* Retires the oldest WQE of an SQ or RQ. */
static void
retire(struct uroce_ring_hdr *hdr, struct fake_cq *cq, const struct uroce_cqe *cqe, bool signaled,
       enum fake_stop stop)
{
	uint32_t index = hdr->cons;

	hdr->wr_id = cqe->wr_id;
	if (stop == FAKE_AT_CONS)
		return;
	__atomic_store_n(&hdr->cons, index + 1, __ATOMIC_RELEASE);
	if (stop == FAKE_AT_ENTRY)
		return;
	if (signaled)
		complete(cq, cqe, &hdr->entry, index, stop);
	if (stop == FAKE_AT_PHASE || stop == FAKE_AT_DONE)
		return;
	__atomic_store_n(&hdr->done, index + 1, __ATOMIC_RELEASE);
}

void
fake_retire_send(struct fake *f, unsigned int qp, unsigned int cq, enum fake_stop stop)
{
	struct fake_qp *q = &f->qp[qp];
	struct uroce_send_wqe *wqe = fake_send_wqe(f, qp, q->sq->cons);
	struct uroce_cqe cqe = {
		.wr_id = wqe->wr_id,
		.opcode = uroce_cqe_opcode_of(wqe->opcode),
		.qp_num = q->qpn,
	};

	retire(q->sq, &f->cq[cq], &cqe, wqe->flags & UROCE_WQE_SIGNALED, stop);
}

void
fake_retire_recv(struct fake *f, unsigned int qp, unsigned int cq, enum fake_stop stop)
{
	struct fake_qp *q = &f->qp[qp];
	struct uroce_cqe cqe = {
		.wr_id = fake_recv_wqe(f, qp, q->rq->cons)->wr_id,
		.opcode = UROCE_CQE_RECV,
		.qp_num = q->qpn,
	};

	retire(q->rq, &f->cq[cq], &cqe, true, stop);
}

void
fake_srq_take(struct fake *f, unsigned int srq, unsigned int qp, enum fake_stop stop)
{
	struct fake_srq *s = &f->srq[srq];
	struct uroce_held *held = &f->qp[qp].sq->held;
	uint32_t index = s->ring->cons;
	const struct uroce_recv_wqe *wqe = (const void *)((char *)s->ring + UROCE_RING_HDR +
							  (size_t)(index % s->entries) * s->stride);

	held->wr_id = wqe->wr_id;
	held->index = index;
	if (stop == FAKE_AT_TAKING)
		return;
	__atomic_store_n(&held->state, UROCE_HELD_TAKING, __ATOMIC_RELEASE);
	if (stop == FAKE_AT_CONS)
		return;
	__atomic_store_n(&s->ring->cons, index + 1, __ATOMIC_RELEASE);
	if (stop == FAKE_AT_TAKEN)
		return;
	__atomic_store_n(&held->state, UROCE_HELD_TAKEN, __ATOMIC_RELEASE);
}

void
fake_srq_complete(struct fake *f, unsigned int qp, unsigned int cq, enum fake_stop stop)
{
	struct fake_qp *q = &f->qp[qp];
	struct uroce_held *held = &q->sq->held;
	struct uroce_cqe cqe = {
		.wr_id = held->wr_id,
		.opcode = UROCE_CQE_RECV,
		.qp_num = q->qpn,
	};

	if (stop == FAKE_AT_ENTRY)
		return;
	complete(&f->cq[cq], &cqe, &held->entry, held->index, stop);
	if (stop == FAKE_AT_PHASE || stop == FAKE_AT_DONE)
		return;
	__atomic_store_n(&held->state, UROCE_HELD_NONE, __ATOMIC_RELEASE);
}

struct uroce_send_wqe *
fake_send_wqe(struct fake *f, unsigned int qp, uint32_t index)
{
	struct fake_qp *q = &f->qp[qp];

	return (struct uroce_send_wqe *)((char *)q->sq + UROCE_RING_HDR +
					 (size_t)(index % q->sq_entries) * q->sq_stride);
}

struct uroce_recv_wqe *
fake_recv_wqe(struct fake *f, unsigned int qp, uint32_t index)
{
	struct fake_qp *q = &f->qp[qp];

	return (struct uroce_recv_wqe *)((char *)q->rq + UROCE_RING_HDR +
					 (size_t)(index % q->rq_entries) * q->rq_stride);
}

void
fake_comp_event(struct fake *f, unsigned int channel, uint64_t user_handle)
{
	ssize_t n = send(f->channel_fd[channel], &user_handle, sizeof(user_handle), MSG_NOSIGNAL);

	assert(n == sizeof(user_handle));
	(void)n;
}

void
fake_async_event(struct fake *f, uint64_t element, uint32_t type)
{
	struct {
		uint64_t element;
		uint32_t type, rsvd;
	} ev = {element, type, 0};
	ssize_t n = send(f->async_fd, &ev, sizeof(ev), MSG_NOSIGNAL);

	assert(n == sizeof(ev));
	(void)n;
}
