/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#include "map/mrfill.h"
#include "map/mrkept.h"
#include "map/mrmap.h"
#include "map/page.h"
#include "map/sigbus.h"
#include "map/vma.h"

#define MRMAP_MAX_MAPS (2u * UROCE_MR_MAX_PIECES) /* of a region */

struct mrmap {
	uint64_t va, len; /* of the region, in the client */
	bool writable;
	uint8_t owner; /* of mrmap_copiers */
	int path;
	uint64_t first_va; /* of the first piece, which is mapped at base */
	uint8_t *base;     /* of the reservation; NULL for COPY and empty regions */
	uint64_t bytes;
	uint8_t *host;
	uint32_t maps;     /* mappings in this process */
	struct mrwin *win; /* window of a small region; base is NULL then */
	struct mrfill fill;
	bool base_pages;      /* mrfill.h applies */
	bool last;            /* has files that the client may have closed (mrfill_unmap) */
	struct peer_mem *mem; /* COPY */
};

/* One call of mrmap_find. */
struct mrmap_job {
	struct mrmap_client *c;
	const struct uroce_reg_mr_req *req;
	const int *fds;
	unsigned nfds;
	bool writable; /* the region will be */
	struct mrmap_found *found;
	struct mrmap_files *files;
};

/* Returns true if v grants the client the region's rights: read, and write if writable. */
static bool
vma_grants(const struct vma *v, bool writable)
{
	int need = PROT_READ | (writable ? PROT_WRITE : 0);

	return (v->prot & need) == need;
}

/* ---- the request ---- */

static bool
range_ok(uint64_t start, uint64_t len)
{
	return len <= INT64_MAX && start <= (uint64_t)INT64_MAX - len;
}

static bool
piece_ok(const struct uroce_mr_piece *p, unsigned nfds)
{
	uint64_t in_page = page_bytes() - 1;

	if (p->len == 0 || ((p->va | p->len) & in_page) != 0 || !range_ok(p->va, p->len))
		return false;
	switch (p->kind) {
	case UROCE_PIECE_COPY:
		return true;
	case UROCE_PIECE_FD:
		return p->fd_index < nfds && (p->fd_off & in_page) == 0 &&
		       range_ok(p->fd_off, p->len);
	case UROCE_PIECE_KEPT:
		return p->fd_index < UROCE_MR_KEPT && (p->fd_off & in_page) == 0 &&
		       range_ok(p->fd_off, p->len);
	case UROCE_PIECE_MAP_FILE:
		return p->vm_start <= p->va && p->vm_end >= p->va + p->len;
	default:
		return false;
	}
}

/* Returns true if the pieces are adjacent and cover the range, with no piece outside of it. */
static bool
request_ok(const struct uroce_reg_mr_req *req, unsigned nfds)
{
	const struct uroce_mr_piece *p = req->piece;
	uint64_t pos;

	if (req->npieces > UROCE_MR_MAX_PIECES || !range_ok(req->addr, req->length))
		return false;
	if (req->length == 0)
		return req->npieces == 0;
	if (req->npieces == 0 || p[0].va > req->addr)
		return false;
	pos = p[0].va;
	for (unsigned i = 0; i < req->npieces; i++) {
		if (!piece_ok(&p[i], nfds) || p[i].va != pos ||
		    p[i].va >= req->addr + req->length || p[i].va + p[i].len <= req->addr)
			return false;
		pos += p[i].len;
	}
	return pos >= req->addr + req->length;
}

bool
mrmap_client_is(const struct mrmap_client *c)
{
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)c->pid);
	if (fstatat(AT_FDCWD, path, &st, 0) != 0 ||
	    (c->uid != 0 && st.st_uid != (c->uid == UROCE_UID_CONFINED ? 0 : c->uid)))
		return false;
	/* EPERM: it is there, but the broker may not send signals to it. */
	return c->pidfd < 0 || syscall(SYS_pidfd_send_signal, c->pidfd, 0, NULL, 0) == 0 ||
	       errno == EPERM;
}

static bool
wants_copy(const struct uroce_reg_mr_req *req)
{
	for (unsigned i = 0; i < req->npieces; i++)
		if (req->piece[i].kind == UROCE_PIECE_COPY)
			return true;
	return false;
}

/* Add a descriptor to the result. Returns its index, or -EAGAIN if there is no space. */
static int
file_add(struct mrmap_job *j, int fd, bool lent)
{
	if (j->found->nfds == MRMAP_MAX_FDS)
		return -EAGAIN;
	j->files->fd[j->found->nfds] = fd;
	j->files->lent[j->found->nfds] = lent;
	return (int)j->found->nfds++;
}

