/* SPDX-License-Identifier: BSD-3-Clause */
/* Copier, thread side. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "map/copier_area.h"
#include "mem/store.h"
#include "sched/waiting.h"

#define FOLLOW_JOBS 4u /* in a row from another CPU, before the thread follows */

/* The last CPU that is not the thread's, and the jobs in a row from there. */
struct follow {
	uint32_t cpu, jobs;
};

struct copier_area *
copier_area_map(int shared)
{
	void *p = mmap(NULL, sizeof(struct copier_area), PROT_READ | PROT_WRITE, MAP_SHARED, shared,
		       0);

	return p != MAP_FAILED ? p : NULL;
}

void
copier_area_unmap(struct copier_area *a)
{
	munmap(a, sizeof(*a));
}

void
copier_area_refuse(struct copier_area *a)
{
	__atomic_store_n(&a->refused, 1, __ATOMIC_RELEASE);
}

bool
copier_area_closed(const struct copier_area *a)
{
	return __atomic_load_n(&a->closed, __ATOMIC_ACQUIRE) != 0;
}

bool
copier_area_waits(const struct copier_area *a, uint64_t *seen)
{
	uint64_t begun = __atomic_load_n(&a->begun, __ATOMIC_ACQUIRE);

	if (*seen == 0)
		*seen = begun;
	if (*seen != begun)
		return false;
	for (uint32_t i = 0; i < COPIER_SLOTS; i++) {
		if (__atomic_load_n(&a->slot[i].state, __ATOMIC_ACQUIRE) == COPY_ABANDONED)
			return true;
	}
	return false;
}

int
copier_mem_read(int mem, uint64_t va, void *dst, uint32_t len)
{
	uint8_t *to = dst;

	while (len > 0) {
		ssize_t n = pread(mem, to, len, (off_t)va);

		if (n <= 0)
			return n == 0 ? -ESRCH : -EFAULT;
		to += n;
		va += (uint64_t)n;
		len -= (uint32_t)n;
	}
	return 0;
}

/*
 * Bytes at the end of a write that are stored last: an aligned word of 8 or 4 bytes, or the last
 * byte. The kernel stores such a word at once, but may store the second of 2 bytes first.
 */
static uint32_t
last_word(uint64_t end, uint32_t len)
{
	if (end % 8 == 0 && len >= 8)
		return 8;
	return end % 4 == 0 && len >= 4 ? 4 : 1;
}

/*
 * Splits a write of len bytes to va into vectors, which the kernel writes one after the other: all
 * but the last MEM_STORE_TAIL bytes, the rest of these, and the last word (mem/store.h). Within a
 * vector the kernel stores in any order. Returns the number of vectors.
 */
static int
write_split(uint64_t va, const uint8_t *from, uint32_t len, struct iovec *v)
{
	uint32_t part[3], n = 0;

	part[2] = last_word(va + len, len);
	part[1] = (len < MEM_STORE_TAIL ? len : MEM_STORE_TAIL) - part[2];
	part[0] = len - part[1] - part[2];
	for (uint32_t i = 0; i < 3; i++) {
		if (part[i] == 0)
			continue;
		v[n++] = (struct iovec){.iov_base = (void *)from, .iov_len = part[i]};
		from += part[i];
	}
	return (int)n;
}

int
copier_mem_write(int mem, uint64_t va, const void *src, uint32_t len)
{
	const uint8_t *from = src;
	struct iovec v[3];

	while (len > 0) {
		ssize_t n = pwritev(mem, v, write_split(va, from, len, v), (off_t)va);

		if (n <= 0)
			return n == 0 ? -ESRCH : -EFAULT;
		from += n;
		va += (uint64_t)n;
		len -= (uint32_t)n;
	}
	return 0;
}

static int
execute_atomic(int mem, struct copy_slot *s)
{
	const struct mem_atomic *a = &s->atomic;
	uint64_t va = s->part[0].va, next;
	int rc = copier_mem_read(mem, va, &s->orig, sizeof(s->orig));

	if (rc != 0 || (a->swap && s->orig != a->compare))
		return rc;
	next = a->swap ? a->value : s->orig + a->value;
	return copier_mem_write(mem, va, &next, sizeof(next));
}

static int
execute_parts(int mem, const struct copy_slot *s, uint8_t *bytes)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < s->n; i++) {
		const struct mem_part *p = &s->part[i];

		rc = s->op == COPY_READ ? copier_mem_read(mem, p->va, bytes, p->len)
					: copier_mem_write(mem, p->va, bytes, p->len);
		bytes += p->len;
	}
	return rc;
}

