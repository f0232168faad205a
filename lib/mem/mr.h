/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions, memory windows and the key table (MEM-01, MEM-02). The control thread creates and
 * destroys them; workers look keys up. A region first leaves the table, then every worker passes a
 * quiescent point, then it is freed (MEM-03). The result of a lookup is therefore valid until the
 * end of the current burst, and no longer.
 * Includes no other library. No I/O: memory that is not mapped is accessed through the region's
 * mem_ops, which lib/map provides.
 */
#ifndef MEM_MR_H
#define MEM_MR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "mem/store.h"

/* Access rights; the values are those of enum ibv_access_flags. */
enum mem_access {
	MEM_LOCAL_WRITE = 1 << 0,
	MEM_REMOTE_WRITE = 1 << 1,
	MEM_REMOTE_READ = 1 << 2,
	MEM_REMOTE_ATOMIC = 1 << 3,
	MEM_MW_BIND = 1 << 4,
	MEM_ZERO_BASED = 1 << 5,
	MEM_LOCAL_READ = 0, /* always granted */
};

/* An 8-byte atomic: compare and swap, or fetch and add. */
struct mem_atomic {
	bool swap;
	uint64_t compare; /* swap: value is stored if the memory equals this */
	uint64_t value;   /* to store or to add */
};

#define MEM_MAX_PARTS 16u /* of one access */

/* Memory of a client. */
struct mem_part {
	uint64_t va;
	uint32_t len; /* > 0 */
};

/* Bytes of this process, to write there. */
struct mem_bytes {
	const void *at;
	uint32_t len;
};

struct mem_late;
struct mem_ops;

/* Bytes read from a client, which stay where they are until they are released. All zero: none. */
struct mem_lent {
	const uint8_t *bytes;
	const struct mem_ops *ops; /* whose release takes them */
	void *at;                  /* for ops */
	uint32_t slot;
};

/* Copies n sources to dst, one after the other. dst has room for all their bytes. */
static inline void
mem_bytes_join(uint8_t *dst, const struct mem_bytes *src, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		memcpy(dst, src[i].at, src[i].len);
		dst += src[i].len;
	}
}

/*
 * Access to memory that the daemon cannot map. va is an address of the client. Each function copies
 * the whole length or fails with -errno:
 *
 *   -EAGAIN     late: the access would block, which a worker never does; retry in a later turn
 *   -ETIMEDOUT  the memory did not respond within the time limit
 *   -ESRCH      the client is gone
 *   others      the client has unmapped the memory
 *
 * A write or atomic that failed with -EAGAIN may still be executed, but only before any later
 * access to the same memory. late == NULL: it may be executed again. Otherwise late, which is all
 * zero, becomes PENDING if the operation has begun (mem/late.h); the caller then starts no other
 * one with it and asks late_poll for the result.
 */
struct mem_ops {
	int (*read)(void *ctx, uint64_t va, void *dst, uint32_t len);
	/*
	 * Reads n parts (1 .. MEM_MAX_PARTS), one after the other, and lends the bytes to the
	 * caller, which releases them soon: few are lent (-ENOBUFS: too many).
	 */
	int (*lend)(void *ctx, const struct mem_part *part, uint32_t n, struct mem_lent *lent);
	/* The same worker, also when the region is gone. Zeroes lent. */
	void (*release)(struct mem_lent *lent);
	int (*write)(void *ctx, uint64_t va, const void *src, uint32_t len, struct mem_late *late);
	/*
	 * Writes nsrc sources, one after the other, to n parts, one after the other. Sources and
	 * parts have as many bytes in total. On failure the first parts may be written.
	 */
	int (*write_parts)(void *ctx, const struct mem_part *part, uint32_t n,
			   const struct mem_bytes *src, uint32_t nsrc, struct mem_late *late);
	int (*atomic)(void *ctx, uint64_t va, const struct mem_atomic *a, struct mem_late *late,
		      uint64_t *orig);
	/*
	 * The same worker, also when the region is gone. Has the operation of late, which is
	 * PENDING, ended? late becomes DONE, or NONE if it failed or its memory is gone; otherwise
	 * it stays PENDING.
	 */
	void (*late_poll)(struct mem_late *late);
	/* The same worker. Nobody asks for the result of late, which is PENDING, any more. */
	void (*late_forget)(struct mem_late *late);
};

struct mr {
	uint64_t iova; /* first address, as used by WQEs and peers */
	uint64_t len;  /* bytes; iova + len is at most 2^64 */
	uint8_t *host; /* address of iova in this process; NULL: use ops */
	uint64_t va;   /* address of iova in the client, for ops */
	const struct mem_ops *ops;
	void *ops_ctx;
	uint32_t key;  /* both L_Key and R_Key */
	uint32_t slot; /* index in the table; a window's key is 0 for a moment while it changes */
	uint32_t pd;   /* id of the protection domain, unique in the daemon */
	uint32_t access;
	uint8_t kind;      /* enum mr_kind */
	uint32_t qpn;      /* type 2 window: the QP it is bound to; else 0 */
	struct mr *parent; /* bound window: the region it is bound to */
	uint32_t windows;  /* region: number of bound windows; deregistration requires 0 */
	uint32_t changes;  /* window: sequence count, odd while a worker binds or unbinds it */
};

