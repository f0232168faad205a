/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program at its own limits: of descriptors (RLIMIT_NOFILE) and of address space (RLIMIT_AS).
 *
 *   cramped DEVICE
 *
 * TAP; exit status 0 when all tests passed.
 */
#include "kit/verbside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEEP     2000 /* WRs of a queue; a few such queues take a segment */
#define DEEP_QPS 30
#define COPIED   (32u << 20)

static struct side side;

static struct ibv_qp *
deep_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = side.cq,
		.recv_cq = side.cq,
		.cap = {.max_send_wr = DEEP,
			.max_recv_wr = DEEP,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(side.pd, &attr);
}

/* Sets a limit of this process. Returns the old one. */
static rlim_t
limit_set(int which, rlim_t to)
{
	struct rlimit l;
	rlim_t old;

	CHECK(getrlimit(which, &l) == 0);
	old = l.rlim_cur;
	l.rlim_cur = to;
	CHECK(setrlimit(which, &l) == 0);
	return old;
}

static void
queues_grow_where_no_descriptor_is_left(void)
{
	int fd = dup(0);
	rlim_t old = limit_set(RLIMIT_NOFILE, (rlim_t)fd + 1);
	struct ibv_comp_channel *ch;
	struct ibv_qp *qp[DEEP_QPS];

	CHECK(dup(0) < 0 && errno == EMFILE);
	for (int i = 0; i < DEEP_QPS; i++) {
		qp[i] = deep_qp();
		CHECK(qp[i]);
	}
	CHECK(!ibv_create_comp_channel(side.ctx) && errno == EMFILE);
	limit_set(RLIMIT_NOFILE, old);
	close(fd);
	ch = ibv_create_comp_channel(side.ctx);
	CHECK(ch && ibv_destroy_comp_channel(ch) == 0);
	for (int i = 0; i < DEEP_QPS; i++)
		CHECK(qp[i] && ibv_destroy_qp(qp[i]) == 0);
}

static rlim_t
address_space(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	CHECK(f && fscanf(f, "%lu", &pages) == 1);
	if (f)
		fclose(f);
	return (rlim_t)pages * 4096;
}

/* Queues that do not fit into the address space are refused, and can be created later. */
static void
queues_are_refused_where_no_address_space_is_left(void)
{
	struct ibv_qp *qp[4 * DEEP_QPS];
	rlim_t old;
	int n = 0;

	if (getenv("UROCE_SANITIZED")) /* the sanitizer's allocator would end the program */
		return;
	old = limit_set(RLIMIT_AS, address_space() + 65536);
	while (n < 4 * DEEP_QPS && (qp[n] = deep_qp()) != NULL)
		n++;
	CHECK(n < 4 * DEEP_QPS && errno == ENOMEM);
	CHECK(ibv_resize_cq(side.cq, 3000) == ENOMEM);
	limit_set(RLIMIT_AS, old);
	for (; n < 4 * DEEP_QPS; n++) {
		qp[n] = deep_qp();
		CHECK(qp[n]);
	}
	while (n > 0)
		CHECK(ibv_destroy_qp(qp[--n]) == 0);
}

/* The child's copy of registered memory is that of the fork, although the parent stores at once. */
static void
a_fork_copies_registered_memory_where_no_descriptor_is_left(void)
{
	uint8_t *buf = aligned_alloc(4096, COPIED);
	struct ibv_mr *mr = ibv_reg_mr(side.pd, memset(buf, 1, COPIED), COPIED, SIDE_ACCESS);
	int fd = dup(0), status = -1;
	rlim_t old = limit_set(RLIMIT_NOFILE, (rlim_t)fd + 1);
	pid_t pid = fork();

	if (pid == 0) {
		for (size_t i = 0; i < COPIED; i++) {
			if (buf[i] != 1)
				_exit(1);
		}
		_exit(0);
	}
	memset(buf, 2, COPIED);
	limit_set(RLIMIT_NOFILE, old);
	close(fd);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(mr && ibv_dereg_mr(mr) == 0);
	free(buf);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(queues_grow_where_no_descriptor_is_left),
		SIDE_TEST(a_fork_copies_registered_memory_where_no_descriptor_is_left),
		SIDE_TEST(queues_are_refused_where_no_address_space_is_left),
	};

	return side_main(argc, argv, &side, 1, tests, sizeof(tests) / sizeof(tests[0]));
}
