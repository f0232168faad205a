/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with threads, and without the right to a userfaultfd, registers memory into which its
 * threads store: the daemon stops them while the pages move (drivers/verbs/page_pause.h).
 *
 *   paused DEVICE            with threads that store all the time
 *   paused DEVICE asleep     with a thread that sleeps, for a slow machine
 *   paused DEVICE forbidden  the same, where the daemon may neither stop threads nor open memory
 *   paused DEVICE granted    where the program may open /dev/userfaultfd: nothing is stopped
 *
 * TAP; exit status 0 when all tests passed.
 */
#include "kit/verbside.h"
#include "../kit/requirement.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NTHREADS 3
#define ROUNDS   24   /* less than the registrations that a program gets pauses for */
#define MANY     120u /* more than these */
#define LEN      (9u << 20)
#define CELLS    64u  /* of each thread, spread over the buffer */
#define QUIET    4096 /* the first bytes, which no thread writes to */
#define MARK     0x6b

static struct side side;
static struct ibv_qp *qp[2]; /* [0] requests, [1] responds */
static uint8_t *buf;
static atomic_bool stop;
static atomic_uint lost, next_thread;
static _Atomic uint64_t stores;

static volatile uint64_t *
cell(unsigned thread, unsigned i)
{
	return (volatile uint64_t *)(buf + QUIET + (size_t)i * ((LEN - QUIET) / CELLS & ~63u)) +
	       thread;
}

static void *
storer(void *arg)
{
	unsigned me = next_thread++;
	uint64_t mine = 0;

	while (!stop) {
		for (unsigned i = 0; i < CELLS; i++) {
			lost += *cell(me, i) != mine;
			*cell(me, i) = mine + 1;
		}
		mine++;
		stores++;
	}
	return NULL;
}

static void
connect_qps(void)
{
	for (int i = 0; i < 2; i++)
		qp[i] = side_qp(side.pd, IBV_QPT_RC, side.cq);
	CHECK(qp[0] && qp[1] && side_raise(&side, qp[0], qp[1]->qp_num) == 0 &&
	      side_raise(&side, qp[1], qp[0]->qp_num) == 0);
}

/* Writes the side's buffer, filled with value, to the quiet part of mr. */
static void
write_to(const struct ibv_mr *mr, uint8_t value)
{
	struct ibv_sge sge = {(uintptr_t)side.buf, QUIET, side.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .wr_id = value};
	struct ibv_send_wr *bad;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	wr.wr.rdma.remote_addr = (uintptr_t)buf;
	wr.wr.rdma.rkey = mr->rkey;
	memset(side.buf, value, QUIET);
	CHECK(ibv_post_send(qp[0], &wr, &bad) == 0 && verbs_wait(side.cq, &wc) &&
	      wc.status == IBV_WC_SUCCESS);
	CHECK(buf[0] == value && memcmp(buf, buf + 1, QUIET - 1) == 0);
}

/* A busy machine may need several attempts: a thread that gets no core for a second is not stopped.
 */
static struct ibv_mr *
adopted(void)
{
	struct ibv_mr *mr;

	do
		mr = ibv_reg_mr(side.pd, buf, LEN, SIDE_ACCESS);
	while (!mr && errno == EOPNOTSUPP && sched_yield() == 0);
	return mr;
}

static void
threads_run(void)
{
	uint64_t before = stores;

	while (stores < before + NTHREADS)
		sched_yield();
}

REQUIREMENT("MEM-05")
static void
memory_of_running_threads_is_adopted(void)
{
	pthread_t thread[NTHREADS];

	CHECK(setenv("UROCE_MR_MODE", "adopt", 1) == 0);
	for (int i = 0; i < NTHREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, storer, NULL) == 0);
	for (unsigned i = 0; i < ROUNDS && side_failures() == 0; i++) {
		struct ibv_mr *mr = adopted();

		CHECK(mr);
		if (!mr)
			break;
		write_to(mr, (uint8_t)(MARK + i));
		threads_run();
		CHECK(ibv_dereg_mr(mr) == 0);
		threads_run();
		CHECK(buf[0] == (uint8_t)(MARK + i));
	}
	stop = true;
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	CHECK(lost == 0);
	CHECK(unsetenv("UROCE_MR_MODE") == 0);
}

static void *
sleeper(void *arg)
{
	while (!stop)
		sched_yield();
	return NULL;
}

/* Beyond the pauses that it gets, a program's memory is copied, and works as well. */
REQUIREMENT("MEM-05")
static void
many_registrations_work(void)
{
	pthread_t thread;

	stop = false;
	CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
	for (unsigned i = 0; i < MANY && side_failures() == 0; i++) {
		struct ibv_mr *mr = ibv_reg_mr(side.pd, buf, QUIET, SIDE_ACCESS);

		CHECK(mr);
		if (!mr)
			break;
		write_to(mr, (uint8_t)i);
		CHECK(ibv_dereg_mr(mr) == 0);
		CHECK(buf[0] == (uint8_t)i);
	}
	stop = true;
	pthread_join(thread, NULL);
}

