/* SPDX-License-Identifier: BSD-3-Clause */
#include "map/segmap.h"

#include <errno.h>
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
	return base == MAP_FAILED ? NULL : base;
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

/* Maps s from its descriptor, and closes that unless a later try may succeed. 0 or -errno. */
static int
seg_open(struct ipc_seg *s)
{
	int rc;

	s->base = ipc_seg_map(s->fd, s->bytes, true);
	rc = s->base ? 0 : -errno;
	s->waits = rc != 0 && rc != -EPROTO;
	if (!s->waits)
		close(s->fd);
	return rc;
}

/* Adds a segment with the first descriptor of *fds, which is consumed even on failure. */
static int
segmap_add(struct ipc_segmap *map, const struct uroce_ring_loc *loc, int **fds, unsigned int *nfds)
{
	struct ipc_seg *s;
	int rc, fd;

	if (*nfds == 0)
		return -EPROTO;
	fd = *(*fds)++;
	(*nfds)--;
	rc = loc->seg < IPC_SEGMAP_MAX ? segmap_grow(map, loc->seg) : -EPROTO;
	if (rc == 0 && (map->seg[loc->seg].base || map->seg[loc->seg].waits))
		rc = -EPROTO;
	if (rc) {
		close(fd);
		return rc;
	}
	s = &map->seg[loc->seg];
	s->bytes = loc->seg_bytes;
	s->fd = fd;
	return seg_open(s);
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

int
ipc_segmap_ring(struct ipc_segmap *map, const struct uroce_ring_loc *loc, size_t hdr_bytes,
		int **fds, unsigned int *nfds, void **ring)
{
	int rc = 0;

	if (loc->new_seg)
		rc = segmap_add(map, loc, fds, nfds);
	else if (loc->seg < map->n && map->seg[loc->seg].waits)
		rc = seg_open(&map->seg[loc->seg]);
	if (rc)
		return rc;
	if (loc->seg >= map->n || !map->seg[loc->seg].base ||
	    !ring_fits(&map->seg[loc->seg], loc, hdr_bytes))
		return -EPROTO;
	*ring = (char *)map->seg[loc->seg].base + loc->off;
	return 0;
}

void
ipc_segmap_close(struct ipc_segmap *map)
{
	for (uint32_t i = 0; i < map->n; i++) {
		if (map->seg[i].base)
			munmap(map->seg[i].base, map->seg[i].bytes);
		if (map->seg[i].waits)
			close(map->seg[i].fd);
	}
	free(map->seg);
	map->seg = NULL;
	map->n = 0;
}
