/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes and atomics that are late (struct mem_ops). They end without their caller, must not be
 * executed twice, and the caller still needs their results. It keeps a struct mem_late for each.
 * The operation may outlive its region: a program may see the data of a WRITE and deregister the
 * region, or unbind the window, before the worker tries the WRITE again. All functions: the worker
 * that started the operation.
 */
#ifndef MEM_LATE_H
#define MEM_LATE_H

#include <stddef.h>
#include <stdint.h>
#include "mem/mr.h"

enum mem_late_state {
	MEM_LATE_NONE = 0, /* nothing was started, or it was not executed in full */
	MEM_LATE_PENDING,  /* begun, not ended */
	MEM_LATE_DONE,     /* executed in full */
};

/* A late operation. All zero: none. */
struct mem_late {
	uint32_t state; /* enum mem_late_state */
	int32_t rc;     /* PENDING: 0, or -ETIMEDOUT after the time limit */
	uint64_t orig;  /* DONE, atomic: the original value */
	const struct mem_ops *ops;
	/* PENDING: for the operations */
	void *at;
	uint64_t since_ns;
	uint32_t slot;
	uint32_t spare;
	struct mem_late *next;
};

/* The pending operations of a worker. */
struct mem_late_list {
	struct mem_late *first;
};

/* Adds l, which an operation of ops has just made PENDING and which stays in place until it ends.
 */
static inline void
mem_late_add(struct mem_late_list *list, const struct mem_ops *ops, struct mem_late *l)
{
	l->ops = ops;
	l->next = list->first;
	list->first = l;
}

/* Asks for the results of all pending operations. */
static inline void
mem_late_poll(struct mem_late_list *list)
{
	struct mem_late **p = &list->first;

	while (*p != NULL) {
		struct mem_late *l = *p;

		l->ops->late_poll(l);
		if (l->state == MEM_LATE_PENDING)
			p = &l->next;
		else
			*p = l->next;
	}
}

/* The result is not needed any more. Zeroes l. */
static inline void
mem_late_forget(struct mem_late_list *list, struct mem_late *l)
{
	struct mem_late **p = &list->first;

	if (l->state == MEM_LATE_PENDING) {
		while (*p != l)
			p = &(*p)->next;
		*p = l->next;
		l->ops->late_forget(l);
	}
	*l = (struct mem_late){0};
}

#endif
