/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the daemon has to copy and that waits for the server of its file (stuckfs.py). For
 * each case a child has such memory and uses it in one of the possible places. This process is its
 * neighbour, whose messages must continue.
 *
 *   stuck DEVICE silent FILE   all pages of FILE but the first and the last never arrive: each
 *                              operation ends with an error
 *   stuck DEVICE slow FILE     they arrive late: each operation succeeds, once
 *   stuck DEVICE again FILE    the same twice, with a line from standard input after each
 *   stuck DEVICE hold FILE     gets stuck, prints so, and stays until standard input ends
 *   stuck DEVICE leave FILE    the same in one process after another, which end at once: the user
 *                              gets no more copied memory, until standard input has a line
 *
 * TAP except for hold and again; exit status 0 when all tests passed.
 */
#include "kit/verbside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAGE       4096u
#define FILE_BYTES (1u << 20) /* stuckfs.SIZE */
#define LEAVE      8          /* threads that a user may leave behind: BROKER_USER_THREADS */
#define WAIT_S     60
#define LIMIT_S    2 /* COPIER_LIMIT_NS: an operation whose memory is later fails, correctly */
#define ATTEMPTS   5
#define MAX_FDS    256
#define FILLED     0x5a /* slow pages hold zeroes, other memory holds this value */
#define ADDEND     3

static struct side side;

enum place { PAYLOAD, RESULT, TARGET, SOURCE, RECEIVE };

