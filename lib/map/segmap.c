/* SPDX-License-Identifier: BSD-3-Clause */
#include "map/segmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void *
ipc_seg_map(int fd, size_t bytes, bool writable)
{
	struct stat st;
	void *base;

	if (fstat(fd, &st) < 0)
		return NULL;
	/* Access to a mapping beyond the file's end would raise SIGBUS much later. */
	if (bytes == 0 || (uint64_t)st.st_size < bytes) {
		errno = EPROTO;
		return NULL;
	}
	base = mmap(NULL, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return NULL;
	if (writable && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0) {
		munmap(base, bytes);
		return NULL;
	}
	return base;
}

/* Grows the table to hold segment id; new slots are zero (not mapped). */
static int
segmap_grow(struct ipc_segmap *map, uint32_t id)
{
	struct ipc_seg *seg;
	uint32_t n = map->n ? map->n : 8;

	if (id < map->n)
		return 0;
	while (n <= id)
		n *= 2;
	seg = realloc(map->seg, n * sizeof(*seg));
	if (!seg)
		return -ENOMEM;
	memset(seg + map->n, 0, (n - map->n) * sizeof(*seg));
	map->seg = seg;
	map->n = n;
	return 0;
}

int
ipc_segmap_add(struct ipc_segmap *map, const struct uroce_segment_rep *rep, int fd)
{
	int rc = rep->seg < IPC_SEGMAP_MAX ? segmap_grow(map, rep->seg) : -EPROTO;
	struct ipc_seg *s;

	if (rc == 0 && map->seg[rep->seg].base)
		rc = -EPROTO;
	if (rc)
		goto out;
	s = &map->seg[rep->seg];
	s->base = ipc_seg_map(fd, rep->bytes, true);
	s->bytes = rep->bytes;
	rc = s->base ? 0 : -errno;
out:
	close(fd);
	return rc;
}

static bool
ring_fits(const struct ipc_seg *s, const struct uroce_ring_loc *loc, size_t hdr_bytes)
{
	uint64_t bytes = hdr_bytes + (uint64_t)loc->entries * loc->stride;

	if (loc->entries == 0 || (loc->entries & (loc->entries - 1)) || loc->stride == 0)
		return false;
	return loc->off % UROCE_CACHE_LINE == 0 && loc->off <= s->bytes &&
	       bytes <= s->bytes - loc->off;
}

void *
ipc_segmap_ring(const struct ipc_segmap *map, const struct uroce_ring_loc *loc, size_t hdr_bytes)
{
	if (loc->seg >= map->n || !map->seg[loc->seg].base ||
	    !ring_fits(&map->seg[loc->seg], loc, hdr_bytes))
		return NULL;
	return (char *)map->seg[loc->seg].base + loc->off;
}

void
ipc_segmap_close(struct ipc_segmap *map)
{
	for (uint32_t i = 0; i < map->n; i++) {
		if (map->seg[i].base)
			munmap(map->seg[i].base, map->seg[i].bytes);
	}
	free(map->seg);
	map->seg = NULL;
	map->n = 0;
}
