/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Huge pages that a program gets directly from the kernel, without hugetlbfs: a shared memfd of
 * huge pages and a private mapping. Both are registered, copied to one another by RDMA and
 * compared.
 *
 *   hugeclient DEVICE
 *
 * Also prints the page size of the queues that the daemon passed. TAP; exit status 0: all passed.
 */
#include "kit/verbside.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t huge; /* bytes of a page */
static struct side side;
static uint8_t *shared, *private;

/* 32 MiB if such pages are free, as on arm64 with pages of 16 KiB; else 2 MiB. */
static uint32_t
huge_bytes(void)
{
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-32768kB/free_hugepages", "r");
	unsigned int n = 0;

	if (f) {
		CHECK(fscanf(f, "%u", &n) == 1);
		fclose(f);
	}
	return n > 1 ? 32u << 20 : 2u << 20;
}

static void
memory_on_huge_pages_is_registered(void)
{
	int kind, fd;

	huge = huge_bytes();
	kind = __builtin_ctz(huge) << MAP_HUGE_SHIFT;
	fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB | (unsigned int)kind);
	CHECK(fd >= 0 && ftruncate(fd, huge) == 0);
	shared = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	private = mmap(NULL, huge, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | kind, -1, 0);
	CHECK(shared != MAP_FAILED && private != MAP_FAILED);
	close(fd);
}

/* Copies all of one buffer into the other, through the device. */
static void
write_over(struct ibv_qp *qp, uint8_t *from, uint8_t *to)
{
	struct ibv_mr *src = ibv_reg_mr(side.pd, from, huge, SIDE_ACCESS);
	struct ibv_mr *dst = ibv_reg_mr(side.pd, to, huge, SIDE_ACCESS);
	struct ibv_sge sge = {(uintptr_t)from, huge, src ? src->lkey : 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_wc wc;

	CHECK(src && dst);
	for (uint32_t i = 0; i < huge; i++)
		from[i] = (uint8_t)(i * 31 + (i >> 11) + (from == shared));
	memset(to, 0, huge);
	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = dst ? dst->rkey : 0;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	CHECK(verbs_wait(side.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CHECK(memcmp(from, to, huge) == 0);
	CHECK(ibv_dereg_mr(src) == 0 && ibv_dereg_mr(dst) == 0);
}

static void
rdma_between_huge_pages_works(void)
{
	struct ibv_qp *qp[2];

	for (int i = 0; i < 2; i++)
		qp[i] = side_qp(side.pd, IBV_QPT_RC, side.cq);
	CHECK(qp[0] && qp[1] && side_raise(&side, qp[0], qp[1]->qp_num) == 0 &&
	      side_raise(&side, qp[1], qp[0]->qp_num) == 0);
	write_over(qp[0], shared, private);
	write_over(qp[0], private, shared);
	for (int i = 0; i < 2; i++)
		CHECK(ibv_destroy_qp(qp[i]) == 0);
}

/* Counts mappings of the daemon's segments in this process, by page size. */
static void
queues_are_on_huge_pages(void)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned int large = 0, ordinary = 0;
	char line[4096];
	bool ours = false;

	CHECK(f);
	while (f && fgets(line, sizeof(line), f)) {
		if (strstr(line, " rw-s "))
			ours = strstr(line, "uroce") != NULL;
		else if (ours && strstr(line, "KernelPageSize:"))
			*(strstr(line, " 2048 kB") ? &large : &ordinary) += 1;
		if (strstr(line, "VmFlags:"))
			ours = false;
	}
	if (f)
		fclose(f);
	printf("# segments of the daemon: %u on huge pages, %u on others\n", large, ordinary);
	CHECK(large > 0);
}

/* No mapping is from a hugetlbfs file system. */
static void
no_hugetlbfs_is_mounted(void)
{
	FILE *f = fopen("/proc/self/mounts", "r");
	char line[4096];

	CHECK(f);
	while (f && fgets(line, sizeof(line), f))
		CHECK(!strstr(line, " hugetlbfs "));
	if (f)
		fclose(f);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(memory_on_huge_pages_is_registered),
		SIDE_TEST(rdma_between_huge_pages_works),
		SIDE_TEST(queues_are_on_huge_pages),
		SIDE_TEST(no_hugetlbfs_is_mounted),
	};

	return side_main(argc, argv, &side, 1, tests, sizeof(tests) / sizeof(tests[0]));
}
