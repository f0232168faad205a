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
#include "mem/fate.h"
#include "sched/relax.h"

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

/* ---- a worker's wait for a job ---- */

#define WAIT_ALL_NS 10000000u /* limit including time in which other threads ran */
#define SPIN_NS     2000      /* spin before sleeping, if the thread is not urgent */
#define NAP_NS      1000000   /* longest sleep */
#define LOOK_NS     5000u /* most time charged between two polls; other threads ran in the rest */
#define SPINS       8u    /* polls per clock read */

static void
sleep_on_slot(struct copy_slot *slot, uint32_t state)
{
	const struct timespec limit = {.tv_nsec = NAP_NS};

	__atomic_store_n(&slot->waits, 1, __ATOMIC_RELAXED);
	/* Partner: copier_serve.c, serve_slot. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	syscall(SYS_futex, &slot->state, FUTEX_WAIT, state, &limit, NULL, 0);
}

/* The part of the last took_ns, in which the worker slept, during which the thread had the job. */
static int64_t
begun_part(const struct copy_slot *slot, uint64_t now, uint64_t took_ns)
{
	uint64_t begun = __atomic_load_n(&slot->begun_ns, __ATOMIC_RELAXED);
	uint64_t ended = __atomic_load_n(&slot->ended_ns, __ATOMIC_RELAXED);

	if (ended == 0)
		ended = now;
	if (begun == 0 || begun >= ended)
		return 0;
	return (int64_t)(ended - begun < took_ns ? ended - begun : took_ns);
}

/*
 * Worker. Wait until the slot's job is done or limit_ns have been charged. *now: the current time,
 * updated; *cost_ns: the time to charge. Not charged are the time before the thread begins the job
 * and the excess of long gaps between two polls: neither is caused by the client's memory. A thread
 * on the worker's CPU can only run while the worker does not, so the worker sleeps at once.
 */
static bool
copier_await(const struct copier_area *a, struct copy_slot *slot, int64_t limit_ns, uint64_t *now,
	     int64_t *cost_ns)
{
	bool urgent = __atomic_load_n(&a->urgent, __ATOMIC_RELAXED) != 0, slept = false;
	bool here = __atomic_load_n(&a->bound, __ATOMIC_RELAXED) == slot->cpu + 1;
	uint64_t from = *now, took;
	uint32_t state = COPY_ASKED, before;

	*cost_ns = 0;
	for (uint32_t n = 1;; n++) {
		before = state;
		state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
		if (state != COPY_DONE && n % SPINS != 0 && !slept && !here) {
			sched_relax();
			continue;
		}
		took = copier_now_ns() - *now;
		*now += took;
		if (before == COPY_BEGUN)
			*cost_ns += (int64_t)(slept || took < LOOK_NS ? took : LOOK_NS);
		else if (slept)
			*cost_ns += begun_part(slot, *now, took);
		if (state == COPY_DONE)
			return true;
		if (*cost_ns >= limit_ns || *now - from >= WAIT_ALL_NS)
			return false;
		slept = !urgent && (here || *now - from >= SPIN_NS);
		if (slept)
			sleep_on_slot(slot, state);
	}
}

/* ---- the credit of a uid: how long workers may wait for its copies ---- */

#define FREE_NS     3000    /* not charged per wait and FREE_BYTES: about the time of a copy */
#define FREE_BYTES  4096u   /* whatever the size of a page */
#define WAIT_MIN_NS 5000    /* shortest wait limit, with hardly any credit */
#define WAIT_MAX_NS 2000000 /* longest wait limit: a core may be busy for this long */
#define REFILL_NS   100000u /* interval of credit refills .. */
#define REFILL_PART 10u     /* .. each by this part of the elapsed time */

/* Any worker. The credit at now (CLOCK_MONOTONIC), after a refill if one is due. May be below 0. */
static int64_t
credit_left(struct copier_credit *c, uint64_t now)
{
	uint64_t at = __atomic_load_n(&c->at_ns, __ATOMIC_RELAXED);
	int64_t left = __atomic_load_n(&c->left_ns, __ATOMIC_RELAXED), more;

	if (now - at < REFILL_NS ||
	    !__atomic_compare_exchange_n(&c->at_ns, &at, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return left;
	more = (int64_t)((now - at) / REFILL_PART);
	if (more > COPIER_BURST_NS - left)
		more = COPIER_BURST_NS - left;
	return __atomic_add_fetch(&c->left_ns, more, __ATOMIC_RELAXED);
}

/* The part of the wait for a job that is not charged. */
static int64_t
free_ns(uint32_t len)
{
	return len <= FREE_BYTES ? FREE_NS
				 : FREE_NS * (int64_t)((len + FREE_BYTES - 1) / FREE_BYTES);
}

static int64_t
wait_limit(int64_t credit_ns)
{
	if (credit_ns < WAIT_MIN_NS)
		return WAIT_MIN_NS;
	return credit_ns < WAIT_MAX_NS ? credit_ns : WAIT_MAX_NS;
}

/* How long a worker may wait for a job of len bytes that has begun. left: from credit_left, > 0. */
static int64_t
credit_wait_ns(int64_t left, uint32_t len)
{
	return wait_limit(left) + free_ns(len) - FREE_NS;
}

/* Any worker. Charges what a wait of waited_ns took longer than a usual copy of len bytes. */
static void
credit_charge(struct copier_credit *c, int64_t waited_ns, uint32_t len)
{
	int64_t cost_ns = waited_ns - free_ns(len);

	if (cost_ns > 0)
		__atomic_sub_fetch(&c->left_ns, cost_ns, __ATOMIC_RELAXED);
}

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
