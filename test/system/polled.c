/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that polls memory instead of completions, as latency tests and MPI's eager RDMA
 * do: it takes a message as complete when it sees its last byte, or the flag that a second WRITE
 * brings. Two processes send each other messages in turn; each checks what it received.
 *
 *   polled -d DEVICE -p TCP-PORT [--mtu N] [--rounds N] [--copied] [SERVER]
 *
 * Prints a line for each kind and length of messages that were seen incomplete; exit status 0 if
 * there were none.
 */
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <infiniband/verbs.h>
#include "kit/link.h"
#include "kit/program.h"
#include "kit/verbs.h"

#define MOST    (64u * 1024)     /* bytes of a message */
#define VALUES  4u               /* messages consist of one byte 1 .. VALUES, in turn */
#define DST     (VALUES * MOST)  /* offset of the memory of received messages .. */
#define FLAG    (DST + 2 * MOST) /* .. and of the flag */
#define BYTES   (FLAG + 4096)
#define SPINS   2000u /* polls between two yields: another process may need the core */
#define HANG_NS 120000000000ull

enum kind { KIND_WRITE, KIND_FLAG, KIND_IMM, KIND_SEND, KIND_READ };
static const char *const kind_name[] = {"WRITE", "WRITE behind a flag", "WRITE with immediate",
					"SEND", "READ"};
static const uint32_t lens[] = {1,   2,    7,    8,    9,    33,   64,   255,
				511, 1000, 2047, 3000, 4096, 5000, 65536};

/* How the peer is reached. */
struct told {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
};

static struct {
	const char *device, *host;
	uint32_t port, mtu, rounds;
	bool copied;
} opt = {.mtu = 1024, .rounds = 400};

static struct {
	int link;
	bool first; /* sends first in each round */
	struct ibv_pd *pd;
	struct ibv_cq *sent, *received;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *bytes;
	struct told peer;
	uint32_t torn; /* messages seen incomplete */
} end;

static void
options(int argc, char **argv)
{
	static const struct option names[] = {{"mtu", required_argument, NULL, 'm'},
					      {"rounds", required_argument, NULL, 'r'},
					      {"copied", no_argument, NULL, 'c'},
					      {0}};
	int c;

	while ((c = getopt_long(argc, argv, "d:p:", names, NULL)) != -1) {
		switch (c) {
		case 'd':
			opt.device = optarg;
			break;
		case 'p':
			opt.port = (uint32_t)option_number("p", 1, UINT16_MAX);
			break;
		case 'm':
			opt.mtu = (uint32_t)option_number("mtu", 256, 4096);
			break;
		case 'r':
			opt.rounds = (uint32_t)option_number("rounds", 1, 1000000);
			break;
		case 'c':
			opt.copied = true;
			break;
		default:
			exit(2);
		}
	}
	opt.host = argv[optind];
}

static void
connect_qp(struct ibv_context *ctx)
{
	struct told mine = {.addr = (uintptr_t)end.bytes,
			    .qpn = end.qp->qp_num,
			    .rkey = end.mr->rkey};
	struct ibv_qp_attr attr;

	if (ibv_query_gid(ctx, 1, 1, &mine.gid))
		die("no GID 1");
	link_swap(end.link, &mine, &end.peer, sizeof(mine));
	attr = verbs_attr(end.peer.qpn, &end.peer.gid);
	attr.path_mtu = verbs_mtu(opt.mtu);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	if (verbs_raise(end.qp, &attr, IBV_QPS_RTS))
		die("the queue pair cannot be connected");
}

static void
open_all(void)
{
	struct ibv_context *ctx = verbs_open(opt.device);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = sizeof(uint64_t)},
	};

	if (!ctx || !(end.pd = ibv_alloc_pd(ctx)) ||
	    !(end.sent = ibv_create_cq(ctx, 8, NULL, NULL, 0)) ||
	    !(end.received = ibv_create_cq(ctx, 8, NULL, NULL, 0)))
		die("device %s cannot be opened", opt.device);
	init.send_cq = end.sent;
	init.recv_cq = end.received;
	end.bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (end.bytes == MAP_FAILED || !(end.qp = ibv_create_qp(end.pd, &init)))
		die("no queue pair");
	for (uint32_t i = 0; i < VALUES; i++)
		memset(end.bytes + i * MOST, (int)i + 1, MOST);
	end.mr = ibv_reg_mr(end.pd, end.bytes, BYTES,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ);
	if (!end.mr)
		die("memory cannot be registered");
	connect_qp(ctx);
}

/* The value of the messages of a round; never that of the round before. */
static uint8_t
value_of(uint32_t round)
{
	return (uint8_t)(round % VALUES + 1);
}

static void
completed(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (!verbs_wait(cq, &wc) || wc.status != IBV_WC_SUCCESS)
		die("no good completion");
}

