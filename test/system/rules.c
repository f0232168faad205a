/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules of verbs apart from data transfer: an ordinary program checks them on two joined devices,
 * and prints one TAP line per test.
 *
 *   rules DEVICE DEVICE
 *
 * Exit status 0 when all tests passed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include "kit/program.h"
#include "kit/verbside.h"
#include "../kit/requirement.h"

#define BYTES  2048
#define ROUNDS 60

static struct side side[2];

static struct ibv_qp *
make_qp(struct side *s, enum ibv_qp_type type, struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap = {.max_send_wr = SIDE_DEPTH,
			.max_recv_wr = SIDE_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 16},
		.qp_type = type,
		.sq_sig_all = 1,
	};

	return ibv_create_qp(s->pd, &attr);
}

static enum ibv_qp_state
state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN : attr.qp_state;
}

/* Moves qp from RESET to a state, connected to dest of the other side (RC, UC). 0 or an errno. */
static int
raise_qp(struct side *s, struct ibv_qp *qp, uint32_t dest, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;

	ibv_query_gid(side[s == &side[0]].ctx, 1, 1, &gid);
	attr = verbs_attr(dest, &gid);
	attr.timeout = 18; /* 1.1 s: tolerates a busy machine */
	attr.retry_cnt = attr.rnr_retry = 6;
	if (to == IBV_QPS_ERR) {
		attr.qp_state = to;
		return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	}
	return verbs_raise(qp, &attr, to);
}

static int
send_len(struct side *s, struct ibv_qp *qp, uint64_t id, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s->buf, .length = len, .lkey = s->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
			   *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static int
recv_one(struct side *s, struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s->buf, .length = BYTES, .lkey = s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

REQUIREMENT("LIFE-01")
static void
qp_needs_its_cqs_first(void)
{
	struct side *s = &side[0];
	struct ibv_cq *second = ibv_create_cq(s->ctx, SIDE_DEPTH, NULL, NULL, 0);
	struct ibv_qp *qp;

	for (int with = 0; with < 3; with++) {
		errno = 0;
		CHECK(!make_qp(s, IBV_QPT_RC, with & 1 ? s->cq : NULL, with & 2 ? s->cq : NULL));
		CHECK(errno == EINVAL);
	}
	qp = make_qp(s, IBV_QPT_RC, s->cq, s->cq); /* one for both */
	CHECK(qp && state_of(qp) == IBV_QPS_RESET && qp->state == IBV_QPS_RESET);
	CHECK(qp && ibv_destroy_qp(qp) == 0);
	qp = make_qp(s, IBV_QPT_RC, s->cq, second);
	CHECK(qp && state_of(qp) == IBV_QPS_RESET);
	CHECK(ibv_destroy_cq(second) == EBUSY);
	CHECK(qp && ibv_destroy_qp(qp) == 0);
	CHECK(ibv_destroy_cq(second) == 0);
}

REQUIREMENT("LIFE-04")
static void
only_rc_uc_and_ud_can_be_created(void)
{
	static const enum ibv_qp_type good[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	static const int bad[] = {
		0, 1, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_DRIVER};
	struct side *s = &side[0];

	for (unsigned int i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct ibv_qp *qp = make_qp(s, good[i], s->cq, s->cq);

		CHECK(qp && qp->qp_num > 1); /* 0 and 1 belong to the daemon */
		CHECK(qp && raise_qp(s, qp, 2, IBV_QPS_RTS) == 0);
		CHECK(qp && ibv_destroy_qp(qp) == 0);
	}
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK(!make_qp(s, bad[i], s->cq, s->cq));
		CHECK(errno == EINVAL || errno == EOPNOTSUPP);
	}
}

/* Checks all posts and modifies that are refused at once; the state does not change. */
static void
refusals(struct side *s, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_sge sge[2] = {{.addr = (uintptr_t)s->buf, .length = 32, .lkey = s->mr->lkey}};
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {.sg_list = sge, .num_sge = 2}, *rbad;
	bool sends = state >= IBV_QPS_RTS;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQE};

	CHECK(ibv_post_recv(qp, &rwr, &rbad) == EINVAL);
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL);
	wr.num_sge = 1;
	wr.opcode = IBV_WR_TSO;
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_INLINE;
	sge[0].length = BYTES; /* more than any inline capacity */
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL);
	if (!sends)
		CHECK(send_len(s, qp, 1, 8) == EINVAL);
	if (state == IBV_QPS_RESET)
		CHECK(recv_one(s, qp, 1) == EINVAL);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	attr.qp_state = 99;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	CHECK(state_of(qp) == state);
}