/* Regions and windows share one table, so that keys are unique among both (MEM-01). */
enum mr_kind {
	MR_REGION = 0,
	MR_WINDOW_1, /* bound by any QP of its PD, may be rebound while bound */
	MR_WINDOW_2, /* bound to one QP, until it is invalidated */
};

#define MR_TABLE_MAX_SLOTS (1u << 21)
#define MW_CONSUMER        0xffu /* bits of a window's key that its owner chooses */

/*
 * A key is 32 random bits; its top bits are its slot (MEM-01). Knowing other keys does not help to
 * guess any bit: the caller draws random keys until one falls into a free slot. At most half of the
 * slots are used, so two draws are enough on average. A secret permutation of index bits would hide
 * as much but slow down every lookup. The owner of a window chooses its MW_CONSUMER bits, which
 * leaves 24. Slot 0 stays empty, so key 0 is never valid.
 */
struct mr_table {
	struct mr **slot;
	uint32_t shift;  /* key >> shift is the slot: 32 - log2(nslots) */
	uint32_t nslots; /* power of two, at most MR_TABLE_MAX_SLOTS */
	uint32_t used;   /* at most nslots / 2 */
	uint32_t *last;  /* by slot: its last key, which is not reused immediately */
};

/*
 * Control thread. Create a table for nslots / 2 entries. nslots: power of two, 2 ..
 * MR_TABLE_MAX_SLOTS. Returns 0, -ENOMEM or -EINVAL.
 */
int mr_table_init(struct mr_table *t, uint32_t nslots);
void mr_table_free(struct mr_table *t);

/*
 * Control thread. Give mr this key and make it visible. key: 32 bits from the caller's CSPRNG.
 * Returns 0; -EEXIST if the key is not available (its slot is 0 or in use, or it was the last key
 * in the slot): draw another; -ENOMEM if the table is full.
 */
int mr_table_add(struct mr_table *t, struct mr *mr, uint32_t key);

/*
 * Control thread. Remove mr, which may be hidden, from the table. It may be freed once every worker
 * was quiescent (MEM-03).
 */
void mr_table_del(struct mr_table *t, struct mr *mr);

/*
 * Control thread. Hide mr from lookups, and show it again under its key. A hidden entry keeps its
 * slot, so its key is not reused. Repeated calls do no harm.
 */
void mr_table_hide(struct mr_table *t, struct mr *mr);
void mr_table_show(struct mr_table *t, struct mr *mr);

/* Placeholder in the slot of a hidden entry. No lookup accepts it. */
extern struct mr mr_hidden;

/*
 * Does mr cover [addr, addr + len) without overflow? If addr is below iova, the difference wraps
 * to mr->len or more, because iova + mr->len is at most 2^64.
 */
static inline bool
mr_covers(const struct mr *mr, uint64_t addr, uint64_t len)
{
	return len <= mr->len && addr - mr->iova <= mr->len - len;
}

/*
 * Worker. Returns the region of an L_Key if the key is valid, belongs to pd, covers [addr, addr +
 * len) without overflow and grants all of access (MEM-02); else NULL. Constant time.
 */
static inline struct mr *
mr_lookup(const struct mr_table *t, uint32_t key, uint32_t pd, uint64_t addr, uint64_t len,
	  uint32_t access)
{
	struct mr *mr = __atomic_load_n(&t->slot[key >> t->shift], __ATOMIC_ACQUIRE);

	if (mr == NULL || mr->kind != MR_REGION || mr->key != key || mr->pd != pd ||
	    (mr->access & access) != access)
		return NULL;
	return mr_covers(mr, addr, len) ? mr : NULL;
}

/* Worker. Take a consistent copy of a window. False if the window is being changed. */
bool mw_copy(const struct mr *mw, struct mr *copy);

/*
 * Worker. The same for an R_Key, which may name a window. qpn: the QP that received the request.
 * Another worker may bind or invalidate the window at any time, also between the lookup and the
 * access. The result is therefore a copy in *window, so that the access uses exactly the range that
 * was checked. A window that is being changed is not found.
 */
static inline struct mr *
mr_lookup_remote(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn, uint64_t addr,
		 uint64_t len, uint32_t access, struct mr *window)
{
	struct mr *mr = __atomic_load_n(&t->slot[key >> t->shift], __ATOMIC_ACQUIRE);

	if (mr == NULL)
		return NULL;
	if (mr->kind != MR_REGION) {
		if (!mw_copy(mr, window) || (window->qpn != 0 && window->qpn != qpn))
			return NULL;
		mr = window;
	}
	if (mr->key != key || mr->pd != pd || (mr->access & access) != access)
		return NULL;
	return mr_covers(mr, addr, len) ? mr : NULL;
}

