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
#include "mem/late.h"
#include "sched/waiting.h"

#define ABANDONED_BITS 32
#define SILENT_ASKED   16u        /* withdrawn jobs before the thread counts as stuck .. */
#define SILENT_GAP     100000000u /* .. with at most this time between them */

/* Workers' state of a slot. An abandoned job's number is above PLACE_BITS. */
enum place_state {
	PLACE_FREE = 0,
	PLACE_USED,  /* by a worker */
	PLACE_LEFT,  /* abandoned: freed when it is over */
	PLACE_OWNED, /* abandoned: freed when it is over and its owner has the result (mem/late.h)
		      */
};
#define PLACE_BITS 2

/* One area and its slots. */
struct side {
	struct copier *of;
	struct side *older; /* areas of lost threads: workers may still use them */
	struct copier_area *area;
	/*
	 * The abandoned, unsettled job: 1 + slot, and above ABANDONED_BITS the number of jobs
	 * abandoned before, so that another job of the slot is not taken for it. 0: none. Atomic.
	 */
	uint64_t abandoned;
	uint64_t nabandoned;             /* atomic */
	uint64_t place[COPIER_SLOTS];    /* number << PLACE_BITS | enum place_state; atomic */
	uint64_t since_ns[COPIER_SLOTS]; /* time when the job was abandoned; atomic */
};

struct copier {
	struct side *side; /* atomic */
	struct copier_credit *credit;
	uint32_t owners; /* late operations and lent bytes that refer to it; atomic */
	uint32_t dead;   /* destroyed; atomic */
	struct copier *next;
	/* Consecutive withdrawn jobs. Not atomic: races between workers do little harm. */
	uint64_t silent_ns, silent_last_ns;
	uint32_t silent;
};

