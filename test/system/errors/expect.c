/* SPDX-License-Identifier: BSD-3-Clause */
/* What both sides must see of a row: completions in order, event, states, memory. */
#include "errmatrix.h"

#define GOOD_BYTES       64u
#define REQUESTER_RECVS  2
#define FOLLOW_WRITE_OFF 1024u

enum ibv_qp_type
row_type(const struct row *row)
{
	return row->type ? row->type : IBV_QPT_RC;
}

uint32_t
row_bytes(const struct row *row)
{
	if (row->op == OP_BIND_MW || row->op == OP_LOCAL_INV)
		return 0;
	if (row->op == OP_CMP_SWAP || row->op == OP_FETCH_ADD)
		return 8;
	if (row->flags & ROW_DELIVERED)
		return row->len; /* 0 if the row gives no length */
	return row->len ? row->len : GOOD_BYTES;
}

uint32_t
row_recvs(const struct row *row)
{
	if (row->cause == RKEY_BAD_RECV_NONE)
		return 1;
	return row->cause == RECV_NONE ? 1 : RECVS;
}

bool
row_peer_gone(const struct row *row)
{
	return row->cause >= PEER_NONE && row->cause <= PEER_RESET;
}

static void
chain_add(struct chain *c, enum op op)
{
	c->op[c->n++] = op;
}

void
chain_build(const struct row *row, struct chain *c)
{
	*c = (struct chain){0};
	if (!row_peer_gone(row) && row->cause != BY_HAND)
		chain_add(c, OP_SEND);
	if (row->cause == DEPTH_OVERRUN)
		chain_add(c, OP_READ);
	c->errant = c->n;
	chain_add(c, row->op);
	chain_add(c, OP_SEND);
	if (row_type(row) != IBV_QPT_UD)
		chain_add(c, OP_WRITE);
	if (row_type(row) == IBV_QPT_RC)
		chain_add(c, OP_READ);
}

static enum ibv_qp_state
requester_state(const struct row *row)
{
	if (row->status == IBV_WC_SUCCESS)
		return IBV_QPS_RTS;
	return row_type(row) == IBV_QPT_RC ? IBV_QPS_ERR : IBV_QPS_SQE;
}

/* Does the errant request move the responder's queue pair to ERR? */
static bool
responder_fails(const struct row *row)
{
	return row->rsp != IBV_WC_SUCCESS || row->event != 0;
}

static enum ibv_qp_state
responder_state(const struct row *row)
{
	if (row->cause == PEER_RESET || row->cause == PEER_DESTROYED)
		return IBV_QPS_RESET;
	if (row->cause == PEER_ERR)
		return IBV_QPS_ERR;
	return responder_fails(row) ? IBV_QPS_ERR : IBV_QPS_RTS;
}

static void
add(struct want_wc *list, uint32_t *n, uint32_t id, enum ibv_wc_status status)
{
	list[(*n)++] = (struct want_wc){id, status};
}

void
want_requester(const struct row *row, struct want *w)
{
	enum ibv_wc_status behind = row->status ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
	struct chain c;

	*w = (struct want){.state = requester_state(row)};
	chain_build(row, &c);
	for (uint32_t i = 0; i < c.n; i++) {
		if (i == c.errant && (row->flags & ROW_REFUSED)) {
			w->post_error = 22; /* EINVAL */
			break;
		}
		add(w->send, &w->nsend, ID_CHAIN + i,
		    i < c.errant    ? IBV_WC_SUCCESS
		    : i == c.errant ? row->status
				    : behind);
	}
	w->send_auto = w->nsend;
	if (w->state == IBV_QPS_SQE) {
		add(w->send, &w->nsend, ID_SQE, IBV_WC_WR_FLUSH_ERR);
		add(w->send, &w->nsend, ID_AGAIN, IBV_WC_SUCCESS);
	}
	add(w->send, &w->nsend, ID_LAST, IBV_WC_WR_FLUSH_ERR);
	for (uint32_t i = 0; i < REQUESTER_RECVS; i++)
		add(w->recv, &w->nrecv, ID_RECV + i, IBV_WC_WR_FLUSH_ERR);
	w->recv_auto = w->state == IBV_QPS_ERR ? w->nrecv : 0;
	if (row->cause == BY_HAND)
		add(w->recv, &w->nrecv, ID_RECV_LAST, IBV_WC_WR_FLUSH_ERR);
}

/* Does the errant request, or a good one, complete a receive? */
static bool
takes_recv(const struct row *row, const struct chain *c, uint32_t i)
{
	if (i == c->errant)
		return (row->flags & ROW_DELIVERED) &&
		       (row->op <= OP_SEND_INV || row->op == OP_WRITE_IMM);
	return c->op[i] == OP_SEND;
}