static int
execute(int mem, struct copy_slot *s, uint8_t *bytes, pthread_mutex_t *atomics)
{
	int rc;

	switch (s->op) {
	case COPY_READ:
	case COPY_WRITE:
		return execute_parts(mem, s, bytes);
	case COPY_ATOMIC:
		pthread_mutex_lock(atomics);
		rc = execute_atomic(mem, s);
		pthread_mutex_unlock(atomics);
		return rc;
	}
	return -EINVAL;
}

/* Returns true if the slot had a job. *cpu: its worker's. */
static bool
serve_slot(struct copier_area *a, uint32_t i, int mem, pthread_mutex_t *atomics, uint32_t *cpu)
{
	struct copy_slot *s = &a->slot[i];
	uint32_t state = COPY_ASKED;

	if (__atomic_load_n(&s->state, __ATOMIC_RELAXED) != COPY_ASKED ||
	    !__atomic_compare_exchange_n(&s->state, &state, COPY_BEGUN, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&s->begun_ns, copier_now_ns(), __ATOMIC_RELAXED);
	__atomic_add_fetch(&a->begun, 1, __ATOMIC_RELEASE);
	*cpu = s->cpu;
	s->result = execute(mem, s, a->bytes[i], atomics);
	__atomic_store_n(&s->ended_ns, copier_now_ns(), __ATOMIC_RELAXED);
	state = COPY_BEGUN;
	if (!__atomic_compare_exchange_n(&s->state, &state, COPY_DONE, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		__atomic_store_n(&s->state, COPY_OVER, __ATOMIC_RELEASE);
	/* Partner: copier.c, sleep_on_slot. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->waits, __ATOMIC_RELAXED) != 0)
		syscall(SYS_futex, &s->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return true;
}

/*
 * Binds the thread to the CPU of its worker. The worker sleeps during a copy, so its CPU is free. A
 * wake-up on the same CPU needs no interrupt of another one, which costs more than the copy on a
 * virtual machine, and the data stays in the CPU's caches. The thread follows a worker that moves
 * after FOLLOW_JOBS jobs, because several workers may share it. An urgent thread stays free: its
 * worker spins.
 */
static void
follow(struct copier_area *a, struct follow *f, uint32_t cpu)
{
	cpu_set_t set;

	if (__atomic_load_n(&a->urgent, __ATOMIC_RELAXED) != 0 || cpu + 1 == a->bound) {
		f->jobs = 0;
		return;
	}
	f->jobs = cpu == f->cpu ? f->jobs + 1 : 1;
	f->cpu = cpu;
	if (f->jobs < FOLLOW_JOBS || cpu >= CPU_SETSIZE)
		return;
	f->jobs = 0;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) == 0)
		__atomic_store_n(&a->bound, cpu + 1, __ATOMIC_RELAXED);
}

static bool
serve_all(struct copier_area *a, int mem, pthread_mutex_t *atomics, struct follow *f)
{
	bool any = false;
	uint32_t cpu;

	for (uint32_t i = 0; i < COPIER_SLOTS; i++) {
		if (!serve_slot(a, i, mem, atomics, &cpu))
			continue;
		follow(a, f, cpu);
		any = true;
	}
	return any;
}

/* Sleeps until woken. Polls once more first, for jobs put before asleep was visible. */
static void
sleep_on_bell(struct copier_area *a, int mem, pthread_mutex_t *atomics, struct follow *f)
{
	uint32_t bell = __atomic_load_n(&a->bell, __ATOMIC_RELAXED);

	__atomic_store_n(&a->asleep, 1, __ATOMIC_RELAXED);
	/* Partner: copier.c, put_job. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!serve_all(a, mem, atomics, f) && !copier_area_closed(a))
		syscall(SYS_futex, &a->bell, FUTEX_WAIT, bell, NULL, NULL, 0);
	__atomic_store_n(&a->asleep, 0, __ATOMIC_RELAXED);
}

/*
 * The thread sleeps whenever it has nothing to do. If it is urgent, it gets a core at once when
 * woken. If not, spinning might take the very core that the worker needs.
 */
void
copier_serve(struct copier_area *a, int mem, pthread_mutex_t *atomics)
{
	struct follow f = {0};

	__atomic_store_n(&a->urgent, sched_urgent(), __ATOMIC_RELAXED);
	while (!copier_area_closed(a)) {
		if (!serve_all(a, mem, atomics, &f))
			sleep_on_bell(a, mem, atomics, &f);
	}
}
