/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client of all QPs: keeps the rules of uroce_abi, and holds the engine to them; unless it is
 * hostile.
 */
#include <string.h>
#include "qp/doorbell.h"
#include "world_parts.h"

static void *
zalloc(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

	CHECK(p != NULL);
	return memset(p, 0, (bytes + 63) & ~(size_t)63);
}

struct qp_ring
wq_open(struct wq *w, uint32_t stride, uint32_t max_inline)
{
	w->hdr = zalloc(UROCE_RING_HDR + (size_t)ENTRIES * stride);
	w->slots = (uint8_t *)w->hdr + UROCE_RING_HDR;
	w->stride = stride;
	w->prod = w->done = 0;
	race_add(w->hdr, UROCE_RING_HDR + ENTRIES * stride);
	return (struct qp_ring){.hdr = w->hdr,
				.slots = w->slots,
				.mask = ENTRIES - 1,
				.stride = stride,
				.max_sge = MAX_SGE,
				.max_inline = max_inline};
}

void
wq_close(struct wq *w)
{
	free(w->hdr);
	w->hdr = NULL;
}

static struct uroce_cq_hdr *
cq_ring_make(struct world_cq *c, uint32_t entries)
{
	c->entries = entries;
	c->cons = 0;
	return zalloc(UROCE_CQ_HDR + entries * sizeof(struct uroce_cqe));
}

void
cq_open(struct world_cq *c)
{
	c->hdr = cq_ring_make(c, CQ_ENTRIES);
	c->old = NULL;
	cq_init(&c->cq, c->hdr, CQ_ENTRIES);
	race_add(c->hdr, UROCE_CQ_HDR + CQ_ENTRIES * sizeof(struct uroce_cqe));
}

void
cq_close(struct world_cq *c)
{
	free(c->hdr);
	free(c->old);
	c->hdr = c->old = NULL;
}

/* As the daemon's: all QPs of the context may have rung. */
static bool
on_overflow(struct worker *w, void *ctx, bool first)
{
	for (uint32_t q = 0; q < WORLD_QPS; q++)
		engine_doorbell(&w->engine, world.side[q].qp->conn.qpn);
	return false;
}

void
bell_open(void)
{
	if (!world_hostile)
		return;
	world.bell_ring = zalloc(sizeof(*world.bell_ring));
	race_add(world.bell_ring, sizeof(*world.bell_ring));
	world.bell = (struct worker_doorbell){.ring = world.bell_ring,
					      .waiter = &world.bell_ring->waiter,
					      .overflow = on_overflow};
	world.scq.cq.waiter = world.rcq.cq.waiter = &world.bell_ring->waiter;
	world.worker.doorbells = &world.bell;
	world.worker.ndoorbells = 1;
}

static bool
wq_full(const struct wq *w)
{
	uint32_t used = w->prod - w->hdr->cons;

	CHECK(used <= ENTRIES || world_hostile);
	return used == ENTRIES;
}

static uint8_t *
wq_slot(struct wq *w)
{
	return w->slots + (size_t)(w->prod & (ENTRIES - 1)) * w->stride;
}

/* Publishes the written slot. Rings the doorbell of qpn if the queue is armed. */
static void
wq_post(struct wq *w, uint32_t qpn)
{
	w->prod++;
	if (!qp_doorbell_publish(w->hdr, w->prod))
		return;
	if (world_hostile)
		world.bell_ring->qpn[world.bell_ring->prod++ % UROCE_DB_ENTRIES] = qpn;
	else
		engine_doorbell(&world.worker.engine, qpn);
}

/* Byte i of a step's body, which is extended by zeros. */
static uint32_t
at(const uint8_t *body, uint32_t len, uint32_t i)
{
	return i < len ? body[i] : 0;
}

