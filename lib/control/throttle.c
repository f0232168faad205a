/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/throttle.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define THROTTLE_FROM_NS 500000ull /* shorter requests do not throttle their user */
/*
 * Reading the CPU clock is a system call. The request before a long one is not charged for more
 * than this, the age of the last reading.
 */
#define THROTTLE_CLOCK_NS 50000ull

/*
 * When the next request of u may be executed. Not while the user pauses: requests use its memory on
 * workers, too (worker/blame.h).
 */
static uint64_t
until_ns(const struct daemon *d, const struct quota_user *u, uint64_t now)
{
	uint64_t paused = worker_paused_ns(d->workers, qp_user_place(u->id));

	return paused == 0 || now + paused < u->throttled_until_ns ? u->throttled_until_ns
								   : now + paused;
}

static void
timer_set(struct daemon *d, uint64_t at_ns)
{
	struct itimerspec at = {0};

	d->throttle_at_ns = at_ns;
	at.it_value.tv_sec = (time_t)(at_ns / 1000000000u);
	at.it_value.tv_nsec = (long)(at_ns % 1000000000u);
	timerfd_settime(d->throttle_timer.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/*
 * Resumes the first throttled connection of each user whose time is over; the user's others follow
 * after its request.
 */
static void
on_timer(struct watch *w, uint32_t events)
{
	struct daemon *d = WATCH_OF(w, struct daemon, throttle_timer);
	uint64_t n, now = daemon_now_ns(), next = UINT64_MAX;
	struct throttle *t, *after;

	if (read(w->fd, &n, sizeof(n)) < 0)
		return;
	for (t = TAILQ_FIRST(&d->throttled); t != NULL; t = after) {
		uint64_t until = until_ns(d, t->user, now);

		after = TAILQ_NEXT(t, link);
		if (until > now) {
			if (until < next)
				next = until;
			continue;
		}
		throttle_end(d, t);
		t->user->throttled_until_ns = now + THROTTLE_FROM_NS;
		t->user->first = t;
		loop_set(&d->loop, t->w, EPOLLIN);
	}
	if (!TAILQ_EMPTY(&d->throttled))
		timer_set(d, next < now + THROTTLE_FROM_NS ? next : now + THROTTLE_FROM_NS);
}

int
throttle_open(struct daemon *d)
{
	int rc;

	TAILQ_INIT(&d->throttled);
	d->throttle_timer.ready = on_timer;
	d->throttle_timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (d->throttle_timer.fd < 0)
		return -errno;
	rc = loop_add(&d->loop, &d->throttle_timer, EPOLLIN);
	if (rc < 0)
		close(d->throttle_timer.fd);
	return rc;
}

void
throttle_close(struct daemon *d)
{
	loop_del(&d->loop, &d->throttle_timer);
	close(d->throttle_timer.fd);
}

bool
throttle_waits(struct daemon *d, struct throttle *t)
{
	bool turn = t->user->first == t;
	uint64_t now, until;

	if (t->waits) { /* polled for its end alone */
		t->broken(t);
		return true;
	}
	if (turn)
		t->user->first = NULL;
	if (turn || t->user->privileged)
		return false;
	now = daemon_now_ns();
	until = until_ns(d, t->user, now);
	if (now >= until)
		return false;
	loop_set(&d->loop, t->w, 0);
	if (TAILQ_EMPTY(&d->throttled) || until < d->throttle_at_ns)
		timer_set(d, until);
	TAILQ_INSERT_TAIL(&d->throttled, t, link);
	t->waits = true;
	return true;
}

void
throttle_end(struct daemon *d, struct throttle *t)
{
	if (t->user->first == t)
		t->user->first = NULL;
	if (!t->waits)
		return;
	TAILQ_REMOVE(&d->throttled, t, link);
	t->waits = false;
}

/* Uses CPU time, so that no user is throttled because the machine is overloaded. */
static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void
throttle_begin(struct daemon *d, const struct quota_user *u)
{
	struct throttle_clock *c = &d->throttle_clock;

	worker_control_serves(d->workers, u->privileged ? 0 : qp_user_place(u->id));

	c->began_ns = daemon_now_ns();
	if (c->began_ns - c->read_ns < THROTTLE_CLOCK_NS)
		return;
	c->read_ns = c->began_ns;
	c->cpu_ns = cpu_ns();
}

/* Returns the CPU time since throttle_begin, or the real time if that is below least or shorter. */
static uint64_t
taken_ns(struct daemon *d, uint64_t now, uint64_t least)
{
	const struct throttle_clock *c = &d->throttle_clock;
	uint64_t took = now - c->began_ns, cpu;

	if (took < least)
		return took;
	cpu = cpu_ns() - c->cpu_ns;
	return cpu < took ? cpu : took;
}

void
throttle_after(struct daemon *d, struct quota_user *u)
{
	uint64_t now = daemon_now_ns(), took;

	worker_control_serves(d->workers, 0);
	if (u->privileged)
		return;
	took = taken_ns(d, now, THROTTLE_FROM_NS);
	if (took >= THROTTLE_FROM_NS)
		u->throttled_until_ns = now + took;
}

void
throttle_slice(struct daemon *d, struct quota_user *u)
{
	uint64_t now = daemon_now_ns();

	worker_control_serves(d->workers, 0);
	if (u->privileged)
		return;
	u->slices_ns += taken_ns(d, now, THROTTLE_CLOCK_NS);
	if (u->slices_ns < THROTTLE_FROM_NS)
		return;
	u->throttled_until_ns = now + u->slices_ns;
	u->slices_ns = 0;
}
