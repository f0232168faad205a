/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile client: an ordinary verbs program that makes a queue pair connected to itself, then
 * writes random words over every shared writable memfd mapping of its process, which is where its
 * rings are, while it goes on posting. Whatever happens to it is its own doing.
 *
 *   ringjunk DEVICE SEED
 *
 * Exit status 0 after the scribbling, 1 if it could not be set up (message on stdout).
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define MAX_RINGS 64
#define BYTES     65536
#define RUN_MS    1500

static struct {
	volatile uint32_t *words;
	size_t count;
} rings[MAX_RINGS];

static uint64_t rng;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	exit(1);
}

static uint64_t
next(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static int
find_rings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t start, end;
	char line[512], perms[5];
	int n = 0;

	while (maps && fgets(line, sizeof(line), maps) && n < MAX_RINGS) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, perms) != 3)
			continue;
		if (strcmp(perms, "rw-s") || !strstr(line, "memfd:"))
			continue;
		rings[n].words = (volatile uint32_t *)(uintptr_t)start;
		rings[n++].count = (end - start) / 4;
	}
	if (maps)
		fclose(maps);
	return n;
}

static struct ibv_context *
open_device(const char *name)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; list && i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	die("no device %s", name);
}

static void
connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 10,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = 1, .hop_limit = 1}},
	};
	union ibv_gid gid;
	int rc = ibv_query_gid(qp->context, 1, 1, &gid);

	attr.ah_attr.grh.dgid = gid;
	rc = rc
		     ?: ibv_modify_qp(qp, &attr,
				      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					      IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	rc = rc
		     ?: ibv_modify_qp(qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	rc = rc
		     ?: ibv_modify_qp(qp, &attr,
				      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					      IBV_QP_MAX_QP_RD_ATOMIC);
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
	(void)ibv_post_recv(qp, &recv, &bad_recv); /* full or not: the posts are only bait */
	(void)ibv_post_send(qp, &send, &bad_send);
}

static void
scribble(int nrings)
{
	for (int i = 0; i < 200; i++) {
		int r = next() % nrings;
		size_t at = next() % rings[r].count;

		/* rings start at a segment's low end: aim at their heads often */
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
	struct timespec start, now;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	int nrings;

	if (argc != 3)
		die("usage: ringjunk DEVICE SEED");
	rng = strtoull(argv[2], NULL, 0) * 2654435761u + 88172645463325252ull;
	ctx = open_device(argv[1]);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	mr = pd ? ibv_reg_mr(pd, calloc(1, BYTES), BYTES,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
		: NULL;
	init.send_cq = init.recv_cq = ctx ? ibv_create_cq(ctx, 64, NULL, NULL, 0) : NULL;
	qp = mr && init.send_cq ? ibv_create_qp(pd, &init) : NULL;
	if (!qp)
		die("set-up failed");
	connect_to_itself(qp);
	nrings = find_rings();
	if (!nrings)
		die("no shared memfd mapping: nothing to scribble on");
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		post(qp, mr);
		scribble(nrings);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
		 RUN_MS);
	printf("scribbled over %d mappings\n", nrings);
	fflush(stdout);
	_exit(0); /* no destructor may trip over the wreck */
}