static const struct kase {
	const char *name;
	enum ibv_wr_opcode op;
	enum place place; /* of the memory that is late */
	enum ibv_wc_status status;
} cases[] = {
	{"payload of a WRITE", IBV_WR_RDMA_WRITE, PAYLOAD, IBV_WC_LOC_PROT_ERR},
	{"payload of a SEND", IBV_WR_SEND, PAYLOAD, IBV_WC_LOC_PROT_ERR},
	{"destination of a READ", IBV_WR_RDMA_READ, RESULT, IBV_WC_LOC_PROT_ERR},
	{"result of an atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, RESULT, IBV_WC_LOC_PROT_ERR},
	{"target of a WRITE", IBV_WR_RDMA_WRITE, TARGET, IBV_WC_REM_OP_ERR},
	{"source of a READ", IBV_WR_RDMA_READ, SOURCE, IBV_WC_REM_ACCESS_ERR},
	{"target of an atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, TARGET, IBV_WC_REM_OP_ERR},
	{"receive buffer", IBV_WR_SEND, RECEIVE, IBV_WC_REM_OP_ERR},
};
#define NCASES ((int)(sizeof(cases) / sizeof(cases[0])))

struct stuck {
	struct side s;
	struct ibv_mr *mr; /* of file */
	uint8_t *file;
	struct ibv_cq *rcq;
	struct ibv_qp *qp[2]; /* requester, responder */
};

/* --- the child ------------------------------------------------------------------------------- */

static double
now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool
wait_long(struct ibv_cq *cq, struct ibv_wc *wc)
{
	double end = now_s() + WAIT_S;
	int n;

	while ((n = ibv_poll_cq(cq, 1, wc)) == 0 && now_s() < end)
		sched_yield();
	return n == 1;
}

static struct ibv_mr *
file_register(struct ibv_pd *pd, uint8_t *file)
{
	return ibv_reg_mr(pd, file, FILE_BYTES, SIDE_ACCESS);
}

/* Opens a separate file: opening the same one again waits for its pages. */
static void
stuck_open(struct stuck *t, const char *dev, const char *path)
{
	char own[512];
	int fd;

	snprintf(own, sizeof(own), "%s-%d", path, (int)getpid());
	fd = open(own, O_RDWR | O_CLOEXEC);
	side_open(&t->s, dev);
	t->file = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(fd >= 0 && t->file != MAP_FAILED);
	t->mr = file_register(t->s.pd, t->file);
	CHECK(t->mr);
	t->rcq = ibv_create_cq(t->s.ctx, SIDE_DEPTH, NULL, NULL, 0);
	t->qp[0] = side_qp(t->s.pd, IBV_QPT_RC, t->s.cq);
	t->qp[1] = side_qp(t->s.pd, IBV_QPT_RC, t->rcq);
	CHECK(t->rcq && t->qp[0] && t->qp[1]);
	if (!t->mr || !t->qp[0] || !t->qp[1])
		_exit(3);
	CHECK(side_raise(&t->s, t->qp[0], t->qp[1]->qp_num) == 0 &&
	      side_raise(&t->s, t->qp[1], t->qp[0]->qp_num) == 0);
}

/*
 * Posts the operation of k on an untouched page of the file, with a page of this process at the
 * other end.
 */
static void
stuck_post(struct stuck *t, const struct kase *k, unsigned int page)
{
	bool theirs = k->place == PAYLOAD || k->place == RESULT;
	uint64_t waits = (uintptr_t)t->file + page * PAGE, there = (uintptr_t)t->s.buf;
	bool atomic = k->op == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge mine = {theirs ? waits : there, atomic ? 8 : PAGE,
			       theirs ? t->mr->lkey : t->s.mr->lkey};
	uint64_t remote = theirs ? there + PAGE : waits;
	uint32_t rkey = theirs ? t->s.mr->rkey : t->mr->rkey;
	struct ibv_sge recv = {remote, PAGE, theirs ? t->s.mr->lkey : t->mr->lkey};
	struct ibv_recv_wr rwr = {.wr_id = 7, .sg_list = &recv, .num_sge = 1}, *rbad;
	struct ibv_send_wr wr = {.wr_id = 9, .opcode = k->op, .sg_list = &mine, .num_sge = 1}, *bad;

	memset(t->s.buf, FILLED, 2 * PAGE);
	if (k->op == IBV_WR_SEND)
		CHECK(ibv_post_recv(t->qp[1], &rwr, &rbad) == 0);
	if (atomic) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = ADDEND;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK(ibv_post_send(t->qp[0], &wr, &bad) == 0);
}

static void
expect_error(struct stuck *t, const struct kase *k)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	CHECK(wait_long(t->s.cq, &wc));
	if (wc.status != k->status)
		printf("# %s: %s\n", k->name, ibv_wc_status_str(wc.status));
	CHECK(wc.status == k->status);
	if (k->place == RECEIVE)
		CHECK(wait_long(t->rcq, &wc) && wc.status == IBV_WC_LOC_PROT_ERR);
	/* It may still be stored into, so it cannot be released. */
	CHECK(ibv_dereg_mr(t->mr) == ETIMEDOUT);
}

/*
 * The operation was executed exactly once. False: its memory was later than the daemon waits,
 * because the file's server or the broker had no processor, and the operation failed as it must.
 */
static bool
expect_done(struct stuck *t, const struct kase *k, unsigned int page, double posted_s)
{
	const uint8_t *waits = t->file + page * PAGE;
	bool theirs = k->place == PAYLOAD || k->place == RESULT;
	uint8_t want[PAGE];
	uint64_t word;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	CHECK(wait_long(t->s.cq, &wc));
	if (wc.status == k->status && now_s() - posted_s >= LIMIT_S)
		return false;
	CHECK(wc.status == IBV_WC_SUCCESS);
	if (k->op == IBV_WR_SEND)
		CHECK(wait_long(t->rcq, &wc) && wc.status == IBV_WC_SUCCESS);
	if (k->op != IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memset(want, k->place == PAYLOAD || k->place == SOURCE ? 0 : FILLED, PAGE);
		CHECK(memcmp(waits, want, PAGE) == 0);
		CHECK(memcmp(t->s.buf + (k->place == PAYLOAD ? PAGE : 0), want, PAGE) == 0);
		return true;
	}
	memset(want, FILLED, PAGE);
	memcpy(&word, want, sizeof(word));
	if (theirs) { /* the sum is in this process's own page, the original value in the file's */
		CHECK(memcmp(waits, &word, sizeof(word)) == 0);
		word += ADDEND;
		CHECK(memcmp(t->s.buf + PAGE, &word, sizeof(word)) == 0);
	} else {
		word = 0;
		CHECK(memcmp(t->s.buf, &word, sizeof(word)) == 0);
		word = ADDEND;
		CHECK(memcmp(waits, &word, sizeof(word)) == 0);
	}
	return true;
}

/* --- the neighbour --------------------------------------------------------------------------- */

static struct ibv_qp *ours[2];

static void
neighbour_open(void)
{
	for (int i = 0; i < 2; i++)
		ours[i] = side_qp(side.pd, IBV_QPT_RC, side.cq);
	CHECK(ours[0] && ours[1]);
	CHECK(side_raise(&side, ours[0], ours[1]->qp_num) == 0 &&
	      side_raise(&side, ours[1], ours[0]->qp_num) == 0);
}

/* Sends one message there and one back. */
static bool
neighbour_speaks(void)
{
	bool ok = true;

	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = {(uintptr_t)side.buf, 64, side.mr->lkey};
		struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .wr.rdma = {.remote_addr = (uintptr_t)side.buf + PAGE,
						     .rkey = side.mr->rkey}},
				   *bad;
		struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

		ok &= ibv_post_send(ours[i], &wr, &bad) == 0 && verbs_wait(side.cq, &wc) &&
		      wc.status == IBV_WC_SUCCESS;
	}
	return ok;
}

