/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "bench", on one queue pair. The client measures. Every measured byte is checked: each
 * ping-pong message against its number and pattern, each round of a bandwidth test by the digest of
 * all bytes moved, which are new in every round and moved once. A slow machine repeats a test fewer
 * times, because it takes longest for the digests.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rcdata.h"

#define POLL_BATCH  32
#define MAX_ROUNDS  64
#define PING_LEN    8
#define WARM_UP     100           /* round trips before the measured ones */
#define REPEAT_NS   5000000000ull /* an operation that has taken longer is not repeated */
#define CHUNK_AT(i) ((uint64_t)(i)*chunk_len(be->plan))

enum bench_op {
	BENCH_WRITE,
	BENCH_READ,
	BENCH_SEND,
	BENCH_OPS,
};

static const char *const op_name[BENCH_OPS] = {
	[BENCH_WRITE] = "WRITE",
	[BENCH_READ] = "READ",
	[BENCH_SEND] = "SEND",
};

struct bench {
	struct endpoint *ep;
	const struct options *opt;
	const struct plan *plan;
	struct buffer out, in; /* plan->bytes each: source of sends, target of writes */
	struct buffer ping;    /* depth slots of PING_LEN to receive into */
	uint64_t peer_in, peer_out;
	uint32_t peer_in_key, peer_out_key;
	double rtt_us[3]; /* median, 99th percentile, minimum */
	double gbps[BENCH_OPS][MAX_ROUNDS];
	uint32_t rounds[BENCH_OPS]; /* done: 1 .. plan->rounds */
	bool equal[BENCH_OPS];      /* all bytes of all rounds are equal */
};

static uint32_t
chunk_len(const struct plan *plan)
{
	return plan->max_len < plan->bytes ? plan->max_len : plan->bytes;
}

static uint64_t
chunks(const struct plan *plan)
{
	return plan->bytes / chunk_len(plan);
}

static void
recv_post(struct bench *be, uint64_t id, void *addr, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)addr, .length = len, .lkey = lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
	int rc = ibv_post_recv(be->ep->qp[0], &wr, &bad);

	if (rc)
		die("ibv_post_recv: %s", strerror(rc));
}

static void
bench_open(struct bench *be)
{
	struct {
		uint64_t in, out;
		uint32_t in_key, out_key;
	} mine, peer;
	struct ibv_pd *pd = be->ep->pd;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	be->out = buffer_make(pd, MEM_ANON, be->plan->bytes, access);
	be->in = buffer_make(pd, MEM_ANON, be->plan->bytes, access);
	be->ping = buffer_make(pd, MEM_ANON, (size_t)be->plan->depth * PING_LEN, access);
	mine.in = (uintptr_t)be->in.addr;
	mine.out = (uintptr_t)be->out.addr;
	mine.in_key = be->in.mr->rkey;
	mine.out_key = be->out.mr->rkey;
	link_swap(be->ep->link, &mine, &peer, sizeof(mine));
	be->peer_in = peer.in;
	be->peer_out = peer.out;
	be->peer_in_key = peer.in_key;
	be->peer_out_key = peer.out_key;
}

static void
ping_recv(struct bench *be, uint64_t n)
{
	uint8_t *slot = be->ping.addr + (n % be->plan->depth) * PING_LEN;

	recv_post(be, n, slot, PING_LEN, be->ping.mr->lkey);
}

static void
ping_send(struct bench *be, uint64_t n)
{
	uint64_t word = n * 0x9e3779b97f4a7c15ull + be->plan->seed;
	struct ibv_sge sge = {.addr = (uintptr_t)be->out.addr,
			      .length = PING_LEN,
			      .lkey = be->out.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = n | 1ull << 63,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};
	int rc;

	memcpy(be->out.addr, &word, sizeof(word));
	if (be->ep->max_inline >= PING_LEN)
		wr.send_flags |= IBV_SEND_INLINE;
	rc = ibv_post_send(be->ep->qp[0], &wr, &bad);
	if (rc)
		die("ibv_post_send: %s", strerror(rc));
}

static void
stalled(const struct bench *be)
{
	printf("rcdata: no completion for %u s\n", be->opt->stall_s);
	fflush(stdout);
	exit(EXIT_STALLED);
}

