/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "mr_ref.h"
#include "map/page.h"
#include "mr_fork.h"
#include "page_return.h"
#include "page_swap.h"
#include "raw_mm.h"

#define PLACE_SHIFT 21 /* log2 of the bytes that a reference's bucket covers */
#define FILE_BYTES                                                                                 \
	(1ull << 47) /* all addresses that a program gets unless it requests higher ones */
#define GROWTH_ROOM (1ull << 40) /* spare bytes of a smaller file */
#define MAX_STRAYS  64u
#define MAX_CHANGES 16u /* by the program while memory is returned; then the rest stays shared */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

static struct mr_file files[MR_MAX_FILES];
static unsigned nfiles;
static struct mr_pin *copy_pins;

/*
 * Parts of files without a reference that could not be made private and are still mapped. Their
 * offsets are in use. If there are too many, the last entry covers more.
 */
static struct stray {
	struct mr_file *file;
	uint64_t start, end;
} strays[MAX_STRAYS];
static unsigned nstrays;

/* Makes a memfd of size bytes for pages of page_size, sealed against shrinking. */
static int
memfd_make(uint64_t size, uint32_t page_size)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd, err;

	if (page_size > page_bytes())
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

/* Returns the file size limit (SIGXFSZ). The program may change it at any time. */
static uint64_t
file_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/* Makes a file for [start, end). The file offset of start is start or, in a smaller file, 0. */
static int
memfd_for(uint32_t page_size, uint64_t start, uint64_t end, uint64_t *base, uint64_t *size)
{
	uint64_t len = (end - start + page_size - 1) & ~((uint64_t)page_size - 1);
	uint64_t limit = file_limit();
	int fd;

	*base = 0;
	*size = FILE_BYTES;
	if (limit < *size) {
		*size = limit & ~((uint64_t)page_size - 1);
		*base = start;
		return *size < len ? -EFBIG : memfd_make(*size, page_size);
	}
	fd = end <= *size ? memfd_make(*size, page_size) : -EFBIG;
	if (fd >= 0)
		return fd;
	*base = start;
	*size = len + GROWTH_ROOM;
	return memfd_make(*size, page_size);
}

static struct mr_file *
file_make(uint32_t page_size, uint64_t start, uint64_t end)
{
	struct mr_file *f = &files[nfiles];
	struct stat st;
	int fd;

	if (nfiles == MR_MAX_FILES) {
		errno = EMFILE;
		return NULL;
	}
	fd = memfd_for(page_size, start, end, &f->base, &f->size);
	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	if (fstat(fd, &st) != 0) {
		close(fd);
		return NULL;
	}
	f->fd = fd;
	nfiles++;
	f->inode = st.st_ino;
	f->dev_major = major(st.st_dev);
	f->dev_minor = minor(st.st_dev);
	f->page_size = page_size;
	return f;
}

/* Returns the bucket of a part's references, or NULL if the part covers more than one bucket. */
static struct mr_ref **
bucket_of(struct mr_file *f, uint64_t start, uint64_t end)
{
	if (start >> PLACE_SHIFT != (end - 1) >> PLACE_SHIFT)
		return NULL;
	return &f->bucket[(start >> PLACE_SHIFT) % MR_REF_BUCKETS];
}

/* Moves *skip to the end of the list's references at start, and *next to the first one after start.
 */
static void
look_at_refs(const struct mr_ref *c, uint64_t start, uint64_t *skip, uint64_t *next)
{
	for (; c != NULL; c = c->next) {
		if (c->start <= start && c->end > *skip)
			*skip = c->end;
		else if (c->start > start && c->start < *next)
			*next = c->start;
	}
}

/* Finds the first part of [start, end) without a reference: 0 and that part, or -ENOENT. */
static int
next_unreferenced(const struct mr_file *f, uint64_t *start, uint64_t end, uint64_t *stop)
{
	uint64_t first = *start >> PLACE_SHIFT, last = (end - 1) >> PLACE_SHIFT, skip;

	if (last - first >= MR_REF_BUCKETS)
		last = first + MR_REF_BUCKETS - 1;
	while (*start < end) {
		*stop = end;
		skip = *start;
		look_at_refs(f->wide, *start, &skip, stop);
		for (uint64_t i = first; i <= last; i++)
			look_at_refs(f->bucket[i % MR_REF_BUCKETS], *start, &skip, stop);
		if (skip == *start)
			return 0;
		*start = skip;
	}
	return -ENOENT;
}

static bool
is_unreferenced(const struct mr_file *f, uint64_t start, uint64_t end)
{
	uint64_t from = start, stop;

	return next_unreferenced(f, &from, end, &stop) == 0 && from == start && stop == end;
}

