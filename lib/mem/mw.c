/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows. A window is an entry of the key table whose range and rights change while workers
 * look keys up. To change a window, a worker first takes its key away by a compare and exchange; if
 * two workers try at once, a race of the program, one of them fails. A lookup copies the window and
 * uses the copy only if mr.changes was even and equal before and after (a sequence lock).
 */
#include "mem/mr.h"

#define MW_KEY_NONE 0u
#define MW_RIGHTS   (MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)
/* Rights that only regions have. Programs also pass them for windows; they are ignored. */
#define MW_IGNORED     (MEM_LOCAL_WRITE | MEM_MW_BIND)
#define MW_NEEDS_WRITE (MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)

static struct mr *
mw_slot(const struct mr_table *t, uint32_t key)
{
	struct mr *mw = __atomic_load_n(&t->slot[key >> t->shift], __ATOMIC_ACQUIRE);

	return mw != NULL && mw->kind != MR_REGION ? mw : NULL;
}

/*
 * Gets the window's key. False if it is not key, apart from the bits that its owner chooses, or if
 * another worker has taken it away.
 */
static bool
mw_key_now(const struct mr *mw, uint32_t key, uint32_t *now)
{
	*now = __atomic_load_n(&mw->key, __ATOMIC_RELAXED);
	return *now != MW_KEY_NONE && ((*now ^ key) & ~MW_CONSUMER) == 0;
}

/* Take the window's key away. False if its key is not key (any more). */
static bool
mw_claim(struct mr *mw, uint32_t key)
{
	bool ok = key != MW_KEY_NONE &&
		  __atomic_compare_exchange_n(&mw->key, &key, MW_KEY_NONE, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED);

	if (!ok)
		return false;
	__atomic_store_n(&mw->changes, mw->changes + 1, __ATOMIC_RELAXED);
	/* Partner: the acquire fence of mw_copy. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return true;
}

/* End a change: give the window this key. */
static void
mw_release_as(struct mr *mw, uint32_t key)
{
	__atomic_store_n(&mw->changes, mw->changes + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&mw->key, key, __ATOMIC_RELEASE);
}

bool
mw_copy(const struct mr *mw, struct mr *copy)
{
	uint32_t changes = __atomic_load_n(&mw->changes, __ATOMIC_ACQUIRE);

	*copy = *mw;
	/* Partner: the fence of mw_claim. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return (changes & 1) == 0 && __atomic_load_n(&mw->changes, __ATOMIC_RELAXED) == changes;
}

void
mw_unbind(struct mr *mw)
{
	if (mw->parent != NULL)
		__atomic_fetch_sub(&mw->parent->windows, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&mw->parent, NULL, __ATOMIC_RELAXED); /* the control thread may read it */
	mw->iova = 0;
	mw->len = 0;
	mw->access = 0;
	mw->qpn = 0;
	mw->host = NULL;
}

static void
mw_set(struct mr *mw, struct mr *parent, const struct mw_bind *b)
{
	mw_unbind(mw);
	__atomic_store_n(&mw->parent, parent, __ATOMIC_RELAXED);
	__atomic_fetch_add(&parent->windows, 1, __ATOMIC_RELAXED);
	mw->iova = b->access & MEM_ZERO_BASED ? 0 : b->addr;
	mw->len = b->len;
	mw->host = parent->host != NULL ? parent->host + (b->addr - parent->iova) : NULL;
	mw->va = parent->va + (b->addr - parent->iova);
	mw->ops = parent->ops;
	mw->ops_ctx = parent->ops_ctx;
	mw->access = b->access & MW_RIGHTS;
	mw->qpn = mw->kind == MR_WINDOW_2 ? b->qpn : 0;
}

uint32_t
mw_bind_needs(uint32_t access)
{
	return MEM_MW_BIND | (access & MW_NEEDS_WRITE ? MEM_LOCAL_WRITE : 0);
}

bool
mw_bind_flags_good(uint32_t access)
{
	return (access & ~(MW_RIGHTS | MW_IGNORED | MEM_ZERO_BASED)) == 0;
}

/* The region of a bind, if it may carry such a window. */
static struct mr *
mw_parent(const struct mr_table *t, const struct mw_bind *b)
{
	struct mr *mr = mr_lookup(t, b->lkey, b->pd, b->addr, b->len, mw_bind_needs(b->access));
	uint64_t iova = b->access & MEM_ZERO_BASED ? 0 : b->addr;

	if (mr != NULL && (b->access & MEM_REMOTE_ATOMIC) &&
	    !mr_carries_atomics(iova, mr->va + (b->addr - mr->iova)))
		return NULL;
	return mr;
}

bool
mw_bind(const struct mr_table *t, const struct mw_bind *b)
{
	struct mr *mw = mw_slot(t, b->key), *parent = NULL;
	uint32_t key;

	if (mw == NULL || mw->pd != b->pd || !mw_key_now(mw, b->key, &key))
		return false;
	if (!mw_bind_flags_good(b->access))
		return false;
	if (b->len != 0) {
		parent = mw_parent(t, b);
		if (parent == NULL)
			return false;
	}
	if (mw->kind == MR_WINDOW_2 && (mw->parent != NULL || parent == NULL))
		return false; /* bound already: invalidate it first */
	if (!mw_claim(mw, key))
		return false;
	if (parent != NULL)
		mw_set(mw, parent, b);
	else
		mw_unbind(mw);
	mw_release_as(mw, (b->key & ~MW_CONSUMER) | (b->new_key & MW_CONSUMER));
	return true;
}

bool
mw_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn)
{
	struct mr *mw = mw_slot(t, key);

	if (mw == NULL || mw->kind != MR_WINDOW_2 || mw->pd != pd || mw->parent == NULL ||
	    mw->qpn != qpn || !mw_claim(mw, key))
		return false;
	mw_unbind(mw);
	mw_release_as(mw, key);
	return true;
}
