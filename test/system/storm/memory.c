/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and memory: regions of every kind of memory, and the same pages at once. */
#include "storm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEAP, PRIVATE, SHARED, KINDS };

static bool
memory_map(struct worker *w, struct region *r)
{
	switch (r->kind) {
	case HEAP:
		r->buf = malloc(r->len);
		MUST(w, r->buf != NULL);
		return true;
	case PRIVATE:
		r->buf = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
		break;
	default:
		r->fd = memfd_create("storm", MFD_CLOEXEC);
		MUST(w, r->fd >= 0 && ftruncate(r->fd, (off_t)r->len) == 0);
		r->buf = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	}
	MUST(w, r->buf != MAP_FAILED);
	return true;
}

static bool
memory_unmap(struct worker *w, struct region *r)
{
	if (r->kind == HEAP)
		free(r->buf);
	else
		MUST(w, munmap(r->buf, r->len) == 0);
	if (r->kind == SHARED)
		MUST(w, close(r->fd) == 0);
	return true;
}

bool
region_make(struct worker *w, struct region *r, struct ibv_pd *pd, size_t len)
{
	*r = (struct region){.len = len, .kind = (int)storm_random(w, KINDS)};
	if (!memory_map(w, r))
		return false;
	memset(r->buf, 0x5a, len);
	r->mr = ibv_reg_mr(pd, r->buf, len, STORM_ACCESS);
	MUST(w, r->mr != NULL);
	return true;
}

bool
region_end(struct worker *w, struct region *r)
{
	MUST(w, ibv_dereg_mr(r->mr) == 0);
	return memory_unmap(w, r);
}

/* PDs, thread domains and parent domains; a PD in use is not freed. */
void
job_domains(struct worker *w)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_parent_domain_init_attr attr = {0};
	struct ibv_pd *pd = ibv_alloc_pd(storm.ctx), *parent;
	struct ibv_td *td = ibv_alloc_td(storm.ctx, &td_attr);
	struct region r;

	NEED(w, pd && td);
	attr.pd = pd;
	attr.td = td;
	parent = ibv_alloc_parent_domain(storm.ctx, &attr);
	NEED(w, parent);
	if (!region_make(w, &r, parent, 4096))
		return;
	NEED(w, ibv_dealloc_pd(pd) == EBUSY);
	NEED(w, ibv_dealloc_td(td) == EBUSY);
	if (!region_end(w, &r))
		return;
	NEED(w, ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* A transfer from one region to another through a separate connection. */
static bool
copy_checked(struct worker *w, struct ibv_pd *pd, struct ibv_mr *from, struct ibv_mr *to,
	     uint8_t *src, uint8_t *dst, uint32_t len)
{
	struct ibv_cq *cq = ibv_create_cq(storm.ctx, 8, NULL, NULL, 0);
	uint32_t seed = storm_random(w, 1u << 20);
	struct ibv_qp *a, *b;

	MUST(w, cq != NULL);
	a = storm_qp(w, pd, IBV_QPT_RC, cq, NULL, 2);
	b = storm_qp(w, pd, IBV_QPT_RC, cq, NULL, 2);
	if (!a || !b || !storm_connect(w, a, b))
		return false;
	if (src != storm.common)
		storm_fill(src, len, seed);
	MUST(w, storm_post_recv(b, to, 0, len) && storm_post_send(a, from, 0, len));
	if (!storm_done(w, cq) || !storm_done(w, cq))
		return false;
	MUST(w, memcmp(src, dst, len) == 0);
	MUST(w, ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0 && ibv_destroy_cq(cq) == 0);
	return true;
}

/* Registers, registers again in all ways, and deregisters; data arrives in between. */
void
job_regions(struct worker *w)
{
	struct region r, s;
	uint8_t stack[6000];
	struct ibv_mr *mr;
	struct ibv_pd *pd = ibv_alloc_pd(storm.ctx), *other = ibv_alloc_pd(storm.ctx);
	uint32_t len = 1 + storm_random(w, 20000);

	NEED(w, pd && other);
	if (!region_make(w, &r, pd, 4096 + len) || !region_make(w, &s, pd, 4096 + len) ||
	    !copy_checked(w, pd, r.mr, s.mr, r.buf, s.buf, len))
		return;
	NEED(w, ibv_rereg_mr(r.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			     IBV_ACCESS_LOCAL_WRITE) == 0);
	NEED(w, ibv_rereg_mr(r.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, r.buf, len, 0) == 0);
	NEED(w, ibv_rereg_mr(r.mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0) == 0);
	NEED(w, ibv_rereg_mr(r.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0) == 0);
	if (!copy_checked(w, pd, r.mr, s.mr, r.buf, s.buf, len))
		return;
	if (!region_end(w, &s))
		return;
	mr = ibv_reg_mr(pd, stack, sizeof(stack), STORM_ACCESS);
	NEED(w, mr);
	if (len > sizeof(stack))
		len = sizeof(stack);
	if (!copy_checked(w, pd, r.mr, mr, r.buf, stack, len))
		return;
	NEED(w, ibv_dereg_mr(mr) == 0);
	if (!region_end(w, &r))
		return;
	NEED(w, ibv_dealloc_pd(pd) == 0 && ibv_dealloc_pd(other) == 0);
}

/* Memory that all threads register, in parts that overlap, is read. */
void
job_same_pages(struct worker *w)
{
	uint32_t len = 1 + storm_random(w, 30000);
	struct ibv_mr *mr[3];
	struct region to;

	for (int i = 0; i < 3; i++) {
		mr[i] = ibv_reg_mr(storm.pd, storm.common,
				   len + storm_random(w, STORM_COMMON_BYTES - len), STORM_ACCESS);
		NEED(w, mr[i]);
	}
	if (!region_make(w, &to, storm.pd, len))
		return;
	for (int i = 0; i < 3; i++) {
		if (!copy_checked(w, storm.pd, mr[i], to.mr, storm.common, to.buf, len))
			return;
		NEED(w, ibv_dereg_mr(mr[i]) == 0);
	}
	region_end(w, &to);
}
