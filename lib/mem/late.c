/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/late.h"
#include <stddef.h>
#include "mem/mr.h"

void
mem_late_add(struct mem_late_list *list, const struct mem_ops *ops, struct mem_late *l)
{
	l->ops = ops;
	l->next = list->first;
	list->first = l;
}

void
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

void
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