/* Exchanges messages until the child reports its result, which it returns: see child_ends. */
static char
neighbour_until(int verdict)
{
	struct pollfd p = {.fd = verdict, .events = POLLIN};
	char c = 0;

	while (poll(&p, 1, 0) == 0)
		CHECK(neighbour_speaks());
	CHECK(read(verdict, &c, 1) == 1);
	close(verdict);
	return c;
}

/* --- modes ----------------------------------------------------------------------------------- */

static const char *dev, *path;
static int number;

static bool theirs[MAX_FDS]; /* in a child: descriptors that its parent has, too */

/*
 * A child reports its result and closes its connection: y: success, n: failure, l: its memory was
 * later than the daemon waits, so that the case proves nothing. Its own exit takes as long as the
 * daemon's access, because the page fault for that access holds the lock of its mappings.
 */
static __attribute__((noreturn)) void
child_ends(int verdict, bool late)
{
	fflush(stdout);
	for (int fd = 0; fd < MAX_FDS; fd++) {
		if (!theirs[fd])
			shutdown(fd, SHUT_RDWR);
	}
	if (write(verdict, side_failures() != 0 ? "n" : late ? "l" : "y", 1) != 1)
		_exit(1);
	_exit(0);
}

/*
 * Forks. In the child: returns the descriptor for its verdict. In the parent: -1, and *verdict is
 * the descriptor to read it from.
 */
static int
child_start(int *verdict)
{
	int pipe_fd[2];
	pid_t pid;

	fflush(stdout);
	if (pipe(pipe_fd))
		exit(3);
	pid = fork();
	close(pipe_fd[pid == 0 ? 0 : 1]);
	*verdict = pipe_fd[0];
	for (int fd = 0; pid == 0 && fd < MAX_FDS; fd++)
		theirs[fd] = fcntl(fd, F_GETFD) >= 0;
	return pid == 0 ? pipe_fd[1] : -1;
}

/* Runs the n-th case in a separate process; returns the descriptor to read its verdict from. */
static int
child(int n, bool slow)
{
	struct stuck t = {.file = NULL};
	int verdict, mine = child_start(&verdict);
	double posted_s;

	if (mine < 0)
		return verdict;
	stuck_open(&t, dev, path);
	posted_s = now_s();
	stuck_post(&t, &cases[n], 1 + (unsigned int)n);
	if (slow) {
		if (!expect_done(&t, &cases[n], 1 + (unsigned int)n, posted_s))
			child_ends(mine, true);
		CHECK(ibv_dereg_mr(t.mr) == 0);
	} else {
		expect_error(&t, &cases[n]);
	}
	child_ends(mine, false);
}

static void
result(bool ok, const char *mode, const char *name)
{
	printf("%s %d - %s: %s\n", ok && side_failures() == 0 ? "ok" : "not ok", ++number, mode,
	       name);
	fflush(stdout);
}

