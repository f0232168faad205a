/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that are reached through /proc/PID/mem. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "ipc/mrmap_priv.h"

/* An open /proc/PID/mem, shared by the COPY regions of one client. */
struct peer_mem {
	struct peer_mem *next;
	pid_t pid;
	uid_t uid;
	int fd;
	unsigned refs;
	bool writable;
};

static struct peer_mem *peer_mems; /* control thread */

/* Readable, and writable if the region is to be, from end to end. */
static int
check_rights(const struct mrmap_job *j)
{
	uint64_t pos = j->map->va, end = pos + j->map->len;
	struct vma_scan scan;
	struct vma v;
	int err = vma_scan_open(&scan, j->pid);

	if (err != 0)
		return -EPERM;
	while (err == 0 && pos < end) {
		err = vma_scan_next(&scan, pos, &v);
		if (err != 0 || v.start > pos || !mrmap_vma_grants(&v, j->map->writable))
			err = -EFAULT;
		pos = v.end;
	}
	vma_scan_close(&scan);
	return err;
}

static struct peer_mem *
peer_mem_open(const struct mrmap_job *j)
{
	struct peer_mem *m = calloc(1, sizeof(*m));
	char path[48];

	if (m == NULL)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)j->pid);
	m->pid = j->pid;
	m->uid = j->uid;
	m->writable = j->map->writable;
	m->fd = open(path, (m->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (m->fd < 0) {
		free(m);
		return NULL;
	}
	m->next = peer_mems;
	peer_mems = m;
	return m;
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
mem_read(const struct peer_mem *m, uint64_t va, uint8_t *dst, uint32_t len)
{
	while (len > 0) {
		ssize_t n = pread(m->fd, dst, len, (off_t)va);

		if (n <= 0)
			return n == 0 ? -ESRCH : -EFAULT;
		dst += n;
		va += (uint64_t)n;
		len -= (uint32_t)n;
	}
	return 0;
}

static int
mem_write(const struct peer_mem *m, uint64_t va, const uint8_t *src, uint32_t len)
{
	while (len > 0) {
		ssize_t n = pwrite(m->fd, src, len, (off_t)va);

		if (n <= 0)
			return n == 0 ? -ESRCH : -EFAULT;
		src += n;
		va += (uint64_t)n;
		len -= (uint32_t)n;
	}
	return 0;
}

/* One that is open already and reads this range, or a new one. Both ends must be readable. */
static int
peer_mem_get(struct mrmap_job *j)
{
	uint64_t first = j->map->va, last = first + j->map->len - 1;
	struct peer_mem *m;
	uint8_t byte;

	for (m = peer_mems; m != NULL; m = m->next) {
		if (m->pid == j->pid && m->uid == j->uid && m->writable >= j->map->writable &&
		    mem_read(m, first, &byte, 1) == 0)
			break;
	}
	if (m == NULL)
		m = peer_mem_open(j);
	if (m == NULL)
		return -EPERM;
	m->refs++;
	j->map->mem = m;
	if (mem_read(m, first, &byte, 1) != 0 || mem_read(m, last, &byte, 1) != 0)
		return -EFAULT;
	return 0;
}

int
mrmap_copy(struct mrmap_job *j)
{
	int err;

	j->map->path = UROCE_MR_PATH_COPY;
	if (!mrmap_peer_is_client(j))
		return -EPERM;
	err = check_rights(j);
	if (err == 0)
		err = peer_mem_get(j);
	if (err == 0 && !mrmap_peer_is_client(j))
		err = -EPERM;
	return err;
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
	return mem_read(map->mem, va, dst, len);
}

static int
copy_write(void *ctx, uint64_t va, const void *src, uint32_t len)
{
	const struct mrmap *map = ctx;

	if (map->mem == NULL || !map->writable || !in_region(map, va, len))
		return -EFAULT;
	return mem_write(map->mem, va, src, len);
}

const struct mem_ops mrmap_copy_ops = {.read = copy_read, .write = copy_write};