void
mrmap_files_close(const struct mrmap_found *found, const struct mrmap_files *files)
{
	for (uint32_t i = 0; i < found->nfds; i++)
		if (!files->lent[i])
			close(files->fd[i]);
}

/* ---- regions that the daemon maps ---- */

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
	    vma_grants(&now, j->writable) && is_file_of(&st, &now)) {
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
			i = file_add(j, fd, false);
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
		i = file_add(j, fd, true);
	return i < 0 ? i : run_add(j, i, p->va, p->len, p->fd_off);
}

/* Find the descriptor that the request asks to keep, the first of nfds. 0 or -errno. */
static int
find_keep(struct mrmap_job *j, unsigned nfds)
{
	int i;

	if (nfds == 0 || !fd_sealed(j->fds[0]))
		return -EINVAL;
	i = file_add(j, j->fds[0], true);
	if (i < 0)
		return -EMFILE;
	j->found->keep_fd = (uint32_t)i + 1;
	return 0;
}

/*
 * Find the files of all pieces of a checked request without COPY pieces. Returns 0; -EAGAIN if a
 * shared mapping cannot or should not be used but the region can be COPY; or -errno.
 */
static int
find_shared(struct mrmap_job *j)
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

/* Returns true if unmapped in the background, as mrfill_unmap does. */
static bool
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

/* Maps the files of found. Returns 0; or -errno, and nothing is mapped. */
static int
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

/* ---- regions that are accessed through /proc/PID/mem ---- */

/* An open /proc/PID/mem and its copier, shared by the COPY regions of one client. */
struct peer_mem {
	struct peer_mem *next;
	struct mrmap_copiers *of;
	struct copier *copier;
	uint64_t id;
	int fd;
	unsigned refs;
};

/* Checks that the whole range is readable, and writable if the region is. */
static int
check_rights(const struct mrmap_job *j)
{
	uint64_t pos = j->req->addr, end = pos + j->req->length;
	struct vma_scan scan;
	struct vma v;
	int err = vma_scan_open(&scan, j->c->pid);

	if (err != 0)
		return -EPERM;
	while (err == 0 && pos < end) {
		err = vma_scan_next(&scan, pos, &v);
		if (err != 0 || v.start > pos || !vma_grants(&v, j->writable))
			err = -EFAULT;
		pos = v.end;
	}
	vma_scan_close(&scan);
	return err;
}

