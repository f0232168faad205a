/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles: destinations of UD sends. The control thread creates and frees them, workers
 * read them. A handle first leaves its table and is freed once every worker was quiescent.
 */
#ifndef QP_AH_H
#define QP_AH_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/build.h"

struct qp_ah {
	struct wire_path path; /* dmac all zero while path_ok is false */
	uint32_t pd;
	uint32_t handle;
	bool loopback;  /* the destination is a GID of this device */
	bool multicast; /* group members on this device get a copy, too */
	bool path_ok;   /* the next hop's MAC is known */
};

/*
 * Address handles of one context. The low bits of a handle are its slot; the other bits detect
 * stale handles.
 */
struct qp_ah_table {
	struct qp_ah **slot;
	uint32_t nslots; /* power of two */
};

/* Worker. The address handle, or NULL. */
static inline const struct qp_ah *
qp_ah_get(const struct qp_ah_table *t, uint32_t handle)
{
	const struct qp_ah *ah;

	if (t == NULL || t->nslots == 0)
		return NULL;
	ah = __atomic_load_n(&t->slot[handle & (t->nslots - 1)], __ATOMIC_ACQUIRE);
	return ah != NULL && ah->handle == handle ? ah : NULL;
}

#endif