REQUIREMENT("IMM-04")
static void
refused_modify_leaves_the_state(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_RTS, IBV_QPS_ERR};
	struct side *s = &side[0];
	int rc = 0;

	for (enum ibv_qp_type type = IBV_QPT_RC; type <= IBV_QPT_UC; type++) {
		for (unsigned int i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
			struct ibv_qp *qp = make_qp(s, type, s->cq, s->cq);

			CHECK(qp && raise_qp(s, qp, 2, states[i]) == 0);
			if (qp)
				refusals(s, qp, states[i]);
			CHECK(qp && ibv_destroy_qp(qp) == 0);
		}
	}
	/* a full queue: a QP in INIT keeps its receives */
	struct ibv_qp *qp = make_qp(s, IBV_QPT_RC, s->cq, s->cq);

	CHECK(qp && raise_qp(s, qp, 2, IBV_QPS_INIT) == 0);
	for (unsigned int i = 0; qp && i <= SIDE_DEPTH && rc == 0; i++)
		rc = recv_one(s, qp, i);
	CHECK(rc == ENOMEM);
	CHECK(qp && state_of(qp) == IBV_QPS_INIT);
	CHECK(qp && ibv_destroy_qp(qp) == 0);
}

/* --- multicast ------------------------------------------------------------------------------- */

#define MEMBERS 5
static struct {
	struct side *s;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
} member[MEMBERS]; /* 0 sends; 0 .. 2 on the first device, the others on the second */

/* Counts the copies of one datagram at each member: the expected ones, and no more. */
static void
copies_are(struct ibv_ah *ah, const unsigned int want[MEMBERS])
{
	struct ibv_sge sge = {.addr = (uintptr_t)side[0].buf,
			      .length = 64,
			      .lkey = side[0].mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_wc wc;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = VERBS_QKEY;
	for (int i = 0; i < MEMBERS; i++)
		CHECK(recv_one(member[i].s, member[i].qp, 1) == 0 &&
		      recv_one(member[i].s, member[i].qp, 2) == 0);
	CHECK(ibv_post_send(member[0].qp, &wr, &bad) == 0);
	CHECK(verbs_wait(member[0].cq, &wc) && wc.status == IBV_WC_SUCCESS &&
	      wc.opcode == IBV_WC_SEND);
	for (int i = 0; i < MEMBERS; i++) {
		if (!want[i])
			continue;
		CHECK(verbs_wait(member[i].cq, &wc));
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 64 + 40);
		CHECK(wc.src_qp == member[0].qp->qp_num && (wc.wc_flags & IBV_WC_GRH));
	}
	/* Waits for extra copies, much longer than frames take between two rings. */
	for (uint64_t end = now_ns() + 100000000; now_ns() < end; sched_yield()) {
		for (int i = 0; i < MEMBERS; i++)
			CHECK(ibv_poll_cq(member[i].cq, 1, &wc) == 0);
	}
	for (int i = 0; i < MEMBERS; i++) { /* the unused receives */
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

		CHECK(ibv_modify_qp(member[i].qp, &attr, IBV_QP_STATE) == 0);
		CHECK(raise_qp(member[i].s, member[i].qp, 0, IBV_QPS_RTS) == 0);
	}
}

REQUIREMENT("WIRE-10")
static void
every_member_gets_a_copy(void)
{
	static const unsigned int all[MEMBERS] = {0, 1, 1, 1, 1}, some[MEMBERS] = {0, 1, 0, 1, 0};
	union ibv_gid gid, unicast;
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.sgid_index = 1, .hop_limit = 1}};
	struct ibv_qp *rc = make_qp(&side[0], IBV_QPT_RC, side[0].cq, side[0].cq);
	struct ibv_ah *ah;

	memset(&gid, 0, sizeof(gid));
	gid.raw[10] = gid.raw[11] = 0xff;
	gid.raw[12] = 239, gid.raw[13] = 1, gid.raw[14] = 2, gid.raw[15] = 3;
	attr.grh.dgid = gid;
	ah = ibv_create_ah(side[0].pd, &attr);
	CHECK(ah);
	for (int i = 0; i < MEMBERS; i++) {
		struct side *s = &side[i >= 3];

		member[i].s = s;
		member[i].cq = ibv_create_cq(s->ctx, 2 * SIDE_DEPTH, NULL, NULL, 0);
		member[i].qp = make_qp(s, IBV_QPT_UD, member[i].cq, member[i].cq);
		CHECK(raise_qp(s, member[i].qp, 0, IBV_QPS_RTS) == 0);
		CHECK(ibv_attach_mcast(member[i].qp, &gid, 0) == 0);
	}
	CHECK(ibv_attach_mcast(member[1].qp, &gid, 0) == 0); /* twice: still one copy */
	ibv_query_gid(side[0].ctx, 1, 1, &unicast);
	CHECK(ibv_attach_mcast(member[1].qp, &unicast, 0) == EINVAL);
	CHECK(ibv_attach_mcast(rc, &gid, 0) == EINVAL);
	copies_are(ah, all);
	CHECK(ibv_detach_mcast(member[2].qp, &gid, 0) == 0);
	CHECK(ibv_detach_mcast(member[2].qp, &gid, 0) == EINVAL);
	CHECK(ibv_detach_mcast(member[4].qp, &gid, 0) == 0);
	copies_are(ah, some);
	for (int i = 0; i < MEMBERS; i++) {
		if (some[i] != 0 || i == 0) { /* a QP in a group cannot be destroyed */
			CHECK(ibv_destroy_qp(member[i].qp) == EBUSY);
			CHECK(ibv_detach_mcast(member[i].qp, &gid, 0) == 0);
		}
		CHECK(ibv_destroy_qp(member[i].qp) == 0);
		CHECK(ibv_destroy_cq(member[i].cq) == 0);
	}
	CHECK(ibv_destroy_ah(ah) == 0);
	CHECK(ibv_destroy_qp(rc) == 0);
}

