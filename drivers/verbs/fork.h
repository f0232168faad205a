/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the provider does around a fork(2) of its process.
 *
 * Programs and libraries (UCX) call verbs from fork handlers of their own. glibc runs prepare
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

/*
 * One part of the provider. Handlers run on the forking thread. prepare and parent must leave all
 * locks free. child runs in the only thread of the child: a lock that another thread of the parent
 * held is locked there for ever, so it makes its locks anew. What those threads were changing is as
 * far as their stores had got, in program order.
 */
struct fork_part {
	void (*prepare)(void); /* may be NULL */
	void (*parent)(void);  /* also when fork failed; may be NULL */
	void (*child)(void);
	struct fork_part *next;
};

/*
 * Called from a constructor: forks are looked after from then on. part must stay valid. The first
 * call installs the handlers.
 */
void fork_part_add(struct fork_part *part);

/* Any thread; cheap. See above. */
void fork_enter(void);

#endif
