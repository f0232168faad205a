/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that are reached through /proc/PID/mem. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "ipc/mrmap_priv.h"

/* An open /proc/PID/mem, shared by the COPY regions of one client. */
struct peer_mem {
	struct peer_mem *next;
	uint64_t id;
	int fd;
	unsigned refs;
};

static struct peer_mem *peer_mems; /* control thread */

/* Readable, and writable if the region is to be, from end to end. */
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

void
mrmap_uncopy(struct mrmap *map)
{
	struct peer_mem **p = &peer_mems;
	struct peer_mem *m = map->mem;

	if (m == NULL || --m->refs > 0)
		return;
	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	close(m->fd);
	free(m);
}

static int
mem_read(int fd, uint64_t va, uint8_t *dst, uint32_t len)
{
	while (len > 0) {
		ssize_t n = pread(fd, dst, len, (off_t)va);

		if (n <= 0)
			return n == 0 ? -ESRCH : -EFAULT;
		dst += n;
		va += (uint64_t)n;
		len -= (uint32_t)n;
	}
	return 0;
}

static int
mem_write(int fd, uint64_t va, const uint8_t *src, uint32_t len)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, src, len, (off_t)va);

		if (n <= 0)
			return n == 0 ? -ESRCH : -EFAULT;
		src += n;
		va += (uint64_t)n;
		len -= (uint32_t)n;
	}
	return 0;
}

/* Never given before, not even by a broker that was here before this one. */
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

static int
mem_open(struct mrmap_job *j)
{
	struct mrmap_mem *m = &j->c->mem;
	char path[48];

	if (m->fd >= 0)
		close(m->fd);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)j->c->pid);
	m->writable = j->writable;
	m->fd = open(path, (m->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	m->id = new_id();
	return m->fd < 0 ? -EPERM : 0;
}

/* What is open already if it reads this range, or a new one. Both ends must be readable. */
static int
mem_get(struct mrmap_job *j)
{
	uint64_t first = j->req->addr, last = first + j->req->length - 1;
	const struct mrmap_mem *m = &j->c->mem;
	uint8_t byte;
	int err = 0;

	if (m->fd < 0 || m->writable < j->writable || mem_read(m->fd, first, &byte, 1) != 0)
		err = mem_open(j);
	if (err != 0)
		return err;
	if (mem_read(m->fd, first, &byte, 1) != 0 || mem_read(m->fd, last, &byte, 1) != 0)
		return -EFAULT;
	return 0;
}

int
mrmap_find_copy(struct mrmap_job *j)
{
	int err;

	j->found->path = UROCE_MR_PATH_COPY;
	if (!mrmap_peer_is_client(j))
		return -EPERM;
	err = check_rights(j);
	if (err == 0)
		err = mem_get(j);
	if (err == 0 && !mrmap_peer_is_client(j))
		err = -EPERM;
	if (err == 0) {
		j->found->mem_id = j->c->mem.id;
		mrmap_file_add(j, j->c->mem.fd, true);
	}
	return err;
}

int
mrmap_copy(struct mrmap *map, const struct mrmap_found *found, const int *fds)
{
	struct peer_mem *m = peer_mems;

	while (m != NULL && m->id != found->mem_id)
		m = m->next;
	if (m == NULL) {
		m = calloc(1, sizeof(*m));
		if (m == NULL)
			return -ENOMEM;
		m->fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
		if (m->fd < 0) {
			free(m);
			return -errno;
		}
		m->id = found->mem_id;
		m->next = peer_mems;
		peer_mems = m;
	}
	m->refs++;
	map->mem = m;
	return 0;
}

static bool
in_region(const struct mrmap *map, uint64_t va, uint32_t len)
{
	return va >= map->va && len <= map->len && va - map->va <= map->len - len;
}

static int
copy_read(void *ctx, uint64_t va, void *dst, uint32_t len)
{
	const struct mrmap *map = ctx;

	if (map->mem == NULL || !in_region(map, va, len))
		return -EFAULT;
	return mem_read(map->mem->fd, va, dst, len);
}

static int
copy_write(void *ctx, uint64_t va, const void *src, uint32_t len)
{
	const struct mrmap *map = ctx;

	if (map->mem == NULL || !map->writable || !in_region(map, va, len))
		return -EFAULT;
	return mem_write(map->mem->fd, va, src, len);
}

const struct mem_ops mrmap_copy_ops = {.read = copy_read, .write = copy_write};
