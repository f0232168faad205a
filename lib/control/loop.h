/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's event loop: descriptors and what to call when they are ready. One event is
 * taken at a time, so that a handler may destroy any other watch.
 */
#ifndef CONTROL_LOOP_H
#define CONTROL_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct loop {
	int epfd;
	bool stop; /* set by a handler: loop_run returns */
};

/* Lives in the object that it wakes; fd is the object's. */
struct watch {
	int fd;
	uint32_t events;
	void (*ready)(struct watch *w, uint32_t events); /* EPOLLIN .. */
};

#define WATCH_OF(w, type, member) ((type *)((char *)(w)-offsetof(type, member)))

/* 0 or -errno. */
int loop_init(struct loop *l);
void loop_close(struct loop *l);
/* Watch w->fd for events (EPOLLIN, EPOLLOUT; 0: errors and hang-up only). 0 or -errno. */
int loop_add(struct loop *l, struct watch *w, uint32_t events);
/* Change what is watched for; cheap when it is that already. */
void loop_set(struct loop *l, struct watch *w, uint32_t events);
void loop_del(struct loop *l, struct watch *w);
/* Until l->stop. */
void loop_run(struct loop *l);

#endif