/* n SGEs of bytes each, from slot on. */
static void
put_sges(uint8_t *to, uint32_t n, uint32_t slot, uint32_t bytes)
{
	uint32_t i, r = world.sges,
		    slots = r == REGION_LOCAL ? LOCAL_SLOTS : REGION_BYTES / LOCAL_SLOT;

	for (i = 0; i < n; i++) {
		struct uroce_sge sge = {.addr = REGION_IOVA(r) +
						(uint64_t)((slot + i) % slots) * LOCAL_SLOT,
					.length = bytes,
					.lkey = world_key(r)};

		memcpy(to + i * sizeof(sge), &sge, sizeof(sge));
	}
}

/* The provider posts nothing to a QP in RESET; a hostile client does. */
static bool
is_reset(uint32_t q)
{
	return world.side[q].qp->conn.state == QP_RESET && !world_hostile;
}

/* Body: number of SGEs, first slot, bytes of each (two bytes). */
void
client_recv(uint32_t q, const uint8_t *body, uint32_t len)
{
	struct world_side *s = &world.side[q];
	bool shared = s->qp->bind.srq != NULL;
	struct wq *w = shared ? &world.srq_wq : &s->rq;
	struct uroce_recv_wqe wqe = {.num_sge = at(body, len, 0) % (MAX_SGE + 1)};
	uint32_t bytes = (at(body, len, 2) | at(body, len, 3) << 8) % (LOCAL_SLOT_USE + 1);

	/* Of an SRQ a slot is free when its WQE was taken: no more than 32 may be on their way. */
	if (is_reset(q) || wq_full(w) ||
	    (shared && !world_hostile && (world.srq_out & 1u << w->prod % 32)))
		return;
	wqe.wr_id = (uint64_t)(shared ? SRQ_INDEX : q) << 32 | w->prod;
	if (shared)
		world.srq_out |= 1u << w->prod % 32;
	w->bytes[w->prod % 32] = wqe.num_sge * bytes;
	memcpy(wq_slot(w), &wqe, sizeof(wqe));
	put_sges(wq_slot(w) + sizeof(wqe), wqe.num_sge, at(body, len, 1), bytes);
	wq_post(w, s->qp->conn.qpn);
}

static void
aim(struct uroce_send_wqe *w, uint32_t q, uint32_t choice)
{
	if (w->opcode == UROCE_WR_BIND_MW) {
		w->bind.addr = REGION_IOVA(REGION_RW) + choice * 16;
		w->bind.length = 4096;
		w->bind.mr_lkey = world_key(REGION_RW);
		w->bind.mw_rkey = world_key(REGION_WINDOW);
		w->bind.new_rkey = world_key(REGION_WINDOW) + 1;
		w->bind.access = MEM_REMOTE_READ | MEM_REMOTE_WRITE;
	} else if (is_ud(q)) {
		w->ud.ah = 1 + choice % AHS;
		w->ud.remote_qpn = WORLD_PEER + q;
		w->ud.remote_qkey = WORLD_QKEY;
	} else if (q == WORLD_LOOP) {
		w->rdma.remote_addr = REGION_IOVA(REGION_RW) + choice * 8;
		w->rdma.rkey = world_key(REGION_RW);
		w->rdma.compare_add = choice;
		w->rdma.swap = choice + 1;
	} else {
		w->rdma.remote_addr = 0x7f0000001000 + choice * 8;
		w->rdma.rkey = 0xbeef01;
		w->rdma.compare_add = choice;
		w->rdma.swap = choice + 1;
	}
	if (w->opcode == UROCE_WR_LOCAL_INV || w->opcode == UROCE_WR_SEND_INV)
		w->imm = world_key(REGION_WINDOW);
	else
		w->imm = 0x01020304;
}