/* Waits for receive n and checks the message; counts its own sends that completed meanwhile. */
static void
ping_wait(struct bench *be, uint64_t n, uint64_t *sends_done)
{
	uint64_t want = n * 0x9e3779b97f4a7c15ull + be->plan->seed, start = now_ns(), word;
	struct ibv_wc wc[4];
	bool came = false;

	while (!came) {
		int got = endpoint_poll(be->ep, wc, 4);

		for (int i = 0; i < got; i++) {
			if (wc[i].wr_id >> 63) {
				++*sends_done;
				continue;
			}
			memcpy(&word, be->ping.addr + (n % be->plan->depth) * PING_LEN, PING_LEN);
			if (wc[i].wr_id != n || wc[i].byte_len != PING_LEN || word != want)
				die("ping-pong message %llu is not what was sent",
				    (unsigned long long)n);
			came = true;
		}
		if (now_ns() - start > be->opt->stall_s * 1e9)
			stalled(be);
	}
}

static int
compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
bench_ping(struct bench *be)
{
	uint64_t total = WARM_UP + be->plan->iters, sends = 0, progress;
	double *rtt = calloc(total, sizeof(*rtt));
	bool client = be->opt->host;

	if (!rtt)
		die("no memory");
	for (uint64_t n = 0; n < be->plan->depth && n < total; n++)
		ping_recv(be, n);
	link_barrier(be->ep->link);
	for (uint64_t n = 0; n < total; n++) {
		uint64_t start = now_ns();

		if (client)
			ping_send(be, n);
		ping_wait(be, n, &sends);
		if (!client)
			ping_send(be, n);
		rtt[n] = (now_ns() - start) / 1e3;
		if (n + be->plan->depth < total)
			ping_recv(be, n + be->plan->depth);
	}
	progress = now_ns();
	while (sends < total) {
		struct ibv_wc wc[4];
		int got = endpoint_poll(be->ep, wc, 4);

		sends += got;
		if (got)
			progress = now_ns();
		else if (now_ns() - progress > be->opt->stall_s * 1e9)
			stalled(be);
	}
	qsort(rtt + WARM_UP, be->plan->iters, sizeof(*rtt), compare_double);
	be->rtt_us[0] = rtt[WARM_UP + be->plan->iters / 2];
	be->rtt_us[1] = rtt[WARM_UP + be->plan->iters * 99 / 100];
	be->rtt_us[2] = rtt[WARM_UP];
	free(rtt);
	link_barrier(be->ep->link);
}

