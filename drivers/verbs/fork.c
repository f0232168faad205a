/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>
#include "fork.h"

/* Changed by constructors only. */
static struct fork_part *parts;

/*
 * State of the forking thread, the only thread of a child. depth counts forks that were prepared
 * and have not ended, because a handler may fork, too. Initial-exec: access must not allocate.
 */
static __thread struct {
	unsigned depth;
	pid_t pid; /* of the process that prepared */
} window __attribute__((tls_model("initial-exec")));

static void
fork_prepare(void)
{
	if (window.depth++ > 0)
		return;
	window.pid = getpid();
	for (struct fork_part *p = parts; p != NULL; p = p->next)
		if (p->prepare != NULL)
			p->prepare();
}

static void
fork_parent(void)
{
	/* 0 in a child that a handler of this fork has created. */
	if (window.depth == 0 || --window.depth > 0)
		return;
	for (struct fork_part *p = parts; p != NULL; p = p->next)
		if (p->parent != NULL)
			p->parent();
}

static void
fork_child(void)
{
	if (window.depth == 0)
		return;
	window.depth = 0;
	for (struct fork_part *p = parts; p != NULL; p = p->next)
		p->child();
}

void
fork_part_add(struct fork_part *part)
{
	if (parts == NULL)
		pthread_atfork(fork_prepare, fork_parent, fork_child);
	part->next = parts;
	parts = part;
}

void
fork_enter(void)
{
	if (__builtin_expect(window.depth > 0, 0) && getpid() != window.pid)
		fork_child();
}
