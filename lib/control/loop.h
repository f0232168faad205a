/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's event loop: descriptors and their handlers. It takes one event at a time, so
 * that a handler may destroy any other watch.
 */
#ifndef CONTROL_LOOP_H
#define CONTROL_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include "sched/waiting.h"

struct loop {
	int epfd;
	struct backoff spin; /* requests of a client come one after the other */
	bool stop;           /* set by a handler; loop_run returns */
};

/* Part of the object that it wakes. The object owns fd. */
struct watch {
	int fd;
	uint32_t events;
	void (*ready)(struct watch *w, uint32_t events); /* EPOLLIN and others */
};

#define WATCH_OF(w, type, member) ((type *)((char *)(w)-offsetof(type, member)))

/* Returns 0 or -errno. */
int loop_init(struct loop *l);
void loop_close(struct loop *l);
/* Watches w->fd for events (EPOLLIN, EPOLLOUT; 0: errors and hang-up only). Returns 0 or -errno. */
int loop_add(struct loop *l, struct watch *w, uint32_t events);
/* Changes the watched events; cheap if they are the same. */
void loop_set(struct loop *l, struct watch *w, uint32_t events);
void loop_del(struct loop *l, struct watch *w);
/* Runs until l->stop. */
void loop_run(struct loop *l);

#endif
