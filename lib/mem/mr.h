/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions and the key table (MEM-01, MEM-02). Regions are made and destroyed by the control
 * thread; workers only look keys up. A region leaves the table first, then every worker passes a
 * quiescent point, then it is freed (MEM-03), so a pointer got from a lookup is good until the
 * end of the burst it was got in, and no longer.
 * Includes: nothing of the other libraries. No I/O: memory that is not mapped is reached through
 * the region's mem_ops, which lib/map supplies.
 */
#ifndef MEM_MR_H
#define MEM_MR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
	uint64_t compare; /* swap: value is stored if this was there */
	uint64_t value;   /* what is stored, or added */
};

/*
 * How to reach memory that the daemon cannot map. va is an address of the client. Each copies the
 * whole length, or fails with -errno:
 *
 *   -EAGAIN     not now: the memory has to be waited for, which a worker never does. Ask again in a
 *               later turn.
 *   -ETIMEDOUT  it has been waited for long enough
 *   -ESRCH      the client is gone
 *   others      the client has unmapped it
 *
 * After -EAGAIN a write or an atomic may still be executed, but before any later access to the same
 * memory is. once != 0 names an operation that must not be executed twice: asked for again with the
 * same number, one that was executed meanwhile gives its result. Each operation has a number that
 * no other of the daemon has. 0: executing it again does no harm.
 */
struct mem_ops {
	int (*read)(void *ctx, uint64_t va, void *dst, uint32_t len);
	int (*write)(void *ctx, uint64_t va, const void *src, uint32_t len, uint64_t once);
	int (*atomic)(void *ctx, uint64_t va, const struct mem_atomic *a, uint64_t once,
		      uint64_t *orig);
};

struct mr {
	uint64_t iova; /* first address, as WQEs and peers name it */
	uint64_t len;  /* bytes */
	uint8_t *host; /* where iova is mapped in this process; NULL: use ops */
	uint64_t va;   /* iova's address in the client, for ops */
	const struct mem_ops *ops;
	void *ops_ctx;
	uint32_t key;  /* L_Key and R_Key are one */
	uint32_t slot; /* its place in the table; its key may be taken away for a moment */
	uint32_t pd;   /* id of the protection domain, unique in the daemon */
	uint32_t access;
	uint8_t kind;      /* enum mr_kind */
	uint32_t qpn;      /* type 2 window: the QP it is bound to; else 0 */
	struct mr *parent; /* bound window: the region behind it */
	uint32_t windows;  /* region: windows bound to it; it cannot be deregistered until 0 */
	uint32_t changes;  /* window: odd while a worker binds or unbinds it */
};

/* Regions and windows share one table, so that no key names one of each (MEM-01). */
enum mr_kind {
	MR_REGION = 0,
	MR_WINDOW_1, /* bound by any QP of its PD, rebound without being invalidated */
	MR_WINDOW_2, /* bound to one QP, until it is invalidated */
};

#define MR_TABLE_MAX_SLOTS (1u << 21)
#define MW_CONSUMER        0xffu /* bits of a window's key that its owner chooses */

/*
 * A key is 32 random bits, and its slot is its top bits (MEM-01). All bits are unpredictable to
 * whoever knows other keys: the caller draws keys until one falls into a free slot, and at most
 * half of the slots are used, so that two draws are enough on average. A secret permutation of
 * index bits would hide as much and cost every lookup more. A window gives MW_CONSUMER bits to its
 * owner, which leaves 24. Slot 0 stays empty, so that key 0 is never valid.
 */
struct mr_table {
	struct mr **slot;
	uint32_t shift;  /* key >> shift is the slot: 32 - log2(nslots) */
	uint32_t nslots; /* power of two, at most MR_TABLE_MAX_SLOTS */
	uint32_t used;   /* at most nslots / 2 */
	uint32_t *last;  /* by slot: the last key in it, which is not given out again next */
};

/* Control thread. Room for nslots / 2 entries; nslots: power of two, 2 .. MR_TABLE_MAX_SLOTS.
 * 0, -ENOMEM or -EINVAL. */
int mr_table_init(struct mr_table *t, uint32_t nslots);
void mr_table_free(struct mr_table *t);

/*
 * Control thread. Give mr this key and make it visible. key: 32 bits from the caller's CSPRNG.
 * 0; -EEXIST: the key cannot be had (its slot is 0 or taken, or it was the last one in its
 * slot), draw another; -ENOMEM: the table is full.
 */
int mr_table_add(struct mr_table *t, struct mr *mr, uint32_t key);

/*
 * Control thread. Make mr invisible and give its place away; it may be freed after every worker was
 * quiescent (MEM-03). mr may be hidden.
 */
void mr_table_del(struct mr_table *t, struct mr *mr);

/*
 * Control thread. Make mr invisible, and visible again with its key. A hidden entry keeps its
 * place, however long it is hidden, so that nobody else gets its key. Each twice is harmless.
 */
void mr_table_hide(struct mr_table *t, struct mr *mr);
void mr_table_show(struct mr_table *t, struct mr *mr);

