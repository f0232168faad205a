/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies from and to the memory of one address space, made by a thread that may wait for it.
 *
 * An access to /proc/PID/mem can wait for ever: for the server of a file system, or for an
 * mmap_lock that the client holds. A worker never waits like that. It puts the access, a job, into
 * memory that it shares with a thread of the broker (ipc/broker.h), one thread for each address
 * space, and waits for the result for a limited time. A job that is not done by then is taken back,
 * or left to itself if the thread has begun it; the worker gets -EAGAIN and does something else.
 *
 *   - While a job that was left is under way, all accesses to its address space get -EAGAIN, so
 *     later accesses come after it. After COPIER_LIMIT_NS they get -ETIMEDOUT.
 *   - The result of a job that was left and must not be executed twice (mem/mr.h, once) is kept for
 *     whoever asks again.
 *   - What workers wait for a copy under way, longer than one takes, is charged to the credit of
 *     the client's uid: a tenth of the time, COPIER_BURST_NS at once. Without credit there are no
 *     copies.
 *   - A thread that never answers, because its process is stopped or lost, is found out after
 *     COPIER_LIMIT_NS, too.
 *
 * No client sees the shared memory; what is in it is believed.
 * Includes: lib/mem/mr.h (struct mem_atomic). No DPDK.
 */
#ifndef UROCE_MAP_COPIER_H
#define UROCE_MAP_COPIER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "mem/mr.h"

#define COPIER_BYTES    4096u         /* of a job, at most */
#define COPIER_SLOTS    16u           /* jobs of an address space at a time */
#define COPIER_LIMIT_NS 2000000000ull /* that a job may take */
#define COPIER_BURST_NS 20000000      /* credit of a uid, at most */

struct copier;
struct copier_area;

/* How long workers may still wait for the copies of one uid. Zeroed at first; any worker's. */
struct copier_credit {
	int64_t left_ns;
	uint64_t at_ns; /* of the last refill */
};

/* ---- the daemon's side ---- */

/*
 * Control thread. A copier whose waits are charged to credit, which outlives it. *shared: the
 * descriptor of its area, to be given to the thread; the caller's to close. 0 or -errno.
 */
int copier_create(struct copier_credit *credit, struct copier **out, int *shared);
/* Control thread. The thread is lost: a new area, for another one. 0 or -errno. */
int copier_renew(struct copier *c, int *shared);
/*
 * Control thread. No worker uses c any more. Its thread ends when it has done what it does; true:
 * it waits for its client's memory.
 */
bool copier_destroy(struct copier *c);

/*
 * Any thread. Is no job under way that was left? Such a job may still store into the client's
 * memory.
 */
bool copier_settled(const struct copier *c);

/* Any worker, as struct mem_ops; len is at most COPIER_BYTES. */
int copier_read(struct copier *c, uint64_t va, void *dst, uint32_t len);
int copier_write(struct copier *c, uint64_t va, const void *src, uint32_t len, uint64_t once);
int copier_atomic(struct copier *c, uint64_t va, const struct mem_atomic *a, uint64_t once,
		  uint64_t *orig);

/* ---- the thread's side ---- */

/* The area behind a descriptor of copier_create; NULL and errno. */
struct copier_area *copier_area_map(int shared);
void copier_area_unmap(struct copier_area *a);
/* There is no thread: all that is asked fails. */
void copier_area_refuse(struct copier_area *a);
/* The daemon has destroyed the copier. */
bool copier_area_closed(const struct copier_area *a);
/*
 * Is a job under way that was left? *seen: 0 at first; the answer is for the job that was under way
 * then.
 */
bool copier_area_waits(const struct copier_area *a, uint64_t *seen);

/*
 * Serve the area until it is closed. mem: the open /proc/PID/mem. atomics: held for each atomic, so
 * that those of address spaces that share memory exclude each other. Blocks for as long as the
 * client likes.
 */
void copier_serve(struct copier_area *a, int mem, pthread_mutex_t *atomics);

/* Copy by /proc/PID/mem, for who may block. 0, -ESRCH: the address space is gone, or -EFAULT. */
int copier_mem_read(int mem, uint64_t va, void *dst, uint32_t len);
int copier_mem_write(int mem, uint64_t va, const void *src, uint32_t len);

#endif
