/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_eal.h>
#include "map/sigbus.h"
#include "worker/worker_parts.h"

#define LOOK_MS   2         /* between two looks .. */
#define REST_MS   20        /* .. while all workers sleep */
#define STUCK_NS  500000u   /* age of an iteration that is looked at */
#define ASLEEP_NS 20000000u /* the same of a worker that sleeps: longer than any sleep */
#define MOST_NS   10000000u /* charged at once: the thread itself may have waited for a CPU */

uint64_t
blame_charge(struct blame_account *a, uint64_t now_ns, uint64_t blocked_ns)
{
	int64_t more = (int64_t)((now_ns - a->at_ns) / BLAME_PART);

	if (a->at_ns == 0 || more > BLAME_BURST_NS - a->credit_ns)
		more = BLAME_BURST_NS - a->credit_ns;
	a->at_ns = now_ns;
	a->credit_ns += more - (int64_t)blocked_ns;
	if (a->credit_ns < -BLAME_DEBT_NS)
		a->credit_ns = -BLAME_DEBT_NS;
	if (a->credit_ns >= 0)
		return 0;
	return now_ns + RTE_MAX((uint64_t)-a->credit_ns * BLAME_PART, (uint64_t)BLAME_PAUSE_NS);
}

/*
 * Does the kernel say that a thread waits and cannot be interrupted? *fd: of its stat, or -1 at
 * first.
 */
static bool
is_blocked(int *fd, uint32_t tid)
{
	char text[128], *end;
	ssize_t n;

	if (*fd < 0) {
		snprintf(text, sizeof(text), "/proc/self/task/%u/stat", tid);
		*fd = open(text, O_RDONLY | O_CLOEXEC);
	}
	if (*fd < 0 || lseek(*fd, 0, SEEK_SET) != 0)
		return false;
	n = read(*fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')'); /* of the name, which may hold anything */
	return end != NULL && end[1] == ' ' && end[2] == 'D';
}

/*
 * Does a blocked thread wait for the end of a hole? Other waits may be another user's fault, as for
 * a lock of this process, or nobody's, as for a swap device.
 */
static bool
is_at_hole(uint32_t tid)
{
	static const char begins[] = "shmem_f"; /* shmem_fault, or what it calls */
	char text[64];
	ssize_t n;
	int fd;

	snprintf(text, sizeof(text), "/proc/self/task/%u/wchan", tid);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text));
	close(fd);
	return n >= (ssize_t)strlen(begins) && memcmp(text, begins, strlen(begins)) == 0;
}

static void
publish(struct blame *b, uint64_t *at, uint64_t until_ns)
{
	__atomic_store_n(at, until_ns, __ATOMIC_RELAXED);
	/* Partner: blame_apply. */
	__atomic_fetch_add(&b->gen, 1, __ATOMIC_RELEASE);
}

/*
 * Charges user, for whose memory the thread tid, at the same step since since_ns, has waited since
 * the last look.
 */
static void
blame_user(struct worker_set *ws, uint8_t user, uint64_t now_ns, uint32_t tid, uint64_t since_ns)
{
	struct blame *b = &ws->blame;
	uint64_t until_ns = blame_charge(&b->account[user], now_ns,
					 RTE_MIN(now_ns - b->looked_ns, (uint64_t)MOST_NS));

	if (until_ns == 0)
		return;
	if (b->paused_until_ns[user] <= now_ns)
		event_paused(ws, user);
	publish(b, &b->paused_until_ns[user], until_ns);
	if (!is_at_hole(tid))
		return;
	__atomic_store_n(&b->distrust_until_ns[user], now_ns + BLAME_DISTRUST_NS, __ATOMIC_RELAXED);
	if (now_ns - since_ns >= BLAME_RELEASE_NS)
		(void)sigbus_guard_release((pid_t)tid, user);
}

/* Looks at worker i. Returns true if it is awake. */
static bool
look(struct worker_set *ws, unsigned i, uint64_t now_ns)
{
	const struct worker *w = ws->worker[i];
	struct blame *b = &ws->blame;
	uint32_t tid = __atomic_load_n(&w->tid, __ATOMIC_RELAXED);
	uint64_t ran_ns = __atomic_load_n(&w->ran_ns, __ATOMIC_ACQUIRE);
	uint8_t user = __atomic_load_n(&w->engine.env.serves, __ATOMIC_ACQUIRE);
	bool asleep = __atomic_load_n(&w->state->asleep, __ATOMIC_RELAXED) != 0;

	if ((int64_t)(now_ns - ran_ns) < (asleep ? ASLEEP_NS : STUCK_NS) ||
	    !is_blocked(&b->stat_fd[i], tid))
		return !asleep;
	/* Has it gone on meanwhile? Then nobody knows what it waited for. */
	if (__atomic_load_n(&w->ran_ns, __ATOMIC_RELAXED) != ran_ns ||
	    __atomic_load_n(&w->engine.env.serves, __ATOMIC_RELAXED) != user)
		return true;
	if (user != 0)
		blame_user(ws, user, now_ns, tid, ran_ns);
	else
		publish(b, &b->copies_until_ns, now_ns + BLAME_COPIES_NS);
	return true;
}

