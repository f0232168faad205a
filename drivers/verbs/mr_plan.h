/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds of memory in a range that a program registers, and how each can be handled. Changes
 * nothing; mr_adopt.c acts on the plan. No DPDK.
 */
#ifndef VERBS_MR_PLAN_H
#define VERBS_MR_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include "map/vma.h"

enum mr_kind {
	MR_KIND_COPY = 0, /* stacks, headers of arenas, private file mappings, special mappings */
	MR_KIND_SHARED,   /* shared and file-backed: the daemon can map the same file */
	MR_KIND_PRIVATE,  /* private anonymous memory, ordinary or huge pages: can be adopted */
};

/* Part of one mapping, or of several mappings of one piece of adopted memory. */
struct mr_run {
	uint64_t va, len; /* multiples of vma.page_size */
	enum mr_kind kind;
	struct vma vma;
};

#define MR_PLAN_MAX_RUNS 64
struct mr_plan {
	uint64_t start, end; /* the range, rounded outwards to pages of its first and last run */
	bool mappable;       /* false: a run is COPY, or there are too many; runs are incomplete */
	unsigned nruns;
	struct mr_run run[MR_PLAN_MAX_RUNS];
	struct vma_scan scan; /* work space */
};

/*
 * Look up [addr, addr + len), which does not wrap; len > 0. 0 or -errno: -EFAULT when a part is
 * not mapped or not readable.
 */
int mr_plan_make(struct mr_plan *plan, uint64_t addr, uint64_t len);

#endif