static int
run_cases(bool slow)
{
	int bad = 0;

	neighbour_open();
	for (int n = 0; n < NCASES; n++) {
		bool ok;
		char said = 'l';

		for (int i = 0; i < ATTEMPTS && said == 'l'; i++) {
			said = neighbour_until(child(n, slow));
			if (said == 'l')
				printf("# again: %s: not within %d s\n", cases[n].name, LIMIT_S);
		}
		ok = said == 'y';
		bad += !ok || side_failures() != 0;
		result(ok, slow ? "memory that is late" : "memory that never arrives",
		       cases[n].name);
	}
	printf("1..%d\n", number);
	return bad != 0;
}

/* Runs all cases with one region, before and after a line on standard input. */
static int
again(void)
{
	struct stuck t = {.file = NULL};
	unsigned int page = 1;
	char c;

	stuck_open(&t, dev, path);
	for (int round = 0; round < 2; round++) {
		for (int n = 0; n < NCASES; n++, page++) {
			stuck_post(&t, &cases[n], page);
			CHECK(expect_done(&t, &cases[n], page, now_s()));
		}
		printf("round\n");
		fflush(stdout);
		CHECK(read(0, &c, 1) == 1);
	}
	CHECK(ibv_dereg_mr(t.mr) == 0);
	return side_failures() != 0;
}

/* Prints a line when it is stuck, and waits for its end. */
static int
hold(void)
{
	struct stuck t = {.file = NULL};
	char c;

	stuck_open(&t, dev, path);
	stuck_post(&t, &cases[0], 100);
	neighbour_open();
	for (int i = 0; i < 100; i++)
		CHECK(neighbour_speaks());
	printf("stuck %d\n", side_failures());
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		;
	return side_failures() != 0;
}

/* A child that closes its connection while the daemon waits for its memory. */
static void
leave_one(int n)
{
	struct stuck t = {.file = NULL};
	struct ibv_wc wc;
	int verdict, mine = child_start(&verdict);
	char c = 0;

	if (mine < 0) {
		CHECK(read(verdict, &c, 1) == 1 && c == 'y');
		close(verdict);
		return;
	}
	stuck_open(&t, dev, path);
	stuck_post(&t, &cases[0], 10 + (unsigned int)n);
	CHECK(wait_long(t.s.cq, &wc) && wc.status == IBV_WC_LOC_PROT_ERR);
	child_ends(mine, false);
}

static int
leave(void)
{
	uint8_t *copied = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			       open(path, O_RDWR | O_CLOEXEC), 0);
	struct ibv_mr *mr = file_register(side.pd, copied);
	char c;

	CHECK(mr && ibv_dereg_mr(mr) == 0);
	for (int n = 0; n < LEAVE; n++)
		leave_one(n);
	result(true, "leave", "threads are left behind");
	/* The last child has ended, but the daemon may not have noticed yet. */
	for (int i = 0; i < 3000 && (mr = file_register(side.pd, copied)) != NULL; i++) {
		CHECK(ibv_dereg_mr(mr) == 0);
		usleep(20 * 1000);
	}
	CHECK(!mr && errno == EBUSY);
	/* Memory that the daemon maps is not limited. */
	mr = ibv_reg_mr(side.pd, side.buf, SIDE_BYTES, SIDE_ACCESS);
	CHECK(mr && ibv_dereg_mr(mr) == 0);
	result(true, "leave", "and a user has at most eight of them");
	printf("# answer\n");
	fflush(stdout);
	CHECK(read(0, &c, 1) == 1);
	for (int i = 0; i < 3000 && !(mr = file_register(side.pd, copied)); i++)
		usleep(20 * 1000);
	CHECK(mr && ibv_dereg_mr(mr) == 0);
	result(true, "leave", "until their pages arrive");
	printf("1..%d\n", number);
	return side_failures() != 0;
}

int
main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: %s DEVICE MODE FILE\n", argv[0]);
		return 2;
	}
	dev = argv[1];
	path = argv[3];
	side_open(&side, dev);
	if (!strcmp(argv[2], "hold"))
		return hold();
	if (!strcmp(argv[2], "leave"))
		return leave();
	if (!strcmp(argv[2], "again"))
		return again();
	return run_cases(!strcmp(argv[2], "slow"));
}