static void
chunk_post(struct bench *be, enum bench_op op, uint64_t i)
{
	bool read = op == BENCH_READ;
	struct buffer *local = read ? &be->in : &be->out;
	struct ibv_sge sge = {.addr = (uintptr_t)local->addr + CHUNK_AT(i),
			      .length = chunk_len(be->plan),
			      .lkey = local->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
	int rc;

	wr.opcode = read ? IBV_WR_RDMA_READ : op == BENCH_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
	wr.wr.rdma.remote_addr = (read ? be->peer_out : be->peer_in) + CHUNK_AT(i);
	wr.wr.rdma.rkey = read ? be->peer_out_key : be->peer_in_key;
	rc = ibv_post_send(be->ep->qp[0], &wr, &bad);
	if (rc)
		die("ibv_post_send: %s", strerror(rc));
}

/* Completes all chunks in order, keeping depth in flight with post (chunk_post or a receive). */
static void
run_chunks(struct bench *be, enum bench_op op, bool receive, uint64_t posted)
{
	uint64_t total = chunks(be->plan), done = 0, progress = now_ns();
	struct ibv_wc wc[POLL_BATCH];

	while (done < total) {
		int n;

		for (; posted < total && posted - done < be->plan->depth; posted++) {
			if (receive)
				recv_post(be, posted, be->in.addr + CHUNK_AT(posted),
					  chunk_len(be->plan), be->in.mr->lkey);
			else
				chunk_post(be, op, posted);
		}
		n = endpoint_poll(be->ep, wc, POLL_BATCH);
		for (int i = 0; i < n; i++, done++)
			if (wc[i].wr_id != done ||
			    (receive && wc[i].byte_len != chunk_len(be->plan)))
				die("chunk %llu completed, but %llu is next",
				    (unsigned long long)wc[i].wr_id, (unsigned long long)done);
		if (n)
			progress = now_ns();
		else if (now_ns() - progress > be->opt->stall_s * 1e9)
			stalled(be);
	}
}

/* One round at this side; returns Gbit/s at the client. */
static double
bench_round(struct bench *be, enum bench_op op, uint32_t round)
{
	bool client = be->opt->host;
	bool sends = (op == BENCH_READ) != client;
	uint64_t preposted = 0, start;

	if (sends)
		random_fill(be->out.addr, be->out.len, be->plan->seed + op * MAX_ROUNDS + round);
	else
		memset(be->in.addr, GUARD_FILL, be->in.len);
	if (op == BENCH_SEND && !client)
		for (; preposted < be->plan->depth && preposted < chunks(be->plan); preposted++)
			recv_post(be, preposted, be->in.addr + CHUNK_AT(preposted),
				  chunk_len(be->plan), be->in.mr->lkey);
	link_barrier(be->ep->link);
	start = now_ns();
	if (client)
		run_chunks(be, op, false, 0);
	else if (op == BENCH_SEND)
		run_chunks(be, op, true, preposted);
	start = now_ns() - start;
	link_barrier(be->ep->link);
	return be->plan->bytes * 8.0 / start;
}

/* Compares what one side sent with what the other received; both sides get the result. */
static bool
round_verify(struct bench *be, enum bench_op op, uint32_t round)
{
	bool client = be->opt->host;
	struct buffer *moved = (op == BENCH_READ) != client ? &be->out : &be->in;
	struct digest *dig = digest_start();
	uint8_t mine[DIGEST_BYTES], peer[DIGEST_BYTES];
	bool equal;

	digest_add(dig, moved->addr, moved->len);
	digest_end(dig, mine);
	link_swap(be->ep->link, mine, peer, sizeof(peer));
	equal = !memcmp(peer, mine, sizeof(peer)) && buffer_guards_intact(&be->in);
	if (!equal)
		printf("rcdata: %s, round %u: the bytes differ\n", op_name[op], round);
	return equal;
}

/* Decides at the client whether to repeat the operation that began at start_ns; tells the server.
 */
static bool
round_again(struct bench *be, uint64_t start_ns)
{
	uint8_t mine = now_ns() - start_ns < REPEAT_NS, peer;

	link_swap(be->ep->link, &mine, &peer, sizeof(mine));
	return be->opt->host ? mine : peer;
}

/* All rounds of an operation. Returns true if all bytes are equal. */
static bool
bench_op(struct bench *be, enum bench_op op)
{
	uint64_t start_ns = now_ns();
	uint32_t n = 0;
	bool equal = true;

	do {
		be->gbps[op][n] = bench_round(be, op, n);
		equal &= round_verify(be, op, n++);
	} while (n < be->plan->rounds && round_again(be, start_ns));
	be->rounds[op] = n;
	be->equal[op] = equal;
	qsort(be->gbps[op], n, sizeof(double), compare_double);
	return equal;
}

static void
report_json(const struct bench *be, bool good)
{
	printf("{\"mode\": \"bench\", \"ok\": %s, \"rtt_us\": {\"median\": %.2f, \"p99\": %.2f, "
	       "\"min\": %.2f}",
	       good ? "true" : "false", be->rtt_us[0], be->rtt_us[1], be->rtt_us[2]);
	for (int op = 0; op < BENCH_OPS; op++)
		printf(", \"%s\": {\"gbps_median\": %.3f, \"gbps_best\": %.3f, \"bytes\": %llu}",
		       op_name[op], be->gbps[op][be->rounds[op] / 2],
		       be->gbps[op][be->rounds[op] - 1],
		       (unsigned long long)be->plan->bytes * be->rounds[op]);
	printf("}\n");
}

static void
report_table(const struct bench *be)
{
	printf("%-26s %14s %14s %12s  %s\n", "operation", "median", "best", "MiB checked", "bytes");
	printf("%-26s %11.2f us %11.2f us %12s  %s\n", "RC ping-pong, 8 B, 1-way",
	       be->rtt_us[0] / 2, be->rtt_us[2] / 2, "each", "all equal");
	for (int op = 0; op < BENCH_OPS; op++) {
		char what[32];

		snprintf(what, sizeof(what), "RC %s, %u KiB", op_name[op],
			 chunk_len(be->plan) / 1024);
		printf("%-26s %9.2f Gb/s %9.2f Gb/s %12llu  %s\n", what,
		       be->gbps[op][be->rounds[op] / 2], be->gbps[op][be->rounds[op] - 1],
		       (unsigned long long)(be->plan->bytes * be->rounds[op] >> 20),
		       be->equal[op] ? "all equal" : "DIFFER");
	}
}

bool
bench_run(struct endpoint *ep, const struct options *opt, const struct plan *plan)
{
	static struct bench be;
	bool good = true;

	if (plan->rounds < 1 || plan->rounds > MAX_ROUNDS || plan->bytes % chunk_len(plan))
		die("bench: 1 .. %d rounds, and --bytes a multiple of --max-len", MAX_ROUNDS);
	be = (struct bench){.ep = ep, .opt = opt, .plan = plan};
	bench_open(&be);
	bench_ping(&be);
	for (enum bench_op op = 0; op < BENCH_OPS; op++)
		good &= bench_op(&be, op);
	if (opt->host && opt->json)
		report_json(&be, good);
	else if (opt->host)
		report_table(&be);
	link_barrier(ep->link);
	buffer_free(&be.out);
	buffer_free(&be.in);
	buffer_free(&be.ping);
	return good;
}