/* Body: opcode, flags, number of SGEs, first slot, bytes of each (two bytes), target. */
void
client_send(uint32_t q, const uint8_t *body, uint32_t len)
{
	uint32_t bytes = (at(body, len, 4) | at(body, len, 5) << 8) % (LOCAL_SLOT_USE + 1);
	struct world_side *s = &world.side[q];
	struct wq *w = &s->sq;
	struct uroce_send_wqe wqe = {
		.wr_id = (uint64_t)q << 32 | w->prod,
		.opcode = (uint8_t)(at(body, len, 0) % UROCE_WR_OPCODES),
		.flags = (uint8_t)(at(body, len, 1) & 0xf),
		.num = (uint16_t)(at(body, len, 2) % (MAX_SGE + 1)),
	};

	if (is_reset(q) || wq_full(w))
		return;
	aim(&wqe, q, at(body, len, 6));
	if (wqe.flags & UROCE_WQE_INLINE) {
		wqe.num = (uint16_t)(bytes % (MAX_INLINE + 1));
		memset(wq_slot(w) + sizeof(wqe), 0x77, wqe.num);
	} else {
		put_sges(wq_slot(w) + sizeof(wqe), wqe.num, at(body, len, 3), bytes);
	}
	memcpy(wq_slot(w), &wqe, sizeof(wqe));
	wq_post(w, s->qp->conn.qpn);
}

static void
post_sends(uint32_t q, const uint8_t (*body)[6], uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		client_send(q, body[i], 6);
}

#define SEND_OF(op, flags, sges, slot, bytes)                                                      \
	{                                                                                          \
		UROCE_WR_##op, flags, sges, slot, (bytes)&0xff, (bytes) >> 8                       \
	}

void
client_start(void)
{
	static const uint8_t rc[][6] = {
		SEND_OF(BIND_MW, 0, 0, 0, 0),      SEND_OF(RDMA_WRITE, 0, 3, 32, 500),
		SEND_OF(RDMA_READ, 0, 5, 35, 600), SEND_OF(ATOMIC_FETCH_ADD, 0, 1, 40, 8),
		SEND_OF(RDMA_READ, 0, 1, 41, 600), SEND_OF(SEND, UROCE_WQE_SOLICITED, 1, 42, 100),
		SEND_OF(RDMA_READ, 0, 4, 43, 600), SEND_OF(SEND_IMM, UROCE_WQE_FENCE, 1, 47, 600),
	};
	static const uint8_t srq[][6] = {
		SEND_OF(RDMA_READ, 0, 2, 48, 350),
		SEND_OF(SEND_IMM, 0, 1, 50, 64),
		SEND_OF(ATOMIC_CMP_SWAP, 0, 1, 51, 8),
	};
	static const uint8_t loop[][6] = {
		SEND_OF(RDMA_WRITE, 0, 5, 32, 600),     SEND_OF(SEND, 0, 1, 40, 100),
		SEND_OF(RDMA_READ, 0, 5, 44, 600),      SEND_OF(ATOMIC_FETCH_ADD, 0, 1, 42, 8),
		SEND_OF(RDMA_WRITE_IMM, 0, 2, 50, 300),
	};
	static const uint8_t uc[][6] = {SEND_OF(SEND, 0, 4, 52, 500)};
	static const uint8_t ud[][6] = {SEND_OF(SEND_IMM, 0, 1, 56, 300)};
	/*
	 * A shorter one after a longer one: remains of the first must not be taken for the second.
	 */
	static const uint8_t sges[] = {4, 1, 3, 1, 2};
	uint32_t q, i;

	for (q = 0; q < WORLD_QPS; q++) {
		for (i = 0; i < sizeof(sges); i++) {
			uint8_t body[4] = {sges[i], (uint8_t)(q * 5 + i), 88, 2};

			client_recv(q, body, sizeof(body));
		}
	}
	post_sends(WORLD_RC, rc, sizeof(rc) / sizeof(rc[0]));
	post_sends(WORLD_RC_SRQ, srq, sizeof(srq) / sizeof(srq[0]));
	post_sends(WORLD_LOOP, loop, sizeof(loop) / sizeof(loop[0]));
	post_sends(WORLD_UC, uc, 1);
	post_sends(WORLD_UD, ud, 1);
	post_sends(WORLD_UD_V6, ud, 1);
}