static bool
is_free(const struct mr_file *f, uint64_t start, uint64_t end)
{
	for (unsigned i = 0; i < nstrays; i++)
		if (strays[i].file == f && strays[i].start < end && start < strays[i].end)
			return false;
	return is_unreferenced(f, start, end);
}

struct mr_file *
mr_file_with_room(uint32_t page_size, uint64_t start, uint64_t end)
{
	uint64_t limit = file_limit();

	for (unsigned i = 0; i < nfiles; i++) {
		struct mr_file *f = &files[i];

		if (f->page_size == page_size && start >= f->base && end <= f->base + f->size &&
		    end - f->base <= limit && is_free(f, start - f->base, end - f->base))
			return f;
	}
	return NULL;
}

struct mr_file *
mr_file_get(uint32_t page_size, uint64_t start, uint64_t end)
{
	struct mr_file *f = mr_file_with_room(page_size, start, end);

	return f != NULL ? f : file_make(page_size, start, end);
}

unsigned
mr_file_number(int fd)
{
	for (unsigned i = 0; i < nfiles; i++)
		if (files[i].fd == fd)
			return i;
	return MR_MAX_FILES;
}

/* Does not free: that takes the allocator's lock, which the fork may have left in any state. */
void
mr_ref_forget_all(void)
{
	for (unsigned i = 0; i < nfiles; i++)
		close(files[i].fd);
	memset(files, 0, sizeof(files));
	nfiles = 0;
	nstrays = 0;
	copy_pins = NULL;
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
	if (strncmp(v->name, MR_MEMFD_PATH, sizeof(MR_MEMFD_PATH) - 1) != 0)
		return NULL;
	for (unsigned i = 0; i < nfiles; i++)
		if (file_backs(&files[i], v))
			return &files[i];
	return NULL;
}

static void
ref_insert(struct mr_ref *c)
{
	struct mr_ref **list = bucket_of(c->file, c->start, c->end);

	if (list == NULL)
		list = &c->file->wide;
	c->next = *list;
	*list = c;
}

void
mr_ref_add(struct mr_pin *pin, struct mr_file *f, uint64_t start, uint64_t end)
{
	struct mr_ref *c = &pin->ref[pin->nrefs++];

	*c = (struct mr_ref){.file = f, .start = start, .end = end};
	ref_insert(c);
}

static void
ref_del(struct mr_ref *c)
{
	struct mr_ref **p = bucket_of(c->file, c->start, c->end);

	if (p == NULL)
		p = &c->file->wide;
	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
}

/* Returns true if any part of the file's [start, end) is mapped in this process, or in doubt. */
static bool
is_mapped(const struct mr_file *f, uint64_t start, uint64_t end)
{
	struct vma_scan scan;
	bool found = false;
	uint64_t pos = 0;
	struct vma v;
	int err;

	if (vma_scan_open(&scan, 0) != 0)
		return true;
	while (!found && (err = vma_scan_next(&scan, pos, &v)) == 0) {
		pos = v.end;
		found = file_backs(f, &v) && v.offset < end && start < v.offset + (v.end - v.start);
	}
	vma_scan_close(&scan);
	return found || err != -ENOENT;
}

static void
stray_add(struct mr_file *f, uint64_t start, uint64_t end)
{
	struct stray *last;

	if (nstrays < MAX_STRAYS) {
		strays[nstrays++] = (struct stray){.file = f, .start = start, .end = end};
		return;
	}
	for (unsigned i = MAX_STRAYS; i > 0; i--) {
		last = &strays[i - 1];
		if (last->file != f)
			continue;
		last->start = start < last->start ? start : last->start;
		last->end = end > last->end ? end : last->end;
		return;
	}
}

/* Makes what the program has moved private where it is now. The caller looks at the result. */
static void
give_back_moved(struct page_swap *swap, const struct stray *s)
{
	struct vma_scan scan;
	uint64_t pos = 0, done;
	struct vma v;

	if (vma_scan_open(&scan, 0) != 0)
		return;
	while (vma_scan_next(&scan, pos, &v) == 0) {
		uint64_t stop = v.offset + (v.end - v.start);
		struct page_swap_job job = {
			.page_size = s->file->page_size,
			.prot = v.prot,
			.fd = s->file->fd,
			.fd_off = v.offset > s->start ? v.offset : s->start,
			.back = true,
			.moved = true,
		};

		pos = v.end;
		stop = stop < s->end ? stop : s->end;
		if (!file_backs(s->file, &v) || job.fd_off >= stop)
			continue;
		job.addr = v.start + (job.fd_off - v.offset);
		job.len = stop - job.fd_off;
		page_swap_run(swap, &job, &done);
	}
	vma_scan_close(&scan);
}

