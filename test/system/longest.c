/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The longest message, 2^31 bytes, from one device to another: it ends, and every byte is right.
 * Path MTUs 4096 and 256, with which it has 2^23 packets: half of all PSNs.
 *
 *   longest DEVICE DEVICE
 *
 * Takes 4 GiB of memory. Prints the rate of each message. TAP; exit status 0: all passed.
 */
#include "kit/verbside.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LONGEST (1ull << 31)
#define WAITS   20 /* each a minute, which only ends a hang */

static struct side side[2];
static uint8_t *buf[2];
static struct ibv_mr *mr[2];

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Every word differs from the others of the buffer, and from those of another seed. */
static void
fill(uint8_t *to, uint64_t seed)
{
	uint64_t *words = (uint64_t *)to;

	for (uint64_t i = 0; i < LONGEST / sizeof(*words); i++)
		words[i] = (i + seed) * 0x9e3779b97f4a7c15u;
}

static void
buffers_of_the_longest_message_are_registered(void)
{
	for (int i = 0; i < 2; i++) {
		double from = now_s();

		buf[i] = mmap(NULL, LONGEST, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		CHECK(buf[i] != MAP_FAILED);
		mr[i] = buf[i] != MAP_FAILED ? ibv_reg_mr(side[i].pd, buf[i], LONGEST, SIDE_ACCESS)
					     : NULL;
		CHECK(mr[i]);
		printf("# made and registered in %.2f s\n", now_s() - from);
	}
}

static bool
await(struct ibv_cq *cq, struct ibv_wc *wc)
{
	for (int i = 0; i < WAITS; i++) {
		if (verbs_wait(cq, wc))
			return true;
	}
	return false;
}

/* RC QPs of the two devices, connected. */
static void
connect_qps(struct ibv_qp *qp[2], enum ibv_mtu mtu)
{
	for (int i = 0; i < 2; i++) {
		qp[i] = side_qp(side[i].pd, IBV_QPT_RC, side[i].cq);
		CHECK(qp[i]);
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr;
		union ibv_gid gid;

		CHECK(ibv_query_gid(side[1 - i].ctx, 1, 1, &gid) == 0);
		attr = verbs_attr(qp[1 - i]->qp_num, &gid);
		attr.path_mtu = mtu;
		attr.qp_access_flags = SIDE_ACCESS;
		CHECK(verbs_raise(qp[i], &attr, IBV_QPS_RTS) == 0);
	}
}

static void
transfer(enum ibv_wr_opcode op, enum ibv_mtu mtu)
{
	bool reads = op == IBV_WR_RDMA_READ, sends = op == IBV_WR_SEND;
	uint8_t *from = buf[reads], *to = buf[!reads];
	struct ibv_sge sge = {(uintptr_t)buf[0], (uint32_t)LONGEST, mr[0]->lkey};
	struct ibv_sge room = {(uintptr_t)buf[1], (uint32_t)LONGEST, mr[1]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op}, *bad;
	struct ibv_recv_wr recv = {.sg_list = &room, .num_sge = 1}, *bad_recv;
	struct ibv_qp *qp[2];
	struct ibv_wc wc;
	double since;

	if (side_failures() != 0)
		return;
	connect_qps(qp, mtu);
	fill(from, (uint64_t)op + ((uint64_t)mtu << 32));
	memset(to, 0, LONGEST);
	if (sends)
		CHECK(ibv_post_recv(qp[1], &recv, &bad_recv) == 0);
	wr.wr.rdma.remote_addr = (uintptr_t)buf[1];
	wr.wr.rdma.rkey = mr[1]->rkey;
	since = now_s();
	CHECK(ibv_post_send(qp[0], &wr, &bad) == 0);
	CHECK(await(side[0].cq, &wc) && wc.status == IBV_WC_SUCCESS);
	printf("# path MTU %u: %.2f GB/s\n", 128u << mtu,
	       (double)LONGEST / 1e9 / (now_s() - since));
	if (sends)
		CHECK(await(side[1].cq, &wc) && wc.status == IBV_WC_SUCCESS &&
		      wc.byte_len == LONGEST);
	CHECK(memcmp(from, to, LONGEST) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(ibv_destroy_qp(qp[i]) == 0);
}

static void
longest_write_ends(void)
{
	transfer(IBV_WR_RDMA_WRITE, IBV_MTU_4096);
}

static void
longest_write_of_the_smallest_packets_ends(void)
{
	transfer(IBV_WR_RDMA_WRITE, IBV_MTU_256);
}

static void
longest_read_ends(void)
{
	transfer(IBV_WR_RDMA_READ, IBV_MTU_4096);
}

static void
longest_read_of_the_smallest_packets_ends(void)
{
	transfer(IBV_WR_RDMA_READ, IBV_MTU_256);
}

static void
longest_send_ends(void)
{
	transfer(IBV_WR_SEND, IBV_MTU_4096);
}

static void
longest_send_of_the_smallest_packets_ends(void)
{
	transfer(IBV_WR_SEND, IBV_MTU_256);
}

static void
buffers_are_deregistered(void)
{
	for (int i = 0; i < 2; i++) {
		double from = now_s();

		CHECK(mr[i] && ibv_dereg_mr(mr[i]) == 0);
		printf("# deregistered in %.2f s\n", now_s() - from);
	}
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(buffers_of_the_longest_message_are_registered),
		SIDE_TEST(longest_write_ends),
		SIDE_TEST(longest_write_of_the_smallest_packets_ends),
		SIDE_TEST(longest_read_ends),
		SIDE_TEST(longest_read_of_the_smallest_packets_ends),
		SIDE_TEST(longest_send_ends),
		SIDE_TEST(longest_send_of_the_smallest_packets_ends),
		SIDE_TEST(buffers_are_deregistered),
	};

	return side_main(argc, argv, side, 2, tests, sizeof(tests) / sizeof(tests[0]));
}
