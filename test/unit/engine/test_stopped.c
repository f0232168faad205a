/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that dies between any two instructions (CQE-15). A child process plays the worker and is
 * single-stepped. After each step the shared memory must account forevery WR exactly once:
 * completions in the CQ first, then those that the provider would make up, in order.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "unfinished.h"

#define RQ     0x555000u
#define MTU    1024u
#define WRS    6u
#define CQES   64u
#define UC(op) (WIRE_SVC_UC | WIRE_OP_##op)

/* The client's view of a queue and its CQ; ids of WRs count from first. */
struct queue {
	struct uroce_ring_hdr hdr;
	struct uroce_cqe cqe[CQES];
};

struct watch {
	struct conn *c;
	struct bench_srq *srq; /* or NULL */
	struct queue send, recv;
	struct uroce_ring_hdr srq_hdr;
	uint32_t steps, changes;
};

#define SEND_ID 100
#define RECV_ID 200

static struct unfinished_cq
left_of(const struct queue *q)
{
	return (struct unfinished_cq){
		.slots = q->cqe,
		.mask = CQES - 1,
		.shift = (uint32_t)__builtin_ctz(CQES),
	};
}

/* The ids of the completions, which must be first, first + 1 ..; how many. */
static uint32_t
released(const struct queue *q, uint64_t first)
{
	struct unfinished_cq cq = left_of(q);
	uint32_t n = 0;

	for (uint32_t i = 0; i < CQES && unfinished_released(&cq, i); i++)
		assert_int_equal(q->cqe[i].wr_id, first + n++);
	return n;
}

static void
check_queue(const struct queue *q, uint64_t first)
{
	struct unfinished_cq cq = left_of(q);
	uint32_t n = released(q, first);

	if (unfinished_retired(&q->hdr, &cq))
		assert_int_equal(q->hdr.wr_id, first + n++);
	assert_int_equal(q->hdr.cons, n);
}

static void
check_srq(const struct watch *w)
{
	const struct uroce_held *held = &w->send.hdr.held;
	struct unfinished_cq cq = left_of(&w->recv);
	uint32_t n = released(&w->recv, RECV_ID);

	if (unfinished_held(held, w->srq_hdr.cons, &cq))
		assert_int_equal(held->wr_id, RECV_ID + n++);
	assert_int_equal(w->srq_hdr.cons, n);
}

/* The child's memory as it is now. */
static void
look(struct watch *w, pid_t pid)
{
	struct conn *c = w->c;
	struct uroce_ring_hdr *third = w->srq != NULL ? w->srq->ring.hdr : c->sq.hdr;
	struct watch now = *w;
	struct iovec to[5] = {{&now.send.hdr, sizeof(now.send.hdr)},
			      {now.send.cqe, sizeof(now.send.cqe)},
			      {&now.recv.hdr, sizeof(now.recv.hdr)},
			      {now.recv.cqe, sizeof(now.recv.cqe)},
			      {&now.srq_hdr, sizeof(now.srq_hdr)}};
	struct iovec from[5] = {{c->sq.hdr, sizeof(now.send.hdr)},
				{(char *)c->scq.hdr + UROCE_CQ_HDR, sizeof(now.send.cqe)},
				{w->srq != NULL ? third : c->rq.hdr, sizeof(now.recv.hdr)},
				{(char *)c->rcq.hdr + UROCE_CQ_HDR, sizeof(now.recv.cqe)},
				{third, sizeof(now.srq_hdr)}};

	assert_int_equal(process_vm_readv(pid, to, 5, from, 5, 0),
			 3 * sizeof(struct uroce_ring_hdr) + 2 * sizeof(now.send.cqe));
	if (memcmp(&now, w, sizeof(now)) == 0)
		return;
	*w = now;
	w->changes++;
	check_queue(&w->send, SEND_ID);
	if (w->srq != NULL)
		check_srq(w);
	else
		check_queue(&w->recv, RECV_ID);
}

/* Runs act in a child and checks shared memory after each of its instructions. */
static void
step_through(struct watch *w, void (*act)(struct conn *c))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		act(w->c);
		raise(SIGSTOP);
		pkt_count(w->c); /* the pool may be the parent's, too */
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status));
	/* a failed check must not leave a child */
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_EXITKILL), 0);
	do {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
		look(w, pid);
		w->steps++;
	} while (WSTOPSIG(status) == SIGTRAP);
	assert_int_equal(WSTOPSIG(status), SIGSTOP);
	assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static struct conn *
conn_small(struct bench *b, struct bench_srq *s)
{
	struct conn_cfg cfg = conn_rc;

	cfg.type = QP_TYPE_UC;
	cfg.cq_entries = CQES;
	cfg.sq_entries = cfg.rq_entries = 8;
	cfg.srq = s != NULL ? &s->srq : NULL;
	return conn_open(b, cfg);
}

static void
to_error(struct conn *c)
{
	conn_to(c, QP_ERR);
}

/* The QP goes to the error state with work on both queues. */
REQUIREMENT("CQE-15")
BENCH_TEST(daemon_stopped_while_flushing_loses_no_completion)
{
	struct watch w = {.c = conn_small(*state, NULL)};

	for (uint32_t i = 0; i < WRS; i++) {
		post_quiet(w.c, (struct wr){.id = SEND_ID + i, .op = UROCE_WR_SEND, .len = 8});
		recv_post(w.c, RECV_ID + i, 0, 64);
	}
	w.c->sq.hdr->prod = w.c->sq.prod;
	step_through(&w, to_error);
	assert_int_equal(released(&w.send, SEND_ID), WRS);
	assert_int_equal(released(&w.recv, RECV_ID), WRS);
	/* it was checked between the stores */
	assert_true(w.changes > 2 * WRS * 5);
}

static void
messages(struct conn *c)
{
	uint32_t psn = RQ;

	for (uint32_t i = 0; i < WRS / 2; i++) {
		peer_send(c, UC(SEND_FIRST), psn++, 0, MTU);
		bench_run(c->b);
		peer_send(c, UC(SEND_LAST), psn++, 0, 9);
		peer_send(c, UC(SEND_ONLY), psn++, 0, 9);
		bench_run(c->b);
	}
}

/* All goes well: sends complete as they leave, receives as messages come. */
REQUIREMENT("CQE-15")
BENCH_TEST(daemon_stopped_while_completing_loses_no_completion)
{
	struct watch w = {.c = conn_small(*state, NULL)};

	for (uint32_t i = 0; i < WRS; i++) {
		post_quiet(w.c, (struct wr){.id = SEND_ID + i,
					    .op = UROCE_WR_SEND,
					    .flags = SIG,
					    .len = 8});
		recv_post(w.c, RECV_ID + i, 0, 2 * MTU);
	}
	ring_doorbell(w.c);
	step_through(&w, messages);
	assert_int_equal(released(&w.send, SEND_ID), WRS);
	assert_int_equal(released(&w.recv, RECV_ID), WRS);
}

/* WQEs of an SRQ, which are taken at a message's first packet and complete at its last. */
REQUIREMENT("CQE-15")
BENCH_TEST(daemon_stopped_with_an_srq_loses_no_completion)
{
	struct bench_srq *s = srq_open(*state, 8);
	struct watch w = {.c = conn_small(*state, s), .srq = s};

	for (uint32_t i = 0; i < WRS; i++)
		srq_post(s, RECV_ID + i, 0, 2 * MTU);
	step_through(&w, messages);
	assert_int_equal(released(&w.recv, RECV_ID), WRS);
	assert_true(w.changes > WRS * 7);
	srq_close(s);
}
