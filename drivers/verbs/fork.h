/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fork handlers of the provider.
 *
 * Programs and libraries (UCX) call verbs from their own fork handlers. glibc runs prepare
 * handlers in reverse order of installation and the others in order, so a handler that was
 * installed before ours runs between our prepare and our parent or child handler. It may even wait
 * there for a lock whose holder, another thread, is inside a verb. Hence two rules:
 *   - no lock of the provider is held between prepare and parent or child;
 *   - in a child, the first entry into the provider does the work of the child handler, if that
 *     handler has not run yet.
 *
 * Every entry point that takes a lock or talks to the daemon calls fork_enter first.
 */
#ifndef VERBS_FORK_H
#define VERBS_FORK_H

#include <stdbool.h>

/*
 * One part of the provider. Handlers run on the forking thread. prepare and parent must leave all
 * locks free. child runs in the only thread of the child. A lock that another thread of the parent
 * held stays locked there forever, so the handler initialises its locks again. Data that those
 * threads were changing has all stores up to some point of their program order. For data on the
 * heap that point may be later than the fork, because its pages may be shared until the child has
 * copied them. So elements of lists that a child handler walks are freed by fork_free.
 */
struct fork_part {
	bool memory;           /* its child handler makes the process's memory private: first */
	void (*prepare)(void); /* may be NULL */
	void (*parent)(void);  /* also when fork failed; may be NULL */
	void (*child)(void);
	struct fork_part *next;
};

/*
 * Adds a part; called from a constructor. part must stay valid. The first call installs the
 * handlers.
 */
void fork_part_add(struct fork_part *part);

/*
 * As free(3), but while a fork is in progress memory stays as it is until the child has its copy.
 * Any thread; other locks of the provider may be held.
 */
void fork_free(void *memory);

/* Every entry point calls this first (see above). Any thread; cheap. */
void fork_enter(void);

#endif
