/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's view of memory that a client registered (MEM-05). A REG_MR request describes the
 * range as pieces (include/uroce_abi/ctrl.h); when every piece can be mapped, they are mapped next
 * to each other, so that the region is one run of addresses here too. Otherwise the region is
 * COPY: each access goes through /proc/PID/mem.
 *
 * The request is hostile input. What keeps it harmless:
 *   - a passed descriptor must be a memfd sealed against shrinking, so that the client cannot
 *     pull pages away; SIGBUS from anything else (a truncated file) meets lib/ipc/sigbus.h;
 *   - a shared mapping is opened by its place in /proc/PID/map_files without side effects, and
 *     used only if /proc/PID/maps shows, afterwards, this very inode at that place, shared, with
 *     the rights the region asks for: no file can be reached that the client has not mapped so;
 *   - /proc/PID is believed only while it belongs to the uid that connected, so a client that
 *     execs a set-uid program gains nothing; and an open /proc/PID/mem stays with the address space
 *     it was opened for, where process_vm_readv would follow the pid into the new program.
 *
 * Runs in the control thread, except the copy operations, which any worker may call.
 * Includes: lib/mem/mr.h (the type of the operations), include/uroce_abi. No DPDK.
 */
#ifndef UROCE_IPC_MRMAP_H
#define UROCE_IPC_MRMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "mem/mr.h"
#include "uroce_abi/ctrl.h"

struct mrmap;

/*
 * Check req and make its memory reachable.
 *
 *   pid, pidfd  the client, in the daemon's pid namespace. pidfd tells a reused pid from the
 *               client; -1 skips that check (tests).
 *   uid         the client's, from SO_PEERCRED
 *   fds, nfds   descriptors that came with the request; they stay the caller's, who may close them
 *               on return
 *   out         set on success only; mrmap_destroy frees it
 *
 * Access rights: the mapping is writable here only if req->access grants some write, and a range
 * that the client itself may not write then fails.
 * Returns 0 or -errno: -EINVAL malformed request or unsealed descriptor, -EFAULT range not mapped
 * by the client with the rights needed (or beyond the end of its file), -EPERM the process is not
 * the client's any more or may not be looked into, -ENOMEM.
 */
int mrmap_create(pid_t pid, int pidfd, uid_t uid, const struct uroce_reg_mr_req *req,
		 const int *fds, unsigned nfds, struct mrmap **out);

/* Unmap and free. No worker may use the region any more (MEM-03). NULL is allowed. */
void mrmap_destroy(struct mrmap *map);

/* Where req->addr is mapped in this process; NULL for a COPY or an empty region. */
uint8_t *mrmap_host(const struct mrmap *map);

/* enum uroce_mr_path. */
int mrmap_path(const struct mrmap *map);

/*
 * True once the client's memory failed under the region (a file truncated, no huge page left):
 * from then on it holds zeros. Any thread.
 */
bool mrmap_failed(const struct mrmap *map);

/*
 * Access to a COPY region: ctx is the struct mrmap, va the client's address; a range outside what
 * was registered gets -EFAULT, a client that is gone -ESRCH.
 */
extern const struct mem_ops mrmap_copy_ops;

#endif
