/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/explain.h"

/*
 * Copies the entry that a key names. Returns false if there is none, or if it is a window that
 * another worker is changing; *changing tells which.
 */
static bool
copy_of(const struct mr_table *t, uint32_t key, uint32_t any, struct mr *copy, bool *changing)
{
	const struct mr *mr = __atomic_load_n(&t->slot[key >> t->shift], __ATOMIC_ACQUIRE);

	*changing = false;
	if (mr == NULL)
		return false;
	if (mr->kind == MR_REGION) {
		*copy = *mr;
	} else if (!mw_copy(mr, copy)) {
		*changing = true;
		return false;
	}
	return ((copy->key ^ key) & ~any) == 0;
}

static enum mr_refusal
refusal(const struct mr *mr, uint32_t pd, uint32_t qpn, uint64_t addr, uint64_t len,
	uint32_t access)
{
	if (mr->pd != pd)
		return MR_OTHER_PD;
	if (mr->kind != MR_REGION && mr->parent == NULL)
		return MR_UNBOUND;
	if (mr->qpn != 0 && mr->qpn != qpn)
		return MR_OTHER_QP;
	if ((mr->access & access) != access)
		return MR_NO_RIGHT;
	if (!mr_covers(mr, addr, len))
		return MR_OUT_OF_BOUNDS;
	return MR_ALLOWED;
}

enum mr_refusal
mr_explain(const struct mr_table *t, uint32_t key, uint32_t pd, uint64_t addr, uint64_t len,
	   uint32_t access)
{
	struct mr mr;
	bool changing;

	/* A window has an R_Key but no L_Key. */
	if (!copy_of(t, key, 0, &mr, &changing) || mr.kind != MR_REGION)
		return MR_UNKNOWN;
	return refusal(&mr, pd, 0, addr, len, access);
}

enum uroce_error
mr_explain_remote(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn, uint64_t addr,
		  uint64_t len, uint32_t access)
{
	static const enum uroce_error why[] = {
		[MR_UNKNOWN] = UROCE_ERROR_RKEY_UNKNOWN,
		[MR_OTHER_PD] = UROCE_ERROR_RKEY_PD,
		[MR_NO_RIGHT] = UROCE_ERROR_RKEY_RIGHTS,
		[MR_OUT_OF_BOUNDS] = UROCE_ERROR_RKEY_BOUNDS,
		[MR_UNBOUND] = UROCE_ERROR_WINDOW_UNBOUND,
		[MR_OTHER_QP] = UROCE_ERROR_WINDOW_OTHER_QP,
		[MR_ALLOWED] = UROCE_ERROR_RKEY_CHANGED,
	};
	struct mr mr;
	bool changing;

	if (!copy_of(t, key, 0, &mr, &changing))
		return changing ? UROCE_ERROR_RKEY_CHANGED : UROCE_ERROR_RKEY_UNKNOWN;
	return why[refusal(&mr, pd, qpn, addr, len, access)];
}

/* Explains why the region of a bind may not carry the window. */
static enum uroce_error
explain_parent(const struct mr_table *t, const struct mw_bind *b)
{
	uint32_t needs = mw_bind_needs(b->access);

	switch (mr_explain(t, b->lkey, b->pd, b->addr, b->len, needs)) {
	case MR_UNKNOWN:
		return UROCE_ERROR_BIND_LKEY_UNKNOWN;
	case MR_OTHER_PD:
		return UROCE_ERROR_BIND_LKEY_PD;
	case MR_NO_RIGHT:
		return UROCE_ERROR_BIND_LKEY_RIGHTS;
	case MR_OUT_OF_BOUNDS:
		return UROCE_ERROR_BIND_LKEY_BOUNDS;
	default:
		return UROCE_ERROR_NONE;
	}
}

enum uroce_error
mw_explain_bind(const struct mr_table *t, const struct mw_bind *b)
{
	enum uroce_error why;
	struct mr mw;
	bool changing;

	if (!copy_of(t, b->key, MW_CONSUMER, &mw, &changing) || mw.kind == MR_REGION)
		return changing ? UROCE_ERROR_BIND_RACE : UROCE_ERROR_BIND_WINDOW;
	if (mw.pd != b->pd)
		return UROCE_ERROR_BIND_WINDOW_PD;
	if (!mw_bind_flags_good(b->access))
		return UROCE_ERROR_BIND_FLAGS;
	if (b->len != 0) {
		why = explain_parent(t, b);
		if (why != UROCE_ERROR_NONE)
			return why;
	}
	if (mw.kind == MR_WINDOW_2 && b->len == 0)
		return UROCE_ERROR_BIND_EMPTY;
	if (mw.kind == MR_WINDOW_2 && mw.parent != NULL)
		return UROCE_ERROR_BIND_TWICE;
	/* All other checks have passed. */
	return b->access & MEM_REMOTE_ATOMIC ? UROCE_ERROR_BIND_ALIGNMENT : UROCE_ERROR_BIND_RACE;
}

enum uroce_error
mw_explain_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn)
{
	struct mr mw;
	bool changing;

	if (!copy_of(t, key, 0, &mw, &changing))
		return changing ? UROCE_ERROR_INV_UNBOUND : UROCE_ERROR_INV_UNKNOWN;
	if (mw.kind != MR_WINDOW_2)
		return UROCE_ERROR_INV_NOT_WINDOW;
	if (mw.pd != pd)
		return UROCE_ERROR_INV_PD;
	if (mw.parent == NULL)
		return UROCE_ERROR_INV_UNBOUND;
	return mw.qpn != qpn ? UROCE_ERROR_INV_OTHER_QP : UROCE_ERROR_INV_UNBOUND;
}
