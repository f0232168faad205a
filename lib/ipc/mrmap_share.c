/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that the daemon maps. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "ipc/mrmap_priv.h"
#include "ipc/sigbus.h"

#define HUGE_PAGE      (2ull << 20)
#define GIANT_PAGE     (1ull << 30)
#define PAGE_TABLE_MAX (4ull << 30) /* larger regions get their page tables on first access */

/* Page size of what fd maps; *in_memory: no disk or server stands behind it. */
static uint64_t
fd_page_size(int fd, bool *in_memory)
{
	struct statfs fs;

	*in_memory = false;
	if (fstatfs(fd, &fs) != 0)
		return MRMAP_BASE_PAGE;
	*in_memory = fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC;
	return fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : MRMAP_BASE_PAGE;
}

/* A memfd that cannot shrink, so that its pages stay as long as they are mapped. */
static bool
fd_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

static int
map_fd(const struct mrmap_job *j, int fd, uint64_t va, uint64_t len, uint64_t off)
{
	int prot = PROT_READ | (j->map->writable ? PROT_WRITE : 0);
	uint8_t *at = j->map->base + (va - j->first_va);
	bool in_memory;
	uint64_t page = fd_page_size(fd, &in_memory);
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (((va | len | off) & (page - 1)) != 0)
		return -EINVAL;
	if (off + len > ((uint64_t)st.st_size + page - 1) / page * page)
		return -EFAULT;
	if (mmap(at, len, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)off) == MAP_FAILED)
		return -errno;
	/*
	 * Fill in the page tables now instead of on the data path, unless that could allocate: the
	 * memory of a sparse file would be charged to the daemon. Failure costs time, no more.
	 */
	if (in_memory && len <= PAGE_TABLE_MAX && (uint64_t)st.st_blocks * 512 >= len)
		(void)madvise(at, len, MADV_POPULATE_READ);
	return 0;
}

static int
find_vma(const struct mrmap_job *j, uint64_t va, struct vma *v)
{
	struct vma_scan scan;
	int err = vma_scan_open(&scan, j->pid);

	if (err != 0)
		return err;
	err = vma_scan_next(&scan, va, v);
	vma_scan_close(&scan);
	return err;
}

/*
 * Open the file behind the client's shared mapping v. O_PATH first: it has no effect on the file.
 * That the client maps this very inode, shared and with these rights, is read after the file was
 * taken hold of: a mapping swapped in between does not pass.
 */
static int
open_shared(const struct mrmap_job *j, const struct vma *v)
{
	char path[96];
	struct vma now;
	struct stat st;
	int handle, fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)j->pid,
		 (unsigned long long)v->start, (unsigned long long)v->end);
	handle = open(path, O_PATH | O_CLOEXEC);
	if (handle < 0)
		return -errno;
	fd = -EACCES;
	if (fstat(handle, &st) == 0 && S_ISREG(st.st_mode) && find_vma(j, v->start, &now) == 0 &&
	    now.start == v->start && now.end == v->end && now.offset == v->offset && now.shared &&
	    mrmap_vma_grants(&now, j->map->writable) && now.inode == st.st_ino &&
	    now.dev_major == major(st.st_dev) && now.dev_minor == minor(st.st_dev)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
		fd = open(path, (j->map->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
		fd = fd < 0 ? -errno : fd;
	}
	close(handle);
	return fd;
}

/* The piece may be split or merged differently by now: go by what maps says. */
static int
map_shared(const struct mrmap_job *j, const struct uroce_mr_piece *p)
{
	uint64_t pos = p->va, end = p->va + p->len;

	while (pos < end) {
		uint64_t stop;
		struct vma v;
		int fd, err;

		err = find_vma(j, pos, &v);
		if (err != 0 || v.start > pos || !v.shared)
			return -EFAULT;
		stop = v.end < end ? v.end : end;
		fd = open_shared(j, &v);
		if (fd < 0)
			return fd;
		err = map_fd(j, fd, pos, stop - pos, v.offset + (pos - v.start));
		close(fd);
		if (err != 0)
			return err;
		pos = stop;
	}
	return 0;
}

/* Addresses for the whole region, at the same place within a huge page as in the client. */
static int
reserve(struct mrmap_job *j)
{
	const struct uroce_reg_mr_req *req = j->req;
	const struct uroce_mr_piece *last = &req->piece[req->npieces - 1];
	struct mrmap *map = j->map;
	uint64_t align = HUGE_PAGE, size, at, start;
	uint8_t *p;

	for (unsigned i = 0; i < req->npieces; i++) {
		if ((req->piece[i].va | req->piece[i].len) % GIANT_PAGE == 0)
			align = GIANT_PAGE; /* may be pages of that size */
	}
	j->first_va = req->piece[0].va;
	map->bytes = last->va + last->len - j->first_va;
	size = map->bytes + align;
	if (size < map->bytes)
		return -ENOMEM;
	p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	at = (uint64_t)(uintptr_t)p;
	start = at + ((j->first_va - at) & (align - 1));
	if (start > at)
		munmap(p, start - at);
	munmap((void *)(uintptr_t)(start + map->bytes), at + size - start - map->bytes);
	map->base = (uint8_t *)(uintptr_t)start;
	return 0;
}

void
mrmap_unshare(struct mrmap *map)
{
	sigbus_guard_del((uintptr_t)map);
	if (map->base != NULL)
		munmap(map->base, map->bytes);
	map->base = NULL;
}

int
mrmap_share(struct mrmap_job *j)
{
	struct mrmap *map = j->map;
	bool looked = false;
	int err = reserve(j);

	map->path = UROCE_MR_PATH_SHARED;
	for (unsigned i = 0; err == 0 && i < j->req->npieces; i++) {
		const struct uroce_mr_piece *p = &j->req->piece[i];

		if (p->kind == UROCE_PIECE_FD) {
			int fd = j->fds[p->fd_index];

			map->path = UROCE_MR_PATH_ADOPTED;
			/* Asked first: a call on some other kind of file may block. */
			err = fd_sealed(fd) ? map_fd(j, fd, p->va, p->len, p->fd_off) : -EINVAL;
		} else {
			looked = true;
			err = map_shared(j, p) != 0 ? -EAGAIN : 0;
		}
	}
	if (err == 0 && looked && !mrmap_peer_is_client(j))
		err = -EPERM;
	if (err == 0)
		err = sigbus_guard_add(map->base, map->bytes, (uintptr_t)map);
	if (err != 0)
		mrmap_unshare(map);
	else
		map->host = map->base + (map->va - j->first_va);
	return err;
}
