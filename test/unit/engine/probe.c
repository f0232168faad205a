/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"
#include "probe.h"
#include "wire/sack.h"

struct conn *
conn_with(void **state, uint32_t timeout, uint32_t retry_cnt)
{
	struct bench *b = *state;
	struct conn *c;

	b->engine.env.plain = 0;
	c = conn_open(b, CONN(cfg.timeout = timeout, cfg.retry_cnt = retry_cnt));
	conn_met(c, true);
	return c;
}

void
conn_met(struct conn *c, bool met)
{
	c->qp->conn.loss.eager = met;
	qp_loss_rewait(&c->b->engine.env, c->qp);
}

void
sr_in_order(struct conn *c, enum qp_sr_state sr)
{
	qp_sr_set(c->b->engine.env.sr, c->qp, sr);
	c->qp->conn.sr.known = QP_SR_KNOWN;
}

struct conn *
conn_sr(void **state, enum qp_sr_state sr)
{
	struct conn *c = conn_with(state, 14, 7);

	sr_in_order(c, sr);
	return c;
}

void
peer_sack_of(struct conn *c, uint32_t psn, uint64_t held, struct wire_sack s, uint32_t n)
{
	struct wire_fields f = {.opcode = WIRE_OPCODE_SACK, .psn = psn, .syndrome = ACK_SYN};
	uint8_t frame[WIRE_MAX_OVERHEAD + sizeof(s) + 8];
	uint32_t len = peer_frame(c, f, 0, n, frame);

	s.held[0] = rte_cpu_to_le_64(held);
	memcpy(frame + len - WIRE_ICRC_LEN - n, &s, RTE_MIN(n, sizeof(s)));
	frame_seal(c, frame, len);
	frame_rx(c->b, frame, len);
	bench_run(c->b);
}

void
peer_sack(struct conn *c, uint32_t psn, uint64_t held, struct wire_sack s)
{
	peer_sack_of(c, psn, held, s, sizeof(s));
}

void
round_trip(struct conn *c, uint32_t psn, uint64_t ns)
{
	client_sends(c, 0, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
	bench_pass(c->b, ns);
	peer_ack(c, psn);
	send_cqe(c, 0, QP_WC_SUCCESS);
}

void
expect_probe_after(struct conn *c, uint64_t ns, uint8_t op, uint32_t psn)
{
	bench_pass(c->b, ns - 1);
	pkt_none(c);
	bench_pass(c->b, 1);
	assert_true(pkt_expect(c, op, psn).ackreq);
	pkt_none(c);
}
