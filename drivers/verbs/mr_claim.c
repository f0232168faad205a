/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "mr_claim.h"
#include "mr_fork.h"
#include "page_swap.h"

/* From here on give-back frees the memfd's pages as it goes, not to need the memory twice. */
#define RELEASE_SOURCE_MIN (64ull << 20)

#define FILE_BUCKETS       256u

static struct mr_file *files[FILE_BUCKETS]; /* by inode */
static struct mr_hold *copy_holds;

struct mr_file *
mr_file_add(int fd, uint32_t page_size, uint64_t base)
{
	struct mr_file *f;
	struct stat st;

	if (fstat(fd, &st) != 0)
		return NULL;
	f = calloc(1, sizeof(*f));
	if (f == NULL)
		return NULL;
	f->inode = st.st_ino;
	f->dev_major = major(st.st_dev);
	f->dev_minor = minor(st.st_dev);
	f->page_size = page_size;
	f->base = base;
	f->next = files[f->inode % FILE_BUCKETS];
	files[f->inode % FILE_BUCKETS] = f;
	return f;
}

/* Freeing would take the allocator's lock, which the fork may have left in any state. */
void
mr_claim_forget_all(void)
{
	memset(files, 0, sizeof(files));
	copy_holds = NULL;
}

static bool
file_backs(const struct mr_file *f, const struct vma *v)
{
	return v->shared && v->inode == f->inode && v->dev_major == f->dev_major &&
	       v->dev_minor == f->dev_minor;
}

struct mr_file *
mr_file_find(const struct vma *v)
{
	struct mr_file *f = files[v->inode % FILE_BUCKETS];

	if (strncmp(v->name, MR_MEMFD_PATH, sizeof(MR_MEMFD_PATH) - 1) != 0)
		return NULL;
	while (f != NULL && !file_backs(f, v))
		f = f->next;
	return f;
}

void
mr_file_del(struct mr_file *f)
{
	struct mr_file **p = &files[f->inode % FILE_BUCKETS];

	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
	free(f);
}

void
mr_claim_add(struct mr_hold *hold, struct mr_file *f, uint64_t start, uint64_t end)
{
	struct mr_claim *c = &hold->claim[hold->nclaims++];

	*c = (struct mr_claim){.next = f->claims, .file = f, .start = start, .end = end};
	f->claims = c;
}

static void
claim_del(struct mr_claim *c)
{
	struct mr_claim **p = &c->file->claims;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
}

/* Make file offsets [start, end) private memory again where they are still mapped as we did. */
static void
give_back(struct page_swap *swap, const struct mr_file *f, uint64_t start, uint64_t end)
{
	uint64_t pos = f->base + start, stop = f->base + end;
	struct vma_scan scan;
	struct vma v;

	if (vma_scan_open(&scan, 0) != 0)
		return;
	while (pos < stop && vma_scan_next(&scan, pos, &v) == 0 && v.start < stop) {
		struct page_swap_job job = {
			.addr = v.start > pos ? v.start : pos,
			.page_size = f->page_size,
			.prot = v.prot,
			.fd = -1,
			.release_source = end - start >= RELEASE_SOURCE_MIN,
		};
		uint64_t done;

		pos = v.end < stop ? v.end : stop;
		job.len = pos - job.addr;
		if (!file_backs(f, &v) || v.start - v.offset != f->base ||
		    (v.prot & PROT_READ) == 0)
			continue;
		page_swap_run(swap, &job, &done);
	}
	vma_scan_close(&scan);
}

/* Give back what of [start, end) no claim needs any more. */
static void
give_back_unclaimed(struct page_swap *swap, const struct mr_file *f, uint64_t start, uint64_t end)
{
	while (start < end) {
		uint64_t next = end; /* of the first claim behind start */
		uint64_t skip = start;

		for (const struct mr_claim *c = f->claims; c != NULL; c = c->next) {
			if (c->start <= start && c->end > skip)
				skip = c->end;
			else if (c->start > start && c->start < next)
				next = c->start;
		}
		if (skip == start) {
			give_back(swap, f, start, next);
			skip = next;
		}
		start = skip;
	}
}

void
mr_claim_copy(struct mr_hold *hold, uint64_t start, uint64_t end)
{
	struct vma_scan scan;
	uint64_t pos = start;
	struct vma v;

	hold->copy_start = start;
	hold->copy_end = end;
	hold->next_copy = copy_holds;
	copy_holds = hold;
	if (vma_scan_open(&scan, 0) != 0)
		return;
	while (pos < end && hold->nclaims < MR_PLAN_MAX_RUNS &&
	       vma_scan_next(&scan, pos, &v) == 0 && v.start < end) {
		struct mr_file *f = mr_file_find(&v);
		uint64_t from = v.start > pos ? v.start : pos;

		pos = v.end < end ? v.end : end;
		if (f != NULL)
			mr_claim_add(hold, f, v.offset + (from - v.start),
				     v.offset + (pos - v.start));
	}
	vma_scan_close(&scan);
}

bool
mr_claim_copied(uint64_t start, uint64_t end)
{
	for (const struct mr_hold *h = copy_holds; h != NULL; h = h->next_copy)
		if (start < h->copy_end && h->copy_start < end)
			return true;
	return false;
}

static void
copy_hold_del(struct mr_hold *hold)
{
	struct mr_hold **p = &copy_holds;

	if (hold->copy_end == 0)
		return;
	while (*p != hold)
		p = &(*p)->next_copy;
	*p = hold->next_copy;
}

void
mr_claim_release(struct mr_hold *hold)
{
	struct page_swap *swap = NULL;
	int err;

	copy_hold_del(hold);
	if (hold->nclaims > 0)
		swap = page_swap_process(&err);
	for (unsigned i = 0; i < hold->nclaims; i++) {
		struct mr_claim *c = &hold->claim[i];

		claim_del(c);
		if (swap != NULL)
			give_back_unclaimed(swap, c->file, c->start, c->end);
		if (c->file->claims == NULL)
			mr_file_del(c->file);
	}
}
