/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a client lets the daemon reach the memory it registers (MEM-05).
 *
 * The range given to ibv_reg_mr is looked up in /proc/self/maps and described to the daemon as
 * pieces (struct uroce_mr_piece). Shared file-backed mappings are named, so that the daemon maps
 * them, too. Private anonymous memory is adopted: its pages move into a memfd that is mapped
 * MAP_SHARED at the same addresses, while userfaultfd write protection holds back every concurrent
 * store, and the memfd is passed to the daemon. All other memory makes the region COPY.
 * doc/memory.md describes how each kind of memory is handled and what a program may notice.
 *
 * Used by: drivers/verbs/mr.c. Includes nothing but include/uroce_abi and lib/map/vma.h; no DPDK.
 * Thread-safe: every function may be called from any thread; one mutex serialises them.
 */
#ifndef VERBS_MR_ADOPT_H
#define VERBS_MR_ADOPT_H

#include <stdint.h>
#include "uroce_abi/ctrl.h"

/* The pages that stay adopted for one registration. Opaque; may be NULL. */
struct mr_pin;

/* Descriptors that mr_pieces_build can return at most (pages of one size share a memfd). */
#define MR_ADOPT_MAX_FDS 4

/*
 * Describe [addr, addr + len) for a REG_MR request, adopting private memory where that works.
 *
 *   pieces   space for UROCE_MR_MAX_PIECES; filled in ascending order, contiguous, rounded outwards
 *            to page bounds of the mappings at both ends
 *   npieces  out: 0 only when len is 0; 1 COPY piece when the region cannot be mapped
 *   fds      space for MR_ADOPT_MAX_FDS; piece.fd_index counts from 0 in this array. They stay open
 *            until the process ends; the caller must not close them.
 *   nfds     out: descriptors to attach to the request
 *   pin     out: pass it to mr_pieces_release exactly once, after the reply to DEREG_MR
 *
 * The environment variable UROCE_MR_MODE, read at each call, overrides: "copy" makes everything
 * COPY, "adopt" fails if "auto" (the default) would fall back to COPY.
 *
 * Returns 0, or a positive errno with nothing held: EINVAL the range wraps, or the mode is unknown
 * (reported on stderr once); EFAULT part of the range is not mapped or not readable; ENOMEM;
 * EMFILE; EOPNOTSUPP mode "adopt", but the range cannot be adopted. May be called from fork
 * handlers (fork.h).
 */
int mr_pieces_build(uint64_t addr, uint64_t len, struct uroce_mr_piece *pieces, unsigned *npieces,
		    int *fds, unsigned *nfds, struct mr_pin **pin);

/* A daemon that this process uses copies all memory: adopt none from now on. Any thread. */
void mr_pieces_copy(void);

/* Returns the number, from 0, of the file whose descriptor mr_pieces_build returned in fds. */
unsigned mr_pieces_file(int fd);

/*
 * Drop a registration's references to its pages. Pages that no other registration needs become
 * private anonymous memory again, without losing a store; pages that the program unmapped or
 * replaced meanwhile are not touched. NULL is allowed. Call it when the daemon no longer uses the
 * region: later writes of a peer would be lost.
 */
void mr_pieces_release(struct mr_pin *pin);

/* For tests: return now the small regions that linger after their release (mr_linger.h). */
void mr_pieces_settle(void);

#endif
