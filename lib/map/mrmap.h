/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's view of memory that a client registered (MEM-05). A REG_MR request describes the
 * range as pieces (include/uroce_abi/ctrl.h); when every piece can be mapped, they are mapped next
 * to each other, so that the region is one run of addresses here too. Otherwise the region is
 * COPY: each access goes through /proc/PID/mem.
 *
 * The request is hostile input. What keeps it harmless:
 *   - a passed descriptor must be a memfd sealed against shrinking, so that the client cannot
 *     pull pages away; SIGBUS from anything else (a truncated file) meets lib/map/sigbus.h;
 *   - a shared mapping is opened by its place in /proc/PID/map_files without side effects, and
 *     used only if /proc/PID/maps shows, afterwards, this very inode at that place, shared, with
 *     the rights the region asks for: no file can be reached that the client has not mapped so;
 *   - /proc/PID is believed only while it belongs to the uid that connected, so a client that
 *     execs a set-uid program gains nothing; and an open /proc/PID/mem stays with the address space
 *     it was opened for, where process_vm_readv would follow the pid into the new program.
 *
 * Looking into a client may wait for what it holds, its mmap_lock or the server of its files. So
 * the work has two halves: mrmap_find, which looks and may block, belongs into the broker
 * (ipc/broker.h); mrmap_make, which maps what was found, into the control thread. Any worker may
 * call the copy operations, which have a thread of the broker do the access (map/copier.h).
 * Includes: lib/mem/mr.h (the type of the operations), include/uroce_abi. No DPDK.
 */
#ifndef UROCE_MAP_MRMAP_H
#define UROCE_MAP_MRMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "map/copier.h"
#include "mem/mr.h"
#include "uroce_abi/ctrl.h"

struct mrmap;
struct mrkept;
struct peer_mem;

#define MRMAP_MAX_RUNS 64 /* of files behind a region; beyond, it is copied */
#define MRMAP_MAX_FDS  64

/* In the place of a descriptor's index: the slot of a kept one (map/mrkept.h). */
#define MRMAP_FD_KEPT (1u << 31)

/* A part of a region that is mapped from a file. */
struct mrmap_run {
	uint64_t va, len, off; /* bytes */
	uint32_t fd;           /* index of its descriptor, or MRMAP_FD_KEPT | slot */
	uint32_t rsvd;
};

/* What mrmap_find saw. */
struct mrmap_found {
	int32_t err;     /* 0, or -errno as of mrmap_create: nothing else counts then */
	int32_t path;    /* enum uroce_mr_path; COPY: the one descriptor is /proc/PID/mem */
	uint64_t mem_id; /* COPY: the same for the same address space */
	uint32_t nruns, nfds;
	uint32_t keep_fd; /* 1 + index of the descriptor to be kept; 0: none */
	uint32_t rsvd;
	struct mrmap_run run[MRMAP_MAX_RUNS];
};

/* Whose memory it is, as for mrmap_create, and what is known of it from one region to the next. */
struct mrmap_client {
	pid_t pid;
	int pidfd;
	uid_t uid;
	struct mrmap_mem {
		int fd; /* of /proc/PID/mem, kept open; -1: none yet */
		bool writable;
		uint64_t id;
	} mem;
};

/*
 * What copies the memory of one client: a copier for each address space that it had, at most
 * MRMAP_MAX_COPIERS. All but the first fields zero at first; it outlives the regions.
 */
#define MRMAP_MAX_COPIERS 8
struct mrmap_copiers {
	struct copier_credit *credit;
	/*
	 * Have a thread serve a new copier: copier_serve with mem and what is behind shared. Both
	 * stay the caller's. id: of the address space. 0 or -errno. Does not block.
	 */
	int (*serve)(void *ctx, uint64_t id, int mem, int shared);
	/* A copier's thread stays behind, as it waits for its client's memory. NULL: no matter. */
	void (*stays)(void *ctx);
	void *ctx;
	struct peer_mem *first;
	uint32_t n;
};

/* Whoever served the copiers is lost: start again. 0 or -errno. */
int mrmap_copiers_renew(struct mrmap_copiers *copiers);

/* The descriptors of a struct mrmap_found. */
struct mrmap_files {
	int fd[MRMAP_MAX_FDS];
	bool lent[MRMAP_MAX_FDS]; /* another's: not to be closed with these */
};

/*
 * Check req and look up its memory. Blocks for as long as the client or a file system of its likes.
 * fds, nfds: as for mrmap_create. What *files names is good until mrmap_files_close.
 */
void mrmap_find(struct mrmap_client *c, const struct uroce_reg_mr_req *req, const int *fds,
		unsigned nfds, struct mrmap_found *found, struct mrmap_files *files);
void mrmap_files_close(const struct mrmap_found *found, const struct mrmap_files *files);

/*
 * Make reachable what mrmap_find found for req. fds: of *found, in order; they stay the caller's.
 * kept: the descriptors that KEPT pieces name, which outlives the region; NULL: none. Does not
 * block on anything that a client holds. 0 or -errno, as mrmap_create.
 */
int mrmap_make(const struct uroce_reg_mr_req *req, const struct mrmap_found *found, const int *fds,
	       struct mrkept *kept, struct mrmap_copiers *copiers, struct mrmap **out);

/*
 * Does mrmap_find have to look at anything for req? Not if all of it lies in descriptors that are
 * kept: mrmap_find then blocks on nothing, and needs no client.
 */
bool mrmap_must_look(const struct uroce_reg_mr_req *req);

/*
 * Check req and make its memory reachable: both halves, for who may block. COPY regions are served
 * by threads of this process.
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

/*
 * The same for a request that may name descriptors of the connection that are kept (KEPT pieces);
 * kept outlives the region. What the request wants to be kept is the caller's business.
 */
int mrmap_create_kept(pid_t pid, int pidfd, uid_t uid, const struct uroce_reg_mr_req *req,
		      const int *fds, unsigned nfds, struct mrkept *kept, struct mrmap **out);

/* Unmap and free. No worker may use the region any more (MEM-03). NULL is allowed. */
void mrmap_destroy(struct mrmap *map);

/*
 * The same, and true if a large region is unmapped in the background: it takes its mappings and
 * memory until mrfill_unmapped (map/mrfill.h) returns debt. debt is not NULL.
 */
bool mrmap_destroy_slowly(struct mrmap *map, void *debt);

/* Where req->addr is mapped in this process; NULL for a COPY or an empty region. */
uint8_t *mrmap_host(const struct mrmap *map);

/* How many mappings of this process it takes, at most: 0 for an empty region. */
uint32_t mrmap_maps(const struct mrmap *map);

/* enum uroce_mr_path. */
int mrmap_path(const struct mrmap *map);

/*
 * True once the client's memory failed under the region (a file truncated, no huge page left):
 * from then on it holds zeros. Any thread.
 */
bool mrmap_failed(const struct mrmap *map);

/*
 * Any thread. 0: no access to the region is under way; else the id of the address space in which
 * one may be, which nobody waits for any more: it may still store there.
 */
uint64_t mrmap_unsettled(const struct mrmap *map);

/*
 * Access to a COPY region by its copier (map/copier.h): ctx is the struct mrmap, va the client's
 * address; a range outside what was registered gets -EFAULT, a client that is gone -ESRCH.
 */
extern const struct mem_ops mrmap_copy_ops;

#endif