/* The same for the control thread. */
static void
look_at_control(struct worker_set *ws, uint64_t now_ns)
{
	struct blame *b = &ws->blame;
	uint64_t since_ns = __atomic_load_n(&b->control_since_ns, __ATOMIC_ACQUIRE);
	uint8_t user = __atomic_load_n(&b->control_serves, __ATOMIC_ACQUIRE);

	if (user != 0 && (int64_t)(now_ns - since_ns) >= STUCK_NS &&
	    is_blocked(&b->control_fd, b->control_tid) &&
	    __atomic_load_n(&b->control_since_ns, __ATOMIC_RELAXED) == since_ns &&
	    __atomic_load_n(&b->control_serves, __ATOMIC_RELAXED) == user)
		blame_user(ws, user, now_ns, b->control_tid, since_ns);
}

void
worker_control_serves(struct worker_set *ws, uint8_t user)
{
	struct blame *b = &ws->blame;

	/* in this order: a request is never taken for one that began long ago */
	__atomic_store_n(&b->control_serves, 0, __ATOMIC_RELAXED);
	if (user == 0)
		return;
	__atomic_store_n(&b->control_since_ns, timer_now_ns(), __ATOMIC_RELEASE);
	__atomic_store_n(&b->control_serves, user, __ATOMIC_RELEASE);
}

static void
blame_main(void *arg)
{
	struct worker_set *ws = arg;
	struct blame *b = &ws->blame;
	struct pollfd fd = {.fd = b->wake_fd, .events = POLLIN};
	struct timespec rest;
	bool awake = true;
	uint64_t count;

	while (!__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE)) {
		bool several = __atomic_load_n(&b->several, __ATOMIC_RELAXED) != 0;
		uint64_t now_ns;

		rest = (struct timespec){.tv_nsec = (awake ? LOOK_MS : REST_MS) * 1000000};
		b->looked_ns = timer_now_ns();
		if (ppoll(&fd, 1, several ? &rest : NULL, NULL) > 0 &&
		    read(fd.fd, &count, sizeof(count)) < 0)
			continue;
		now_ns = timer_now_ns();
		awake = false;
		for (unsigned i = 0; several && i < ws->n; i++)
			awake |= look(ws, i, now_ns);
		if (several)
			look_at_control(ws, now_ns);
	}
}

/* Wakes the thread, because stop or several has changed. */
static void
notify(struct blame *b)
{
	static const uint64_t one = 1;

	if (write(b->wake_fd, &one, sizeof(one)) < 0)
		return; /* full, hence readable */
}

int
worker_blame_start(struct worker_set *ws)
{
	struct blame *b = &ws->blame;
	int rc;

	for (unsigned i = 0; i < UROCE_MAX_WORKERS; i++)
		b->stat_fd[i] = -1;
	b->control_fd = -1;
	b->control_tid = (uint32_t)rte_gettid();
	b->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (b->wake_fd < 0)
		return -errno;
	rc = dpdk_thread_start(&b->thread, "uroce-blame", blame_main, ws);
	if (rc < 0)
		close(b->wake_fd);
	b->started = rc == 0;
	return rc;
}

void
blame_stop(struct worker_set *ws)
{
	struct blame *b = &ws->blame;

	if (!b->started)
		return;
	__atomic_store_n(&b->stop, 1, __ATOMIC_RELEASE);
	notify(b);
	pthread_join(b->thread.id, NULL);
	for (unsigned i = 0; i < ws->n; i++) {
		if (b->stat_fd[i] >= 0)
			close(b->stat_fd[i]);
	}
	if (b->control_fd >= 0)
		close(b->control_fd);
	close(b->wake_fd);
	b->started = false;
}

void
worker_blame_several(struct worker_set *ws, bool several)
{
	__atomic_store_n(&ws->blame.several, several, __ATOMIC_RELAXED);
	if (ws->blame.started)
		notify(&ws->blame);
}

uint64_t
worker_paused_ns(const struct worker_set *ws, uint8_t user)
{
	uint64_t until_ns = __atomic_load_n(&ws->blame.paused_until_ns[user], __ATOMIC_RELAXED);
	uint64_t now_ns = timer_now_ns();

	return until_ns > now_ns ? until_ns - now_ns : 0;
}

bool
worker_trusts(const struct worker_set *ws, uint8_t user)
{
	uint64_t until_ns = __atomic_load_n(&ws->blame.distrust_until_ns[user], __ATOMIC_RELAXED);

	return until_ns == 0 || timer_now_ns() >= until_ns;
}

void
blame_apply(struct worker *w)
{
	const struct blame *b = &w->ws->blame;
	uint64_t until_ns;

	/* Partner: publish. */
	w->blame_gen = __atomic_load_n(&b->gen, __ATOMIC_ACQUIRE);
	until_ns = __atomic_load_n(&b->copies_until_ns, __ATOMIC_RELAXED);
	engine_set_copies(&w->engine, until_ns > w->now_ns);
	w->blame_next_ns = until_ns > w->now_ns ? until_ns : UINT64_MAX;
	for (unsigned i = 1; i < QP_USERS; i++) {
		until_ns = __atomic_load_n(&b->paused_until_ns[i], __ATOMIC_RELAXED);
		engine_pause_user(&w->engine, (uint8_t)i, until_ns > w->now_ns);
		if (until_ns > w->now_ns && until_ns < w->blame_next_ns)
			w->blame_next_ns = until_ns;
	}
}
