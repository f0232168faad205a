/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/throttle.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "control/session.h"

#define THROTTLE_FROM_NS 500000ull /* shorter requests do not throttle their user */

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
 * Resumes the first throttled session of each user whose time is over; the user's other sessions
 * follow after its request.
 */
static void
on_timer(struct watch *w, uint32_t events)
{
	struct daemon *d = WATCH_OF(w, struct daemon, throttle_timer);
	uint64_t n, now = daemon_now_ns(), next = UINT64_MAX;
	struct session *s, *after;

	if (read(w->fd, &n, sizeof(n)) < 0)
		return;
	for (s = TAILQ_FIRST(&d->throttled); s != NULL; s = after) {
		after = TAILQ_NEXT(s, throttle_link);
		if (s->user->throttled_until_ns > now) {
			if (s->user->throttled_until_ns < next)
				next = s->user->throttled_until_ns;
			continue;
		}
		session_throttle_end(s);
		s->user->throttled_until_ns = now + THROTTLE_FROM_NS;
		s->user->first = s;
		if (loop_add(&d->loop, &s->w, EPOLLIN) < 0)
			d->throttle_broken(s);
	}
	if (!TAILQ_EMPTY(&d->throttled))
		timer_set(d, next < now + THROTTLE_FROM_NS ? next : now + THROTTLE_FROM_NS);
}

int
throttle_open(struct daemon *d, void (*broken)(struct session *s))
{
	int rc;

	TAILQ_INIT(&d->throttled);
	d->throttle_broken = broken;
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
session_throttled(struct session *s)
{
	struct daemon *d = s->d;
	bool turn = s->user->first == s;

	if (turn)
		s->user->first = NULL;
	if (turn || s->user->privileged || daemon_now_ns() >= s->user->throttled_until_ns)
		return false;
	loop_del(&d->loop, &s->w);
	if (TAILQ_EMPTY(&d->throttled) || s->user->throttled_until_ns < d->throttle_at_ns)
		timer_set(d, s->user->throttled_until_ns);
	TAILQ_INSERT_TAIL(&d->throttled, s, throttle_link);
	s->throttled = true;
	return true;
}

void
session_throttle_end(struct session *s)
{
	if (s->user->first == s)
		s->user->first = NULL;
	if (!s->throttled)
		return;
	TAILQ_REMOVE(&s->d->throttled, s, throttle_link);
	s->throttled = false;
}

/* CPU time, so that an overloaded machine throttles nobody. */
uint64_t
throttle_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void
throttle_after(struct quota_user *u, uint64_t began_ns)
{
	uint64_t took = throttle_clock_ns() - began_ns;

	if (took >= THROTTLE_FROM_NS)
		u->throttled_until_ns = daemon_now_ns() + took;
}
