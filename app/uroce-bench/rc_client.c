/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_common.h>
#include "qp/doorbell.h"
#include "rc_client.h"

uint32_t
rc_client_group(const struct bench_options *o)
{
	return RTE_MAX(1u, RTE_MIN(o->depth / 4, RC_CLIENT_GROUP));
}

bool
rc_client_open(struct rc_client *c, uint32_t i, uint16_t dev)
{
	/* the sender may be a queue ahead of what the receiving client has seen */
	uint32_t sq = rc_entries(c->o->depth);

	c->s->conn[i].place = i % c->slots;
	return rc_conn_open(c->s, i, sq, 2 * sq, dev, worker_counters(c->w, dev)) &&
	       worker_adopt_qp(c->w, c->s->conn[i].qp) == 0;
}

/* Offset of the next message of conn, the same on both sides. */
static uint64_t
next_place(const struct rc_client *c, struct rc_conn *conn)
{
	uint64_t place = conn->place;

	conn->place += c->o->qps;
	while (conn->place >= c->slots)
		conn->place -= c->slots;
	return place * c->stride;
}

uint64_t
rc_client_offset(const struct rc_client *c, uint32_t i, uint64_t n)
{
	return (i + n * c->o->qps) % c->slots * c->stride;
}

static void
post_recv(struct rc_client *c, struct rc_conn *conn)
{
	rc_post_recv(c->s, conn, 1ull << 32 | (uint64_t)(conn - c->s->conn), next_place(c, conn),
		     c->o->size);
}

void
rc_client_post_recvs(struct rc_client *c, uint32_t i)
{
	for (uint32_t k = 0; k <= c->s->conn[i].rq.mask; k++)
		post_recv(c, &c->s->conn[i]);
}

void
rc_client_prepare(const struct rc_client *c, uint32_t i, uint32_t rkey)
{
	const struct rc_ring *sq = &c->s->conn[i].sq;
	struct uroce_send_wqe w = {
		.opcode = bench_opcode[c->o->op],
		.num = c->o->size != 0,
		.rdma = {.rkey = rkey},
	};
	struct uroce_sge sge = {.length = c->o->size, .lkey = c->s->mr.key};

	for (uint32_t k = 0; k <= sq->mask; k++) {
		uint8_t *slot = sq->slots + (size_t)k * sq->stride;

		memcpy(slot, &w, sizeof(w));
		memcpy(slot + sizeof(w), &sge, sizeof(sge));
	}
}

/* Post the next n messages of conn with one completion. */
static void
post_sends(struct rc_client *c, struct rc_conn *conn, uint32_t n)
{
	struct uroce_send_wqe *w = NULL;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t *slot = rc_next_slot(&conn->sq);
		uint64_t addr = rc_addr(next_place(c, conn));

		w = (struct uroce_send_wqe *)slot;
		w->flags = 0;
		w->rdma.remote_addr = addr;
		memcpy(slot + sizeof(*w) + offsetof(struct uroce_sge, addr), &addr, sizeof(addr));
	}
	if (w == NULL)
		return;
	w->flags = UROCE_WQE_SIGNALED;
	w->wr_id = (uint64_t)n << 32 | (uint64_t)(conn - c->s->conn);
	c->posted += n;
}

/* Publish the posted WQEs; ring the doorbell if the queue is armed. */
static void
publish(struct rc_client *c, struct rc_conn *conn)
{
	uint32_t i;

	if (c->db == NULL) {
		if (qp_doorbell_publish_here(conn->sq.hdr, conn->sq.prod))
			engine_doorbell(worker_engine(c->w), conn->qp->conn.qpn);
		return;
	}
	if (!qp_doorbell_publish(conn->sq.hdr, conn->sq.prod))
		return;
	i = __atomic_load_n(&conn->sq.hdr->worker, __ATOMIC_RELAXED);
	if (i == worker_index(c->w))
		engine_doorbell(worker_engine(c->w), conn->qp->conn.qpn);
	else
		qp_doorbell_ring(c->db[i], conn->qp->conn.qpn);
}

bool
rc_client_reap(struct rc_client *c, uint64_t until)
{
	uint32_t first = c->s->cq_cons;
	const struct uroce_cqe *cqe;
	struct rc_conn *open = NULL;

	while ((cqe = rc_next_cqe(c->s)) != NULL) {
		struct rc_conn *conn;
		uint64_t n;

		if (cqe->status != QP_WC_SUCCESS) {
			c->failed = cqe->status;
			return false;
		}
		conn = &c->s->conn[(uint32_t)cqe->wr_id];
		n = cqe->wr_id >> 32;
		conn->done += n;
		c->done += n;
		if (c->side == 1) {
			post_recv(c, conn);
			continue;
		}
		if (c->posted >= until)
			continue;
		if (open != NULL && open != conn)
			publish(c, open);
		post_sends(c, conn, (uint32_t)RTE_MIN(n, until - c->posted));
		open = conn;
	}
	if (open != NULL)
		publish(c, open);
	if (c->s->cq_cons != first)
		rc_cqes_done(c->s);
	return true;
}

void
rc_client_fill(struct rc_client *c, uint64_t until)
{
	uint32_t depth = c->o->depth, group = rc_client_group(c->o);

	for (uint32_t k = 0; k < depth; k += group)
		for (uint32_t i = 0; i < c->o->qps && c->posted < until; i++)
			post_sends(c, &c->s->conn[i],
				   (uint32_t)RTE_MIN(RTE_MIN(group, depth - k), until - c->posted));
	for (uint32_t i = 0; i < c->o->qps; i++)
		publish(c, &c->s->conn[i]);
}

uint64_t
rc_client_least(const struct rc_client *c)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < c->o->qps; i++)
		least = RTE_MIN(least, c->s->conn[i].done);
	return least;
}