/*
 * Worker. Does a refused R_Key name a region or window of this PD? If so it was no guess: the
 * address, length or rights were wrong.
 */
bool mr_key_known(const struct mr_table *t, uint32_t key, uint32_t pd);

/*
 * Returns true if memory at the client's address va, registered under iova, can be used for
 * atomics. The responder checks that the atomic's address, which is based on iova, is a multiple
 * of 8. The CPU address must then also be a multiple of 8, or the access is not atomic (RSP-04).
 * Mappings of the daemon keep the offset within the page.
 */
static inline bool
mr_carries_atomics(uint64_t iova, uint64_t va)
{
	return ((iova ^ va) & 7) == 0;
}

/*
 * Worker. Bind the window that key names (MEM-04) to [addr, addr + len) of the region with L_Key
 * lkey; len 0 unbinds a type 1 window. The MW_CONSUMER bits of key are ignored: a client cannot
 * know them after binds that failed or were flushed. new_key: its MW_CONSUMER bits become those of
 * the window's key; other bits are ignored. qpn: the QP that binds. Returns false, without a
 * change, if the bind is not allowed (CQE-06).
 */
struct mw_bind {
	uint32_t key, new_key, lkey, access, pd, qpn;
	uint64_t addr, len;
};
bool mw_bind(const struct mr_table *t, const struct mw_bind *b);
/* Worker. Rights that a region needs to carry a window with this access. */
uint32_t mw_bind_needs(uint32_t access);
/* Worker. Are these access flags that a bind may have? */
bool mw_bind_flags_good(uint32_t access);
/* Worker. Unbind the type 2 window with this key that is bound to qpn. False if there is none. */
bool mw_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn);
/*
 * Control thread, workers quiescent with regard to mw. Drops a bound window's hold on its region.
 */
void mw_unbind(struct mr *mw);

/*
 * Worker. Copy len bytes out of or into a region. The range was checked by a lookup in this burst.
 * src may be inside the region. Returns 0, or -errno from the region's ops (mapped memory never
 * fails).
 */
static inline int
mr_read(const struct mr *mr, uint64_t addr, void *dst, uint32_t len)
{
	uint64_t off = addr - mr->iova;

	if (mr->host == NULL)
		return mr->ops->read(mr->ops_ctx, mr->va + off, dst, len);
	memcpy(dst, mr->host + off, len);
	return 0;
}

/*
 * Worker. As mr_read, for a READ: loads its bytes before those of any later call. A program that
 * stores data and then a flag is therefore never seen with the flag, by one READ, and without the
 * data, by the next.
 */
static inline int
mr_load(const struct mr *mr, uint64_t addr, void *dst, uint32_t len)
{
	int rc = mr_read(mr, addr, dst, len);

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return rc;
}

/* Worker. Copies *len bytes into a region that is mapped (host != NULL). As mem_store_of. */
static inline __attribute__((always_inline)) uint32_t
mr_store_of(const struct mr *mr, uint64_t addr, const uint8_t *src, const uint32_t *len)
{
	return mem_store_of(mr->host + (addr - mr->iova), src, len);
}

/* The same, len bytes. */
static inline __attribute__((always_inline)) void
mr_store(const struct mr *mr, uint64_t addr, const uint8_t *src, uint32_t len)
{
	(void)mr_store_of(mr, addr, src, &len);
}

static inline int
mr_write(const struct mr *mr, uint64_t addr, const void *src, uint32_t len)
{
	if (mr->host == NULL)
		return mr->ops->write(mr->ops_ctx, mr->va + (addr - mr->iova), src, len, NULL);
	mr_store(mr, addr, src, len);
	return 0;
}

/*
 * Worker. 8-byte atomic on mapped memory at addr, which is 8-byte aligned (checked by the caller)
 * and was looked up in this burst. Returns the original value. Values are in host byte order.
 * Atomic among all QPs of the daemon and with CPU atomics of all local processes (RSP-04).
 */
static inline uint64_t
mr_atomic(const struct mr *mr, uint64_t addr, bool swap, uint64_t compare, uint64_t value)
{
	uint64_t *word = (uint64_t *)(mr->host + (addr - mr->iova));

	if (!swap)
		return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(word, &compare, value, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return compare;
}

/*
 * As mr_atomic, for memory that is accessed through ops. The value is read and written back: a CPU
 * atomic may come in between, but no atomic of another QP. *orig: the original value. Returns 0, or
 * -errno from the region's ops. late: as for struct mem_ops.
 */
static inline int
mr_atomic_by_ops(const struct mr *mr, uint64_t addr, const struct mem_atomic *a,
		 struct mem_late *late, uint64_t *orig)
{
	return mr->ops->atomic(mr->ops_ctx, mr->va + (addr - mr->iova), a, late, orig);
}

#endif
