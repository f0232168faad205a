/* SPDX-License-Identifier: BSD-3-Clause */
/* Automatic path migration: every cause of a change from one path to the other. */
#include <string.h>
#include "apm.h"

/* Retries used up: all of them once more the other way, and then it is over. */
REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(retry_exhaustion_migrates)
{
	struct conn *c = apm_open_armed(state);

	apm_send_one(c, 1);
	apm_run_out(c, TIMEOUT);
	bench_pass(c->b, 1);
	apm_went_over(c);
	assert_int_equal(OBS(c, MIGRATED), 1);
	assert_int_equal(OBS(c, REQ_RETRY_EXC), 0);
	cqe_none(c);
	apm_run_out(c, ALT_TIMEOUT);
	bench_pass(c->b, 1);
	pkt_none(c);
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
	state_expect(c, QP_ERR);
	event_none(c->b);
	assert_int_equal(OBS(c, REQ_RETRY_EXC), 1);
	assert_int_equal(OBS(c, MIG_FAILED), 0);
}

/* Everything unacknowledged is retransmitted and completes as usual. */
REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(outstanding_work_completes_after_migration)
{
	struct conn *c = apm_open_armed(state);
	uint32_t i;

	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 2000});
	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 1500});
	apm_send_one(c, 3);
	assert_int_equal(pkt_count(c), 4);
	peer_ack(c, SQ);
	for (i = 0; i <= RETRIES; i++) {
		pkt_count(c);
		bench_pass(c->b, TIMEOUT);
	}
	apm_went_over(c);
	pkt_expect(c, WIRE_OP_SEND_LAST, SQ + 1);
	pkt_none(c); /* as after any timeout */
	peer_ack(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 2);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ + 2, 0, 1024);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 3, 1024, 476);
	peer_ack(c, SQ + 4);
	send_cqe(c, 2, QP_WC_SUCCESS);
	send_cqe(c, 3, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes, bench_bytes, 1500);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ);
	event_none(c->b);
}

REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(retries_used_by_sequence_naks_cause_migration)
{
	struct conn *c = apm_open_armed(state);
	uint32_t i;

	apm_send_one(c, 1);
	for (i = 0; i <= RETRIES; i++) {
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
		event_none(c->b);
		peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	}
	bench_run(c->b);
	apm_went_over(c);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	pkt_none(c);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* Loaded is not armed. */
REQUIREMENT("REQ-11")
BENCH_TEST(only_an_armed_qp_migrates)
{
	uint32_t mig;

	for (mig = QP_MIG_MIGRATED; mig <= QP_MIG_REARM; mig++) {
		struct conn *c = apm_open_in(state, mig);

		apm_send_one(c, 1);
		apm_run_out(c, TIMEOUT);
		bench_pass(c->b, 1);
		send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
		state_expect(c, QP_ERR);
		assert_int_equal(apm_state(c), mig);
		event_none(c->b);
	}
}

REQUIREMENT("REQ-11")
BENCH_TEST(qp_without_alternate_path_goes_to_error)
{
	struct conn *c = apm_open_type(state, QP_TYPE_RC);

	apm_send_one(c, 1);
	apm_run_out(c, TIMEOUT);
	bench_pass(c->b, 1);
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
	state_expect(c, QP_ERR);
	event_none(c->b);
}

REQUIREMENT("EVT-06", "REQ-11")
BENCH_TEST(unresolved_alternate_path_ends_in_path_mig_err)
{
	apm_gives_up(apm_open_unresolved(state));
}

REQUIREMENT("EVT-06", "REQ-11")
BENCH_TEST(alternate_path_whose_gid_is_gone_ends_in_path_mig_err)
{
	struct conn *c = apm_open_armed(state);

	qp_alt_lost(c->qp);
	/* Its next hop still responds, which does not help. */
	qp_neigh_resolved(&c->b->engine.env, c->qp, apm_alt_hop, apm_alt_mac);
	apm_gives_up(c);
}

/* Armed, with an alternate path in the second partition of the table. */
static struct conn *
open_partition(void **state, const uint16_t *pkeys)
{
	struct uroce_qp_attr a = apm_alt_attr(QP_MIG_REARM);
	struct conn *c = conn_open(*state, CONN(cfg.pkeys = pkeys, cfg.retry_cnt = RETRIES));

	apm_alt_paths(c);
	a.alt_pkey_index = 1;
	assert_int_equal(conn_modify(c, QP_ALT_PATH | QP_PATH_MIG_STATE, &a), 0);
	c->migreq = false;
	apm_arm(c);
	return c;
}

REQUIREMENT("EVT-06", "REQ-11")
BENCH_TEST(alternate_path_whose_pkey_is_gone_raises_path_mig_err)
{
	static uint16_t pkeys[UROCE_MAX_PKEYS] = {0xffff, 0x8001};
	struct conn *c = open_partition(state, pkeys);

	pkeys[1] = 0;
	apm_peer_is(c, &c->alt, 0x8001, true);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	pkt_none(c);
	event_expect(c->b, QP_EVENT_PATH_MIG_ERR);
	pkeys[1] = 0x8001;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	apm_went_over(c);
}

REQUIREMENT("EVT-06", "REQ-11")
BENCH_TEST(retry_exhaustion_without_the_alternates_pkey_is_fatal)
{
	static uint16_t pkeys[UROCE_MAX_PKEYS] = {0xffff, 0x8001};
	struct conn *c = open_partition(state, pkeys);

	pkeys[1] = 0;
	apm_gives_up(c);
}

/* Packets on the alternate path carry and require its partition key. */
REQUIREMENT("REQ-11", "WIRE-09")
BENCH_TEST(packets_of_the_alternate_path_need_its_pkey)
{
	static const uint16_t pkeys[UROCE_MAX_PKEYS] = {0xffff, 0x8001};
	struct uroce_qp_attr q;
	struct conn *c = open_partition(state, pkeys);

	apm_peer_is(c, &c->alt, 0xffff, true);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	pkt_none(c);
	assert_int_equal(DROPS(c, BAD_PKEY), 1);
	mig_expect(c, ARMED);
	event_none(c->b);
	apm_peer_is(c, &c->alt, 0x8001, true);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	apm_went_over(c);
	c->pkey = 0x8001;
	ack_expect(c, RQ);
	qp_query(c->qp, &q);
	assert_int_equal(q.pkey_index, 1);
	assert_int_equal(q.alt_pkey_index, 1);
}

/*
 * A next hop that is resolved in time, and one that changes, on either path, before and after
 * migration.
 */
REQUIREMENT("REQ-11")
BENCH_TEST(next_hop_changes_apply_to_their_own_path)
{
	static const uint8_t other[6] = {2, 0, 0, 0, 0, 0x88}, stranger[16] = {1, 2, 3};
	struct conn *c = apm_open_unresolved(state);
	struct qp_env *env = &c->b->engine.env;

	qp_neigh_resolved(env, c->qp, stranger, other);
	qp_neigh_resolved(env, c->qp, c->path.hop, other);
	memcpy(c->path.wire.dmac, other, 6);
	apm_send_one(c, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	pkt_none(c);
	qp_neigh_resolved(env, c->qp, apm_alt_hop, apm_alt_mac);
	memcpy(c->alt.wire.dmac, apm_alt_mac, 6);
	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
	bench_pass(c->b, ALT_TIMEOUT);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	qp_neigh_resolved(env, c->qp, apm_alt_hop, other);
	memcpy(c->path.wire.dmac, other, 6);
	bench_pass(c->b, ALT_TIMEOUT);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
}

/* The peer has migrated: this side follows and responds on that path. */
REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(request_with_migreq_migrates)
{
	struct conn *c = apm_open_armed(state);

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ);
	apm_peer_is(c, &c->alt, 0xffff, true);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	apm_went_over(c);
	ack_expect(c, RQ + 1);
	assert_int_equal(OBS(c, MIGRATED), 1);
	peer_read(c, RQ + 2, REMOTE_VA, 8);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 2);
	event_none(c->b);
}

/* Its ACK was lost with the path: the first that comes the other way was seen before. */
REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(duplicate_with_migreq_migrates)
{
	struct conn *c = apm_open_armed(state);

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ);
	apm_peer_is(c, &c->alt, 0xffff, true);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	apm_went_over(c);
	ack_expect(c, RQ);
	assert_int_equal(OBS(c, RSP_DUP), 1);
}

REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(response_with_migreq_migrates)
{
	struct conn *c = apm_open_armed(state);

	apm_send_one(c, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	apm_send_one(c, 2);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	bench_pass(c->b, TIMEOUT - 1);
	apm_peer_is(c, &c->alt, 0xffff, true);
	peer_ack(c, SQ);
	bench_run(c->b);
	apm_went_over(c);
	send_cqe(c, 1, QP_WC_SUCCESS);
	/* Outstanding packets have the timeout of the current path. */
	bench_pass(c->b, ALT_TIMEOUT - 1);
	pkt_none(c);
	bench_pass(c->b, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
}

/* Without MigReq a packet on the alternate path does not come from the peer. */
REQUIREMENT("REQ-11")
BENCH_TEST(packet_on_the_alternate_path_without_migreq_is_dropped)
{
	struct conn *c = apm_open_armed(state);

	apm_peer_is(c, &c->alt, 0xffff, false);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	pkt_none(c);
	mig_expect(c, ARMED);
	assert_int_equal(DROPS(c, BAD_GID), 1);
	event_none(c->b);
}

/* The same holds with MigReq if the QP is not armed: both sides must be ready. */
REQUIREMENT("REQ-11")
BENCH_TEST(packet_on_the_alternate_path_before_armed_is_dropped)
{
	uint32_t mig;

	for (mig = QP_MIG_MIGRATED; mig <= QP_MIG_REARM; mig++) {
		struct conn *c = apm_open_in(state, mig);

		apm_peer_is(c, &c->alt, 0xffff, true);
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
		pkt_none(c);
		assert_int_equal(apm_state(c), mig);
		assert_int_equal(DROPS(c, BAD_GID), mig + 1);
		event_none(c->b);
	}
}

/* A packet on the abandoned path does not come from the peer either. */
REQUIREMENT("REQ-11")
BENCH_TEST(packet_on_the_abandoned_path_is_dropped)
{
	struct conn *c = apm_open_armed(state);
	struct qp_path old = c->path;
	uint32_t migreq;

	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
	for (migreq = 0; migreq < 2; migreq++) {
		apm_peer_is(c, &old, 0xffff, migreq);
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
		pkt_none(c);
	}
	assert_int_equal(DROPS(c, BAD_GID), 2);
	mig_expect(c, MIGRATED);
}

/* The peer repeats its request: the client gets one event until something changes. */
REQUIREMENT("EVT-06", "REQ-11")
BENCH_TEST(refused_request_after_migration_gets_one_nak)
{
	struct conn *c = apm_open_unresolved(state);
	uint32_t i;

	apm_peer_is(c, &c->alt, 0xffff, true);
	for (i = 0; i < 3; i++)
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	pkt_none(c);
	event_expect(c->b, QP_EVENT_PATH_MIG_ERR);
	event_none(c->b);
	assert_int_equal(DROPS(c, BAD_GID), 3);
	assert_int_equal(OBS(c, MIG_FAILED), 1);
	state_expect(c, QP_RTS);
	mig_expect(c, ARMED);
	assert_int_equal(apm_modify(c, QP_ALT_PATH, QP_MIG_MIGRATED), 0);
	event_expect(c->b, QP_EVENT_PATH_MIG_ERR);
	mig_expect(c, ARMED);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	event_expect(c->b, QP_EVENT_PATH_MIG_ERR);
	qp_neigh_resolved(&c->b->engine.env, c->qp, apm_alt_hop, apm_alt_mac);
	memcpy(c->alt.wire.dmac, apm_alt_mac, 6);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	apm_went_over(c);
	ack_expect(c, RQ);
}

/* At once, in mid-message, and with all its retries. */
REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(modify_to_migrated_migrates)
{
	struct conn *c = apm_open_armed(state);

	apm_send_one(c, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	bench_pass(c->b, TIMEOUT);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
	apm_send_one(c, 2);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	bench_pass(c->b, ALT_TIMEOUT - 1);
	pkt_none(c);
	assert_int_equal(c->qp->conn.snd.retry_left, RETRIES);
	bench_pass(c->b, 1);
	assert_int_equal(pkt_count(c), 1);
	peer_ack(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

/* A path without a timeout in place of one that had one, and the other way round. */
REQUIREMENT("REQ-11", "REQ-04")
BENCH_TEST(each_path_has_its_own_timeout)
{
	struct uroce_qp_attr a = apm_alt_attr(QP_MIG_REARM);
	struct conn *c = apm_open_type(state, QP_TYPE_RC);

	a.alt_timeout = 0;
	assert_int_equal(conn_modify(c, QP_ALT_PATH | QP_PATH_MIG_STATE, &a), 0);
	c->migreq = false;
	apm_arm(c);
	apm_send_one(c, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
	bench_pass(c->b, 100 * TIMEOUT);
	pkt_none(c);
	assert_int_equal(apm_modify(c, QP_ALT_PATH, QP_MIG_REARM), 0);
	c->migreq = false;
	apm_arm(c);
	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
	bench_pass(c->b, ALT_TIMEOUT);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
}

/* An RNR wait continues after migration. */
REQUIREMENT("REQ-11", "REQ-06")
BENCH_TEST(rnr_wait_continues_after_migration)
{
	struct conn *c = apm_open_armed(state);
	const uint64_t wait = 5120000; /* code 18 */

	apm_send_one(c, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_nak(c, SQ, WIRE_SYN_RNR | 18);
	bench_pass(c->b, wait / 2);
	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
	bench_pass(c->b, wait / 2 - 1);
	pkt_none(c);
	bench_pass(c->b, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
}

/* Migrates there and back: the failed path is loaded again as the alternate. */
REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(rearmed_qp_migrates_again)
{
	struct conn *c = apm_open_armed(state);
	struct qp_path first = c->path;
	struct uroce_qp_attr a = apm_alt_attr(QP_MIG_REARM), q;

	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
	c->alt = first;
	a.alt_ah.sgid_index = 0;
	a.alt_timeout = 14;
	assert_int_equal(conn_modify(c, QP_ALT_PATH | QP_PATH_MIG_STATE, &a), 0);
	c->migreq = false;
	apm_arm(c);
	apm_send_one(c, 1);
	apm_run_out(c, ALT_TIMEOUT);
	bench_pass(c->b, 1);
	apm_went_over(c);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	qp_query(c->qp, &q);
	assert_int_equal(q.ah.sgid_index, 0);
	assert_int_equal(q.timeout, 14);
	assert_int_equal(OBS(c, MIGRATED), 2);
}

/* A UC QP has no retries: only packets and modify make it migrate. */
REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(unreliable_connection_migrates_by_packet_or_modify)
{
	struct conn *c = apm_open_type(state, QP_TYPE_UC);

	assert_int_equal(apm_modify(c, QP_ALT_PATH, QP_MIG_REARM), 0);
	c->migreq = false;
	apm_peer_is(c, &c->path, 0xffff, false);
	peer_write(c, WIRE_SVC_UC | WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	bench_run(c->b);
	mig_expect(c, ARMED);
	apm_send_one(c, 1);
	pkt_expect(c, WIRE_SVC_UC | WIRE_OP_SEND_ONLY, SQ);
	apm_peer_is(c, &c->alt, 0xffff, true);
	peer_write(c, WIRE_SVC_UC | WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 8, 8);
	bench_run(c->b);
	apm_went_over(c);
	assert_memory_equal(c->remote->bytes, bench_bytes + 8, 8);
	apm_send_one(c, 2);
	pkt_expect(c, WIRE_SVC_UC | WIRE_OP_SEND_ONLY, SQ + 1);
	assert_int_equal(apm_modify(c, 0, QP_MIG_REARM), 0);
	c->migreq = false;
	apm_arm_by(c, WIRE_SVC_UC | WIRE_OP_WRITE_ONLY, RQ + 2);
	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
}

/* Both paths by IPv6, and the alternate by the other family than the primary. */
REQUIREMENT("REQ-11", "EVT-06")
BENCH_TEST(alternate_path_may_have_another_address_family)
{
	uint32_t v6;

	for (v6 = 0; v6 < 2; v6++) {
		struct conn_cfg cfg = conn_rc;
		struct conn *c;

		cfg.v6 = v6;
		c = conn_open(*state, cfg);
		apm_alt_paths(c);
		memset(c->alt.wire.sgid, 0, 16);
		c->alt.wire.sgid[0] = 0xfd;
		c->alt.wire.sgid[15] = 11;
		memcpy(c->alt.wire.dgid, c->alt.wire.sgid, 16);
		c->alt.wire.dgid[15] = 12;
		assert_int_equal(apm_modify(c, QP_ALT_PATH, QP_MIG_REARM), 0);
		c->migreq = false;
		apm_arm(c);
		apm_peer_is(c, &c->alt, 0xffff, true);
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
		bench_run(c->b);
		apm_went_over(c);
		ack_expect(c, RQ);
	}
}
