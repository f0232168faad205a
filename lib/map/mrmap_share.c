/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that the daemon maps. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "map/mrmap_parts.h"
#include "map/sigbus.h"

#define HUGE_PAGE  (2ull << 20)
#define GIANT_PAGE (1ull << 30)
#define CLIENT_FDS 4096u /* of a client that are searched for a file */

/* Page size of what fd maps. */
static uint64_t
fd_page_size(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0)
		return page_bytes();
	return fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : page_bytes();
}

/* Returns true if fd is a memfd that cannot shrink, so that its pages stay while mapped. */
static bool
fd_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

/* Checks that the file has these bytes and can be mapped at these addresses. 0 or -errno. */
static int
check_fits(int fd, uint64_t page, uint64_t va, uint64_t len, uint64_t off)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (((va | len | off) & (page - 1)) != 0)
		return -EINVAL;
	return off + len > ((uint64_t)st.st_size + page - 1) / page * page ? -EFAULT : 0;
}

/*
 * Checks that all pages of a piece hold bytes of the region. Others would be mapped although the
 * quota does not count them; the client's file may be as large as the address space.
 */
static bool
is_needed(const struct mrmap *map, uint64_t page, uint64_t va, uint64_t len)
{
	return va + page > map->va && va + len < map->va + map->len + page;
}

static int
map_fd(struct mrmap *map, int fd, uint64_t va, uint64_t len, uint64_t off)
{
	int prot = PROT_READ | (map->writable ? PROT_WRITE : 0);
	uint8_t *at = map->base + (va - map->first_va);
	uint64_t page = fd_page_size(fd);
	int err = check_fits(fd, page, va, len, off);

	if (err != 0)
		return err;
	if (!is_needed(map, page, va, len))
		return -EINVAL;
	if (mmap(at, len, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)off) == MAP_FAILED)
		return -errno;
	map->maps++;
	map->base_pages &= page == page_bytes();
	return 0;
}

static int
find_vma(const struct mrmap_job *j, uint64_t va, struct vma *v)
{
	struct vma_scan scan;
	int err = vma_scan_open(&scan, j->c->pid);

	if (err != 0)
		return err;
	err = vma_scan_next(&scan, va, v);
	vma_scan_close(&scan);
	return err;
}

static bool
is_file_of(const struct stat *st, const struct vma *v)
{
	return S_ISREG(st->st_mode) && v->inode == st->st_ino &&
	       v->dev_major == major(st->st_dev) && v->dev_minor == minor(st->st_dev);
}

/* Opens the file of v by its name in the client's root folder. An O_PATH descriptor or -errno. */
static int
find_by_name(const struct mrmap_job *j, const struct vma *v)
{
	char path[32 + VMA_NAME_MAX];
	struct stat st;
	int fd;

	if (v->name[0] != '/')
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)j->c->pid, v->name);
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) != 0 || !is_file_of(&st, v))) {
		close(fd);
		return -ENOENT;
	}
	return fd < 0 ? -errno : fd;
}

/* Finds the file of v among the client's descriptors. An O_PATH descriptor or -errno. */
static int
find_by_descriptor(const struct mrmap_job *j, const struct vma *v)
{
	unsigned looks = CLIENT_FDS;
	struct dirent *entry;
	char path[32];
	int fd = -ENOENT;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)j->c->pid);
	dir = opendir(path);
	if (dir == NULL)
		return -errno;
	while (fd < 0 && looks-- > 0 && (entry = readdir(dir)) != NULL) {
		struct stat st;

		if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && is_file_of(&st, v))
			fd = openat(dirfd(dir), entry->d_name, O_PATH | O_CLOEXEC);
	}
	closedir(dir);
	return fd >= 0 ? fd : -ENOENT;
}

/*
 * Finds the file of the client's shared mapping v: an O_PATH descriptor, which has no side effect
 * on the file, or -errno. map_files needs privilege. Without it the file must have a name or an
 * open descriptor in the client; the caller checks the result in either case.
 */
static int
find_file(const struct mrmap_job *j, const struct vma *v)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)j->c->pid,
		 (unsigned long long)v->start, (unsigned long long)v->end);
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd >= 0 || (errno != EPERM && errno != EACCES))
		return fd < 0 ? -errno : fd;
	fd = find_by_name(j, v);
	return fd >= 0 ? fd : find_by_descriptor(j, v);
}

