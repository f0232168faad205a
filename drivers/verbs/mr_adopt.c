/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "fork.h"
#include "map/page.h"
#include "mr_adopt.h"
#include "mr_ref.h"
#include "mr_fork.h"
#include "mr_linger.h"
#include "mr_plan.h"
#include "page_return.h"
#include "page_swap.h"
#include "raw_mm.h"

enum mr_mode { MR_MODE_AUTO, MR_MODE_COPY, MR_MODE_ADOPT };

/* One call of mr_pieces_build. */
struct build {
	struct mr_plan plan;
	struct mr_pin *pin;
	struct uroce_mr_piece *pieces;
	unsigned npieces;
	int *fds;
	struct mr_file *file[MR_ADOPT_MAX_FDS]; /* same order as fds */
	unsigned nfds;
};

/* A leaf lock: a thread that holds it never waits for another thread of the program. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned generation; /* number of forks between the first process and this one; under lock */

/*
 * Forks between prepare and parent. While there are any, pages stay adopted: the child may not have
 * copied them yet, and the fork may have happened while they were being returned. Under lock.
 */
static unsigned forks;
static struct mr_pin *put_off; /* released during a fork; under lock */

static void
adopt_lock(void)
{
	fork_enter();
	pthread_mutex_lock(&lock);
}

static void
adopt_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static const struct mr_linger_ops linger_ops = {.lock = adopt_lock, .unlock = adopt_unlock};

static void
free_pins(struct mr_pin *pin)
{
	while (pin != NULL) {
		struct mr_pin *next = pin->next_put_off;

		free(pin);
		pin = next;
	}
}

static void
adopt_fork_prepare(void)
{
	adopt_lock();
	mr_linger_end_all();
	forks++;
	adopt_unlock();
	mr_fork_prepare();
}

static void
adopt_fork_parent(void)
{
	struct mr_pin *pin = NULL;

	mr_fork_parent();
	adopt_lock();
	if (--forks == 0) {
		pin = put_off;
		put_off = NULL;
	}
	for (struct mr_pin *h = pin; h != NULL; h = h->next_put_off)
		mr_ref_release(h);
	adopt_unlock();
	free_pins(pin);
}

static void
adopt_fork_child(void)
{
	pthread_mutex_init(&lock, NULL);
	/* Close descriptors: the copy needs one. */
	mr_linger_forget();
	page_swap_forget();
	mr_fork_child();
	mr_ref_forget_all();
	generation++;
	forks = 0;
	put_off = NULL;
}

static struct fork_part adopt_fork = {
	.memory = true,
	.prepare = adopt_fork_prepare,
	.parent = adopt_fork_parent,
	.child = adopt_fork_child,
};

static __attribute__((constructor)) void
adopt_fork_install(void)
{
	fork_part_add(&adopt_fork);
}

static bool always_copy; /* atomic */

void
mr_pieces_copy(void)
{
	__atomic_store_n(&always_copy, true, __ATOMIC_RELAXED);
}

/* Reads the mode. Returns false if it is unknown; a message is printed once. */
static bool
mode_get(enum mr_mode *mode)
{
	static bool told;
	const char *s = getenv("UROCE_MR_MODE");

	*mode = MR_MODE_AUTO;
	if (s == NULL || strcmp(s, "auto") == 0)
		return true;
	*mode = strcmp(s, "copy") == 0 ? MR_MODE_COPY : MR_MODE_ADOPT;
	if (*mode == MR_MODE_COPY || strcmp(s, "adopt") == 0)
		return true;
	if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		fprintf(stderr,
			"uroce: UROCE_MR_MODE=%s is unknown: use auto (default), copy or adopt\n",
			s);
	return false;
}

