/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of path migration share. */
#include <string.h>
#include "apm.h"

const uint8_t apm_alt_mac[6] = {2, 0, 0, 0, 0, 0x77};
const uint8_t apm_alt_hop[16] = {[10] = 0xff, 0xff, 192, 0, 2, 12};

void
apm_alt_paths(struct conn *c)
{
	c->alt = c->path;
	c->alt.wire.sgid[15] = 11;
	c->alt.wire.dgid[15] = 12;
	memcpy(c->alt.wire.dmac, apm_alt_mac, 6);
	memcpy(c->alt.hop, apm_alt_hop, 16);
	c->alt.wire.udp_sport = 0xc456;
}

struct uroce_qp_attr
apm_alt_attr(uint32_t mig)
{
	return (struct uroce_qp_attr){
		.path_mig_state = mig,
		.alt_ah = {.is_global = 1, .port_num = 1, .sgid_index = 1, .hop_limit = 7},
		.alt_port_num = 1,
		.alt_timeout = ALT_CODE,
	};
}

int
apm_modify(struct conn *c, uint32_t mask, uint32_t mig)
{
	struct uroce_qp_attr a = apm_alt_attr(mig);

	a.qp_state = c->qp->conn.state;
	return conn_modify(c, mask | QP_PATH_MIG_STATE, &a);
}

uint32_t
apm_state(struct conn *c)
{
	struct uroce_qp_attr a;

	qp_query(c->qp, &a);
	return a.path_mig_state;
}
void
apm_peer_is(struct conn *c, const struct qp_path *path, uint16_t pkey, bool migreq)
{
	struct wire_path in = path->wire;

	memcpy(in.sgid, path->wire.dgid, 16);
	memcpy(in.dgid, path->wire.sgid, 16);
	memcpy(in.smac, path->wire.dmac, 6);
	memcpy(in.dmac, path->wire.smac, 6);
	wire_tmpl_init(&c->peer, &in, c->qp->conn.qpn, pkey);
	wire_tmpl_set_migreq(&c->peer, migreq);
}

void
apm_peer_murmurs(struct conn *c)
{
	peer_ack(c, SQ - 1);
	bench_run(c->b);
}

void
apm_ours_are(struct conn *c, const struct qp_path *path, bool migreq)
{
	c->path = *path;
	c->migreq = migreq;
}

struct conn *
apm_open_type(void **state, enum qp_type type)
{
	struct conn *c = conn_open(*state, CONN(cfg.type = type, cfg.retry_cnt = RETRIES,
						cfg.max_dest_rd_atomic = 4, cfg.max_rd_atomic = 4));

	apm_alt_paths(c);
	return c;
}

struct conn *
apm_open_rearm(void **state)
{
	struct conn *c = apm_open_type(state, QP_TYPE_RC);

	assert_int_equal(apm_modify(c, QP_ALT_PATH, QP_MIG_REARM), 0);
	apm_ours_are(c, &c->path, false);
	mig_expect(c, REARM);
	return c;
}

void
apm_arm(struct conn *c)
{
	apm_peer_is(c, &c->path, 0xffff, false);
	apm_peer_murmurs(c);
	mig_expect(c, ARMED);
	event_none(c->b);
}

void
apm_arm_by(struct conn *c, uint8_t op, uint32_t psn)
{
	apm_peer_is(c, &c->path, 0xffff, false);
	peer_write(c, op, psn, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	mig_expect(c, ARMED);
}

struct conn *
apm_open_armed(void **state)
{
	struct conn *c = apm_open_rearm(state);

	apm_arm(c);
	return c;
}

void
apm_went_over(struct conn *c)
{
	mig_expect(c, MIGRATED);
	event_expect(c->b, QP_EVENT_PATH_MIG);
	event_none(c->b);
	apm_ours_are(c, &c->alt, true);
	apm_peer_is(c, &c->alt, 0xffff, true);
}

void
apm_send_one(struct conn *c, uint64_t id)
{
	post(c, (struct wr){.id = id, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
}

void
apm_run_out(struct conn *c, uint64_t timeout)
{
	uint32_t i;

	for (i = 0; i <= RETRIES; i++) {
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
		pkt_none(c);
		bench_pass(c->b, timeout - 1);
		cqe_none(c);
		event_none(c->b);
		if (i < RETRIES)
			bench_pass(c->b, 1);
	}
}

struct conn *
apm_open_in(void **state, uint32_t mig)
{
	struct conn *c;

	if (mig == QP_MIG_ARMED)
		return apm_open_armed(state);
	c = apm_open_type(state, QP_TYPE_RC);
	assert_int_equal(apm_modify(c, QP_ALT_PATH, mig), 0);
	apm_ours_are(c, &c->path, mig == QP_MIG_MIGRATED);
	return c;
}

void
apm_gives_up(struct conn *c)
{
	apm_send_one(c, 1);
	apm_run_out(c, TIMEOUT);
	bench_pass(c->b, 1);
	pkt_none(c);
	event_expect(c->b, QP_EVENT_PATH_MIG_ERR);
	event_none(c->b);
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
	state_expect(c, QP_ERR);
	mig_expect(c, ARMED);
	assert_int_equal(OBS(c, REQ_RETRY_EXC), 1);
	assert_int_equal(OBS(c, MIG_FAILED), 1);
	assert_int_equal(OBS(c, MIGRATED), 0);
}

struct conn *
apm_open_unresolved(void **state)
{
	struct conn *c = apm_open_type(state, QP_TYPE_RC);

	c->alt.path_ok = false;
	memset(c->alt.wire.dmac, 0, 6);
	assert_int_equal(apm_modify(c, QP_ALT_PATH, QP_MIG_REARM), 0);
	c->migreq = false;
	apm_arm(c);
	return c;
}
