/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include "map/mrfill.h"
#include "map/mrkept.h"
#include "map/sigbus.h"
#include "uroce_abi/ctrl.h"

#define WIN_BYTES (2ull << 20) /* one page table */
#define BUCKETS   64u

struct mrwin {
	TAILQ_ENTRY(mrwin) link; /* of its bucket */
	TAILQ_ENTRY(mrwin) idle; /* windows without a region, oldest first */
	struct mrkept *kept;
	unsigned slot, refs;
	uint64_t off;
	uint8_t *base;
};

TAILQ_HEAD(winlist, mrwin);

struct mrkept {
	uint8_t owner;
	struct {
		int fd; /* -1: free */
		dev_t dev;
		ino_t ino;
		uint64_t bytes;
		bool huge;
	} slot[UROCE_MR_KEPT];
	struct winlist bucket[BUCKETS];
	struct winlist idle;
	unsigned nidle;
};

struct mrkept *
mrkept_create(uint8_t owner)
{
	struct mrkept *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->owner = owner;
	for (unsigned i = 0; i < UROCE_MR_KEPT; i++)
		k->slot[i].fd = -1;
	for (unsigned i = 0; i < BUCKETS; i++)
		TAILQ_INIT(&k->bucket[i]);
	TAILQ_INIT(&k->idle);
	return k;
}

static struct winlist *
bucket_of(struct mrkept *k, unsigned slot, uint64_t off)
{
	return &k->bucket[(off / WIN_BYTES + slot) % BUCKETS];
}

static void
win_free(struct mrwin *w)
{
	TAILQ_REMOVE(&w->kept->idle, w, idle);
	w->kept->nidle--;
	TAILQ_REMOVE(bucket_of(w->kept, w->slot, w->off), w, link);
	sigbus_guard_del((uintptr_t)w);
	(void)mrfill_unmap(w->base, WIN_BYTES, false, NULL); /* its slot has the file open */
	free(w);
}

void
mrkept_destroy(struct mrkept *k)
{
	if (k == NULL)
		return;
	while (!TAILQ_EMPTY(&k->idle))
		win_free(TAILQ_FIRST(&k->idle));
	for (unsigned i = 0; i < UROCE_MR_KEPT; i++)
		if (k->slot[i].fd >= 0)
			mrfill_close(k->slot[i].fd);
	free(k);
}

int
mrkept_keep(struct mrkept *k, unsigned slot, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS); /* first: the others may block unless fd is a memfd */
	struct statfs fs;
	struct stat st;

	if (slot >= UROCE_MR_KEPT || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
	    fstat(fd, &st) != 0 || fstatfs(fd, &fs) != 0)
		return -EINVAL;
	if (k->slot[slot].fd >= 0)
		return k->slot[slot].dev == st.st_dev && k->slot[slot].ino == st.st_ino ? 0
											: -EINVAL;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -EMFILE;
	k->slot[slot].fd = fd;
	k->slot[slot].dev = st.st_dev;
	k->slot[slot].ino = st.st_ino;
	k->slot[slot].bytes = (uint64_t)st.st_size;
	k->slot[slot].huge = fs.f_type != TMPFS_MAGIC;
	return 0;
}

int
mrkept_fd(const struct mrkept *k, unsigned slot)
{
	return k != NULL && slot < UROCE_MR_KEPT ? k->slot[slot].fd : -1;
}

static struct mrwin *
win_make(struct mrkept *k, unsigned slot, uint64_t off)
{
	struct mrwin *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->kept = k;
	w->slot = slot;
	w->off = off;
	w->base = mmap(NULL, WIN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, k->slot[slot].fd,
		       (off_t)off);
	if (w->base == MAP_FAILED) {
		free(w);
		return NULL;
	}
	if (sigbus_guard_add(w->base, WIN_BYTES, (uintptr_t)w, k->owner) != 0) {
		munmap(w->base, WIN_BYTES);
		free(w);
		return NULL;
	}
	TAILQ_INSERT_HEAD(bucket_of(k, slot, off), w, link);
	return w;
}

struct mrwin *
mrkept_window(struct mrkept *k, unsigned slot, uint64_t off, uint64_t len)
{
	uint64_t start = off & ~(WIN_BYTES - 1);
	struct mrwin *w;

	if (mrkept_fd(k, slot) < 0 || k->slot[slot].huge || off + len > start + WIN_BYTES ||
	    start > k->slot[slot].bytes || k->slot[slot].bytes - start < WIN_BYTES)
		return NULL;
	TAILQ_FOREACH (w, bucket_of(k, slot, off), link) {
		if (w->slot == slot && w->off == start && !mrwin_failed(w))
			break;
	}
	if (w == NULL) {
		w = win_make(k, slot, start);
	} else if (w->refs == 0) {
		TAILQ_REMOVE(&k->idle, w, idle);
		k->nidle--;
	}
	if (w != NULL)
		w->refs++;
	return w;
}

uint8_t *
mrwin_at(const struct mrwin *w, uint64_t off)
{
	return w->base + (off - w->off);
}

bool
mrwin_failed(const struct mrwin *w)
{
	return sigbus_guard_failed((uintptr_t)w);
}

void
mrwin_put(struct mrwin *w)
{
	struct mrkept *k = w->kept;

	if (--w->refs > 0)
		return;
	TAILQ_INSERT_TAIL(&k->idle, w, idle);
	k->nidle++;
	if (mrwin_failed(w))
		win_free(w);
	else if (k->nidle > MRKEPT_MAX_IDLE)
		win_free(TAILQ_FIRST(&k->idle));
}
