/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "mr_fork.h"
#include "map/page.h"
#include "mr_plan.h"

/*
 * The distance below a thread's control block that its stack may reach if no guard page ends the
 * mapping first, and the distance from the stack pointer within which this thread stores while it
 * swaps pages.
 */
#define STACK_REACH (64ull << 20)
#define SP_BELOW    (64u << 10)
#define SP_ABOVE    (16u << 10)

static bool
overlaps(uint64_t start, uint64_t end, uint64_t start2, uint64_t end2)
{
	return start < end2 && start2 < end;
}

/*
 * Returns true if [start, end) of mapping v contains the stack or the control block of thread tid.
 * The kernel reports each thread's robust futex list, whose header is in the control block, at the
 * upper end of the stack. The main thread's control block is elsewhere; maps names its stack.
 */
static bool
thread_uses(pid_t tid, const struct vma *v, uint64_t start, uint64_t end)
{
	struct robust_list_head *head = NULL;
	uint64_t h, low, high;
	size_t len;

	if (syscall(SYS_get_robust_list, tid, &head, &len) != 0 || head == NULL)
		return false;
	h = (uint64_t)(uintptr_t)head;
	if (h < v->start || h >= v->end)
		return false;
	low = page_floor(h - page_bytes(), page_bytes());
	high = page_floor(h, page_bytes()) + 2 * page_bytes();
	if (tid != getpid()) {
		low = h - v->start > STACK_REACH ? h - STACK_REACH : v->start;
		high = page_floor(h, page_bytes()) + page_bytes();
	}
	return overlaps(start, end, low, high);
}

