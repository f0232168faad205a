/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile client: it makes endless work that sends no packet, by moving the producer index of its
 * queues itself, as fast as the daemon's worker consumes.
 *
 *   spinner DEVICE local    binds and invalidations of a window, forever
 *   spinner DEVICE flush    sends and receives of a queue pair in the error state, forever
 *   spinner DEVICE bells    lost doorbells, forever, with many queue pairs to poll
 *   spinner DEVICE order-local, order-flush
 *                           a full queue of these, once, and a message of another queue pair
 *                           behind it, which must overtake some of it: exit status 0
 *
 * Prints "spinning" when the worker has begun. Ends by a signal; on SIGTERM it prints the number of
 * WQEs consumed. Exit status 1 if it could not be set up (message on stdout).
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "kit/program.h"
#include "kit/verbside.h"

#define DEPTH     16384u
#define BELL_QPS  200
#define TRIES     30
#define MAX_MAPS  256
#define HDR_CONS  16 /* word offset in a queue's header (uroce_abi/ring.h) */
#define HDR_DONE  17
#define CQ_WORDS  64 /* header of a CQ and its first entry */
#define CQES      65536
#define BELL_QPN0 32 /* word offset of the first QPN in a doorbell ring */

typedef volatile uint32_t word;

static struct side s;
static struct verbs_map maps[MAX_MAPS];
static int nmaps;
static volatile sig_atomic_t stop;
static unsigned int signaled; /* send flags of local operations */

static void
on_term(int sig)
{
	stop = sig;
}

/* Finds the queue header with these indices: prod posted WQEs, cons consumed. */
static word *
find_ring(uint32_t prod, uint32_t cons)
{
	for (int i = 0; i < nmaps; i++) {
		for (size_t at = 0; at + HDR_DONE < maps[i].count; at += 16) {
			word *w = maps[i].words + at;

			if (w[0] == prod && w[HDR_CONS] == cons && w[HDR_DONE] == cons)
				return w;
		}
	}
	die("no queue with indices %u and %u in %d mappings", prod, cons, nmaps);
}

/* Finds the CQ header: n completions taken, but not all of their words. */
static word *
find_cq(uint32_t n)
{
	for (int i = 0; i < nmaps; i++) {
		for (size_t at = 0; at + CQ_WORDS < maps[i].count; at += 16) {
			word *w = maps[i].words + at;

			/* the phase of the first entry, in its last line */
			if (w[0] == n && w[CQ_WORDS - 1] == 1)
				return w;
		}
	}
	die("no completion queue with %u completions", n);
}

/* Finds the doorbell ring whose first doorbell was for this QP. */
static word *
find_bells(uint32_t qpn)
{
	for (int i = 0; i < nmaps; i++) {
		for (size_t at = 0; at + BELL_QPN0 < maps[i].count; at += 16) {
			word *w = maps[i].words + at;

			if (w[BELL_QPN0] == qpn && w[0] != 0 && w[0] <= 1024)
				return w;
		}
	}
	die("no doorbell ring with %#x", qpn);
}

static struct ibv_qp *
deep_qp(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(s.pd, &init);

	if (!qp || side_raise(&s, qp, qp->qp_num))
		die("no queue pair: %s", strerror(errno));
	return qp;
}

/* A bind and an invalidation, twice: afterwards the window is as before. */
static void
post_round(struct ibv_qp *qp, struct ibv_mw *mw)
{
	for (int i = 0; i < 4; i++) {
		struct ibv_send_wr *bad, wr = {
						 .opcode = IBV_WR_LOCAL_INV,
						 .invalidate_rkey = mw->rkey,
						 .send_flags = signaled,
					 };

		if (i % 2 == 0) {
			wr.opcode = IBV_WR_BIND_MW;
			wr.bind_mw.mw = mw;
			wr.bind_mw.rkey = mw->rkey ^ 1;
			wr.bind_mw.bind_info.mr = s.mr;
			wr.bind_mw.bind_info.addr = (uintptr_t)s.buf;
			wr.bind_mw.bind_info.length = 64;
			wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
		}
		if (ibv_post_send(qp, &wr, &bad))
			die("no bind: %s", strerror(errno));
	}
}

