/* SPDX-License-Identifier: BSD-3-Clause */
/* Automatic path migration: its states, their transitions, and query. */
#include <errno.h>
#include <string.h>
#include "apm.h"

REQUIREMENT("REQ-11")
BENCH_TEST(modify_makes_every_legal_change_of_the_migration_state)
{
	static const int want[3][3] = {
		[QP_MIG_MIGRATED] = {0, 0, EINVAL},
		[QP_MIG_REARM] = {EINVAL, 0, EINVAL},
		[QP_MIG_ARMED] = {0, EINVAL, EINVAL},
	};
	uint32_t from, to;

	for (from = 0; from < 3; from++) {
		for (to = 0; to < 3; to++) {
			struct conn *c = apm_open_in(state, from);
			int rc = apm_modify(c, 0, to);

			if (rc != want[from][to])
				fail_msg("%s to %s: %d", qp_mig_name[from], qp_mig_name[to], rc);
			assert_int_equal(apm_state(c), rc == 0 ? to : from);
			/* Of all these, one is a migration. */
			if (from == QP_MIG_ARMED && to == QP_MIG_MIGRATED)
				event_expect(c->b, QP_EVENT_PATH_MIG);
			event_none(c->b);
		}
	}
}

REQUIREMENT("REQ-11")
BENCH_TEST(modify_refuses_an_unknown_migration_state)
{
	struct conn *c = apm_open_armed(state);

	assert_int_equal(apm_modify(c, 0, 3), EINVAL);
	assert_int_equal(apm_modify(c, 0, UINT32_MAX), EINVAL);
	mig_expect(c, ARMED);
}

/* Packets arm a QP in RTS. A draining QP migrates on request and does not arm. */
REQUIREMENT("REQ-11")
BENCH_TEST(peer_arms_in_RTS_and_not_while_draining)
{
	struct uroce_qp_attr a = apm_alt_attr(QP_MIG_REARM);
	struct conn *c = conn_open(*state, CONN(cfg.state = QP_RTR));

	apm_alt_paths(c);
	a.qp_state = QP_RTS;
	a.sq_psn = SQ;
	assert_int_equal(conn_modify(c,
				     QP_STATE | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY |
					     QP_SQ_PSN | QP_MAX_QP_RD_ATOMIC | QP_ALT_PATH |
					     QP_PATH_MIG_STATE,
				     &a),
			 0);
	mig_expect(c, REARM);
	apm_arm(c);
	assert_int_equal(conn_to(c, QP_SQD), 0);
	bench_run(c->b);
	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
	assert_int_equal(apm_modify(c, 0, QP_MIG_REARM), EINVAL);
	a.qp_state = QP_RTS;
	assert_int_equal(conn_modify(c, QP_STATE | QP_PATH_MIG_STATE, &a), 0);
	mig_expect(c, REARM);
}

REQUIREMENT("REQ-11")
BENCH_TEST(arming_without_an_alternate_path_is_refused)
{
	struct conn *c = apm_open_type(state, QP_TYPE_RC);

	assert_int_equal(apm_modify(c, 0, QP_MIG_REARM), EINVAL);
	mig_expect(c, MIGRATED);
	assert_int_equal(apm_modify(c, QP_ALT_PATH, QP_MIG_MIGRATED), 0);
	assert_int_equal(apm_modify(c, 0, QP_MIG_REARM), 0);
	mig_expect(c, REARM);
}

/* All of the alternate path as it was set, and both after a migration; nothing after RESET. */
REQUIREMENT("REQ-11", "QP-05")
BENCH_TEST(query_returns_path_and_migration_state)
{
	struct conn *c = apm_open_armed(state);
	struct uroce_qp_attr was, q, zero = {.cap = c->qp->conn.cap}, a = apm_alt_attr(0);

	qp_query(c->qp, &was);
	assert_memory_equal(&was.alt_ah, &a.alt_ah, sizeof(a.alt_ah));
	assert_int_equal(was.alt_port_num, 1);
	assert_int_equal(was.alt_pkey_index, 0);
	assert_int_equal(was.alt_timeout, ALT_CODE);
	assert_int_equal(was.timeout, 14);
	assert_int_equal(was.ah.sgid_index, 0);
	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	was.ah = was.alt_ah;
	was.timeout = ALT_CODE;
	was.path_mig_state = QP_MIG_MIGRATED;
	qp_query(c->qp, &q);
	assert_memory_equal(&q, &was, sizeof(q));
	assert_int_equal(conn_to(c, QP_RESET), 0);
	qp_query(c->qp, &q);
	assert_memory_equal(&q, &zero, sizeof(q));
}

