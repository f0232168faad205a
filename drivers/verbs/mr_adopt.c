/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "mr_adopt.h"
#include "mr_claim.h"
#include "mr_fork.h"
#include "mr_plan.h"
#include "page_swap.h"

#define BASE_PAGE 4096u

/* A memfd is larger than its region: memory that realloc grows in place finds pages there. */
#define GROWTH_ROOM (1ull << 40)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

enum mr_mode { MR_MODE_AUTO, MR_MODE_COPY, MR_MODE_ADOPT };

/* One call of mr_pieces_build. */
struct build {
	struct mr_plan plan;
	struct mr_hold *hold;
	struct uroce_mr_piece *pieces;
	unsigned npieces;
	int *fds;
	struct mr_file *file[MR_ADOPT_MAX_FDS]; /* made by this call, same order as fds */
	unsigned nfds;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned generation; /* counts forks that led here; under lock */
static bool fork_handled;   /* under lock */

static void
adopt_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void
adopt_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static void
adopt_forget(void)
{
	mr_claim_forget_all();
	page_swap_forget();
	generation++;
}

static const struct mr_fork_ops adopt_fork_ops = {
	.lock = adopt_lock,
	.unlock = adopt_unlock,
	.forget = adopt_forget,
};

static enum mr_mode
mode_get(void)
{
	const char *s = getenv("UROCE_MR_MODE");

	if (s != NULL && strcmp(s, "copy") == 0)
		return MR_MODE_COPY;
	return s != NULL && strcmp(s, "adopt") == 0 ? MR_MODE_ADOPT : MR_MODE_AUTO;
}

/* A memfd of at least len bytes for pages of page_size, sealed against shrinking. */
static int
memfd_make(uint64_t len, uint32_t page_size)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	uint64_t size = len + GROWTH_ROOM;
	struct rlimit limit;
	int fd, err;

