/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that calls verbs from its fork handlers, installed before the provider was loaded (as
 * UCX does) and after a device was opened, while other threads register and deregister. No call may
 * hang, parent and child must have separate memory, and changes by the child to its copies of the
 * parent's objects must not reach the daemon.
 *
 *   forks DEVICE
 *
 * TAP; exit status 0 when all tests passed.
 */
#include "kit/verbside.h"
#include "../kit/requirement.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES      (64u << 10)
#define FORKS      20
#define THREADS    2
#define HEAP_PAGES 8
#define CHANNELS   5
#define HEAP_ALIGN (64u << 20) /* of glibc's heaps of threads */

/* The state of one set of handlers. */
struct cache {
	uint8_t *buf;
	struct ibv_mr *mr;    /* of buf, except from prepare to parent */
	pthread_mutex_t lock; /* held from prepare to parent, and by threads around verbs */
	bool child_failed;
};

static struct side side;
static struct cache early = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct cache late = {.lock = PTHREAD_MUTEX_INITIALIZER};
static bool active;
static atomic_bool stop;
static sem_t begun; /* posted by each thread of register_in_a_loop */

static struct ibv_mr *
reg(void *buf)
{
	return ibv_reg_mr(side.pd, buf, BYTES, SIDE_ACCESS);
}

static struct ibv_mr *
reg_some(void *buf, size_t len)
{
	return ibv_reg_mr(side.pd, buf, len, SIDE_ACCESS);
}

/* Deregisters, registers another region, and makes other calls. */
static void
prepare(struct cache *c)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;

	if (!active)
		return;
	pthread_mutex_lock(&c->lock);
	CHECK(ibv_dereg_mr(c->mr) == 0);
	mr = reg(c->buf);
	CHECK(mr &&
	      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, c->buf, BYTES / 2, 0) == 0);
	CHECK(mr && ibv_dereg_mr(mr) == 0);
	pd = ibv_alloc_pd(side.ctx);
	CHECK(pd && ibv_dealloc_pd(pd) == 0);
	cq = ibv_create_cq(side.ctx, 1, NULL, NULL, 0);
	CHECK(cq && ibv_destroy_cq(cq) == 0);
}

static void
parent(struct cache *c)
{
	struct ibv_mr *mr;

	if (!active)
		return;
	mr = reg(c->buf);
	CHECK(mr && ibv_dereg_mr(mr) == 0);
	c->mr = reg(c->buf);
	CHECK(c->mr);
	pthread_mutex_unlock(&c->lock);
}

/* The objects belong to the parent: the child can release them, but cannot make new ones. */
static void
child(struct cache *c, struct ibv_mr *other)
{
	if (!active)
		return;
	pthread_mutex_unlock(&c->lock);
	c->child_failed |= reg(c->buf) != NULL;
	c->child_failed |= ibv_alloc_pd(side.ctx) != NULL;
	c->child_failed |= ibv_dereg_mr(other) != 0;
}

static struct ibv_mr *kept[2]; /* registered all the time; the children release them */

static void
early_prepare(void)
{
	prepare(&early);
}
static void
early_parent(void)
{
	parent(&early);
}
static struct ibv_ah *child_ah; /* the next child destroys it, before any other call */

static void
early_child(void)
{
	if (child_ah)
		early.child_failed |= ibv_destroy_ah(child_ah) != 0;
	child(&early, kept[0]);
}
static void
late_prepare(void)
{
	prepare(&late);
}
static void
late_parent(void)
{
	parent(&late);
}
static void
late_child(void)
{
	child(&late, kept[1]);
}

/* Registers, with (locked) or without the lock that the handlers take. */
static void *
register_in_a_loop(void *arg)
{
	bool locked = arg != NULL;
	uint8_t *buf = aligned_alloc(4096, BYTES);

	sem_post(&begun);
	while (!stop) {
		struct ibv_mr *mr;

		if (locked)
			pthread_mutex_lock(&early.lock);
		mr = reg(buf);
		buf[100]++;
		CHECK(mr && ibv_dereg_mr(mr) == 0);
		if (locked)
			pthread_mutex_unlock(&early.lock);
	}
	free(buf);
	return NULL;
}

