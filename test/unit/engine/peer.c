/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer's side of the bench: frames in by hand, frames out through the parser. */
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"
#include "wire/icrc.h"

uint32_t
peer_frame(struct conn *c, struct wire_fields f, uint32_t off, uint32_t len, uint8_t *frame)
{
	uint32_t hdr = wire_hdr_put(&c->peer, &f, len, frame);

	memcpy(frame + hdr, bench_bytes + off, len);
	return wire_frame_finish(&c->peer, frame, hdr, len);
}

void
frame_seal(struct conn *c, uint8_t *frame, uint32_t len)
{
	uint32_t icrc = wire_icrc_start(frame + c->peer.ip_off, c->peer.is_v6);

	icrc = wire_icrc_update(icrc, frame + c->peer.len, len - c->peer.len - WIRE_ICRC_LEN);
	icrc = wire_icrc_final(icrc);
	memcpy(frame + len - WIRE_ICRC_LEN, &icrc, WIRE_ICRC_LEN);
}

/* Each frame is counted once, or waits. */
static uint64_t
accounted(const struct bench *b)
{
	return counters_accounted(&b->counters) + b->counters.ctr[COUNTER_RX_HANDOFF] +
	       b->engine.late.n;
}

void
frame_rx(struct bench *b, const uint8_t *frame, uint32_t len)
{
	uint64_t before = accounted(b);
	struct rte_mbuf *m = rte_pktmbuf_alloc(b->engine.env.pool);

	assert_non_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	engine_rx(&b->engine, b->now, BENCH_DEV, &m, 1);
	assert_int_equal(accounted(b), before + 1);
}

void
peer_put(struct conn *c, struct wire_fields f, uint32_t off, uint32_t len)
{
	uint8_t frame[WIRE_MAX_OVERHEAD + 8192];

	frame_rx(c->b, frame, peer_frame(c, f, off, len, frame));
}

void
peer_send(struct conn *c, uint8_t op, uint32_t psn, uint32_t off, uint32_t len)
{
	peer_put(c, (struct wire_fields){.opcode = op, .psn = psn, .ackreq = true}, off, len);
}

void
peer_write(struct conn *c, uint8_t op, uint32_t psn, uint64_t va, uint32_t dmalen, uint32_t off,
	   uint32_t len)
{
	struct wire_fields f = {.opcode = op,
				.psn = psn,
				.ackreq = true,
				.va = va,
				.rkey = c->remote->mr.key,
				.dmalen = dmalen};

	peer_put(c, f, off, len);
}

void
peer_read(struct conn *c, uint32_t psn, uint64_t va, uint32_t dmalen)
{
	peer_write(c, WIRE_OP_READ_REQ, psn, va, dmalen, 0, 0);
}

void
peer_nak(struct conn *c, uint32_t psn, uint8_t syndrome)
{
	bench_run(c->b); /* the packets that it responds to were sent by now */
	peer_put(c, (struct wire_fields){.opcode = WIRE_OP_ACK, .psn = psn, .syndrome = syndrome},
		 0, 0);
}

void
peer_ack(struct conn *c, uint32_t psn)
{
	peer_nak(c, psn, ACK_SYN);
}

void
peer_read_resp(struct conn *c, uint8_t op, uint32_t psn, uint32_t off, uint32_t len)
{
	bench_run(c->b);
	peer_put(c, (struct wire_fields){.opcode = op, .psn = psn, .syndrome = ACK_SYN}, off, len);
}

/* Everything that every frame of ours must be. */
static void
check_frame(struct conn *c, const struct rte_mbuf *m, const struct wire_pkt *pkt)
{
	uint8_t gid[16];

	assert_true(c->qp->conn.loopback || wire_icrc_check(pkt));
	assert_int_equal(m->port, BENCH_DEV);
	assert_int_equal(m->hash.usr, c->qp->conn.loopback ? QP_TX_LOOPBACK : QP_TX_WIRE);
	assert_int_equal(pkt->qpn, PEER_QPN);
	assert_int_equal(pkt->pkey, c->pkey);
	assert_int_equal(pkt->migreq, c->migreq && pkt->opcode != WIRE_OPCODE_CNP);
	if (pkt->opcode != WIRE_OPCODE_CNP && pkt->opcode != WIRE_OPCODE_SACK)
		assert_int_equal(pkt->opcode & WIRE_SVC_MASK,
				 c->qp->conn.type == QP_TYPE_RC   ? WIRE_SVC_RC
				 : c->qp->conn.type == QP_TYPE_UC ? WIRE_SVC_UC
								  : WIRE_SVC_UD);
	assert_true(pkt->payload_len <= c->qp->conn.mtu);
	wire_src_gid(pkt, gid);
	assert_memory_equal(gid, c->path.wire.sgid, 16);
	wire_dst_gid(pkt, gid);
	assert_memory_equal(gid, c->path.wire.dgid, 16);
	assert_memory_equal(pkt->l2, c->path.wire.dmac, 6);
}

bool
pkt_poll(struct conn *c, struct wire_pkt *pkt)
{
	struct bench *b = c->b;
	struct rte_mbuf *m;

	bench_run(b);
	/* The previous packet is valid until the next is requested. */
	if (b->frames_seen > 0)
		rte_pktmbuf_free(b->frame[b->frames_seen - 1]);
	if (b->frames_seen == b->nframes) {
		b->frames_seen = b->nframes = 0;
		return false;
	}
	m = b->frame[b->frames_seen++];
	assert_int_equal(rte_pktmbuf_linearize(m), 0); /* now the port copies it */
	if (m->hash.usr == QP_TX_LOOPBACK)
		qp_view_own(m);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, pkt), WIRE_OK);
	check_frame(c, m, pkt);
	return true;
}

uint32_t
pkt_count(struct conn *c)
{
	struct wire_pkt pkt;
	uint32_t n = 0;

	while (pkt_poll(c, &pkt))
		n++;
	return n;
}

struct wire_pkt
pkt_expect_at(struct conn *c, uint8_t op, uint32_t psn, const char *file, int line)
{
	struct wire_pkt pkt = {0};

	_assert_true(pkt_poll(c, &pkt), "a packet", file, line);
	_assert_int_equal(pkt.opcode, op, file, line);
	_assert_int_equal(pkt.psn, psn & WIRE_PSN_MASK, file, line);
	return pkt;
}

void
pkt_none_at(struct conn *c, const char *file, int line)
{
	struct wire_pkt pkt;

	_assert_true(!pkt_poll(c, &pkt), "no packet", file, line);
}