/* How much of the chain arrives while the responder's queue pair works. */
static uint32_t
chain_reaches(const struct row *row, const struct chain *c)
{
	if (row_peer_gone(row) || row->cause == BY_HAND)
		return 0;
	if (row->status != IBV_WC_SUCCESS || (row->flags & ROW_REFUSED) || responder_fails(row))
		return c->errant;
	/* A receive that is too small for a datagram stays for a smaller one. */
	if (row->cause == RECV_SHORT)
		return c->errant;
	return c->n;
}

void
want_responder(const struct row *row, struct want *w)
{
	uint32_t recvs = row_recvs(row), used = 0, reached;
	struct chain c;

	*w = (struct want){.state = responder_state(row), .event = row->event};
	if (row->flags & ROW_SRQ) /* comes with ERR, even if set by hand */
		w->event = IBV_EVENT_QP_LAST_WQE_REACHED;
	if (w->state == IBV_QPS_RESET)
		return;
	chain_build(row, &c);
	reached = chain_reaches(row, &c);
	for (uint32_t i = 0; i < reached; i++)
		if (takes_recv(row, &c, i) && used < recvs)
			add(w->recv, &w->nrecv, ID_RECV + used++, IBV_WC_SUCCESS);
	if (requester_state(row) == IBV_QPS_SQE)
		add(w->recv, &w->nrecv, ID_RECV + used++, IBV_WC_SUCCESS);
	if (row->rsp != IBV_WC_SUCCESS)
		add(w->recv, &w->nrecv, ID_RECV + used++, row->rsp);
	w->recv_auto = w->nrecv;
	while (used < recvs && !(row->flags & ROW_SRQ))
		add(w->recv, &w->nrecv, ID_RECV + used++, IBV_WC_WR_FLUSH_ERR);
	if (w->state == IBV_QPS_ERR)
		w->recv_auto = w->nrecv;
	add(w->send, &w->nsend, ID_LAST, IBV_WC_WR_FLUSH_ERR);
}

/* --- memory ------------------------------------------------------------------------------------
 */

/* A receive buffer that a failed message may have changed, within its valid range. */
static void
memory_failed_recv(const struct row *row, struct arena *a)
{
	if (row->cause == RECV_SHORT)
		arena_any(a, AREA_RECV + 1, 0, row_bytes(row) / 2);
	if (row->cause == RECV_RANGE)
		arena_any(a, AREA_RECV + 1, 0, row_bytes(row) / 2);
	/* The whole message arrived before its R_Key was found to be invalid. */
	if (row->cause == INV_BAD || row->cause == INV_REGION || row->cause == INV_OTHER_QP)
		arena_any(a, AREA_RECV + 1, 0, row_bytes(row));
}

static void
memory_recv(const struct row *row, uint32_t nr, struct arena *a, uint32_t recv, uint32_t off,
	    uint32_t len)
{
	uint32_t grh = row_type(row) == IBV_QPT_UD ? GRH_BYTES : 0;

	arena_any(a, AREA_RECV + recv, 0, grh);
	arena_expect(a, AREA_RECV + recv, grh, AREA_SRC, off, len, nr, true);
}

static void
memory_responder(const struct row *row, uint32_t nr, struct arena *a)
{
	uint32_t used = 0, reached;
	struct chain c;

	chain_build(row, &c);
	reached = chain_reaches(row, &c);
	for (uint32_t i = 0; i < reached; i++) {
		bool errant = i == c.errant;

		if (takes_recv(row, &c, i) && used < row_recvs(row))
			memory_recv(row, nr, a, used++, errant ? 0 : i * RECV_BYTES,
				    errant ? row_bytes(row) : GOOD_BYTES);
		else if (!errant && c.op[i] == OP_WRITE && row->cause != QP_NO_RIGHT)
			arena_expect(a, AREA_FOLLOW, FOLLOW_WRITE_OFF, AREA_SRC, i * RECV_BYTES,
				     GOOD_BYTES, nr, true);
	}
	if (requester_state(row) == IBV_QPS_SQE)
		memory_recv(row, nr, a, used, 0, GOOD_BYTES);
	memory_failed_recv(row, a);
}

static void
memory_requester(const struct row *row, uint32_t nr, struct arena *a)
{
	struct chain c;

	chain_build(row, &c);
	if (row->cause == DEPTH_OVERRUN)
		arena_expect(a, AREA_SINK, 0, AREA_TARGET, 0, TARGET_BYTES, nr, false);
	if (row->status != IBV_WC_SUCCESS || (row->flags & ROW_REFUSED))
		return;
	for (uint32_t i = c.errant + 1; i < c.n; i++)
		if (c.op[i] == OP_READ)
			arena_expect(a, AREA_SINK, i * RECV_BYTES, AREA_FOLLOW, 0, GOOD_BYTES, nr,
				     false);
}

void
want_memory(const struct row *row, uint32_t nr, bool requester, struct arena *a)
{
	if (requester)
		memory_requester(row, nr, a);
	else
		memory_responder(row, nr, a);
}
