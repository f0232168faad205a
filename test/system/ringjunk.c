/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile client: an ordinary verbs program that makes a queue pair connected to itself. It then
 * writes random words over every shared writable memfd mapping of its process, which contain its
 * rings, while it continues to post. The program itself may fail in any way.
 *
 *   ringjunk DEVICE SEED
 *
 * Exit status 0 after the scribbling, 1 if it could not be set up (message on stdout).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "kit/program.h"
#include "kit/verbs.h"

#define MAX_RINGS 64
#define BYTES     65536
#define RUN_MS    1500

static struct verbs_map rings[MAX_RINGS];
static uint64_t rng;

static uint64_t
next(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static void
connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;
	int rc = ibv_query_gid(qp->context, 1, 1, &gid);

	attr = verbs_attr(qp->qp_num, &gid);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	attr.timeout = 10;
	attr.retry_cnt = attr.rnr_retry = 3;
	rc = rc ? rc : verbs_raise(qp, &attr, IBV_QPS_RTS);
	if (rc)
		die("the queue pair was not connected: %d", rc);
}

static void
post(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mr->addr,
			      .length = next() % (BYTES / 2),
			      .lkey = mr->lkey};
	struct ibv_recv_wr *bad_recv, recv = {.sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad_send,
		send = {.sg_list = &sge,
			.num_sge = 1,
			.opcode = next() & 1 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED};

	send.wr.rdma.remote_addr = (uintptr_t)mr->addr + BYTES / 2;
	send.wr.rdma.rkey = mr->rkey;
	(void)ibv_post_recv(qp, &recv, &bad_recv); /* full or not: posts keep the daemon reading */
	(void)ibv_post_send(qp, &send, &bad_send);
}

static void
scribble(int nrings)
{
	for (int i = 0; i < 200; i++) {
		int r = next() % nrings;
		size_t at = next() % rings[r].count;

		/* rings start at a segment's low end: hit their headers often */
		if (next() & 1)
			at %= rings[r].count < 1024 ? rings[r].count : 1024;
		rings[r].words[at] = next() & 3 ? next() : next() & 0xff;
	}
}

int
main(int argc, char **argv)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 2, .max_recv_sge = 2},
	};
	uint64_t end;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	int nrings;

	if (argc != 3)
		die("usage: ringjunk DEVICE SEED");
	rng = strtoull(argv[2], NULL, 0) * 2654435761u + 88172645463325252ull;
	ctx = verbs_open(argv[1]);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	mr = pd ? ibv_reg_mr(pd, calloc(1, BYTES), BYTES,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
		: NULL;
	init.send_cq = init.recv_cq = ctx ? ibv_create_cq(ctx, 64, NULL, NULL, 0) : NULL;
	qp = mr && init.send_cq ? ibv_create_qp(pd, &init) : NULL;
	if (!qp)
		die("set-up failed");
	connect_to_itself(qp);
	nrings = verbs_maps(rings, MAX_RINGS);
	if (!nrings)
		die("no shared memfd mapping: nothing to scribble on");
	end = now_ns() + RUN_MS * 1000000ull;
	do {
		post(qp, mr);
		scribble(nrings);
	} while (now_ns() < end);
	printf("scribbled over %d mappings\n", nrings);
	fflush(stdout);
	_exit(0); /* no destructor may run on the corrupted memory */
}