/* Returns an id that was never used before, not even by an earlier broker. */
static uint64_t
new_id(void)
{
	static uint64_t last;
	struct timespec ts;
	uint64_t none = 0;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	__atomic_compare_exchange_n(&last, &none,
				    (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

/*
 * Duplicates the client's own descriptor of this file, which it attaches if the kernel lets nobody
 * else open it. Nothing else passes: other files of /proc check the rights of who writes to them.
 * -1: none.
 */
static int
mem_given(const struct mrmap_job *j, const char *path)
{
	struct stat mem, st;

	if (j->nfds == 0 || fstatat(AT_FDCWD, path, &mem, 0) != 0)
		return -1;
	for (unsigned i = 0; i < j->nfds; i++) {
		int fd = j->fds[i];

		/* the numbers of files in /proc wrap around, so the mode has to agree, too */
		if (fstat(fd, &st) == 0 && st.st_dev == mem.st_dev && st.st_ino == mem.st_ino &&
		    st.st_mode == mem.st_mode && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR)
			return fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	return -1;
}

static int
mem_open(const struct mrmap_job *j, struct mrmap_mem *m)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)j->c->pid);
	m->fd = mem_given(j, path);
	m->writable = j->writable || m->fd >= 0;
	if (m->fd < 0)
		m->fd = open(path, (m->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	m->id = new_id();
	return m->fd < 0 ? -EPERM : 0;
}

/* Checks that both ends of the range are readable. */
static int
mem_reads(const struct mrmap_job *j, const struct mrmap_mem *m)
{
	uint64_t first = j->req->addr, last = first + j->req->length - 1;
	uint8_t byte;
	int rc = copier_mem_read(m->fd, first, &byte, 1);

	return rc != 0 ? rc : copier_mem_read(m->fd, last, &byte, 1);
}

/* Uses the open /proc/PID/mem if it can read this range, else opens it again. */
static int
mem_get(struct mrmap_job *j)
{
	struct mrmap_mem *m = &j->c->mem, new;
	int err;

	if (m->fd >= 0 && m->writable >= j->writable && mem_reads(j, m) == 0)
		return 0;
	err = mem_open(j, &new);
	if (err != 0)
		return err;
	if (mem_reads(j, &new) != 0) {
		close(new.fd);
		return -EFAULT;
	}
	if (m->fd >= 0)
		close(m->fd);
	*m = new;
	return 0;
}

static int
mrmap_find_copy(struct mrmap_job *j)
{
	int err;

	j->found->path = UROCE_MR_PATH_COPY;
	if (!mrmap_client_is(j->c))
		return -EPERM;
	err = check_rights(j);
	if (err == 0)
		err = mem_get(j);
	if (err == 0 && !mrmap_client_is(j->c))
		err = -EPERM;
	if (err == 0) {
		j->found->mem_id = j->c->mem.id;
		file_add(j, j->c->mem.fd, true);
	}
	return err;
}

static void
mem_free(struct peer_mem *m)
{
	close(m->fd);
	free(m);
}

static int
mem_serve(struct peer_mem *m, int shared)
{
	int rc = m->of->serve(m->of->ctx, m->id, m->fd, shared);

	close(shared);
	return rc;
}

static int
mem_new(struct mrmap_copiers *of, uint64_t id, int fd, struct peer_mem **out)
{
	struct peer_mem *m = of->n < MRMAP_MAX_COPIERS ? calloc(1, sizeof(*m)) : NULL;
	int rc, shared;

	if (m == NULL)
		return -ENOMEM;
	m->of = of;
	m->id = id;
	m->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	rc = m->fd >= 0 ? copier_create(of->credit, &m->copier, &shared) : -errno;
	if (rc == 0) {
		rc = mem_serve(m, shared);
		if (rc == 0) {
			m->next = of->first;
			of->first = m;
			of->n++;
			*out = m;
			return 0;
		}
		copier_destroy(m->copier);
	}
	if (m->fd >= 0)
		close(m->fd);
	free(m);
	return rc;
}

int
mrmap_copiers_renew(struct mrmap_copiers *copiers)
{
	int rc = 0, shared;

	for (struct peer_mem *m = copiers->first; rc == 0 && m != NULL; m = m->next) {
		rc = copier_renew(m->copier, &shared);
		if (rc == 0)
			rc = mem_serve(m, shared);
	}
	return rc;
}

static int
mrmap_copy(struct mrmap *map, const struct mrmap_found *found, const int *fds,
	   struct mrmap_copiers *copiers)
{
	struct peer_mem *m = copiers->first;
	int rc = 0;

	while (m != NULL && m->id != found->mem_id)
		m = m->next;
	if (m == NULL)
		rc = mem_new(copiers, found->mem_id, fds[0], &m);
	if (rc != 0)
		return rc;
	m->refs++;
	map->mem = m;
	map->maps = 1; /* an upper bound: all regions of the client share it */
	return 0;
}

/* Also after mrmap_copy has failed. */
static void
mrmap_uncopy(struct mrmap *map)
{
	struct peer_mem *m = map->mem, **p;

	if (m == NULL)
		return;
	if (--m->refs > 0)
		return;
	p = &m->of->first;
	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	m->of->n--;
	if (copier_destroy(m->copier) && m->of->stays != NULL)
		m->of->stays(m->of->ctx);
	mem_free(m);
}

uint64_t
mrmap_unsettled(const struct mrmap *map)
{
	return map->mem != NULL && !copier_settled(map->mem->copier) ? map->mem->id : 0;
}

static bool
in_region(const struct mrmap *map, uint64_t va, uint32_t len)
{
	return map->mem != NULL && va >= map->va && len <= map->len &&
	       va - map->va <= map->len - len;
}

static int
copy_read(void *ctx, uint64_t va, void *dst, uint32_t len)
{
	const struct mrmap *map = ctx;

	if (!in_region(map, va, len))
		return -EFAULT;
	return copier_read(map->mem->copier, va, dst, len);
}

static bool
parts_in_region(const struct mrmap *map, const struct mem_part *part, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!in_region(map, part[i].va, part[i].len))
			return false;
	}
	return true;
}

static int
copy_lend(void *ctx, const struct mem_part *part, uint32_t n, struct mem_lent *lent)
{
	const struct mrmap *map = ctx;
	int rc = -EFAULT;

	if (parts_in_region(map, part, n))
		rc = copier_lend(map->mem->copier, part, n, lent);
	if (rc == 0)
		lent->ops = &mrmap_copy_ops;
	return rc;
}

static int
copy_write_parts(void *ctx, const struct mem_part *part, uint32_t n, const struct mem_bytes *src,
		 uint32_t nsrc, struct mem_late *late)
{
	const struct mrmap *map = ctx;

	if (!map->writable || !parts_in_region(map, part, n))
		return -EFAULT;
	return copier_write_parts(map->mem->copier, part, n, src, nsrc, late);
}

static int
copy_write(void *ctx, uint64_t va, const void *src, uint32_t len, struct mem_late *late)
{
	const struct mrmap *map = ctx;

	if (!map->writable || !in_region(map, va, len))
		return -EFAULT;
	return copier_write(map->mem->copier, va, src, len, late);
}

static int
copy_atomic(void *ctx, uint64_t va, const struct mem_atomic *a, struct mem_late *late,
	    uint64_t *orig)
{
	const struct mrmap *map = ctx;

	if (!map->writable || !in_region(map, va, sizeof(*orig)))
		return -EFAULT;
	return copier_atomic(map->mem->copier, va, a, late, orig);
}

const struct mem_ops mrmap_copy_ops = {.read = copy_read,
				       .lend = copy_lend,
				       .release = copier_release,
				       .write = copy_write,
				       .write_parts = copy_write_parts,
				       .atomic = copy_atomic,
				       .late_poll = copier_late_poll,
				       .late_forget = copier_late_forget};

/* ---- both ---- */

static bool
wants_write(const struct uroce_reg_mr_req *req)
{
	return (req->access & (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)) != 0;
}

void
mrmap_find(struct mrmap_client *c, const struct uroce_reg_mr_req *req, const int *fds,
	   unsigned nfds, struct mrmap_found *found, struct mrmap_files *files)
{
	struct mrmap_job j = {.c = c,
			      .req = req,
			      .fds = fds,
			      .nfds = nfds,
			      .writable = wants_write(req),
			      .found = found,
			      .files = files};

	found->path = UROCE_MR_PATH_SHARED;
	found->mem_id = 0;
	found->nruns = found->nfds = found->keep_fd = 0;
	found->err = request_ok(req, nfds) ? 0 : -EINVAL;
	if (found->err != 0 || req->length == 0)
		return;
	found->err = c->copied || wants_copy(req) ? -EAGAIN : find_shared(&j);
	if (found->err == -EAGAIN) {
		mrmap_files_close(found, files);
		found->nruns = found->nfds = 0;
		found->err = mrmap_find_copy(&j);
	}
	if (found->err == 0 && req->keep != 0)
		found->err = find_keep(&j, nfds);
}

bool
mrmap_must_look(const struct uroce_reg_mr_req *req)
{
	if (req->keep != 0 || req->npieces > UROCE_MR_MAX_PIECES)
		return true;
	for (unsigned i = 0; i < req->npieces; i++) {
		if (req->piece[i].kind != UROCE_PIECE_KEPT)
			return true;
	}
	return false;
}

int
mrmap_make(const struct uroce_reg_mr_req *req, const struct mrmap_found *found, const int *fds,
	   struct mrkept *kept, struct mrmap_copiers *copiers, struct mrmap **out)
{
	struct mrmap *map;
	int err = found->err;

	if (err != 0)
		return err;
	map = calloc(1, sizeof(*map));
	if (map == NULL)
		return -ENOMEM;
	map->va = req->addr;
	map->len = req->length;
	map->writable = wants_write(req);
	map->path = found->path;
	map->owner = copiers->owner;
	if (req->length > 0)
		err = found->path == UROCE_MR_PATH_COPY ? mrmap_copy(map, found, fds, copiers)
							: mrmap_share(map, req, found, fds, kept);
	if (err != 0) {
		mrmap_destroy(map);
		return err;
	}
	*out = map;
	return 0;
}

bool
mrmap_destroy_slowly(struct mrmap *map, void *debt)
{
	bool later;

	if (map == NULL)
		return false;
	later = mrmap_unshare(map, debt);
	mrmap_uncopy(map);
	free(map);
	return later;
}

void
mrmap_destroy(struct mrmap *map)
{
	(void)mrmap_destroy_slowly(map, NULL);
}

uint8_t *
mrmap_host(const struct mrmap *map)
{
	return map->host;
}

uint32_t
mrmap_maps(const struct mrmap *map)
{
	return map->maps;
}

int
mrmap_path(const struct mrmap *map)
{
	return map->path;
}

bool
mrmap_failed(const struct mrmap *map)
{
	return map->win != NULL ? mrwin_failed(map->win) : sigbus_guard_failed((uintptr_t)map);
}