struct dirent64_abi {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

static pid_t
parse_tid(const char *name)
{
	pid_t tid = 0;

	for (; *name >= '0' && *name <= '9'; name++)
		tid = tid * 10 + (*name - '0');
	return *name == '\0' ? tid : 0;
}

/*
 * A stack must not be adopted, for two reasons. In the child of a fork it would be shared with the
 * parent until the fork handler, which runs on it, has made it private. And this thread, which
 * blocks all stores into the range, would wait for itself. When in doubt: true.
 */
static bool
pins_stack(const struct vma *v, uint64_t start, uint64_t end)
{
	uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	uint64_t own_errno = (uint64_t)(uintptr_t)&errno;
	_Alignas(struct dirent64_abi) char buf[2048];
	bool found = false;
	long n = 0;
	int fd;

	if (overlaps(start, end, sp - SP_BELOW, sp + SP_ABOVE) ||
	    overlaps(start, end, own_errno, own_errno + sizeof(errno)))
		return true;
	fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return true;
	while (!found && (n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long pos = 0; !found && pos < n;) {
			struct dirent64_abi *d = (struct dirent64_abi *)(buf + pos);
			pid_t tid = parse_tid(d->name);

			found = tid > 0 && thread_uses(tid, v, start, end);
			pos += d->reclen;
		}
	}
	close(fd);
	return found || n < 0;
}

/* glibc aligns the heaps of its arenas to this, in ordinary pages, or to that many huge pages. */
#define HEAP_ALIGN       (64ull << 20)
#define HEAP_ALIGN_PAGES 4

#define PAGEMAP_TOUCHED  (3ull << 62) /* present or swapped out */

/* Returns false if the page of addr was never touched; then reading would give it memory. */
static bool
is_touched(uint64_t addr)
{
	uint64_t entry = PAGEMAP_TOUCHED;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return true;
	if (pread(fd, &entry, sizeof(entry), (off_t)(addr / page_bytes() * sizeof(entry))) < 0)
		entry = PAGEMAP_TOUCHED;
	close(fd);
	return (entry & PAGEMAP_TOUCHED) != 0;
}

/*
 * Returns true if the first heap of a glibc arena begins at addr. Its header starts with the
 * address of the arena, which lies directly behind it.
 */
static __attribute__((no_sanitize("address", "thread"))) bool
arena_begins(uint64_t addr)
{
	uint64_t arena;

	if (!is_touched(addr))
		return false;
	arena = *(const volatile uint64_t *)(uintptr_t)addr;
	return arena >= addr + 16 && arena <= addr + 256;
}

/*
 * The header of an allocator's arena must not be adopted: glibc initialises its lock and its count
 * of threads in the child of a fork, before any handler runs. (The main arena's is not in the
 * heap.)
 */
static bool
pins_arena(const struct vma *v, uint64_t start, uint64_t end)
{
	uint64_t align = v->page_size > page_bytes() ? HEAP_ALIGN_PAGES * (uint64_t)v->page_size
						     : HEAP_ALIGN;

	for (uint64_t at = page_floor(start + align - 1, align); at < end; at += align) {
		if (arena_begins(at))
			return true;
	}
	return false;
}

static bool
is_anonymous(const struct vma *v)
{
	if (v->page_size > page_bytes())
		return strncmp(v->name, "/anon_hugepage", 14) == 0;
	return v->inode == 0 && (v->name[0] == '\0' || strcmp(v->name, "[heap]") == 0 ||
				 strncmp(v->name, "[anon:", 6) == 0);
}

static enum mr_kind
classify(const struct vma *v, uint64_t start, uint64_t end)
{
	if (v->shared)
		return v->name[0] == '/' ? MR_KIND_SHARED : MR_KIND_COPY;
	if (!is_anonymous(v) || (v->prot & PROT_WRITE) == 0 || pins_stack(v, start, end) ||
	    pins_arena(v, start, end))
		return MR_KIND_COPY;
	return MR_KIND_PRIVATE;
}

/*
 * Returns true if v continues the run's mapping and both are in the same adopted memory. mr_adopt.c
 * makes two mappings of most runs that it adopts. (Mappings of other files are passed to the daemon
 * by name.)
 */
static bool
goes_on(const struct mr_run *run, const struct vma *v)
{
	const struct vma *u = &run->vma;

	return u->shared && v->shared && u->end == v->start && u->inode == v->inode &&
	       u->dev_major == v->dev_major && u->dev_minor == v->dev_minor &&
	       u->offset + (u->end - u->start) == v->offset && u->prot == v->prot &&
	       (u->prot & PROT_WRITE) != 0 &&
	       strncmp(v->name, MR_MEMFD_PATH, sizeof(MR_MEMFD_PATH) - 1) == 0;
}

static void
add_run(struct mr_plan *plan, const struct vma *v, uint64_t start, uint64_t end)
{
	struct mr_run *run = &plan->run[plan->nruns];

	if (!plan->mappable)
		return;
	if (plan->nruns > 0 && goes_on(run - 1, v)) {
		run[-1].len += end - start;
		run[-1].vma.end = v->end;
		return;
	}
	if (plan->nruns == MR_PLAN_MAX_RUNS) {
		plan->mappable = false;
		return;
	}
	run->va = start;
	run->len = end - start;
	run->kind = classify(v, start, end);
	run->vma = *v;
	plan->nruns++;
	if (run->kind == MR_KIND_COPY)
		plan->mappable = false;
}

int
mr_plan_make(struct mr_plan *plan, uint64_t addr, uint64_t len)
{
	uint64_t pos = page_floor(addr, page_bytes());
	struct vma v;
	int err;

	plan->nruns = 0;
	plan->mappable = true;
	plan->start = pos;
	err = vma_scan_open(&plan->scan, 0);
	if (err != 0)
		return err;
	while (pos < addr + len) {
		uint64_t end;

		err = vma_scan_next(&plan->scan, pos, &v);
		if (err != 0 || v.start > pos || (v.prot & PROT_READ) == 0) {
			err = err == 0 || err == -ENOENT ? -EFAULT : err;
			break;
		}
		end = page_floor(addr + len - 1, v.page_size) + v.page_size;
		if (end > v.end)
			end = v.end;
		if (pos == plan->start) {
			pos = page_floor(pos, v.page_size);
			plan->start = pos;
		}
		add_run(plan, &v, pos, end);
		pos = end;
	}
	plan->end = pos;
	vma_scan_close(&plan->scan);
	return err;
}
