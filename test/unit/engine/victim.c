/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "victim.h"

struct victim
victim_open(void **state, bool v6)
{
	struct conn_cfg cfg = conn_rc;
	struct victim v;

	cfg.v6 = v6;
	v.c = conn_open(*state, cfg);
	recv_post(v.c, 1, 0, 64);
	bench_run(v.c->b);
	v.was = *v.c->qp;
	v.drops = 0;
	return v;
}

uint32_t
good_frame(struct conn *c, uint8_t *frame)
{
	struct wire_fields f = {.opcode = WIRE_OP_WRITE_ONLY,
				.psn = RQ,
				.ackreq = true,
				.va = REMOTE_VA,
				.rkey = c->remote->mr.key,
				.dmalen = 30};

	return peer_frame(c, f, 1, 30, frame);
}

void
expect_dropped(struct victim *v, enum drop_reason why)
{
	struct conn *c = v->c;
	uint64_t all = 0;
	uint32_t i;

	pkt_none(c);
	cqe_none(c);
	event_none(c->b);
	for (i = 0; i < DROP_NUM; i++)
		all += c->b->counters.drop[i];
	assert_int_equal(all, ++v->drops);
	if (c->b->counters.drop[why] == 0)
		fail_msg("not counted as %s", drop_reason_name[why]);
	c->b->counters.drop[why]--;
	v->drops--;
	assert_memory_equal(c->qp, &v->was, sizeof(v->was));
	for (i = 0; i < 64; i++)
		assert_int_equal(c->remote->bytes[i], 0);
	assert_int_equal(c->rq.hdr->cons, 0);
	assert_int_equal(OBS(c, RX_ROCE), 0);
}

void
expect_taken(struct victim *v)
{
	uint8_t frame[MAX_FRAME];

	frame_rx(v->c->b, frame, good_frame(v->c, frame));
	ack_expect(v->c, RQ);
	assert_memory_equal(v->c->remote->bytes, bench_bytes + 1, 30);
}