/* Frees the pages that are no longer mapped or registered. swap NULL: none can be made private. */
static void
strays_free(struct page_swap *swap)
{
	for (unsigned i = 0; i < nstrays;) {
		struct stray *s = &strays[i];

		if (swap != NULL && is_unreferenced(s->file, s->start, s->end))
			give_back_moved(swap, s);
		if (!is_unreferenced(s->file, s->start, s->end) ||
		    is_mapped(s->file, s->start, s->end)) {
			i++;
		} else {
			page_return_free(s->file->fd, s->start, s->end - s->start);
			*s = strays[--nstrays];
		}
	}
}

/* Records that [start, end) of the file is mapped elsewhere or could not be returned. */
static void
let_stray(struct page_swap *swap, struct mr_file *f, uint64_t start, uint64_t end)
{
	if (start < end) {
		stray_add(f, start, end);
		strays_free(swap);
	}
}

/* Does v map a part of f at the address at which that part was adopted? */
static bool
is_in_place(const struct mr_file *f, const struct vma *v)
{
	return v->start - v->offset == f->base;
}

/*
 * Returns true if offset off of f is mapped where it was adopted. Reduces *end to that of the
 * offsets for which the answer is the same. Scans must ascend.
 */
static bool
maps_in_place(struct vma_scan *scan, struct mr_file *f, uint64_t off, uint64_t *end)
{
	uint64_t at = f->base + off, bound;
	struct vma v;
	bool is;

	if (vma_scan_next(scan, at, &v) != 0)
		return false;
	is = v.start <= at && file_backs(f, &v) && is_in_place(f, &v);
	bound = v.start > at ? v.start : v.end;
	if (bound - f->base < *end)
		*end = bound - f->base;
	return is;
}