/* Returns the file's index among the files of this call, or -errno. */
static int
build_file(struct build *b, struct mr_file *f)
{
	for (unsigned i = 0; i < b->nfds; i++)
		if (b->file[i] == f)
			return (int)i;
	if (b->nfds == MR_ADOPT_MAX_FDS)
		return -E2BIG;
	b->file[b->nfds] = f;
	b->fds[b->nfds] = f->fd;
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

/*
 * mremap(2) must not make an adopted mapping grow: the new pages would be those that follow in the
 * file, which belong to the memory adopted behind the run. mremap refuses a range of two mappings
 * (EFAULT, and realloc then copies), and an advice without effect makes the first page a separate
 * mapping.
 */
static void
keep_from_growing(const struct mr_run *run)
{
	if (run->len > run->vma.page_size && run->vma.page_size == page_bytes())
		raw_madvise(run->va, page_bytes(), MADV_RANDOM);
}

/* Describes run to the daemon. The run is, or will be, mapped at offset off of f. */
static int
build_adopted(struct build *b, const struct mr_run *run, struct mr_file *f, uint64_t off)
{
	struct uroce_mr_piece *p = b->npieces > 0 ? &b->pieces[b->npieces - 1] : NULL;
	int index = build_file(b, f);

	if (index < 0)
		return index;
	if (p != NULL && p->kind == UROCE_PIECE_FD && p->fd_index == (uint32_t)index &&
	    p->fd_off + p->len == off) {
		p->len += run->len;
		return 0;
	}
	p = piece_add(b, run, UROCE_PIECE_FD);
	if (p == NULL)
		return -E2BIG;
	p->fd_index = (uint32_t)index;
	p->fd_off = off;
	return 0;
}

/* Lets pin linger after its release if the adopted run can linger. */
static void
linger_later(struct mr_pin *pin, const struct mr_run *run)
{
	pin->stays |= run->vma.page_size > page_bytes() || !mr_linger_arm(run->va, run->len);
}

static int
build_shared(struct build *b, const struct mr_run *run)
{
	struct mr_file *f = mr_file_find(&run->vma);
	uint64_t off = run->vma.offset + (run->va - run->vma.start);
	struct uroce_mr_piece *p;
	int err;

	/* If the program removed its own write access, the daemon must check accesses. */
	if (f != NULL && (run->vma.prot & PROT_WRITE) != 0) {
		err = build_adopted(b, run, f, off);
		if (err == 0)
			mr_ref_add(b->pin, f, off, off + run->len);
		linger_later(b->pin, run);
		return err;
	}
	p = piece_add(b, run, UROCE_PIECE_MAP_FILE);
	if (p == NULL)
		return -E2BIG;
	p->vm_start = run->vma.start;
	p->vm_end = run->vma.end;
	if (f != NULL)
		mr_ref_add(b->pin, f, off, off + run->len);
	b->pin->stays = true;
	return 0;
}

/* Finds a file for a private run. Pages of a former mapping may occupy its offsets in one file. */
static struct mr_file *
file_for(const struct mr_run *run)
{
	uint64_t start = run->va, end = run->va + run->len;
	struct mr_file *f = mr_file_with_room(run->vma.page_size, start, end);

	if (f != NULL)
		return f;
	mr_linger_end_range(start, end);
	return mr_file_get(run->vma.page_size, start, end);
}

static int
build_private(struct build *b, struct page_swap *swap, const struct mr_run *run)
{
	struct mr_file *f = file_for(run);
	struct page_swap_job job = {
		.addr = run->va,
		.len = run->len,
		.page_size = run->vma.page_size,
		.prot = run->vma.prot,
	};
	uint64_t done;
	int err;

	if (f == NULL)
		return -errno;
	job.fd = f->fd;
	job.fd_off = run->va - f->base;
	err = build_adopted(b, run, f, job.fd_off);
	if (err != 0)
		return err;
	err = page_swap_run(swap, &job, &done);
	if (done > 0)
		mr_ref_add(b->pin, f, job.fd_off, job.fd_off + done);
	if (err == 0) {
		keep_from_growing(run);
		linger_later(b->pin, run);
	}
	/* The copied pages of a chunk that was not replaced. */
	if (err != 0)
		page_return_free(f->fd, job.fd_off + done, job.len - done);
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
		swap = page_swap_process(true, &err);
		if (err == 0)
			err = build_private(b, swap, run);
	}
	return err;
}

/* Undoes build_runs. During a fork the pages stay adopted, and the pin refers to them. */
static void
build_undo(struct build *b)
{
	b->nfds = 0;
	if (forks > 0)
		return;
	mr_ref_release(b->pin);
	b->pin->nrefs = 0;
}

