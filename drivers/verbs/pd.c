/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains. A parent domain is a second name for a PD with the same handle; the daemon
 * does not know it. A thread domain promises that the program does not use an object from two
 * threads. Queues are locked nevertheless, so a thread domain is accepted and has no effect.
 */
#include "provider.h"

#include <errno.h>
#include <stdlib.h>

static struct prov_pd *
pd_of(struct ibv_pd *pd)
{
	return prov_container(pd, struct prov_pd, pd);
}

struct ibv_pd *
prov_alloc_pd(struct ibv_context *ibctx)
{
	struct uroce_handle rep;
	struct prov_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	if (prov_call(ibctx, UROCE_CTRL_ALLOC_PD, NULL, 0, &rep, sizeof(rep))) {
		free(pd);
		return NULL;
	}
	pd->pd.context = ibctx;
	pd->pd.handle = rep.handle;
	return &pd->pd;
}

static struct prov_td *
td_of(struct ibv_td *td)
{
	return prov_container(td, struct prov_td, td);
}

void
prov_pd_hold(struct ibv_pd *pd)
{
	if (pd)
		__atomic_fetch_add(&pd_of(pd)->users, 1, __ATOMIC_RELAXED);
}

void
prov_pd_drop(struct ibv_pd *pd)
{
	if (pd)
		__atomic_fetch_sub(&pd_of(pd)->users, 1, __ATOMIC_RELEASE);
}

int
prov_dealloc_pd(struct ibv_pd *ibpd)
{
	struct prov_pd *pd = pd_of(ibpd);
	int rc;

	if (__atomic_load_n(&pd->users, __ATOMIC_ACQUIRE))
		return prov_fail(EBUSY);
	if (pd->parent) {
		prov_pd_drop(&pd->parent->pd);
		if (pd->td)
			__atomic_fetch_sub(&pd->td->users, 1, __ATOMIC_RELEASE);
	} else {
		rc = prov_call_destroy(ibpd->context, UROCE_CTRL_DEALLOC_PD, ibpd->handle);
		if (rc)
			return rc;
	}
	free(pd);
	return 0;
}

struct ibv_pd *
prov_alloc_parent_domain(struct ibv_context *ibctx, struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	struct prov_pd *pd;

	if (!attr->pd) {
		errno = EINVAL;
		return NULL;
	}
	/*
	 * Allocators provide the memory of queues. The daemon allocates ours, so the allocators
	 * are not called.
	 */
	if (attr->comp_mask & ~known) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->parent = pd_of(attr->pd);
	if (pd->parent->parent)
		pd->parent = pd->parent->parent;
	prov_pd_hold(&pd->parent->pd);
	if (attr->td) {
		pd->td = td_of(attr->td);
		__atomic_fetch_add(&pd->td->users, 1, __ATOMIC_RELAXED);
	}
	pd->pd.context = ibctx;
	pd->pd.handle = attr->pd->handle;
	return &pd->pd;
}

struct ibv_td *
prov_alloc_td(struct ibv_context *ibctx, struct ibv_td_init_attr *attr)
{
	struct prov_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (td)
		td->td.context = ibctx;
	return td ? &td->td : NULL;
}

int
prov_dealloc_td(struct ibv_td *ibtd)
{
	struct prov_td *td = td_of(ibtd);

	if (__atomic_load_n(&td->users, __ATOMIC_ACQUIRE))
		return prov_fail(EBUSY);
	free(td);
	return 0;
}