/* Without pauses each registration is adopted at once, however many there are. */
REQUIREMENT("MEM-05")
static void
many_registrations_are_adopted(void)
{
	CHECK(setenv("UROCE_MR_MODE", "adopt", 1) == 0);
	many_registrations_work();
	CHECK(unsetenv("UROCE_MR_MODE") == 0);
}

/* Waits for a byte. */
static void *
waiter(void *arg)
{
	char byte;

	CHECK(read(*(int *)arg, &byte, 1) == 1);
	return NULL;
}

/* Runs f beside a thread that sleeps. */
static void
beside_waiter(void (*f)(void))
{
	pthread_t thread;
	int ends[2];

	CHECK(pipe(ends) == 0);
	CHECK(pthread_create(&thread, NULL, waiter, &ends[0]) == 0);
	f();
	CHECK(write(ends[1], "", 1) == 1);
	pthread_join(thread, NULL);
	close(ends[0]);
	close(ends[1]);
}

static void
adopt_once(void)
{
	struct ibv_mr *mr = adopted();

	CHECK(mr);
	if (!mr)
		return;
	write_to(mr, MARK);
	CHECK(ibv_dereg_mr(mr) == 0 && buf[0] == MARK);
}

REQUIREMENT("MEM-05")
static void
memory_beside_a_sleeping_thread_is_adopted(void)
{
	CHECK(setenv("UROCE_MR_MODE", "adopt", 1) == 0);
	beside_waiter(adopt_once);
	CHECK(unsetenv("UROCE_MR_MODE") == 0);
}

static void
copy_once(void)
{
	struct ibv_mr *mr;

	CHECK(setenv("UROCE_MR_MODE", "adopt", 1) == 0);
	CHECK(!ibv_reg_mr(side.pd, buf, LEN, SIDE_ACCESS) && errno == EOPNOTSUPP);
	CHECK(unsetenv("UROCE_MR_MODE") == 0);
	mr = ibv_reg_mr(side.pd, buf, LEN, SIDE_ACCESS);
	CHECK(mr);
	if (!mr)
		return;
	write_to(mr, MARK);
	CHECK(ibv_dereg_mr(mr) == 0 && buf[0] == MARK);
}

/*
 * Nobody may stop the thread, nor open the memory: the program gives the daemon its own descriptor
 * of it. Without a thread nobody needs to.
 */
REQUIREMENT("MEM-05")
static void
memory_beside_a_thread_is_copied(void)
{
	beside_waiter(copy_once);
	memset(buf, 0, QUIET);
	CHECK(setenv("UROCE_MR_MODE", "adopt", 1) == 0);
	adopt_once();
	CHECK(unsetenv("UROCE_MR_MODE") == 0);
}

static void
prepare(void)
{
	buf = calloc(1, LEN);
	CHECK(buf);
	connect_qps();
}

static const char *device;

/* Runs f in a child: another process to the daemon, and to a security module that restricts ptrace.
 */
static void
in_child(void (*f)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		side_open(&side, device);
		prepare();
		f();
		_exit(side_failures() != 0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

REQUIREMENT("MEM-05")
static void
memory_of_a_child_is_adopted(void)
{
	in_child(memory_beside_a_sleeping_thread_is_adopted);
}

REQUIREMENT("MEM-05")
static void
memory_of_a_child_is_copied(void)
{
	in_child(memory_beside_a_thread_is_copied);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(prepare),
		SIDE_TEST(memory_of_running_threads_is_adopted),
		SIDE_TEST(many_registrations_work),
	};
	static const struct side_test asleep[] = {
		SIDE_TEST(prepare),
		SIDE_TEST(memory_beside_a_sleeping_thread_is_adopted),
		SIDE_TEST(memory_of_a_child_is_adopted),
	};
	static const struct side_test granted[] = {
		SIDE_TEST(prepare),
		SIDE_TEST(many_registrations_are_adopted),
	};
	static const struct side_test forbidden[] = {
		SIDE_TEST(prepare),
		SIDE_TEST(memory_beside_a_thread_is_copied),
		SIDE_TEST(memory_of_a_child_is_copied),
	};

	device = argv[1];
	if (argc == 3 && strcmp(argv[2], "asleep") == 0)
		return side_main(2, argv, &side, 1, asleep, 3);
	if (argc == 3 && strcmp(argv[2], "granted") == 0)
		return side_main(2, argv, &side, 1, granted, 2);
	if (argc == 3 && strcmp(argv[2], "forbidden") == 0)
		return side_main(2, argv, &side, 1, forbidden, 3);
	return side_main(argc, argv, &side, 1, tests, 3);
}
