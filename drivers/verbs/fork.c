/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
#include "fork.h"

/* Changed by constructors only. */
static struct fork_part *parts;

/* Memory that is freed when no fork is in progress. */
struct put_off {
	struct put_off *next;
	void *memory;
};

static struct {
	pthread_mutex_t mutex;
	unsigned forks; /* between prepare and parent */
	struct put_off *list;
} later = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/*
 * State of the forking thread, the only thread of a child. depth counts forks that were prepared
 * and have not ended, because a handler may fork, too. Initial-exec: access must not allocate.
 */
static __thread struct {
	unsigned depth;
	pid_t pid; /* of the process that prepared */
} window __attribute__((tls_model("initial-exec")));

void
fork_free(void *memory)
{
	struct put_off *p = NULL;

	fork_enter();
	pthread_mutex_lock(&later.mutex);
	if (later.forks > 0) {
		p = malloc(sizeof(*p));
		if (p != NULL) {
			*p = (struct put_off){.next = later.list, .memory = memory};
			later.list = p;
		}
		memory = NULL; /* without p it is lost */
	}
	pthread_mutex_unlock(&later.mutex);
	free(memory);
}

/* Called after each fork. After the last concurrent one, frees what fork_free has put off. */
static void
free_put_off(void)
{
	struct put_off *list = NULL;

	pthread_mutex_lock(&later.mutex);
	if (--later.forks == 0) {
		list = later.list;
		later.list = NULL;
	}
	pthread_mutex_unlock(&later.mutex);
	while (list != NULL) {
		struct put_off *p = list;

		list = p->next;
		free(p->memory);
		free(p);
	}
}

static void
fork_prepare(void)
{
	if (window.depth++ > 0)
		return;
	window.pid = getpid();
	pthread_mutex_lock(&later.mutex);
	later.forks++;
	pthread_mutex_unlock(&later.mutex);
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
	free_put_off();
}

static void
fork_child(void)
{
	if (window.depth == 0)
		return;
	window.depth = 0;
	pthread_mutex_init(&later.mutex, NULL);
	later.forks = 0;
	later.list = NULL;
	for (struct fork_part *p = parts; p != NULL; p = p->next)
		p->child();
}

void
fork_part_add(struct fork_part *part)
{
	if (parts == NULL)
		pthread_atfork(fork_prepare, fork_parent, fork_child);
	if (parts != NULL && parts->memory) {
		part->next = parts->next;
		parts->next = part;
		return;
	}
	part->next = parts;
	parts = part;
}

void
fork_enter(void)
{
	if (__builtin_expect(window.depth > 0, 0) && getpid() != window.pid)
		fork_child();
}