/*
 * Opens the file of the client's shared mapping v. The mapping's inode, sharing and rights are
 * checked after the file is held, so that a mapping replaced in between is rejected.
 */
static int
open_shared(const struct mrmap_job *j, const struct vma *v)
{
	int handle = find_file(j, v), fd;
	char path[32];
	struct vma now;
	struct stat st;

	if (handle < 0)
		return handle;
	fd = -EACCES;
	if (fstat(handle, &st) == 0 && find_vma(j, v->start, &now) == 0 && now.start == v->start &&
	    now.end == v->end && now.offset == v->offset && now.shared &&
	    mrmap_vma_grants(&now, j->writable) && is_file_of(&st, &now)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
		fd = open(path, (j->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
		fd = fd < 0 ? -errno : fd;
	}
	close(handle);
	return fd;
}

/*
 * Returns true if workers may take page faults on the file. If a server or a user's program
 * provides the pages (FUSE, NFS, stacked file systems), a fault may block forever, even despite
 * SIGKILL; pages of a disk take long for all clients of a worker. Such regions are copied, by a
 * thread that serves this client alone.
 */
static bool
is_in_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC ||
					 fs.f_type == RAMFS_MAGIC);
}

static int
run_add(struct mrmap_job *j, int fd, uint64_t va, uint64_t len, uint64_t off)
{
	struct mrmap_found *f = j->found;

	/* A piece may consist of many mappings of the client. */
	if (f->nruns == MRMAP_MAX_RUNS || f->nruns == MRMAP_MAX_MAPS)
		return -EAGAIN;
	f->run[f->nruns++] =
		(struct mrmap_run){.va = va, .len = len, .off = off, .fd = (uint32_t)fd};
	return 0;
}

/* The client may have split or merged its mappings since: follow the current ones. */
static int
find_mapped(struct mrmap_job *j, const struct uroce_mr_piece *p)
{
	uint64_t pos = p->va, end = p->va + p->len;

	while (pos < end) {
		uint64_t stop, off;
		struct vma v;
		int fd, i, err;

		err = find_vma(j, pos, &v);
		if (err != 0 || v.start > pos || !v.shared)
			return -EFAULT;
		stop = v.end < end ? v.end : end;
		fd = open_shared(j, &v);
		if (fd < 0)
			return fd;
		off = v.offset + (pos - v.start);
		i = -EAGAIN;
		if (is_in_memory(fd) && check_fits(fd, fd_page_size(fd), pos, stop - pos, off) == 0)
			i = mrmap_file_add(j, fd, false);
		if (i < 0)
			close(fd);
		err = i < 0 ? i : run_add(j, i, pos, stop - pos, off);
		if (err != 0)
			return err;
		pos = stop;
	}
	return 0;
}

static int
find_passed(struct mrmap_job *j, const struct uroce_mr_piece *p)
{
	int fd = j->fds[p->fd_index], i = 0;

	/* Checked first: calls on other kinds of files may block. */
	if (!fd_sealed(fd))
		return -EINVAL;
	while (i < (int)j->found->nfds && j->files->fd[i] != fd)
		i++;
	if (i == (int)j->found->nfds)
		i = mrmap_file_add(j, fd, true);
	return i < 0 ? i : run_add(j, i, p->va, p->len, p->fd_off);
}

int
mrmap_find_keep(struct mrmap_job *j, unsigned nfds)
{
	int i;

	if (nfds == 0 || !fd_sealed(j->fds[0]))
		return -EINVAL;
	i = mrmap_file_add(j, j->fds[0], true);
	if (i < 0)
		return -EMFILE;
	j->found->keep_fd = (uint32_t)i + 1;
	return 0;
}

int
mrmap_find_shared(struct mrmap_job *j)
{
	bool looked = false;
	int err = 0;

	for (unsigned i = 0; err == 0 && i < j->req->npieces; i++) {
		const struct uroce_mr_piece *p = &j->req->piece[i];

		if (p->kind == UROCE_PIECE_KEPT) {
			j->found->path = UROCE_MR_PATH_ADOPTED;
			err = run_add(j, (int)(MRMAP_FD_KEPT | p->fd_index), p->va, p->len,
				      p->fd_off);
		} else if (p->kind == UROCE_PIECE_FD) {
			j->found->path = UROCE_MR_PATH_ADOPTED;
			err = find_passed(j, p);
		} else {
			looked = true;
			err = find_mapped(j, p) != 0 ? -EAGAIN : 0;
		}
	}
	return err == 0 && looked && !mrmap_client_is(j->c) ? -EPERM : err;
}

