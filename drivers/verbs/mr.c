/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions. How the daemon comes to see the program's memory is mr_adopt.h's business; here
 * is the request around it.
 */
#include "uv.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "mr_adopt.h"

static void
close_fds(const int *fds, unsigned int n)
{
	while (n--)
		close(fds[n]);
}

/* The part of a request that describes memory. 0 or a positive errno, then nothing is held. */
static int
mr_describe(struct uroce_reg_mr_req *req, void *addr, size_t length, uint64_t iova, int *fds,
	    unsigned int *nfds, struct mr_hold **hold)
{
	unsigned int n = 0;
	int rc;

	rc = mr_pieces_build((uintptr_t)addr, length, req->piece, &n, fds, nfds, hold);
	if (rc)
		return rc;
	req->addr = (uintptr_t)addr;
	req->length = length;
	req->iova = iova;
	req->npieces = n;
	return 0;
}

struct ibv_mr *
uv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	struct uroce_reg_mr_req req = {.pd = pd->handle, .access = (uint32_t)access};
	struct uroce_reg_mr_rep rep;
	struct uv_mr *mr = calloc(1, sizeof(*mr));
	int fds[MR_ADOPT_MAX_FDS];
	unsigned int nfds = 0;
	int rc;

	if (!mr)
		return NULL;
	rc = mr_describe(&req, addr, length, iova, fds, &nfds, &mr->hold);
	if (rc == 0) {
		struct ipc_call call = {
			.op = UROCE_CTRL_REG_MR,
			.req = &req,
			.req_len = sizeof(req),
			.req_fds = fds,
			.req_nfds = nfds,
			.rep = &rep,
			.rep_len = sizeof(rep),
		};

		rc = uv_call_fds(pd->context, &call);
		close_fds(fds, nfds);
		if (rc)
			mr_pieces_release(mr->hold);
	}
	if (rc) {
		free(mr);
		errno = rc;
		return NULL;
	}
	mr->vmr.ibv_mr.context = pd->context;
	mr->vmr.ibv_mr.handle = rep.handle;
	mr->vmr.ibv_mr.lkey = rep.lkey;
	mr->vmr.ibv_mr.rkey = rep.rkey;
	mr->vmr.mr_type = RCA_MR_TYPE_MR;
	mr->vmr.access = access;
	return &mr->vmr.ibv_mr;
}

int
uv_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
	    int access)
{
	struct uv_mr *mr = uv_container(vmr, struct uv_mr, vmr);
	struct uroce_rereg_mr_req req = {.handle = vmr->ibv_mr.handle, .flags = (uint32_t)flags};
	struct uroce_reg_mr_rep rep;
	struct ipc_call call = {
		.op = UROCE_CTRL_REREG_MR,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	const int remap = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS;
	struct mr_hold *hold = NULL;
	int fds[MR_ADOPT_MAX_FDS];
	unsigned int nfds = 0;
	int rc = 0;

	if (vmr->mr_type == RCA_MR_TYPE_IMPORTED)
		return EINVAL; /* its owner's */
	req.reg.pd = (flags & IBV_REREG_MR_CHANGE_PD) && pd ? pd->handle : 0;
	req.reg.access = (uint32_t)(flags & IBV_REREG_MR_CHANGE_ACCESS ? access : vmr->access);
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = vmr->ibv_mr.addr;
		length = vmr->ibv_mr.length;
	}
	/* Rights decide how the daemon maps the memory: new ones need it described again, too. */
	if (flags & remap)
		rc = mr_describe(&req.reg, addr, length, (uintptr_t)addr, fds, &nfds, &hold);
	if (rc)
		return rc;
	call.req_fds = fds;
	call.req_nfds = nfds;
	rc = uv_call_fds(vmr->ibv_mr.context, &call);
	close_fds(fds, nfds);
	if (rc) {
		mr_pieces_release(hold);
		return rc;
	}
	if (flags & remap) {
		mr_pieces_release(mr->hold);
		mr->hold = hold;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		vmr->access = access;
	vmr->ibv_mr.handle = rep.handle;
	vmr->ibv_mr.lkey = rep.lkey;
	vmr->ibv_mr.rkey = rep.rkey;
	return 0;
}

int
uv_dereg_mr(struct verbs_mr *vmr)
{
	struct uv_mr *mr = uv_container(vmr, struct uv_mr, vmr);
	int rc;

	if (vmr->mr_type == RCA_MR_TYPE_IMPORTED)
		return EINVAL; /* its owner's; ibv_unimport_mr is for this one */
	rc = uv_call_destroy(vmr->ibv_mr.context, UROCE_CTRL_DEREG_MR, vmr->ibv_mr.handle);
	if (rc)
		return rc;
	mr_pieces_release(mr->hold);
	free(mr);
	return 0;
}