/* Defers the release of a pin: its pages must stay adopted until the fork is over. */
static void
pin_put_off(struct mr_pin *pin)
{
	pin->next_put_off = put_off;
	put_off = pin;
}

/* Returns true if adopting the plan's runs would move pages that a COPY region reads. */
static bool
adopts_copied(const struct mr_plan *plan)
{
	for (unsigned i = 0; i < plan->nruns; i++) {
		const struct mr_run *run = &plan->run[i];

		if (run->kind == MR_KIND_PRIVATE && mr_ref_copied(run->va, run->va + run->len))
			return true;
	}
	return false;
}

/* Called locked. Returns 0 or -errno. */
static int
build_pieces(struct build *b, uint64_t addr, uint64_t len, enum mr_mode mode)
{
	bool copy = mode == MR_MODE_COPY || __atomic_load_n(&always_copy, __ATOMIC_RELAXED);
	int err = mr_plan_make(&b->plan, addr, len);

	if (err != 0)
		return err;
	if (b->plan.mappable && !copy && !adopts_copied(&b->plan)) {
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
	b->pin->stays = true;
	mr_ref_copy(b->pin, b->plan.start, b->plan.end);
	return 0;
}

int
mr_pieces_build(uint64_t addr, uint64_t len, struct uroce_mr_piece *pieces, unsigned *npieces,
		int *fds, unsigned *nfds, struct mr_pin **pin)
{
	enum mr_mode mode;
	struct mr_pin *dead;
	struct build *b;
	int cancel, err;

	*npieces = 0;
	*nfds = 0;
	*pin = NULL;
	if (len == 0)
		return 0;
	if (!mode_get(&mode) || addr + len < addr || addr + len > UINT64_MAX - page_bytes())
		return EINVAL;
	mr_fork_keep(addr, len);
	/* Allocated before, and freed after, any page is protected: see page_swap.h. */
	b = calloc(1, sizeof(*b));
	*pin = calloc(1, sizeof(**pin));
	if (b == NULL || *pin == NULL) {
		free(b);
		free(*pin);
		*pin = NULL;
		return ENOMEM;
	}
	b->pieces = pieces;
	b->fds = fds;
	b->pin = *pin;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	adopt_lock();
	b->pin->generation = generation;
	err = build_pieces(b, addr, len, mode);
	if (err != 0 && b->pin->nrefs > 0) {
		pin_put_off(b->pin);
		*pin = NULL;
	}
	dead = mr_linger_dead();
	adopt_unlock();
	free_pins(dead);
	if (err == 0 && b->nfds > 0)
		mr_linger_start(&linger_ops);
	pthread_setcancelstate(cancel, NULL);
	*npieces = b->npieces;
	*nfds = b->nfds;
	if (err != 0) {
		free(*pin);
		*pin = NULL;
		*npieces = 0;
	}
	free(b);
	return -err;
}

unsigned
mr_pieces_file(int fd)
{
	unsigned n;

	adopt_lock();
	n = mr_file_number(fd);
	adopt_unlock();
	return n;
}

void
mr_pieces_release(struct mr_pin *pin)
{
	struct mr_pin *dead;
	int cancel;

	if (pin == NULL)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	adopt_lock();
	if (pin->generation != generation) {
		/* The pin belongs to the parent: nothing to release here. */
	} else if (forks > 0) {
		/* another thread may register the same buffer as long as a fork handler waits */
		if (!mr_ref_release_covered(pin)) {
			pin_put_off(pin);
			pin = NULL;
		}
	} else if (!pin->stays && pin->nrefs > 0 && mr_linger_add(pin)) {
		pin = NULL;
	} else {
		mr_ref_release(pin);
	}
	dead = mr_linger_dead();
	adopt_unlock();
	free_pins(dead);
	pthread_setcancelstate(cancel, NULL);
	free(pin);
}

void
mr_pieces_settle(void)
{
	struct mr_pin *dead;

	adopt_lock();
	mr_linger_end_all();
	dead = mr_linger_dead();
	adopt_unlock();
	free_pins(dead);
}