/* Replaces offsets [off, end) of f, as far as v maps them, by private memory without pages. */
static void
map_zeros(const struct vma *v, uint64_t off, uint64_t end)
{
	raw_mmap_at(v->start + (off - v->offset), end - off, v->prot, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
}

/*
 * v was moved, and may have grown. Replaces the pages that it got by growing: those that are still
 * mapped where they were adopted and, unless pages are being returned just now, those that no
 * region uses.
 */
static void
cut_growth(struct mr_file *f, const struct vma *v, bool returning)
{
	uint64_t off = v->offset, end = off + (v->end - v->start), stop, from, to;
	struct vma_scan scan;

	if (vma_scan_open(&scan, 0) != 0)
		return;
	for (; off < end; off = stop) {
		stop = end;
		if (maps_in_place(&scan, f, off, &stop)) {
			map_zeros(v, off, stop);
			continue;
		}
		for (from = off; !returning && next_unreferenced(f, &from, stop, &to) == 0;
		     from = to)
			if (is_free(f, from, to))
				map_zeros(v, from, to);
	}
	vma_scan_close(&scan);
}

static void
cut_all_growth(bool returning)
{
	struct vma_scan scan;
	uint64_t pos = 0;
	struct vma v;

	if (vma_scan_open(&scan, 0) != 0)
		return;
	while (vma_scan_next(&scan, pos, &v) == 0) {
		struct mr_file *f = mr_file_find(&v);

		pos = v.end;
		if (f != NULL && !is_in_place(f, &v) && f->page_size == page_bytes())
			cut_growth(f, &v, returning);
	}
	vma_scan_close(&scan);
}

void
mr_ref_cut_growth(void)
{
	cut_all_growth(false);
}

/* Returns the end of those pages behind offset end, up to limit, that no region uses. */
static uint64_t
grown_end(const struct mr_file *f, uint64_t end, uint64_t limit)
{
	uint64_t from = end, to;

	if (end >= limit || next_unreferenced(f, &from, limit, &to) != 0 || from != end)
		return end;
	return is_free(f, end, to) ? to : end;
}

/*
 * Makes file offsets [start, end) private memory again if they are still mapped as adopted. Looks
 * again where the program has changed its mappings meanwhile. If the mapping has grown without
 * being moved, the new pages behind them become private, too.
 */
static void
give_back(struct page_swap *swap, struct mr_file *f, uint64_t start, uint64_t end)
{
	uint64_t pos = f->base + start, stop = f->base + end, back = pos, done;
	unsigned changes = 0;
	struct vma_scan scan;
	struct vma v;

	/*
	 * Joins the two mappings that mr_adopt.c made: only a single mapping merges with its
	 * neighbours.
	 */
	if (end - start > page_bytes() && f->page_size == page_bytes())
		raw_madvise(pos, stop - pos, MADV_NORMAL);
	if (vma_scan_open(&scan, 0) != 0) {
		let_stray(swap, f, start, end);
		return;
	}
	while (pos < stop && vma_scan_next(&scan, pos, &v) == 0 && v.start < stop) {
		struct page_swap_job job = {
			.addr = v.start > pos ? v.start : pos,
			.page_size = f->page_size,
			.prot = v.prot,
			.fd = f->fd,
			.back = true,
		};
		bool is_ours;
		int err;

		is_ours = file_backs(f, &v) && is_in_place(f, &v);
		if (is_ours && v.end > stop)
			stop = f->base + grown_end(f, end, v.end - f->base);
		pos = v.end < stop ? v.end : stop;
		job.len = pos - job.addr;
		job.fd_off = job.addr - f->base;
		if (!is_ours)
			continue;
		let_stray(swap, f, back - f->base, job.addr - f->base);
		if (page_return_is_disturbed())
			cut_all_growth(true);
		err = page_swap_run(swap, &job, &done);
		back = job.addr + done;
		if (err == -ENOENT && changes++ < MAX_CHANGES) {
			pos = back;
			vma_scan_close(&scan);
			if (vma_scan_open(&scan, 0) != 0)
				break;
		}
	}
	vma_scan_close(&scan);
	let_stray(swap, f, back - f->base, stop - f->base);
}

/* Makes the parts of [start, end) without a reference private again. swap NULL: not possible. */
static void
give_back_unreferenced(struct page_swap *swap, struct mr_file *f, uint64_t start, uint64_t end)
{
	uint64_t stop;

	while (start < end && next_unreferenced(f, &start, end, &stop) == 0) {
		if (swap != NULL)
			give_back(swap, f, start, stop);
		else
			let_stray(swap, f, start, stop);
		start = stop;
	}
}

void
mr_ref_copy(struct mr_pin *pin, uint64_t start, uint64_t end)
{
	struct vma_scan scan;
	uint64_t pos = start;
	struct vma v;

	pin->copy_start = start;
	pin->copy_end = end;
	pin->next_copy = copy_pins;
	copy_pins = pin;
	if (vma_scan_open(&scan, 0) != 0)
		return;
	while (pos < end && pin->nrefs < MR_PLAN_MAX_RUNS && vma_scan_next(&scan, pos, &v) == 0 &&
	       v.start < end) {
		struct mr_file *f = mr_file_find(&v);
		uint64_t from = v.start > pos ? v.start : pos;

		pos = v.end < end ? v.end : end;
		if (f != NULL)
			mr_ref_add(pin, f, v.offset + (from - v.start), v.offset + (pos - v.start));
	}
	vma_scan_close(&scan);
}

bool
mr_ref_copied(uint64_t start, uint64_t end)
{
	for (const struct mr_pin *h = copy_pins; h != NULL; h = h->next_copy)
		if (start < h->copy_end && h->copy_start < end)
			return true;
	return false;
}

static void
copy_pin_del(struct mr_pin *pin)
{
	struct mr_pin **p = &copy_pins;

	if (pin->copy_end == 0)
		return;
	while (*p != pin)
		p = &(*p)->next_copy;
	*p = pin->next_copy;
}

bool
mr_ref_release_covered(struct mr_pin *pin)
{
	bool covered = true;
	uint64_t start, stop;

	for (unsigned i = 0; i < pin->nrefs; i++)
		ref_del(&pin->ref[i]);
	for (unsigned i = 0; covered && i < pin->nrefs; i++) {
		start = pin->ref[i].start;
		covered = next_unreferenced(pin->ref[i].file, &start, pin->ref[i].end, &stop) != 0;
	}
	if (covered)
		copy_pin_del(pin);
	for (unsigned i = 0; !covered && i < pin->nrefs; i++)
		ref_insert(&pin->ref[i]);
	return covered;
}

void
mr_ref_release(struct mr_pin *pin)
{
	struct page_swap *swap = NULL;
	int err;

	copy_pin_del(pin);
	if (pin->nrefs > 0)
		swap = page_swap_process(false, &err);
	for (unsigned i = 0; i < pin->nrefs; i++) {
		struct mr_ref *c = &pin->ref[i];

		ref_del(c);
		/* Without swap the pages stay shared: threads, no userfaultfd, no pause. */
		give_back_unreferenced(swap, c->file, c->start, c->end);
	}
}