struct job {
	enum copy_op op;
	uint32_t n, len;
	const struct mem_part *part;
	struct mem_late *late;
	const struct mem_bytes *src;
	uint32_t nsrc;
	void *dst; /* COPY_READ: one of these */
	struct mem_lent *lent;
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
side_make(struct copier *c, struct side **out, int *shared)
{
	struct side *s = calloc(1, sizeof(*s));
	int fd, err;

	if (s == NULL)
		return -ENOMEM;
	s->of = c;
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
	rc = side_make(c, &c->side, shared);
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

static void
place_set(struct side *s, uint32_t i, uint64_t number, enum place_state state)
{
	__atomic_store_n(&s->place[i], number << PLACE_BITS | state, __ATOMIC_RELEASE);
}

static bool
place_move(struct side *s, uint32_t i, uint64_t number, enum place_state from, enum place_state to)
{
	uint64_t was = number << PLACE_BITS | from;

	return __atomic_load_n(&s->place[i], __ATOMIC_RELAXED) == was &&
	       __atomic_compare_exchange_n(&s->place[i], &was, number << PLACE_BITS | to, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void
place_free(struct side *s, uint32_t i)
{
	__atomic_store_n(&s->area->slot[i].state, COPY_FREE, __ATOMIC_RELAXED);
	place_set(s, i, 0, PLACE_FREE);
}

/* Returns a slot for a job: one of the first, if it is to be lent. Otherwise -EAGAIN, -ENOBUFS. */
static int
place_take(struct side *s, bool lent)
{
	for (uint32_t i = lent ? COPIER_LENT : COPIER_SLOTS; i-- != 0;) {
		if (place_move(s, i, 0, PLACE_FREE, PLACE_USED))
			return (int)i;
	}
	return lent ? -ENOBUFS : -EAGAIN;
}

/* The slot's job with this number is over and settled. Frees the slot if nobody owns the job. */
static void
place_settled(struct side *s, uint32_t i, uint64_t number)
{
	if (place_move(s, i, number, PLACE_LEFT, PLACE_USED))
		place_free(s, i);
}

/* Settles the abandoned job. Returns 0 if there is none any more, else -EAGAIN or -ETIMEDOUT. */
static int
abandoned_settle(struct side *s, uint64_t now)
{
	uint64_t left = __atomic_load_n(&s->abandoned, __ATOMIC_ACQUIRE), since;
	uint32_t i;

	if (left == 0)
		return 0;
	i = abandoned_slot(left);
	since = __atomic_load_n(&s->since_ns[i], __ATOMIC_RELAXED);
	if (__atomic_load_n(&s->area->slot[i].state, __ATOMIC_ACQUIRE) != COPY_OVER)
		return now - since >= COPIER_LIMIT_NS && now > since ? -ETIMEDOUT : -EAGAIN;
	if (!__atomic_compare_exchange_n(&s->abandoned, &left, 0, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return -EAGAIN; /* another worker settles it */
	/* Partner: copier_late_forget. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	place_settled(s, i, left >> ABANDONED_BITS);
	return 0;
}

int
copier_renew(struct copier *c, int *shared)
{
	struct side *s;
	int rc = side_make(c, &s, shared);

	if (rc < 0)
		return rc;
	s->older = c->side;
	__atomic_store_n(&c->side, s, __ATOMIC_RELEASE);
	return 0;
}

/* Frees the destroyed copiers that nothing refers to. */
static void
dead_free(struct copier **first)
{
	struct copier *c;
	struct side *s;

	while ((c = *first) != NULL) {
		if (__atomic_load_n(&c->owners, __ATOMIC_ACQUIRE) != 0) {
			first = &c->next;
			continue;
		}
		*first = c->next;
		while ((s = c->side) != NULL) {
			c->side = s->older;
			side_free(s);
		}
		free(c);
	}
}

bool
copier_destroy(struct copier *c)
{
	static struct copier *dead;
	bool waits = !copier_settled(c);

	for (struct side *s = c->side; s != NULL; s = s->older) {
		__atomic_store_n(&s->area->closed, 1, __ATOMIC_RELEASE);
		wake(s->area);
	}
	__atomic_store_n(&c->dead, 1, __ATOMIC_RELAXED);
	c->next = dead;
	dead = c;
	dead_free(&dead);
	return waits;
}

/* ---- late operations ---- */

/* The number of the abandoned job in a place. */
static uint64_t
place_number(const struct side *s, uint32_t i)
{
	return __atomic_load_n(&s->place[i], __ATOMIC_RELAXED) >> PLACE_BITS;
}

/* late no longer refers to its copier. */
static void
late_end(struct mem_late *late, enum mem_late_state state)
{
	struct side *s = late->at;

	late->state = state;
	__atomic_sub_fetch(&s->of->owners, 1, __ATOMIC_RELEASE);
}

void
copier_late_poll(struct mem_late *late)
{
	struct side *s = late->at;
	const struct copy_slot *slot = &s->area->slot[late->slot];
	uint64_t now = copier_now_ns();
	bool good;

	if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == COPY_OVER) {
		(void)abandoned_settle(s, now);
		late->orig = slot->orig;
		good = slot->result == 0;
		place_free(s, late->slot);
		late_end(late, good ? MEM_LATE_DONE : MEM_LATE_NONE);
	} else if (__atomic_load_n(&s->of->dead, __ATOMIC_RELAXED) != 0 ||
		   __atomic_load_n(&s->of->side, __ATOMIC_RELAXED) != s) {
		late_end(late, MEM_LATE_NONE);
	} else if (now - late->since_ns >= COPIER_LIMIT_NS && now > late->since_ns) {
		late->rc = -ETIMEDOUT;
	}
}

void
copier_late_forget(struct mem_late *late)
{
	struct side *s = late->at;
	uint64_t number = place_number(s, late->slot);

	place_move(s, late->slot, number, PLACE_OWNED, PLACE_LEFT);
	/*
	 * If the job was settled before, nobody else frees the slot. Partner: abandoned_settle. The
	 * fences make sure that at least one of the two sees what the other has done.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->abandoned, __ATOMIC_ACQUIRE) !=
	    (number << ABANDONED_BITS | (late->slot + 1)))
		place_settled(s, late->slot, number);
	late_end(late, MEM_LATE_NONE);
}

/* ---- a worker's wait for a job ---- */

#define WAIT_ALL_NS 10000000u /* limit including time in which other threads ran */
#define SPIN_NS     2000      /* spin before sleeping, if the thread is not urgent */
#define NAP_NS      50000     /* longest sleep */
#define LOOK_NS     5000u /* most time counted between two polls; other threads ran in the rest */
#define SPINS       8u    /* polls per clock read */

#define COPY_NS     20000 /* for which a worker waits for every copy .. */
#define PAGE_NS     3000  /* .. and for each .. */
#define PAGE_BYTES  4096u /* .. this many bytes, whatever the size of a page */

/* More than the thread usually takes to copy len bytes. */
static int64_t
usual_ns(uint32_t len)
{
	return COPY_NS + PAGE_NS * (int64_t)((len + PAGE_BYTES - 1) / PAGE_BYTES);
}

#define SLOW_NS     2000000 /* longest wait for a slow copy */
#define REFILL_NS   100000u /* interval of credit refills .. */
#define REFILL_PART 200u    /* .. each by this part of the elapsed time */

/* Any worker. The credit at now (CLOCK_MONOTONIC), after a refill if one is due. May be below 0. */
static int64_t
credit_left(struct copier_credit *c, uint64_t now)
{
	uint64_t at = __atomic_load_n(&c->at_ns, __ATOMIC_RELAXED);
	int64_t left = __atomic_load_n(&c->left_ns, __ATOMIC_RELAXED), more;

	/* now may be before at: another worker was here in between */
	if (now < at + REFILL_NS ||
	    !__atomic_compare_exchange_n(&c->at_ns, &at, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return left;
	more = (int64_t)((now - at) / REFILL_PART);
	if (more > COPIER_BURST_NS - left)
		more = COPIER_BURST_NS - left;
	return __atomic_add_fetch(&c->left_ns, more, __ATOMIC_RELAXED);
}

/* How long a worker may wait for a slow copy. */
static int64_t
slow_ns(struct copier_credit *c, uint64_t now)
{
	int64_t left = credit_left(c, now);

	if (left <= 0)
		return 0;
	return left < SLOW_NS ? left : SLOW_NS;
}

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
 * Worker. Wait until the slot's job is done, for as long as such a job usually takes and, on
 * credit, a slow one. *now: the current time, updated. Not counted are the time before the thread
 * begins the job and the excess of long gaps between two polls: neither is caused by the client's
 * memory. A thread on the worker's CPU can only run while the worker does not, so the worker sleeps
 * at once. Returns false if the job is not done. It will not begin soon if the thread has an
 * abandoned one.
 */
static bool
copier_await(struct side *s, struct copy_slot *slot, struct copier_credit *credit, uint64_t *now)
{
	const struct copier_area *a = s->area;
	bool urgent = __atomic_load_n(&a->urgent, __ATOMIC_RELAXED) != 0, slept = false;
	bool here = __atomic_load_n(&a->bound, __ATOMIC_RELAXED) == slot->cpu + 1;
	int64_t slow = slow_ns(credit, *now), left_ns = usual_ns(slot->len) + slow;
	uint64_t from = *now, took;
	uint32_t state = COPY_ASKED, before;

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
			left_ns -= (int64_t)(slept || took < LOOK_NS ? took : LOOK_NS);
		else if (slept)
			left_ns -= begun_part(slot, *now, took);
		if (state == COPY_DONE || left_ns <= 0 || *now - from >= WAIT_ALL_NS ||
		    (state == COPY_ASKED && abandoned_settle(s, *now) != 0))
			break;
		slept = !urgent && (here || *now - from >= SPIN_NS);
		if (slept)
			sleep_on_slot(slot, state);
	}
	if (left_ns < slow)
		__atomic_sub_fetch(&credit->left_ns, slow - left_ns, __ATOMIC_RELAXED);
	return state == COPY_DONE;
}

/* ---- a job ---- */

static void
put_job(struct side *s, uint32_t i, const struct job *j)
{
	struct copy_slot *slot = &s->area->slot[i];

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
 * Abandon the slot's job. owned: its result is needed. Returns true if it is done after all.
 * s->abandoned is set before the state, because the thread may then begin another job, which may be
 * abandoned, too.
 */
static bool
job_abandon(struct side *s, uint32_t i, uint64_t now, bool owned)
{
	uint64_t number = (uint32_t)__atomic_add_fetch(&s->nabandoned, 1, __ATOMIC_RELAXED);
	uint64_t self = number << ABANDONED_BITS | (i + 1), none = 0;

	__atomic_store_n(&s->since_ns[i], now, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&s->abandoned, &none, self, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED)) {
		abandoned_settle(s, now); /* that job is over, because this one has begun */
		none = 0;
	}
	/* Before the state: another worker may settle the job as soon as that is set. */
	place_set(s, i, number, owned ? PLACE_OWNED : PLACE_LEFT);
	if (slot_move(&s->area->slot[i], COPY_BEGUN, COPY_ABANDONED))
		return false;
	__atomic_store_n(&s->abandoned, 0, __ATOMIC_RELEASE);
	place_set(s, i, 0, PLACE_USED);
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

	if (rc == 0 && j->lent != NULL) {
		*j->lent = (struct mem_lent){.bytes = s->area->bytes[i], .at = s, .slot = i};
		__atomic_add_fetch(&s->of->owners, 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (rc == 0 && j->op == COPY_READ)
		memcpy(j->dst, s->area->bytes[i], j->len);
	else if (rc == 0 && j->op == COPY_ATOMIC)
		*j->orig = slot->orig;
	place_free(s, i);
	return rc;
}

/* The job was abandoned, and late is to get its result. */
static void
late_begin(struct mem_late *late, struct side *s, uint32_t i, uint64_t now)
{
	*late = (struct mem_late){.state = MEM_LATE_PENDING, .at = s, .slot = i, .since_ns = now};
	__atomic_add_fetch(&s->of->owners, 1, __ATOMIC_RELAXED);
}

static int
do_job(struct copier *c, const struct job *j)
{
	struct side *s = __atomic_load_n(&c->side, __ATOMIC_ACQUIRE);
	uint64_t now = copier_now_ns();
	int rc = abandoned_settle(s, now), i;
	bool done;

	if (rc != 0)
		return rc;
	if (__atomic_load_n(&s->area->refused, __ATOMIC_ACQUIRE) != 0)
		return -ENOMEM;
	i = place_take(s, j->lent != NULL);
	if (i < 0)
		return i;
	put_job(s, (uint32_t)i, j);
	done = copier_await(s, &s->area->slot[i], c->credit, &now);
	if (!done && slot_move(&s->area->slot[i], COPY_ASKED, COPY_FREE)) {
		place_free(s, (uint32_t)i);
		return job_unserved(c, now);
	}
	c->silent = 0;
	if (!done && !job_abandon(s, (uint32_t)i, now, j->late != NULL)) {
		if (j->late != NULL)
			late_begin(j->late, s, (uint32_t)i, now);
		return -EAGAIN;
	}
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
copier_read(struct copier *c, uint64_t va, void *dst, uint32_t len)
{
	struct mem_part part = {.va = va, .len = len};
	struct job j = {.op = COPY_READ, .dst = dst};

	return do_parts(c, &j, &part, 1);
}

int
copier_lend(struct copier *c, const struct mem_part *part, uint32_t n, struct mem_lent *lent)
{
	struct job j = {.op = COPY_READ, .lent = lent};

	return do_parts(c, &j, part, n);
}

void
copier_release(struct mem_lent *lent)
{
	struct side *s = lent->at;

	place_free(s, lent->slot);
	__atomic_sub_fetch(&s->of->owners, 1, __ATOMIC_RELEASE);
	*lent = (struct mem_lent){0};
}

int
copier_write_parts(struct copier *c, const struct mem_part *part, uint32_t n,
		   const struct mem_bytes *src, uint32_t nsrc, struct mem_late *late)
{
	struct job j = {.op = COPY_WRITE, .late = late, .src = src, .nsrc = nsrc};

	return do_parts(c, &j, part, n);
}

int
copier_atomic(struct copier *c, uint64_t va, const struct mem_atomic *a, struct mem_late *late,
	      uint64_t *orig)
{
	struct mem_part part = {.va = va, .len = sizeof(*orig)};
	struct job j = {.op = COPY_ATOMIC, .late = late, .atomic = a, .orig = orig};

	return do_parts(c, &j, &part, 1);
}