/* A peer's WRITE to buf: does the parent's region exist, and does only the parent see the data? */
static bool
write_lands(struct ibv_mr *mr, uint8_t *buf, uint8_t value)
{
	static struct ibv_qp *a, *b;
	struct ibv_sge sge = {.addr = (uintptr_t)side.buf, .length = 64, .lkey = side.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_wc wc;

	if (!a) {
		a = side_qp(side.pd, IBV_QPT_RC, side.cq);
		b = side_qp(side.pd, IBV_QPT_RC, side.cq);
		if (!a || !b || side_raise(&side, a, b->qp_num) || side_raise(&side, b, a->qp_num))
			return false;
	}
	memset(side.buf, value, 64);
	wr.wr.rdma.remote_addr = (uintptr_t)buf;
	wr.wr.rdma.rkey = mr->rkey;
	return ibv_post_send(a, &wr, &bad) == 0 && verbs_wait(side.cq, &wc) &&
	       wc.status == IBV_WC_SUCCESS && buf[0] == value && buf[63] == value;
}

static int go_on[2]; /* a pipe */

/* As fork. The child goes on when the parent has closed go_on[1]. */
static pid_t
fork_behind(void)
{
	char none;
	pid_t pid;

	CHECK(pipe(go_on) == 0);
	pid = fork();
	if (pid == 0) {
		close(go_on[1]);
		if (read(go_on[0], &none, 1) != 0)
			_exit(2);
	}
	close(go_on[0]);
	return pid;
}

/* In the child: exit status 0 if memory is private and unchanged. */
static void
child_main(uint8_t *const *bufs, unsigned n, uint8_t value)
{
	bool bad = early.child_failed || late.child_failed;

	for (unsigned i = 0; i < n; i++) {
		for (unsigned at = 0; at < BYTES; at++)
			bad |= bufs[i][at] != (uint8_t)(value + i);
		memset(bufs[i], 0xee, BYTES);
	}
	_exit(bad);
}

static void
fork_once(uint8_t round)
{
	uint8_t *bufs[] = {early.buf, late.buf, kept[0]->addr, kept[1]->addr};
	uint8_t value = (uint8_t)(round * 4 + 1);
	int status = -1;
	pid_t pid;

	for (unsigned i = 0; i < 4; i++)
		memset(bufs[i], value + (int)i, BYTES);
	pid = fork_behind();
	if (pid == 0)
		child_main(bufs, 4, value);
	for (unsigned i = 0; i < 4; i++)
		memset(bufs[i], 0x77, BYTES);
	CHECK(write_lands(early.mr, early.buf, 0x11));
	CHECK(write_lands(late.mr, late.buf, 0x12));
	CHECK(write_lands(kept[0], kept[0]->addr, 0x13));
	CHECK(write_lands(kept[1], kept[1]->addr, 0x14));
	close(go_on[1]);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(status == 0);
	for (unsigned i = 0; i < 4; i++)
		CHECK(bufs[i][BYTES - 1] == 0x77);
}

static void
set_up(void)
{
	if (early.buf)
		return;
	CHECK(pthread_atfork(late_prepare, late_parent, late_child) == 0);
	early.buf = aligned_alloc(4096, BYTES);
	late.buf = aligned_alloc(4096, BYTES);
	early.mr = reg(early.buf);
	late.mr = reg(late.buf);
	for (unsigned i = 0; i < 2; i++)
		kept[i] = reg(aligned_alloc(4096, BYTES));
	CHECK(early.mr && late.mr && kept[0] && kept[1]);
}

REQUIREMENT("MEM-05")
static void
verbs_work_in_fork_handlers(void)
{
	set_up();
	active = true;
	for (unsigned i = 0; i < FORKS; i++)
		fork_once((uint8_t)i);
	active = false;
}

REQUIREMENT("MEM-05")
static void
verbs_work_in_fork_handlers_while_threads_register(void)
{
	/*
	 * After a fork AddressSanitizer's allocator, unlike the C library's, is not usable in the
	 * child (GCC 12) if another thread was in it. Therefore all threads use the handlers' lock.
	 * A thread's start allocates without it, so no fork happens before all threads have begun.
	 */
	bool all_locked = getenv("UROCE_SANITIZED") != NULL;
	pthread_t t[THREADS];

	set_up();
	stop = false;
	sem_init(&begun, 0, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, register_in_a_loop,
				     (void *)(uintptr_t)(all_locked || i > 0)) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		while (sem_wait(&begun) != 0)
			;
	active = true;
	for (unsigned i = 0; i < FORKS; i++)
		fork_once((uint8_t)i);
	active = false;
	stop = true;
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

/* A fork that fails also calls the parent's handler; and a handler may itself fork. */
REQUIREMENT("MEM-05")
static void
failed_and_nested_forks_run_their_handlers(void)
{
	int status = -1;
	pid_t pid;

	set_up();
	active = true;
	pid = fork();
	if (pid == 0) {
		uint8_t *bufs[] = {late.buf};

		active = false;
		memset(late.buf, 9, BYTES);
		pid = fork_behind();
		if (pid == 0)
			child_main(bufs, 1, 9);
		memset(late.buf, 8, BYTES);
		close(go_on[1]);
		_exit(waitpid(pid, &status, 0) != pid || status != 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	active = false;
	CHECK(write_lands(late.mr, late.buf, 0x21));
}

/* A buffer in the first page of a thread's heap, beside the header of the arena. */
struct heap_user {
	sem_t ready, go;
	bool beside;
	struct ibv_mr *mr;
};

static void *
use_heap(void *arg)
{
	struct heap_user *u = arg;
	uint8_t *buf = malloc(512);

	u->beside = (uintptr_t)buf % HEAP_ALIGN < 4096;
	u->mr = ibv_reg_mr(side.pd, buf, 512, SIDE_ACCESS);
	sem_post(&u->ready);
	sem_wait(&u->go);
	CHECK(u->mr && ibv_dereg_mr(u->mr) == 0);
	free(buf);
	return NULL;
}

/* The C library changes these headers in the child before it runs handlers. */
REQUIREMENT("MEM-05")
static void
a_fork_leaves_the_heaps_of_other_threads_alone(void)
{
	struct heap_user u = {0};
	int status = -1;
	pthread_t t;
	pid_t pid;

	sem_init(&u.ready, 0, 0);
	sem_init(&u.go, 0, 0);
	CHECK(pthread_create(&t, NULL, use_heap, &u) == 0);
	sem_wait(&u.ready);
	CHECK(u.beside || getenv("UROCE_SANITIZED"));
	pid = fork();
	if (pid == 0)
		_exit(0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	sem_post(&u.go);
	CHECK(pthread_join(t, NULL) == 0); /* its end checks the header, and may abort */
}

/* Opens and closes channels, whose bookkeeping is in pages that are registered. */
static void *
channels_in_a_loop(void *unused)
{
	uint8_t *buf[HEAP_PAGES];
	struct ibv_mr *mr[HEAP_PAGES];

	(void)unused;
	for (int i = 0; i < HEAP_PAGES; i++) {
		buf[i] = malloc(4000);
		mr[i] = reg_some(buf[i], 4000);
		CHECK(mr[i]);
	}
	while (!stop) {
		struct ibv_comp_channel *ch[CHANNELS];

		for (int i = 0; i < CHANNELS; i++)
			ch[i] = ibv_create_comp_channel(side.ctx);
		for (int i = 0; i < CHANNELS; i++)
			CHECK(ch[i] && ibv_destroy_comp_channel(ch[i]) == 0);
	}
	for (int i = 0; i < HEAP_PAGES; i++) {
		CHECK(mr[i] && ibv_dereg_mr(mr[i]) == 0);
		free(buf[i]);
	}
	return NULL;
}

/* A child's lists are those of the fork, even if the parent frees their elements at once. */
REQUIREMENT("MEM-05")
static void
a_child_begins_while_threads_close_channels(void)
{
	pthread_t t[THREADS];

	set_up();
	stop = false;
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, channels_in_a_loop, NULL) == 0);
	for (int i = 0; i < 10 * FORKS; i++) {
		int status = -1;
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	stop = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

static struct ibv_ah *
ah_to(uint8_t host)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.sgid_index = 1, .hop_limit = 1}};

	CHECK(ibv_query_gid(side.ctx, 1, 1, &attr.grh.dgid) == 0);
	if (host)
		attr.grh.dgid.raw[15] = host;
	return ibv_create_ah(side.pd, &attr);
}

static sem_t waits;
static __thread bool will_wait; /* this thread; until it does */

/* Replaces libc's, also for the provider: it yields while it waits for a datagram. */
int
sched_yield(void)
{
	if (will_wait)
		sem_post(&waits);
	will_wait = false;
	return (int)syscall(SYS_sched_yield);
}

static void *
destroy_ah(void *ah)
{
	will_wait = true;
	CHECK(ibv_destroy_ah(ah) == 0);
	CHECK(!will_wait);
	sched_yield();
	return NULL;
}

/*
 * The destruction of an address handle waits for a datagram that cannot be sent, and holds a lock.
 * A child that is forked at that time gets the lock as it is.
 */
REQUIREMENT("MEM-05")
static void
a_childs_first_verb_does_not_wait_for_a_thread_of_the_parent(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)side.buf, .length = 8, .lkey = side.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_qp *qp = side_qp(side.pd, IBV_QPT_UD, side.cq);
	struct ibv_ah *near = ah_to(0), *far = ah_to(77);
	int status = -1;
	pthread_t t;
	pid_t pid;

	set_up();
	child_ah = ah_to(0);
	CHECK(qp && near && far && child_ah && side_raise(&side, qp, 0) == 0);
	wr.wr.ud.ah = far;
	wr.wr.ud.remote_qpn = 5;
	wr.wr.ud.remote_qkey = VERBS_QKEY;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	sem_init(&waits, 0, 0);
	CHECK(pthread_create(&t, NULL, destroy_ah, near) == 0);
	sem_wait(&waits);
	pid = fork();
	if (pid == 0)
		_exit(early.child_failed);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(pthread_join(t, NULL) == 0);
	CHECK(ibv_destroy_ah(child_ah) == 0 && ibv_destroy_ah(far) == 0);
	child_ah = NULL;
	CHECK(ibv_destroy_qp(qp) == 0);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(a_fork_leaves_the_heaps_of_other_threads_alone), /* with new heaps */
		SIDE_TEST(a_childs_first_verb_does_not_wait_for_a_thread_of_the_parent),
		SIDE_TEST(a_child_begins_while_threads_close_channels),
		SIDE_TEST(verbs_work_in_fork_handlers),
		SIDE_TEST(verbs_work_in_fork_handlers_while_threads_register),
		SIDE_TEST(failed_and_nested_forks_run_their_handlers),
	};

	/* Before libibverbs loads its providers. */
	if (pthread_atfork(early_prepare, early_parent, early_child) != 0)
		return 1;
	return side_main(argc, argv, &side, 1, tests, sizeof(tests) / sizeof(tests[0]));
}