/* --- destroying under traffic ---------------------------------------------------------------- */

/* Full queues between two QPs, one of which is destroyed; none of its completions follows. */
static void
destroy_under_traffic(enum ibv_qp_type type, unsigned int round)
{
	struct ibv_qp *qp[2];
	struct ibv_wc wc;
	uint32_t gone;
	int n;

	for (int i = 0; i < 2; i++)
		qp[i] = make_qp(&side[i], type, side[i].cq, side[i].cq);
	for (int i = 0; i < 2; i++) {
		CHECK(raise_qp(&side[i], qp[i], qp[1 - i]->qp_num, IBV_QPS_RTS) == 0);
		for (unsigned int k = 0; k < SIDE_DEPTH; k++)
			CHECK(recv_one(&side[i], qp[i], k) == 0);
	}
	for (unsigned int k = 0; k < SIDE_DEPTH; k++) {
		CHECK(send_len(&side[0], qp[0], k, BYTES) == 0);
		CHECK(send_len(&side[1], qp[1], k, BYTES) == 0);
	}
	for (unsigned int k = 0; k < round % 12; k++)
		verbs_wait(side[0].cq, &wc);
	if (round % 5 == 4) /* in the error state, flushing */
		CHECK(raise_qp(&side[0], qp[0], 0, IBV_QPS_ERR) == 0);
	gone = qp[0]->qp_num;
	CHECK(ibv_destroy_qp(qp[0]) == 0);
	for (unsigned int k = 0; k < 200; k++, sched_yield()) {
		while ((n = ibv_poll_cq(side[0].cq, 1, &wc)) == 1)
			CHECK(wc.qp_num != gone);
		CHECK(n == 0);
	}
	CHECK(ibv_destroy_qp(qp[1]) == 0);
	while (ibv_poll_cq(side[1].cq, 1, &wc) == 1)
		CHECK(wc.qp_num != gone); /* nor of the other one: it is destroyed, too */
}

REQUIREMENT("QP-22")
static void
destroy_works_under_traffic(void)
{
	for (unsigned int round = 0; round < ROUNDS; round++)
		destroy_under_traffic(round & 1 ? IBV_QPT_UC : IBV_QPT_RC, round);
}

/* --- a last datagram -------------------------------------------------------------------------- */

static int
send_datagram(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = {.addr = (uintptr_t)side[0].buf,
			      .length = 64,
			      .lkey = side[0].mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = VERBS_QKEY;
	return ibv_post_send(qp, &wr, &bad);
}

/* Posts a datagram and destroys the QP at once, without polling the completion: it must arrive. */
REQUIREMENT("WIRE-07")
static void
datagram_posted_before_destroy_arrives(void)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.sgid_index = 1, .hop_limit = 1}};
	struct ibv_qp *to = make_qp(&side[1], IBV_QPT_UD, side[1].cq, side[1].cq);
	struct ibv_ah *ah;
	struct ibv_wc wc;

	ibv_query_gid(side[1].ctx, 1, 1, &attr.grh.dgid);
	ah = ibv_create_ah(side[0].pd, &attr);
	CHECK(ah && to && raise_qp(&side[1], to, 0, IBV_QPS_RTS) == 0);
	for (unsigned int round = 0; ah && to && round < ROUNDS; round++) {
		struct ibv_qp *qp = make_qp(&side[0], IBV_QPT_UD, side[0].cq, side[0].cq);

		CHECK(qp && raise_qp(&side[0], qp, 0, IBV_QPS_RTS) == 0);
		CHECK(recv_one(&side[1], to, round) == 0);
		if (round & 1)
			usleep(3000); /* lets the worker sleep */
		CHECK(send_datagram(qp, ah, to->qp_num) == 0);
		if (round == 0) /* the next hop's address may not be resolved yet */
			CHECK(verbs_wait(side[0].cq, &wc) && wc.status == IBV_WC_SUCCESS);
		CHECK(ibv_destroy_qp(qp) == 0);
		CHECK(verbs_wait(side[1].cq, &wc) && wc.status == IBV_WC_SUCCESS &&
		      wc.wr_id == round);
		CHECK(ibv_poll_cq(side[0].cq, 1, &wc) == 0); /* the QP no longer exists */
	}
	CHECK(ibv_destroy_ah(ah) == 0);
	CHECK(ibv_destroy_qp(to) == 0);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(qp_needs_its_cqs_first),
		SIDE_TEST(only_rc_uc_and_ud_can_be_created),
		SIDE_TEST(refused_modify_leaves_the_state),
		SIDE_TEST(every_member_gets_a_copy),
		SIDE_TEST(destroy_works_under_traffic),
		SIDE_TEST(datagram_posted_before_destroy_arrives),
	};

	return side_main(argc, argv, side, 2, tests, sizeof(tests) / sizeof(tests[0]));
}
