/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that are accessed through /proc/PID/mem. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "map/mrmap_parts.h"

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
		if (err != 0 || v.start > pos || !mrmap_vma_grants(&v, j->writable))
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

int
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
		mrmap_file_add(j, j->c->mem.fd, true);
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

int
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

void
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
