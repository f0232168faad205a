/* SPDX-License-Identifier: BSD-3-Clause */
/* Copier, daemon side. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "map/copier_area.h"
#include "map/copier_credit.h"
#include "mem/fate.h"

#define ABANDONED_BITS 32
#define KEEP_NS        2000000000u /* kept results are discarded after this time */
#define SILENT_ASKED   16u         /* withdrawn jobs before the thread counts as stuck .. */
#define SILENT_GAP     100000000u  /* .. with at most this time between them */

/* Workers' state of a slot. */
enum place_state {
	PLACE_FREE = 0,
	PLACE_USED, /* by a worker, or by an abandoned job */
	PLACE_KEPT, /* holds a result for a retry */
};
struct place {
	uint32_t state;    /* enum place_state; atomic */
	uint64_t once;     /* of the job; 0: its result is not kept */
	uint64_t since_ns; /* time when the job was abandoned, or its result kept */
};

/* One area and its slots. */
struct side {
	struct side *older; /* areas of lost threads: workers may still use them */
	struct copier_area *area;
	/*
	 * The abandoned, unsettled job: 1 + slot, and above ABANDONED_BITS the number of jobs
	 * abandoned before, so that another job of the slot is not taken for it. 0: none. Atomic.
	 */
	uint64_t abandoned;
	uint64_t nabandoned; /* atomic */
	uint32_t nkept;      /* atomic */
	struct place place[COPIER_SLOTS];
};

struct copier {
	struct side *side; /* atomic */
	struct copier_credit *credit;
	/* Consecutive withdrawn jobs. Not atomic: races between workers do little harm. */
	uint64_t silent_ns, silent_last_ns;
	uint32_t silent;
};

struct job {
	enum copy_op op;
	uint32_t n, len;
	const struct mem_part *part;
	uint64_t once;
	const struct mem_bytes *src;
	uint32_t nsrc;
	void *dst;
	const struct mem_atomic *atomic;
	uint64_t *orig;
};

/* ---- create and destroy ---- */

static void
side_free(struct side *s)
{
	if (s->area != NULL)
		copier_area_unmap(s->area);
	free(s);
}

