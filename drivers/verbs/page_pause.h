/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves of pages while the daemon has stopped the process's other threads (UROCE_CTRL_PAUSE_THREADS
 * in uroce_abi/ctrl.h). For processes without the right to a userfaultfd that holds back the
 * kernel's stores, too (page_swap.h): those of ordinary users, by the kernel's default.
 *
 * A pause costs a round trip to the daemon and two switches for each thread, much more than a copy
 * of a small message. Programs that register a buffer for each message should therefore not get
 * one: a process may register 64 times, and after that 8 times a second, less if threads
 * could not be stopped; other memory is copied. Memory is always returned, however often.
 *
 * All functions run under mr_adopt.c's lock. None allocates, or waits for a thread of the program.
 */
#ifndef VERBS_PAGE_PAUSE_H
#define VERBS_PAGE_PAUSE_H

#include <stdbool.h>

/* May threads be stopped in this process? False after the daemon has said that it never can. */
bool page_pause_may(void);
/* May one more registration stop them now? Counts it. */
bool page_pause_take(void);

/*
 * Connects to the daemon, for the pauses of one job. 0, or -errno: there is no daemon, or it does
 * not know the operation. page_pause_close in any case afterwards.
 */
int page_pause_open(void);
void page_pause_close(void);

/*
 * Stops all other threads. 0, or -errno and they run: -EPERM the daemon may not (another debugger,
 * a security module); -EBUSY a thread cannot stop now. The
 * caller blocks all signals, and takes no lock that other threads of the program take.
 */
int page_pause_begin(void);
/* Lets them continue. */
void page_pause_end(void);

/* Is there enough time left before the daemon ends the pause by itself? */
bool page_pause_lasts(void);

/*
 * Permits the daemon at the other end of sock to trace this process and to open its memory, where
 * the Yama module restricts that. Without Yama it does nothing.
 */
void page_pause_permit(int sock);

#endif