static void
post_receive(enum kind kind, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)end.bytes + DST + off,
			      .length = len,
			      .lkey = end.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = kind == KIND_SEND}, *bad;

	if (ibv_post_recv(end.qp, &wr, &bad))
		die("a receive is refused");
}

static void
post_flag(uint32_t round)
{
	uint64_t flag = round + 1;
	struct ibv_sge sge = {.addr = (uintptr_t)&flag, .length = sizeof(flag)};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				 .wr.rdma = {end.peer.addr + FLAG, end.peer.rkey}},
			   *bad;

	if (ibv_post_send(end.qp, &wr, &bad))
		die("a flag is refused");
}

static void
post_message(enum kind kind, uint32_t round, uint32_t off, uint32_t len)
{
	static const enum ibv_wr_opcode opcode[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE,
						    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
						    IBV_WR_RDMA_READ};
	uint32_t src = (value_of(round) - 1) * MOST;
	bool read = kind == KIND_READ;
	struct ibv_sge sge = {.addr = (uintptr_t)end.bytes + (read ? DST + off : src),
			      .length = len,
			      .lkey = end.mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode[kind],
		.send_flags = kind == KIND_FLAG ? 0 : IBV_SEND_SIGNALED,
		.wr.rdma = {end.peer.addr + (read ? src : DST + off), end.peer.rkey},
	};
	struct ibv_send_wr *bad;

	if (ibv_post_send(end.qp, &wr, &bad))
		die("a message is refused");
	if (kind == KIND_FLAG)
		post_flag(round);
}

/* Is what a message shows last there? */
static bool
arrived(enum kind kind, uint32_t round, const volatile uint8_t *last)
{
	const volatile uint64_t *flag = (const volatile uint64_t *)(end.bytes + FLAG);

	return kind == KIND_FLAG ? *flag == round + 1 : *last == value_of(round);
}

/* Waits for the round's message; returns whether all of it was there when its last byte was. */
static bool
message_is_whole(enum kind kind, uint32_t round, uint32_t off, uint32_t len)
{
	const uint8_t *at = end.bytes + DST + off;
	uint64_t start = now_ns(), polls = 0;
	uint32_t i = 0;

	while (!arrived(kind, round, at + len - 1)) {
		if (++polls % SPINS != 0)
			continue;
		if (now_ns() - start > HANG_NS)
			die("%s of %" PRIu32 " bytes did not arrive", kind_name[kind], len);
		sched_yield();
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	while (i < len && __atomic_load_n(at + i, __ATOMIC_RELAXED) == value_of(round))
		i++;
	return i == len;
}

/* One message in either direction. Returns the number of those seen incomplete by this side. */
static uint32_t
one_round(enum kind kind, uint32_t round, uint32_t off, uint32_t len)
{
	bool takes = kind == KIND_IMM || kind == KIND_SEND, whole;

	if (end.first || kind == KIND_READ)
		post_message(kind, round, off, len);
	whole = message_is_whole(kind, round, off, len);
	if (takes) {
		completed(end.received);
		post_receive(kind, off, len);
	}
	if (!end.first && kind != KIND_READ)
		post_message(kind, round, off, len);
	completed(end.sent);
	return !whole;
}

static void
all_rounds(enum kind kind, uint32_t off, uint32_t len)
{
	uint32_t rounds = len > 8192 ? opt.rounds / 4 : opt.rounds, torn = 0;
	bool takes = kind == KIND_IMM || kind == KIND_SEND;

	memset(end.bytes + DST, 0, BYTES - DST);
	if (takes)
		post_receive(kind, off, len);
	link_barrier(end.link);
	for (uint32_t round = 0; round < rounds; round++)
		torn += one_round(kind, round, off, len);
	link_barrier(end.link);
	if (torn != 0)
		printf("%s of %" PRIu32 " bytes at %" PRIu32 ": %" PRIu32 " of %" PRIu32
		       " seen incomplete\n",
		       kind_name[kind], len, off, torn, rounds);
	end.torn += torn;
	if (takes) {
		/* The receive that is left takes a message that nobody polls. */
		post_message(kind, 0, off, len);
		completed(end.sent);
		completed(end.received);
	}
}

int
main(int argc, char **argv)
{
	options(argc, argv);
	if (opt.copied)
		setenv("UROCE_MR_MODE", "copy", 1);
	end.link = link_open(opt.host, (uint16_t)opt.port, 60);
	end.first = opt.host != NULL;
	open_all();
	for (enum kind kind = KIND_WRITE; kind <= KIND_READ; kind++) {
		for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			all_rounds(kind, 0, lens[i]);
			all_rounds(kind, 1, lens[i]);
		}
	}
	printf("%" PRIu32 " messages seen incomplete\n", end.torn);
	return end.torn != 0;
}
