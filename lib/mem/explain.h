/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Explains why a key was refused. Called after a lookup, a bind or an invalidation has failed;
 * repeats its checks one by one. Slow path.
 */
#ifndef MEM_EXPLAIN_H
#define MEM_EXPLAIN_H

#include <stdint.h>
#include <uroce/errors.h>
#include "mem/mr.h"

/* Why a key does not give the access. The first four are in the order of the lists in errors.h. */
enum mr_refusal {
	MR_UNKNOWN, /* names nothing, or is not the current key */
	MR_OTHER_PD,
	MR_NO_RIGHT,
	MR_OUT_OF_BOUNDS,
	MR_UNBOUND,  /* a window that is not bound */
	MR_OTHER_QP, /* a type 2 window bound to another QP */
	MR_ALLOWED,  /* the lookup would succeed now */
};

/* Worker. Explain a failed mr_lookup of an L_Key. */
enum mr_refusal mr_explain(const struct mr_table *t, uint32_t key, uint32_t pd, uint64_t addr,
			   uint64_t len, uint32_t access);
/* Worker. Explain a failed mr_lookup_remote: one of UROCE_ERROR_RKEY_* and _WINDOW_*. */
enum uroce_error mr_explain_remote(const struct mr_table *t, uint32_t key, uint32_t pd,
				   uint32_t qpn, uint64_t addr, uint64_t len, uint32_t access);
/* Worker. Explain a failed mw_bind: one of UROCE_ERROR_BIND_*. */
enum uroce_error mw_explain_bind(const struct mr_table *t, const struct mw_bind *b);
/* Worker. Explain a failed mw_invalidate: one of UROCE_ERROR_INV_*. */
enum uroce_error mw_explain_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd,
				       uint32_t qpn);

#endif
