/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/rest.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "control/session.h"

#define REST_FROM_NS 500000ull /* shorter requests do not throttle their user */

static void
timer_set(struct daemon *d, uint64_t at_ns)
{
	struct itimerspec at = {0};

	d->rest_at_ns = at_ns;
	at.it_value.tv_sec = (time_t)(at_ns / 1000000000u);
	at.it_value.tv_nsec = (long)(at_ns % 1000000000u);
	timerfd_settime(d->rest_timer.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/*
 * Resumes the first throttled session of each user whose time is over; the user's other sessions
 * follow after its request.
 */
static void
on_timer(struct watch *w, uint32_t events)
{
	struct daemon *d = WATCH_OF(w, struct daemon, rest_timer);
	uint64_t n, now = daemon_now_ns(), next = UINT64_MAX;
	struct session *s, *after;

	if (read(w->fd, &n, sizeof(n)) < 0)
		return;
	for (s = TAILQ_FIRST(&d->resting); s != NULL; s = after) {
		after = TAILQ_NEXT(s, rest_link);
		if (s->user->rest_until_ns > now) {
			if (s->user->rest_until_ns < next)
				next = s->user->rest_until_ns;
			continue;
		}
		session_rest_end(s);
		s->user->rest_until_ns = now + REST_FROM_NS;
		s->user->first = s;
		if (loop_add(&d->loop, &s->w, EPOLLIN) < 0)
			d->rest_broken(s);
	}
	if (!TAILQ_EMPTY(&d->resting))
		timer_set(d, next < now + REST_FROM_NS ? next : now + REST_FROM_NS);
}

int
rest_open(struct daemon *d, void (*broken)(struct session *s))
{
	int rc;

	TAILQ_INIT(&d->resting);
	d->rest_broken = broken;
	d->rest_timer.ready = on_timer;
	d->rest_timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (d->rest_timer.fd < 0)
		return -errno;
	rc = loop_add(&d->loop, &d->rest_timer, EPOLLIN);
	if (rc < 0)
		close(d->rest_timer.fd);
	return rc;
}

void
rest_close(struct daemon *d)
{
	loop_del(&d->loop, &d->rest_timer);
	close(d->rest_timer.fd);
}

bool
session_rests(struct session *s)
{
	struct daemon *d = s->d;
	bool turn = s->user->first == s;

	if (turn)
		s->user->first = NULL;
	if (turn || s->user->privileged || daemon_now_ns() >= s->user->rest_until_ns)
		return false;
	loop_del(&d->loop, &s->w);
	if (TAILQ_EMPTY(&d->resting) || s->user->rest_until_ns < d->rest_at_ns)
		timer_set(d, s->user->rest_until_ns);
	TAILQ_INSERT_TAIL(&d->resting, s, rest_link);
	s->resting = true;
	return true;
}

void
session_rest_end(struct session *s)
{
	if (s->user->first == s)
		s->user->first = NULL;
	if (!s->resting)
		return;
	TAILQ_REMOVE(&s->d->resting, s, rest_link);
	s->resting = false;
}

/* CPU time, so that an overloaded machine throttles nobody. */
uint64_t
rest_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void
rest_after(struct quota_user *u, uint64_t began_ns)
{
	uint64_t took = rest_clock_ns() - began_ns;

	if (took >= REST_FROM_NS)
		u->rest_until_ns = daemon_now_ns() + took;
}