void
client_arm(uint32_t how)
{
	world.scq.hdr->arm = how % 4;
	world.rcq.hdr->arm = how / 4 % 4;
	world.rcq.cq.watched = how / 16 % 2;
}

static bool
cq_poll(struct world_cq *c, struct uroce_cqe *cqe)
{
	struct uroce_cqe *slot = (struct uroce_cqe *)((uint8_t *)c->hdr + UROCE_CQ_HDR) +
				 (c->cons & (c->entries - 1));

	if (slot->phase != c->cons / c->entries + 1)
		return false;
	*cqe = *slot;
	c->cons++;
	__atomic_store_n(&c->hdr->cons, c->cons, __ATOMIC_RELEASE);
	return true;
}

/* A completion of the next WQE of its queue, and of no other. */
static void
complete(struct wq *w, const struct uroce_cqe *cqe)
{
	CHECK((uint32_t)cqe->wr_id == w->done && w->done != w->prod);
	w->done++;
}

static struct world_side *
side_of(const struct uroce_cqe *cqe)
{
	uint32_t q = cqe->qp_num - WORLD_QPN;

	CHECK(q < WORLD_QPS && cqe->qp_num == world.side[q].qp->conn.qpn);
	return &world.side[q];
}

static void
complete_recv(const struct uroce_cqe *cqe)
{
	uint32_t bit = 1u << cqe->wr_id % 32;
	struct world_side *s = side_of(cqe);
	struct wq *w = s->qp->bind.srq != NULL ? &world.srq_wq : &s->rq;

	if (s->qp->bind.srq == NULL) {
		CHECK(cqe->wr_id >> 32 == (uint64_t)(s - world.side));
		complete(w, cqe);
	} else {
		CHECK(cqe->wr_id >> 32 == SRQ_INDEX && (world.srq_out & bit));
		world.srq_out &= ~bit;
	}
	CHECK(cqe->status != 0 || cqe->opcode == UROCE_CQE_RECV_RDMA_WITH_IMM ||
	      cqe->byte_len <= w->bytes[cqe->wr_id % 32]);
}

void
client_reap(void)
{
	struct uroce_cqe cqe;

	while (cq_poll(&world.scq, &cqe)) {
		if (world_hostile) /* it may be what the client wrote there */
			continue;
		struct world_side *s = side_of(&cqe);

		CHECK(cqe.wr_id >> 32 == (uint64_t)(s - world.side));
		complete(&s->sq, &cqe);
	}
	while (cq_poll(&world.rcq, &cqe))
		if (!world_hostile)
			complete_recv(&cqe);
	CHECK(world_hostile || (!world.scq.cq.dead && !world.rcq.cq.dead));
}

void
client_resize(uint32_t how)
{
	struct world_cq *c = how % 2 ? &world.rcq : &world.scq;

	client_reap();
	free(c->old);
	c->old = c->hdr;
	/* what the honest client has posted fits always */
	c->hdr = cq_ring_make(c, world_hostile ? 4u << how / 8 % 8 : CQ_ENTRIES / 2 << how / 2 % 2);
	cq_resize(&c->cq, c->hdr, c->entries);
	c->cq.multi = how / 4 % 2;
	cq_resized(&c->cq);
	race_move(c->old, c->hdr, (uint32_t)(UROCE_CQ_HDR + c->entries * sizeof(struct uroce_cqe)));
}

void
client_forget(uint32_t q)
{
	struct world_side *s = &world.side[q];

	client_reap();
	s->sq.prod = s->sq.done = s->rq.prod = s->rq.done = 0;
}

void
client_end(void)
{
	uint32_t q;

	for (q = 0; q < WORLD_QPS && !world_hostile; q++) {
		const struct world_side *s = &world.side[q];

		CHECK(s->sq.done == s->sq.prod);
		CHECK(s->qp->bind.srq != NULL || s->rq.done == s->rq.prod);
	}
}