/* Keeps the queue at ring full, and its doorbell ring at bells inconsistent, until the signal. */
static void
spin(word *ring, word *other, word *cq, word *bells)
{
	uint64_t consumed = 0;
	uint32_t was = ring != NULL ? ring[HDR_CONS] : 0;

	while (!stop) {
		/* All completions were polled before more is posted; else the CQ overruns. */
		if (cq != NULL)
			__atomic_store_n(cq, ring[HDR_DONE] + other[HDR_DONE], __ATOMIC_RELEASE);
		if (ring != NULL) {
			consumed += ring[HDR_CONS] - was;
			was = ring[HDR_CONS];
			__atomic_store_n(ring, was + DEPTH, __ATOMIC_RELEASE);
		}
		if (other != NULL)
			__atomic_store_n(other, other[HDR_CONS] + DEPTH, __ATOMIC_RELEASE);
		if (bells[1] == 0) {
			bells[1] = 1;
			consumed += ring == NULL;
		}
		if (consumed > 4 * DEPTH || (ring == NULL && consumed > 8)) {
			static bool said;

			if (!said)
				printf("spinning\n");
			said = true;
			fflush(stdout);
		}
	}
	printf("consumed %" PRIu64 "\n", consumed);
	fflush(stdout);
	_exit(0); /* no destructor may run on the corrupted memory */
}

/* A queue whose slots hold DEPTH executed local operations, to be executed again. */
static word *
local_ring(struct ibv_qp *qp)
{
	struct ibv_mw *mw = ibv_alloc_mw(s.pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = ibv_reg_mr(s.pd, s.buf, SIDE_BYTES, SIDE_ACCESS | IBV_ACCESS_MW_BIND);

	if (!mw || !mr)
		die("no window: %s", strerror(errno));
	s.mr = mr;
	for (uint32_t i = 0; i < DEPTH; i += 4)
		post_round(qp, mw);
	nmaps = verbs_maps(maps, MAX_MAPS);
	for (int tries = 0; !stop && tries < 100000; tries++) {
		for (int i = 0; i < nmaps; i++) {
			for (size_t at = 0; at + HDR_DONE < maps[i].count; at += 16) {
				word *w = maps[i].words + at;

				if (w[0] == DEPTH && w[HDR_CONS] == DEPTH)
					return w;
			}
		}
	}
	die("the operations were not executed");
}

static void
spin_local(void)
{
	struct ibv_qp *qp = deep_qp(s.cq);
	word *ring = local_ring(qp);

	spin(ring, NULL, NULL, find_bells(qp->qp_num));
}

/* After a WRITE of qp was posted: counts completions of others before its own. Takes all. */
static uint32_t
others_before(struct ibv_cq *cq, uint32_t qpn, uint32_t others)
{
	uint32_t before = 0, n = 0;
	bool found = false;
	struct ibv_wc wc;

	while (!found || n < others) {
		if (stop)
			_exit(0);
		if (ibv_poll_cq(cq, 1, &wc) <= 0)
			continue;
		if (wc.qp_num == qpn)
			found = true;
		else
			n++;
		before += !found;
	}
	return before;
}

static void
post_write(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)s.buf, 8, s.mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED,
					 .sg_list = &sge,
					 .num_sge = 1,
				 };

	wr.wr.rdma.remote_addr = (uintptr_t)s.buf + 64;
	wr.wr.rdma.rkey = s.mr->rkey;
	if (ibv_post_send(qp, &wr, &bad))
		die("no write");
}

/* In one of TRIES tries, a message posted behind DEPTH such WQEs must overtake some of them. */
static void
say_order(uint32_t before)
{
	static int tries;

	if (before < DEPTH) {
		printf("overtook %u of %u\n", DEPTH - before, DEPTH);
		exit(0);
	}
	if (++tries == TRIES)
		die("waited for all %u, %d times", DEPTH, tries);
}