/* What is in a slot whose entry is hidden: no lookup accepts it. */
extern struct mr mr_hidden;

/*
 * Worker. The region of an L_Key if key is valid, belongs to pd, covers [addr, addr + len) without
 * overflow and grants all of access (MEM-02); else NULL. Constant time.
 */
static inline struct mr *
mr_lookup(const struct mr_table *t, uint32_t key, uint32_t pd, uint64_t addr, uint64_t len,
	  uint32_t access)
{
	struct mr *mr = __atomic_load_n(&t->slot[key >> t->shift], __ATOMIC_ACQUIRE);

	if (mr == NULL || mr->kind != MR_REGION || mr->key != key || mr->pd != pd ||
	    (mr->access & access) != access)
		return NULL;
	if (addr < mr->iova || len > mr->len || addr - mr->iova > mr->len - len)
		return NULL;
	return mr;
}

/* Worker. Copy a window as it is between two changes. False: it is being changed. */
bool mw_copy(const struct mr *mw, struct mr *copy);

/*
 * Worker. The same for an R_Key, which may name a window; qpn is the QP the request came to.
 * Another worker may bind or invalidate a window at any time, also between this lookup and the
 * access that it allows. The result is therefore not the window itself but *window, a copy of it:
 * the access goes where the lookup checked it. A window that is being changed is not found.
 */
static inline struct mr *
mr_lookup_remote(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn, uint64_t addr,
		 uint64_t len, uint32_t access, struct mr *window)
{
	struct mr *mr = __atomic_load_n(&t->slot[key >> t->shift], __ATOMIC_ACQUIRE);

	if (mr == NULL)
		return NULL;
	if (mr->kind != MR_REGION) {
		if (!mw_copy(mr, window))
			return NULL;
		mr = window;
	}
	if (mr->key != key || mr->pd != pd || (mr->access & access) != access ||
	    (mr->qpn != 0 && mr->qpn != qpn))
		return NULL;
	if (addr < mr->iova || len > mr->len || addr - mr->iova > mr->len - len)
		return NULL;
	return mr;
}

/*
 * Worker. Does an R_Key that was refused name something of this PD? Then it was no guess: the
 * address, the length or the rights were wrong.
 */
bool mr_key_known(const struct mr_table *t, uint32_t key, uint32_t pd);

/*
 * May memory at the client's address va be named by iova and carry atomics? The responder checks
 * that an atomic's address is a multiple of 8, and that is the address which peers use: the CPU's
 * has to be a multiple of 8 then, too, or the access is not atomic (RSP-04). Where the daemon maps
 * memory, it maps it at the same place in a page.
 */
static inline bool
mr_carries_atomics(uint64_t iova, uint64_t va)
{
	return ((iova ^ va) & 7) == 0;
}

/*
 * Worker. Bind the window whose present key is key (MEM-04) to [addr, addr + len) of the region
 * with L_Key lkey; len 0 unbinds a window of type 1. new_key: only its MW_CONSUMER bits are used,
 * and become those of the window's key. qpn: the QP that binds. False: not allowed (CQE-06),
 * nothing changed.
 */
struct mw_bind {
	uint32_t key, new_key, lkey, access, pd, qpn;
	uint64_t addr, len;
};
bool mw_bind(const struct mr_table *t, const struct mw_bind *b);
/* Worker. Unbind the type 2 window with this key, bound to qpn. False: there is none. */
bool mw_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn);
/* Control thread, workers quiescent with regard to mw. A bound window lets its region go. */
void mw_unbind(struct mr *mw);

/*
 * Worker. Copy len bytes out of or into a region; the range was checked by mr_lookup in this
 * burst. src may lie in the region, too. 0, or -errno from the region's ops (never fails for mapped
 * memory). once: as for struct mem_ops.
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

static inline int
mr_write_once(const struct mr *mr, uint64_t addr, const void *src, uint32_t len, uint64_t once)
{
	uint64_t off = addr - mr->iova;

	if (mr->host == NULL)
		return mr->ops->write(mr->ops_ctx, mr->va + off, src, len, once);
	memmove(mr->host + off, src, len);
	return 0;
}

static inline int
mr_write(const struct mr *mr, uint64_t addr, const void *src, uint32_t len)
{
	return mr_write_once(mr, addr, src, len, 0);
}

/*
 * Worker. An 8-byte atomic at addr (8-byte aligned, checked by the caller; range by mr_lookup in
 * this burst), which is mapped. The value that was there. Values are in this machine's byte order.
 * Atomic among all QPs of the daemon and with the CPU atomics of every local process (RSP-04).
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
 * As mr_atomic, of memory that is reached through ops: it is read and written back, which a CPU
 * atomic can come between, but no other atomic of a QP. *orig: the value that was there. 0, or
 * -errno from the region's ops. once: as for struct mem_ops.
 */
static inline int
mr_atomic_by_ops(const struct mr *mr, uint64_t addr, const struct mem_atomic *a, uint64_t once,
		 uint64_t *orig)
{
	return mr->ops->atomic(mr->ops_ctx, mr->va + (addr - mr->iova), a, once, orig);
}

#endif
