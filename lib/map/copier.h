/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies from and to the memory of one address space, by a thread that may block on it.
 *
 * An access to /proc/PID/mem can block forever: on the server of a file system, or on an mmap_lock
 * that the client holds. Workers must not block. A worker therefore puts the access (a job) into
 * memory that it shares with a thread of the broker (ipc/broker.h; one thread per address space)
 * and waits for the result about as long as a copy usually takes, or longer if the client's uid has
 * credit. If the job is not done by then, the worker withdraws it, or abandons it if the thread has
 * begun it. The worker gets -EAGAIN and continues.
 *
 *   - While an abandoned job is outstanding, all accesses to its address space get -EAGAIN at once,
 *     so that later accesses are executed after it, and memory that does not respond costs a worker
 *     no more than one wait. After COPIER_LIMIT_NS they get -ETIMEDOUT.
 *   - The longer waits are charged to the credit: it grows by 1/200 of the time, up to
 *     COPIER_BURST_NS. They are for honest programs whose threads rarely run late, because packets
 *     that come during an abandoned job may find no place, and cost a peer retransmissions. Memory
 *     that is always slow has no credit.
 *   - The result of an abandoned job that must not be executed twice is kept for its owner
 *     (mem/late.h).
 *   - A thread that never begins a job, because its process is stopped or lost, is detected after
 *     COPIER_LIMIT_NS, too.
 *
 * No client can access the shared memory; its contents are trusted.
 * Includes: lib/mem (struct mem_atomic; mem/late.h). No DPDK.
 */
#ifndef UROCE_MAP_COPIER_H
#define UROCE_MAP_COPIER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "mem/mr.h"

#define COPIER_BYTES    262144u       /* most bytes of a job */
#define COPIER_SLOTS    16u           /* concurrent jobs per address space .. */
#define COPIER_LENT     8u            /* .. of which so many may be lent */
#define COPIER_LIMIT_NS 2000000000ull /* time limit of a job */

#define COPIER_BURST_NS 20000000 /* most credit of a uid */

struct copier;
struct copier_area;

/* How long workers may wait for slow copies of one uid. Zero at first. Shared by workers. */
struct copier_credit {
	int64_t left_ns;
	uint64_t at_ns; /* of the last refill */
};

/* ---- daemon side ---- */

/*
 * Control thread. Create a copier that charges slow copies to credit, which outlives it. *shared:
 * descriptor of its area, to pass to the thread; the caller closes it. Returns 0 or -errno.
 */
int copier_create(struct copier_credit *credit, struct copier **out, int *shared);
/* Control thread. Create a new area after the thread was lost, for a new thread. 0 or -errno. */
int copier_renew(struct copier *c, int *shared);
/*
 * Control thread. Destroy c. No worker uses it any more, except for late operations and lent bytes,
 * until these are polled, forgotten or released. Its thread ends after its current job. Returns
 * true if the thread is blocked on its client's memory.
 */
bool copier_destroy(struct copier *c);

/*
 * Any thread. Is no abandoned job outstanding? Such a job may still store into the client's memory.
 */
bool copier_settled(const struct copier *c);

/*
 * Any worker. As in struct mem_ops. -EINVAL: all parts together have more than COPIER_BYTES, or
 * not as many as the sources.
 */
int copier_read(struct copier *c, uint64_t va, void *dst, uint32_t len);
/* Sets all of *lent but ops. */
int copier_lend(struct copier *c, const struct mem_part *part, uint32_t n, struct mem_lent *lent);
int copier_write_parts(struct copier *c, const struct mem_part *part, uint32_t n,
		       const struct mem_bytes *src, uint32_t nsrc, struct mem_late *late);
int copier_atomic(struct copier *c, uint64_t va, const struct mem_atomic *a, struct mem_late *late,
		  uint64_t *orig);
/* The same, when the copier may have been destroyed or renewed since. */
void copier_release(struct mem_lent *lent);
void copier_late_poll(struct mem_late *late);
void copier_late_forget(struct mem_late *late);

static inline int
copier_write(struct copier *c, uint64_t va, const void *src, uint32_t len, struct mem_late *late)
{
	struct mem_part part = {.va = va, .len = len};
	struct mem_bytes bytes = {.at = src, .len = len};

	return copier_write_parts(c, &part, 1, &bytes, 1, late);
}

/* ---- thread side ---- */

/* Map the area of a descriptor from copier_create. NULL with errno on failure. */
struct copier_area *copier_area_map(int shared);
void copier_area_unmap(struct copier_area *a);
/* Fail all jobs, because no thread will serve them. */
void copier_area_refuse(struct copier_area *a);
/* Returns true if the daemon has destroyed the copier. */
bool copier_area_closed(const struct copier_area *a);
/*
 * Returns true if an abandoned job is outstanding. *seen: 0 on the first call. Later calls report
 * on the job that was outstanding at the first call.
 */
bool copier_area_waits(const struct copier_area *a, uint64_t *seen);

/*
 * Serve the area until it is closed. mem: the open /proc/PID/mem. atomics: held during each atomic,
 * so that atomics of address spaces that share memory exclude each other. May block for as long as
 * the client likes.
 */
void copier_serve(struct copier_area *a, int mem, pthread_mutex_t *atomics);

/* Copy through /proc/PID/mem; may block. 0, -EFAULT, or -ESRCH: the address space is gone. */
int copier_mem_read(int mem, uint64_t va, void *dst, uint32_t len);
int copier_mem_write(int mem, uint64_t va, const void *src, uint32_t len);

#endif