/* A QP that was RESET has no alternate path, and starts out migrated. */
REQUIREMENT("REQ-11")
BENCH_TEST(reset_clears_the_alternate_path)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c = apm_open_armed(state);

	assert_int_equal(conn_to(c, QP_RESET), 0);
	conn_raise(c, &cfg);
	apm_ours_are(c, &c->path, true);
	mig_expect(c, MIGRATED);
	assert_int_equal(apm_modify(c, 0, QP_MIG_REARM), EINVAL);
	apm_send_one(c, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
}

/* pkt_poll checks MigReq of each request, ACK, NAK and READ response. */
REQUIREMENT("REQ-11", "WIRE-04")
BENCH_TEST(every_packet_carries_the_migreq_of_the_state)
{
	uint32_t mig;

	for (mig = 0; mig < 3; mig++) {
		struct conn *c = apm_open_in(state, mig);

		/* Of a QP that is armed all is normal; one that is not must not become it. */
		apm_peer_is(c, &c->path, 0xffff, mig != QP_MIG_ARMED);
		apm_send_one(c, 1);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
		ack_expect(c, RQ);
		peer_read(c, RQ + 1, REMOTE_VA, 8);
		pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 1);
		peer_send(c, WIRE_OP_SEND_ONLY, RQ + 3, 0, 8);
		answer_expect(c, RQ + 2, NAK_SYN(PSN_SEQ));
		assert_int_equal(apm_state(c), mig);
		peer_ack(c, SQ);
		send_cqe(c, 1, QP_WC_SUCCESS);
	}
}

/* Any packet of a peer that is ready arms the QP: requests and responses. */
REQUIREMENT("REQ-11")
BENCH_TEST(rearm_becomes_armed_when_the_peer_is_ready)
{
	struct conn *c = apm_open_rearm(state);

	apm_peer_is(c, &c->path, 0xffff, true);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ);
	mig_expect(c, REARM);
	apm_peer_is(c, &c->path, 0xffff, false);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ + 1);
	mig_expect(c, ARMED);

	c = apm_open_rearm(state);
	apm_send_one(c, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	apm_peer_is(c, &c->path, 0xffff, false);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	mig_expect(c, ARMED);
	event_none(c->b);
}

/* A packet from another address or partition does not arm. */
REQUIREMENT("REQ-11")
BENCH_TEST(packets_from_other_addresses_do_not_arm)
{
	struct conn *c = apm_open_rearm(state);
	struct qp_path other = c->path;

	apm_peer_is(c, &c->path, 0x1234, false);
	apm_peer_murmurs(c);
	other.wire.dgid[15] ^= 1;
	apm_peer_is(c, &other, 0xffff, false);
	apm_peer_murmurs(c);
	/* A packet on the alternate path, which is not yet in use, does not arm either. */
	apm_peer_is(c, &c->alt, 0xffff, false);
	apm_peer_murmurs(c);
	mig_expect(c, REARM);
	assert_int_equal(DROPS(c, BAD_PKEY), 1);
	assert_int_equal(DROPS(c, BAD_GID), 2);
}

/* MigReq 1 on the current path comes from before the peer was ready; it requests nothing. */
REQUIREMENT("REQ-11")
BENCH_TEST(migreq_on_the_current_path_does_not_migrate)
{
	struct conn *c = apm_open_armed(state);

	apm_peer_is(c, &c->path, 0xffff, true);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ);
	mig_expect(c, ARMED);
	event_none(c->b);
}

/* Another address vector for the path in use changes nothing of this. */
REQUIREMENT("REQ-11")
BENCH_TEST(modify_sets_a_new_primary_path_while_armed)
{
	struct conn *c = apm_open_armed(state);
	struct uroce_qp_attr a = {.qp_state = QP_RTS, .ah = {.is_global = 1, .port_num = 1}};

	assert_int_equal(conn_to(c, QP_SQD), 0);
	bench_run(c->b);
	c->path.wire.dgid[15] = 99;
	assert_int_equal(conn_modify(c, QP_STATE | QP_AV, &a), 0);
	mig_expect(c, ARMED);
	apm_send_one(c, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ); /* with MigReq 0 */
	assert_int_equal(apm_modify(c, 0, QP_MIG_MIGRATED), 0);
	apm_went_over(c);
}