	/* Beyond the limit on file sizes the kernel would send SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) {
		if (limit.rlim_cur < len)
			return -EFBIG;
		size = len;
	}
	if (page_size > BASE_PAGE)
		flags |= MFD_HUGETLB | (unsigned)__builtin_ctz(page_size) << MAP_HUGE_SHIFT;
	fd = memfd_create(MR_MEMFD_NAME, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(MR_MEMFD_NAME, flags);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/* The file of this call for page_size, made if it is the first; its index, or -errno. */
static int
build_file(struct build *b, uint32_t page_size)
{
	uint64_t mask = (uint64_t)page_size - 1;
	uint64_t base = b->plan.start & ~mask;
	struct mr_file *f;
	int fd, err;

	for (unsigned i = 0; i < b->nfds; i++)
		if (b->file[i]->page_size == page_size)
			return (int)i;
	if (b->nfds == MR_ADOPT_MAX_FDS)
		return -E2BIG;
	fd = memfd_make((b->plan.end - base + mask) & ~mask, page_size);
	if (fd < 0)
		return fd;
	f = mr_file_add(fd, page_size, base);
	if (f == NULL) {
		err = -errno;
		close(fd);
		return err;
	}
	b->file[b->nfds] = f;
	b->fds[b->nfds] = fd;
	return (int)b->nfds++;
}

static struct uroce_mr_piece *
piece_add(struct build *b, const struct mr_run *run, uint32_t kind)
{
	struct uroce_mr_piece *p = &b->pieces[b->npieces];

	if (b->npieces == UROCE_MR_MAX_PIECES)
		return NULL;
	b->npieces++;
	*p = (struct uroce_mr_piece){.va = run->va, .len = run->len, .kind = kind};
	return p;
}

static int
build_shared(struct build *b, const struct mr_run *run)
{
	struct uroce_mr_piece *p = piece_add(b, run, UROCE_PIECE_MAP_FILE);
	struct mr_file *f = mr_file_find(&run->vma);

	if (p == NULL)
		return -E2BIG;
	p->vm_start = run->vma.start;
	p->vm_end = run->vma.end;
	if (f != NULL) {
		uint64_t off = run->vma.offset + (run->va - run->vma.start);

		mr_claim_add(b->hold, f, off, off + run->len);
	}
	return 0;
}

static int
build_private(struct build *b, struct page_swap *swap, const struct mr_run *run)
{
	struct uroce_mr_piece *p = b->npieces > 0 ? &b->pieces[b->npieces - 1] : NULL;
	int index = build_file(b, run->vma.page_size);
	struct page_swap_job job = {
		.addr = run->va,
		.len = run->len,
		.page_size = run->vma.page_size,
		.prot = run->vma.prot,
	};
	uint64_t done;
	int err;

	if (index < 0)
		return index;
	job.fd = b->fds[index];
	job.fd_off = run->va - b->file[index]->base;
	if (p != NULL && p->kind == UROCE_PIECE_FD && p->fd_index == (uint32_t)index) {
		p->len += run->len;
	} else {
		p = piece_add(b, run, UROCE_PIECE_FD);
		if (p == NULL)
			return -E2BIG;
		p->fd_index = (uint32_t)index;
		p->fd_off = job.fd_off;
	}
	err = page_swap_run(swap, &job, &done);
	if (done > 0)
		mr_claim_add(b->hold, b->file[index], job.fd_off, job.fd_off + done);
	return err;
}

static int
build_runs(struct build *b)
{
	int err = 0;

	for (unsigned i = 0; err == 0 && i < b->plan.nruns; i++) {
		const struct mr_run *run = &b->plan.run[i];
		struct page_swap *swap;

		if (run->kind == MR_KIND_SHARED) {
			err = build_shared(b, run);
			continue;
		}
		swap = page_swap_process(&err);
		if (err == 0 && !fork_handled)
			err = mr_fork_install(&adopt_fork_ops);
		if (err == 0) {
			fork_handled = true;
			err = build_private(b, swap, run);
		}
	}
	return err;
}

/* Undo what build_runs did. */
static void
build_undo(struct build *b)
{
	for (unsigned i = 0; i < b->nfds; i++) {
		close(b->fds[i]);
		if (b->file[i]->claims == NULL)
			mr_file_del(b->file[i]);
	}
	b->nfds = 0;
	mr_claim_release(b->hold);
	b->hold->nclaims = 0;
}

/* Would pages move that a COPY region reads? */
static bool
adopts_copied(const struct mr_plan *plan)
{
	for (unsigned i = 0; i < plan->nruns; i++) {
		const struct mr_run *run = &plan->run[i];

		if (run->kind == MR_KIND_PRIVATE && mr_claim_copied(run->va, run->va + run->len))
			return true;
	}
	return false;
}

/* Locked. 0 or -errno. */
static int
build_pieces(struct build *b, uint64_t addr, uint64_t len, enum mr_mode mode)
{
	int err = mr_plan_make(&b->plan, addr, len);

	if (err != 0)
		return err;
	if (b->plan.mappable && mode != MR_MODE_COPY && !adopts_copied(&b->plan)) {
		err = build_runs(b);
		if (err == 0)
			return 0;
		build_undo(b);
	}
	if (mode == MR_MODE_ADOPT)
		return -EOPNOTSUPP;
	b->npieces = 1;
	b->pieces[0] = (struct uroce_mr_piece){
		.va = b->plan.start,
		.len = b->plan.end - b->plan.start,
		.kind = UROCE_PIECE_COPY,
	};
	mr_claim_copy(b->hold, b->plan.start, b->plan.end);
	return 0;
}

int
mr_pieces_build(uint64_t addr, uint64_t len, struct uroce_mr_piece *pieces, unsigned *npieces,
		int *fds, unsigned *nfds, struct mr_hold **hold)
{
	enum mr_mode mode = mode_get();
	struct build *b;
	int cancel, err;

	*npieces = 0;
	*nfds = 0;
	*hold = NULL;
	if (len == 0)
		return 0;
	if (addr + len < addr || addr + len > UINT64_MAX - BASE_PAGE)
		return EINVAL;
	/* Allocated before, freed after any page is protected: see page_swap.h. */
	b = calloc(1, sizeof(*b));
	*hold = calloc(1, sizeof(**hold));
	if (b == NULL || *hold == NULL) {
		free(b);
		free(*hold);
		*hold = NULL;
		return ENOMEM;
	}
	b->pieces = pieces;
	b->fds = fds;
	b->hold = *hold;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	adopt_lock();
	b->hold->generation = generation;
	err = build_pieces(b, addr, len, mode);
	adopt_unlock();
	pthread_setcancelstate(cancel, NULL);
	*npieces = b->npieces;
	*nfds = b->nfds;
	if (err != 0) {
		free(*hold);
		*hold = NULL;
		*npieces = 0;
	}
	free(b);
	return -err;
}

void
mr_pieces_release(struct mr_hold *hold)
{
	int cancel;

	if (hold == NULL)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	adopt_lock();
	if (hold->generation == generation)
		mr_claim_release(hold);
	adopt_unlock();
	pthread_setcancelstate(cancel, NULL);
	free(hold);
}
