/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps memory that a client registered into the daemon (MEM-05). A REG_MR request describes the
 * range as pieces (include/uroce_abi/ctrl.h). If every piece can be mapped, they are mapped next to
 * each other, so that the region is contiguous here too. Otherwise the region is COPY: each access
 * goes through /proc/PID/mem.
 *
 * The request is hostile input. The protections are:
 *   - A passed descriptor must be a memfd sealed against shrinking, so that the client cannot take
 *     pages away. lib/map/sigbus.h handles SIGBUS from anything else (a truncated file).
 *   - A shared mapping is opened through /proc/PID/map_files without side effects. It is used only
 *     if /proc/PID/maps then shows this very inode at that address, shared, with the rights that
 *     the region needs: only files that the client has mapped this way can be reached.
 *   - /proc/PID is trusted only while it belongs to the uid that connected, so a client gains
 *     nothing by executing a set-uid program. An open /proc/PID/mem stays with the address space it
 *     was opened for, whereas process_vm_readv would follow the pid into the new program.
 *
 * Inspecting a client may block on what it controls: its mmap_lock or the server of its files. The
 * work therefore has two halves. mrmap_find inspects, may block, and runs in the broker
 * (ipc/broker.h). mrmap_make maps the result and runs on the control thread. Any worker may call
 * the copy operations; a thread of the broker does the access (map/copier.h).
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

#define MRMAP_MAX_RUNS 64 /* file ranges of a region; a region with more is copied */
#define MRMAP_MAX_FDS  64

/* Flag: instead of a descriptor's index, the slot of a kept one (map/mrkept.h). */
#define MRMAP_FD_KEPT (1u << 31)

/* A part of a region that is mapped from a file. */
struct mrmap_run {
	uint64_t va, len, off; /* bytes */
	uint32_t fd;           /* index of its descriptor, or MRMAP_FD_KEPT | slot */
	uint32_t rsvd;
};

/* Result of mrmap_find. */
struct mrmap_found {
	int32_t err;     /* 0 or -errno as from mrmap_find; on error the rest is undefined */
	int32_t path;    /* enum uroce_mr_path; COPY: the only descriptor is /proc/PID/mem */
	uint64_t mem_id; /* COPY: id of the address space */
	uint32_t nruns, nfds;
	uint32_t keep_fd; /* 1 + index of the descriptor to keep; 0: none */
	uint32_t rsvd;
	struct mrmap_run run[MRMAP_MAX_RUNS];
};

/* The client, and state that is cached between regions. */
struct mrmap_client {
	pid_t pid;   /* in the daemon's pid namespace */
	int pidfd;   /* detects that the pid was reused; -1: no check (tests) */
	uid_t uid;   /* from SO_PEERCRED */
	bool copied; /* its memory is not to be mapped */
	struct mrmap_mem {
		int fd; /* of /proc/PID/mem, kept open; -1: not open */
		bool writable;
		uint64_t id;
	} mem;
};

/*
 * Returns true if pid is still the client and runs a program that the client may inspect. The owner
 * of /proc/PID/mem is root while the program is set-id or not dumpable, else the effective uid. A
 * client that is root may inspect any program.
 */
bool mrmap_client_is(const struct mrmap_client *c);

/*
 * The copiers of one client: one for each address space that it had, at most MRMAP_MAX_COPIERS. The
 * caller sets the first fields and zeroes the rest. Outlives the regions.
 */
#define MRMAP_MAX_COPIERS 8
struct mrmap_copiers {
	struct copier_credit *credit;
	uint8_t owner; /* whose memory all regions of the client are (sigbus_guard_add) */
	/*
	 * Start a thread that serves a new copier: copier_serve with mem and the area of shared.
	 * The caller keeps both descriptors. id: of the address space. Returns 0 or -errno. Does
	 * not block.
	 */
	int (*serve)(void *ctx, uint64_t id, int mem, int shared);
	/* Called if a destroyed copier's thread is still blocked on client memory. May be NULL. */
	void (*stays)(void *ctx);
	void *ctx;
	struct peer_mem *first;
	uint32_t n;
};

/* Restart the copiers after their server was lost. 0 or -errno. */
int mrmap_copiers_renew(struct mrmap_copiers *copiers);

/* The descriptors of a struct mrmap_found. */
struct mrmap_files {
	int fd[MRMAP_MAX_FDS];
	bool lent[MRMAP_MAX_FDS]; /* owned elsewhere: not closed with the others */
};

/*
 * Check req and find its memory. Blocks for as long as the client or a file system of its choice
 * likes. fds, nfds: descriptors of the request; the caller keeps them and may close them on return.
 * *files is valid until mrmap_files_close.
 *
 * Access rights: the mapping is writable here only if req->access grants some write; this fails for
 * a range that the client itself may not write. found->err: -EINVAL malformed request or unsealed
 * descriptor, -EFAULT the client has not mapped the range with the rights needed (or it is beyond
 * the end of its file), -EPERM the process is no longer the client or may not be inspected,
 * -ENOMEM.
 */
void mrmap_find(struct mrmap_client *c, const struct uroce_reg_mr_req *req, const int *fds,
		unsigned nfds, struct mrmap_found *found, struct mrmap_files *files);
void mrmap_files_close(const struct mrmap_found *found, const struct mrmap_files *files);

/*
 * Make the memory that mrmap_find found for req accessible. fds: those of *found, in order; the
 * caller keeps them. kept: the descriptors that KEPT pieces name; outlives the region; may be NULL.
 * Does not block on anything that a client controls. Sets *out on success only; mrmap_destroy frees
 * it. Returns 0 or -errno: found->err, or -ENOMEM.
 */
int mrmap_make(const struct uroce_reg_mr_req *req, const struct mrmap_found *found, const int *fds,
	       struct mrkept *kept, struct mrmap_copiers *copiers, struct mrmap **out);

/*
 * Returns true if mrmap_find must inspect the client for req. Returns false if the whole range is
 * in kept descriptors: mrmap_find then never blocks and needs no client.
 */
bool mrmap_must_look(const struct uroce_reg_mr_req *req);

/* Unmap and free. No worker may use the region any more (MEM-03). NULL is allowed. */
void mrmap_destroy(struct mrmap *map);

/*
 * The same, but a large region is unmapped in the background: returns true, and its mappings and
 * memory remain until mrfill_unmapped (map/mrfill.h) returns debt, which is not NULL.
 */
bool mrmap_destroy_slowly(struct mrmap *map, void *debt);

/* Address of req->addr in this process; NULL for a COPY or empty region. */
uint8_t *mrmap_host(const struct mrmap *map);

/* Upper bound of the region's mappings in this process; 0 if it is empty. */
uint32_t mrmap_maps(const struct mrmap *map);

/* enum uroce_mr_path. */
int mrmap_path(const struct mrmap *map);

/*
 * Returns true if the region's memory has failed (a truncated file, no huge page left). From then
 * on the region reads as zeros. Any thread.
 */
bool mrmap_failed(const struct mrmap *map);

/*
 * Any thread. Returns 0 if no abandoned access to the region is outstanding, else the id of the
 * address space that such an access may still store into.
 */
uint64_t mrmap_unsettled(const struct mrmap *map);

/*
 * Access to a COPY region by its copier (map/copier.h). ctx: the struct mrmap; va: the client's
 * address. -EFAULT outside of the registered range, -ESRCH if the client is gone.
 */
extern const struct mem_ops mrmap_copy_ops;

#endif