/* Reserves addresses for the region, at the same offset within a huge page as in the client. */
static int
reserve(struct mrmap *map, const struct uroce_reg_mr_req *req)
{
	const struct uroce_mr_piece *last = &req->piece[req->npieces - 1];
	uint64_t align = HUGE_PAGE, size, at, start;
	uint8_t *p;

	for (unsigned i = 0; i < req->npieces; i++) {
		/* pages may have this size: 1 GiB, or 32 or 512 MiB on arm64 */
		uint64_t most = page_common(req->piece[i].va, req->piece[i].len, GIANT_PAGE);

		align = most > align ? most : align;
	}
	map->first_va = req->piece[0].va;
	map->bytes = last->va + last->len - map->first_va;
	/*
	 * Keep an unmapped page at each end. Otherwise the kernel could merge adjacent regions into
	 * one mapping, and removing one would split it.
	 */
	size = map->bytes + align + page_bytes();
	if (size < map->bytes)
		return -ENOMEM;
	p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	at = (uint64_t)(uintptr_t)p;
	start = at + page_bytes();
	start += (map->first_va - start) & (align - 1);
	munmap(p, start - at);
	munmap((void *)(uintptr_t)(start + map->bytes), at + size - start - map->bytes);
	map->base = (uint8_t *)(uintptr_t)start;
	return 0;
}

bool
mrmap_unshare(struct mrmap *map, void *debt)
{
	bool later = false;

	mrfill_cancel(&map->fill);
	map->maps = 0;
	if (map->win != NULL) {
		mrwin_put(map->win);
		map->win = NULL;
		return false;
	}
	sigbus_guard_del((uintptr_t)map);
	if (map->base != NULL && map->base_pages)
		later = mrfill_unmap(map->base, map->bytes, map->last, debt);
	else if (map->base != NULL)
		munmap(map->base, map->bytes);
	map->base = NULL;
	return later;
}

/* Places a small region of adopted memory into a window. Returns false if there is no window. */
static bool
share_window(struct mrmap *map, const struct mrmap_found *found, struct mrkept *kept)
{
	const struct mrmap_run *r = &found->run[0];
	uint8_t *at;

	if (found->nruns != 1 || !(r->fd & MRMAP_FD_KEPT) || kept == NULL)
		return false;
	map->win = mrkept_window(kept, r->fd & ~MRMAP_FD_KEPT, r->off, r->len);
	if (map->win == NULL)
		return false;
	map->maps = 1; /* upper bound: other regions may share the window */
	at = mrwin_at(map->win, r->off);
	map->host = at + (map->va - r->va);
	mrfill_start(&map->fill, at, r->len);
	return true;
}

/* Returns the run's descriptor if it may be mapped, or -errno. */
static int
map_run(struct mrmap *map, const struct mrmap_run *r, const int *fds, struct mrkept *kept)
{
	bool is_kept = (r->fd & MRMAP_FD_KEPT) != 0;
	int fd = is_kept ? mrkept_fd(kept, r->fd & ~MRMAP_FD_KEPT) : fds[r->fd];

	map->last |= !is_kept;
	return fd >= 0 ? map_fd(map, fd, r->va, r->len, r->off) : -EINVAL;
}

int
mrmap_share(struct mrmap *map, const struct uroce_reg_mr_req *req, const struct mrmap_found *found,
	    const int *fds, struct mrkept *kept)
{
	int err;

	if (share_window(map, found, kept))
		return 0;
	err = reserve(map, req);
	map->base_pages = true;
	for (uint32_t i = 0; err == 0 && i < found->nruns; i++)
		err = map_run(map, &found->run[i], fds, kept);
	if (err == 0)
		err = sigbus_guard_add(map->base, map->bytes, (uintptr_t)map, map->owner);
	if (err != 0) {
		(void)mrmap_unshare(map, NULL);
		return err;
	}
	map->host = map->base + (map->va - map->first_va);
	/* Avoids page faults in the data path. Huge pages have few entries anyway. */
	if (map->base_pages)
		mrfill_start(&map->fill, map->base, map->bytes);
	return 0;
}