static int
side_make(struct side **out, int *shared)
{
	struct side *s = calloc(1, sizeof(*s));
	int fd, err;

	if (s == NULL)
		return -ENOMEM;
	fd = memfd_create("uroced-copies", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, sizeof(*s->area)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		goto fail;
	s->area = copier_area_map(fd);
	if (s->area == NULL)
		goto fail;
	*out = s;
	*shared = fd;
	return 0;

fail:
	err = errno;
	if (fd >= 0)
		close(fd);
	side_free(s);
	return -err;
}

int
copier_create(struct copier_credit *credit, struct copier **out, int *shared)
{
	struct copier *c = calloc(1, sizeof(*c));
	int rc;

	if (c == NULL)
		return -ENOMEM;
	c->credit = credit;
	rc = side_make(&c->side, shared);
	if (rc < 0) {
		free(c);
		return rc;
	}
	*out = c;
	return 0;
}

static void
wake(struct copier_area *a)
{
	__atomic_add_fetch(&a->bell, 1, __ATOMIC_RELAXED);
	syscall(SYS_futex, &a->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The slot of side.abandoned, which is not 0. */
static uint32_t
abandoned_slot(uint64_t left)
{
	return (uint32_t)left - 1;
}

bool
copier_settled(const struct copier *c)
{
	const struct side *s = __atomic_load_n(&c->side, __ATOMIC_ACQUIRE);
	uint64_t left = __atomic_load_n(&s->abandoned, __ATOMIC_ACQUIRE);

	return left == 0 || __atomic_load_n(&s->area->slot[abandoned_slot(left)].state,
					    __ATOMIC_ACQUIRE) == COPY_OVER;
}

/* ---- places ---- */

static bool
place_claim(struct place *p, enum place_state from)
{
	uint32_t state = from;

	return __atomic_load_n(&p->state, __ATOMIC_RELAXED) == state &&
	       __atomic_compare_exchange_n(&p->state, &state, PLACE_USED, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static void
place_free(struct side *s, uint32_t i)
{
	__atomic_store_n(&s->area->slot[i].state, COPY_FREE, __ATOMIC_RELAXED);
	__atomic_store_n(&s->place[i].state, PLACE_FREE, __ATOMIC_RELEASE);
}

/* Returns a slot for a job, or -EAGAIN. */
static int
place_take(struct side *s, uint64_t now)
{
	for (uint32_t i = 0; i < COPIER_SLOTS; i++) {
		if (place_claim(&s->place[i], PLACE_FREE))
			return (int)i;
	}
	for (uint32_t i = 0; i < COPIER_SLOTS; i++) {
		struct place *p = &s->place[i];

		if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != PLACE_KEPT ||
		    now - p->since_ns < KEEP_NS || !place_claim(p, PLACE_KEPT))
			continue;
		__atomic_sub_fetch(&s->nkept, 1, __ATOMIC_RELAXED);
		return (int)i;
	}
	return -EAGAIN;
}

/* If j was executed after it was abandoned, moves its result to *rc and returns true. */
static bool
kept_take(struct side *s, const struct job *j, int *rc)
{
	if (j->once == 0 || __atomic_load_n(&s->nkept, __ATOMIC_RELAXED) == 0)
		return false;
	for (uint32_t i = 0; i < COPIER_SLOTS; i++) {
		struct place *p = &s->place[i];

		/* Numbers are unique. */
		if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != PLACE_KEPT ||
		    p->once != j->once || !place_claim(p, PLACE_KEPT))
			continue;
		*rc = s->area->slot[i].result;
		if (j->orig != NULL)
			*j->orig = s->area->slot[i].orig;
		if (*rc == 0 && s->area->slot[i].len != j->len)
			*rc = (int)s->area->slot[i].len;
		__atomic_sub_fetch(&s->nkept, 1, __ATOMIC_RELAXED);
		place_free(s, i);
		return true;
	}
	return false;
}

static void
record_fate(uint64_t once, int rc, const struct copy_slot *slot)
{
	struct mem_fate_result res = {.len = slot->len, .orig = slot->orig};

	mem_fate_end(once, rc, &res);
}

/* Settles the abandoned job. Returns 0 if there is none any more, else -EAGAIN or -ETIMEDOUT. */
static int
abandoned_settle(struct side *s, uint64_t now)
{
	uint64_t left = __atomic_load_n(&s->abandoned, __ATOMIC_ACQUIRE);
	struct place *p;
	uint32_t i;

	if (left == 0)
		return 0;
	i = abandoned_slot(left);
	p = &s->place[i];
	if (__atomic_load_n(&s->area->slot[i].state, __ATOMIC_ACQUIRE) != COPY_OVER)
		return now - p->since_ns >= COPIER_LIMIT_NS && now > p->since_ns ? -ETIMEDOUT
										 : -EAGAIN;
	if (!__atomic_compare_exchange_n(&s->abandoned, &left, 0, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return -EAGAIN; /* another worker settles it */
	if (p->once == 0) {
		place_free(s, i);
		return 0;
	}
	record_fate(p->once, s->area->slot[i].result, &s->area->slot[i]);
	p->since_ns = now;
	__atomic_add_fetch(&s->nkept, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&p->state, PLACE_KEPT, __ATOMIC_RELEASE);
	return 0;
}

/* Settles the abandoned job of s before s goes. A job that is not over counts as not executed. */
static void
side_settle(struct side *s)
{
	uint64_t left = __atomic_load_n(&s->abandoned, __ATOMIC_ACQUIRE);
	uint32_t i = abandoned_slot(left);

	if (left == 0 || abandoned_settle(s, copier_now_ns()) == 0 || s->place[i].once == 0)
		return;
	record_fate(s->place[i].once, -EAGAIN, &s->area->slot[i]);
}

int
copier_renew(struct copier *c, int *shared)
{
	struct side *s;
	int rc = side_make(&s, shared);

	if (rc < 0)
		return rc;
	s->older = c->side;
	__atomic_store_n(&c->side, s, __ATOMIC_RELEASE);
	side_settle(s->older);
	return 0;
}

int
copier_settle(struct copier *c)
{
	return abandoned_settle(__atomic_load_n(&c->side, __ATOMIC_ACQUIRE), copier_now_ns());
}

bool
copier_destroy(struct copier *c)
{
	bool waits = !copier_settled(c);
	struct side *s;

	while ((s = c->side) != NULL) {
		c->side = s->older;
		side_settle(s);
		__atomic_store_n(&s->area->closed, 1, __ATOMIC_RELEASE);
		wake(s->area);
		side_free(s);
	}
	free(c);
	return waits;
}

/* ---- a job ---- */

static void
put_job(struct side *s, uint32_t i, const struct job *j)
{
	struct copy_slot *slot = &s->area->slot[i];

	s->place[i].once = j->once;
	slot->op = j->op;
	slot->n = j->n;
	slot->len = j->len;
	memcpy(slot->part, j->part, j->n * sizeof(*j->part));
	slot->waits = 0;
	slot->cpu = (uint32_t)sched_getcpu();
	slot->begun_ns = 0;
	slot->ended_ns = 0;
	if (j->op == COPY_WRITE)
		mem_bytes_join(s->area->bytes[i], j->src, j->nsrc);
	else if (j->op == COPY_ATOMIC)
		slot->atomic = *j->atomic;
	__atomic_store_n(&slot->state, COPY_ASKED, __ATOMIC_RELEASE);
	/* Partner: copier_serve.c, sleep_on_bell. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->area->asleep, __ATOMIC_RELAXED) != 0)
		wake(s->area);
}

static bool
slot_move(struct copy_slot *slot, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&slot->state, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/*
 * Abandon the slot's job. user: as for mem_fate_begin. Returns true if it is done after all.
 * s->abandoned is set before the state, because the thread may then begin another job, which may be
 * abandoned, too.
 */
static bool
job_abandon(struct side *s, uint32_t i, uint64_t now, const void *user)
{
	uint64_t number = __atomic_fetch_add(&s->nabandoned, 1, __ATOMIC_RELAXED);
	uint64_t self = number << ABANDONED_BITS | (i + 1), none = 0;
	uint64_t once = s->place[i].once;

	s->place[i].since_ns = now;
	while (!__atomic_compare_exchange_n(&s->abandoned, &none, self, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED)) {
		abandoned_settle(s, now); /* that job is over, because this one has begun */
		none = 0;
	}
	/* Before the state: another worker may settle the job as soon as that is set. */
	if (once != 0)
		mem_fate_begin(once, user);
	if (slot_move(&s->area->slot[i], COPY_BEGUN, COPY_ABANDONED))
		return false;
	if (once != 0)
		record_fate(once, -EAGAIN, &s->area->slot[i]); /* its caller has the result */
	__atomic_store_n(&s->abandoned, 0, __ATOMIC_RELEASE);
	return true;
}

/* A job was withdrawn because the thread did not begin it. */
static int
job_unserved(struct copier *c, uint64_t now)
{
	if (c->silent == 0 || now - c->silent_last_ns > SILENT_GAP) {
		c->silent_ns = now;
		c->silent = 0;
	}
	c->silent_last_ns = now;
	if (++c->silent < SILENT_ASKED || now - c->silent_ns < COPIER_LIMIT_NS)
		return -EAGAIN;
	return -ETIMEDOUT;
}

static int
take_result(struct side *s, uint32_t i, const struct job *j)
{
	const struct copy_slot *slot = &s->area->slot[i];
	int rc = slot->result;

	if (rc == 0 && j->op == COPY_READ)
		memcpy(j->dst, s->area->bytes[i], j->len);
	else if (rc == 0 && j->op == COPY_ATOMIC)
		*j->orig = slot->orig;
	place_free(s, i);
	return rc;
}

static int
do_job(struct copier *c, const struct job *j)
{
	struct side *s = __atomic_load_n(&c->side, __ATOMIC_ACQUIRE);
	uint64_t now = copier_now_ns();
	int rc = abandoned_settle(s, now), i;
	int64_t credit, cost;
	bool done;

	if (kept_take(s, j, &rc) || rc != 0)
		return rc;
	if (__atomic_load_n(&s->area->refused, __ATOMIC_ACQUIRE) != 0)
		return -ENOMEM;
	credit = credit_left(c->credit, now);
	if (credit <= 0)
		return -EAGAIN;
	i = place_take(s, now);
	if (i < 0)
		return i;
	put_job(s, (uint32_t)i, j);
	done = copier_await(s->area, &s->area->slot[i], credit_wait_ns(credit, j->len), &now,
			    &cost);
	credit_charge(c->credit, cost, j->len);
	if (!done && slot_move(&s->area->slot[i], COPY_ASKED, COPY_FREE)) {
		place_free(s, (uint32_t)i);
		return job_unserved(c, now);
	}
	c->silent = 0;
	if (!done && !job_abandon(s, (uint32_t)i, now, c->credit))
		return -EAGAIN;
	return take_result(s, (uint32_t)i, j);
}

/* Sets the parts of j and executes it. */
static int
do_parts(struct copier *c, struct job *j, const struct mem_part *part, uint32_t n)
{
	uint64_t given = 0;

	if (n == 0 || n > MEM_MAX_PARTS)
		return -EINVAL;
	j->part = part;
	j->n = n;
	j->len = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (part[i].len > COPIER_BYTES - j->len)
			return -EINVAL;
		j->len += part[i].len;
	}
	for (uint32_t i = 0; i < j->nsrc; i++)
		given += j->src[i].len;
	if (j->op == COPY_WRITE && given != j->len)
		return -EINVAL;
	return do_job(c, j);
}

int
copier_read_parts(struct copier *c, const struct mem_part *part, uint32_t n, void *dst)
{
	struct job j = {.op = COPY_READ, .dst = dst};

	return do_parts(c, &j, part, n);
}

int
copier_write_parts(struct copier *c, const struct mem_part *part, uint32_t n,
		   const struct mem_bytes *src, uint32_t nsrc, uint64_t once)
{
	struct job j = {.op = COPY_WRITE, .once = once, .src = src, .nsrc = nsrc};

	return do_parts(c, &j, part, n);
}

int
copier_atomic(struct copier *c, uint64_t va, const struct mem_atomic *a, uint64_t once,
	      uint64_t *orig)
{
	struct mem_part part = {.va = va, .len = sizeof(*orig)};
	struct job j = {.op = COPY_ATOMIC, .once = once, .atomic = a, .orig = orig};

	return do_parts(c, &j, &part, 1);
}