static void
order_flush(void)
{
	struct ibv_cq *cq = ibv_create_cq(s.ctx, CQES, NULL, NULL, 0);
	struct ibv_qp *writer = cq ? side_qp(s.pd, IBV_QPT_RC, cq) : NULL;
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr *bad, recv = {.wr_id = 1};

	if (!writer || side_raise(&s, writer, writer->qp_num))
		die("no writer");
	for (;;) {
		struct ibv_qp *qp = deep_qp(cq);

		for (uint32_t i = 0; i < DEPTH; i++) {
			if (ibv_post_recv(qp, &recv, &bad))
				die("no receive");
		}
		if (ibv_modify_qp(qp, &err, IBV_QP_STATE))
			die("no error state");
		post_write(writer);
		say_order(others_before(cq, writer->qp_num, DEPTH));
		ibv_destroy_qp(qp);
	}
}

static void
order_local(void)
{
	struct ibv_cq *cq = ibv_create_cq(s.ctx, CQES, NULL, NULL, 0);
	struct ibv_qp *qp = cq ? deep_qp(cq) : NULL;
	struct ibv_qp *writer = cq ? side_qp(s.pd, IBV_QPT_RC, cq) : NULL;
	word *ring, *bells;

	if (!qp || !writer || side_raise(&s, writer, writer->qp_num))
		die("no writer");
	signaled = IBV_SEND_SIGNALED;
	ring = local_ring(qp);
	bells = find_bells(qp->qp_num);
	post_write(writer);
	others_before(cq, writer->qp_num, DEPTH);
	for (;;) {
		__atomic_store_n(ring, ring[HDR_CONS] + DEPTH, __ATOMIC_RELEASE);
		bells[1] = 1;
		post_write(writer);
		say_order(others_before(cq, writer->qp_num, DEPTH));
	}
}

static void
spin_flush(void)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_cq *cq = ibv_create_cq(s.ctx, CQES, NULL, NULL, 0);
	struct ibv_qp *qp = cq ? deep_qp(cq) : NULL;
	struct ibv_send_wr *bad, send = {.opcode = IBV_WR_RDMA_WRITE};
	struct ibv_recv_wr *bad_recv, recv = {.wr_id = 1};
	struct ibv_wc wc;
	word *sq, *rq;

	if (!qp || ibv_modify_qp(qp, &err, IBV_QP_STATE))
		die("no queue pair in the error state");
	/* 3 and 5 WQEs, to tell the queues apart */
	for (int i = 0; i < 5; i++) {
		if ((i < 3 && ibv_post_send(qp, &send, &bad)) ||
		    ibv_post_recv(qp, &recv, &bad_recv))
			die("no post");
	}
	for (int i = 0; i < 8; i++) {
		if (!verbs_wait(cq, &wc) || wc.status != IBV_WC_WR_FLUSH_ERR)
			die("not flushed");
	}
	nmaps = verbs_maps(maps, MAX_MAPS);
	sq = find_ring(3, 3);
	rq = find_ring(5, 5);
	spin(rq, sq, find_cq(8), find_bells(qp->qp_num));
}

static void
spin_bells(void)
{
	struct ibv_send_wr *bad, send = {.opcode = IBV_WR_RDMA_WRITE};
	struct ibv_qp *first = deep_qp(s.cq);

	for (int i = 0; i < BELL_QPS; i++) {
		struct ibv_qp *qp = side_qp(s.pd, IBV_QPT_RC, s.cq);

		if (!qp || side_raise(&s, qp, qp->qp_num))
			die("no queue pair: %s", strerror(errno));
	}
	if (ibv_post_send(first, &send, &bad))
		die("no post");
	nmaps = verbs_maps(maps, MAX_MAPS);
	spin(NULL, NULL, NULL, find_bells(first->qp_num));
}

int
main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: spinner DEVICE local|flush|bells");
	signal(SIGTERM, on_term);
	side_open(&s, argv[1]);
	if (!strcmp(argv[2], "local"))
		spin_local();
	else if (!strcmp(argv[2], "flush"))
		spin_flush();
	else if (!strcmp(argv[2], "order-local"))
		order_local();
	else if (!strcmp(argv[2], "order-flush"))
		order_flush();
	else
		spin_bells();
	return 0;
}
