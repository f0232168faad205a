/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/loop.h"

#include <errno.h>
#include <unistd.h>
#include "sched/waiting.h"

int
loop_init(struct loop *l)
{
	l->stop = false;
	l->spin = (struct backoff){0};
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	return l->epfd < 0 ? -errno : 0;
}

void
loop_close(struct loop *l)
{
	close(l->epfd);
	l->epfd = -1;
}

int
loop_add(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};

	w->events = events;
	return epoll_ctl(l->epfd, EPOLL_CTL_ADD, w->fd, &ev) < 0 ? -errno : 0;
}

void
loop_set(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};

	if (w->events == events)
		return;
	w->events = events;
	epoll_ctl(l->epfd, EPOLL_CTL_MOD, w->fd, &ev);
}

void
loop_del(struct loop *l, struct watch *w)
{
	epoll_ctl(l->epfd, EPOLL_CTL_DEL, w->fd, NULL);
}

void
loop_run(struct loop *l)
{
	struct epoll_event ev;

	while (!l->stop) {
		sched_spin_readable(&l->spin, l->epfd);
		if (epoll_wait(l->epfd, &ev, 1, -1) == 1) {
			struct watch *w = ev.data.ptr;

			w->ready(w, ev.events);
		}
	}
}
