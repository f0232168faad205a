/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions and windows: the requests to the daemon. mr_adopt.h makes the program's memory
 * accessible to the daemon.
 */
#include "provider.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>
#include "map/vma.h"
#include "mr_adopt.h"
#include "page_pause.h"
#include "refusal.h"

#define UNMAP_TRIES   5000    /* 5 s: the daemon unmaps several GiB a second */
#define UNMAP_WAIT_NS 1000000 /* between two tries */
#define LARGE_SHARE   4       /* a region of more than 1/4 of the machine's memory is large */

/* Fills in the description of the memory. Returns 0, or a positive errno and no pin. */
static int
mr_describe(struct uroce_reg_mr_req *req, void *addr, size_t length, uint64_t iova, int *fds,
	    unsigned int *nfds, struct mr_pin **pin)
{
	unsigned int n = 0;
	int rc;

	rc = mr_pieces_build((uintptr_t)addr, length, req->piece, &n, fds, nfds, pin);
	if (rc)
		return rc;
	req->addr = (uintptr_t)addr;
	req->length = length;
	req->iova = iova;
	req->npieces = n;
	return 0;
}

static void
piece_files(struct uroce_reg_mr_req *req, unsigned int from, uint32_t kind, unsigned int to)
{
	for (unsigned int i = 0; i < req->npieces; i++) {
		struct uroce_mr_piece *p = &req->piece[i];

		/* to is at most from, so a renamed piece is not visited again. */
		if (p->kind == UROCE_PIECE_FD && p->fd_index == from) {
			p->kind = kind;
			p->fd_index = to;
		}
	}
}

/*
 * The daemon keeps descriptors: attach only those that it does not have, and request that it keep
 * one of them. A request can make it keep only one; the others are attached again next time.
 */
static void
attach(struct prov_context *ctx, struct uroce_reg_mr_req *req, int *fds, unsigned int *nfds)
{
	uint32_t kept = __atomic_load_n(&ctx->kept, __ATOMIC_ACQUIRE);
	unsigned int n = 0;

	for (unsigned int i = 0; i < *nfds; i++) {
		unsigned int slot = mr_pieces_file(fds[i]);
		bool can_keep = slot < UROCE_MR_KEPT;

		if (can_keep && (kept & 1u << slot)) {
			piece_files(req, i, UROCE_PIECE_KEPT, slot);
			continue;
		}
		if (can_keep && n == 0) {
			piece_files(req, i, UROCE_PIECE_KEPT, slot);
			req->keep = slot + 1;
		} else {
			piece_files(req, i, UROCE_PIECE_FD, n);
		}
		fds[n++] = fds[i];
	}
	*nfds = n;
}

/* Handles the daemon's reply: 0 if it has executed the request. */
static void
attached(struct prov_context *ctx, const struct uroce_reg_mr_req *req, int rc)
{
	if (rc == 0 && req->keep)
		__atomic_fetch_or(&ctx->kept, 1u << (req->keep - 1), __ATOMIC_RELEASE);
}

/*
 * Retries on EAGAIN: memory that this user has deregistered counts against the limit until the
 * daemon has unmapped it.
 */
static int
call_until_unmapped(struct ibv_context *ctx, struct ipc_call *call)
{
	const struct timespec nap = {.tv_nsec = UNMAP_WAIT_NS};
	int rc = prov_call_fds(ctx, call);

	for (unsigned int i = 0; rc == EAGAIN && i < UNMAP_TRIES; i++) {
		nanosleep(&nap, NULL);
		rc = prov_call_fds(ctx, call);
	}
	return rc == EAGAIN ? ENOMEM : rc;
}

/* Does the Yama module let no tracer open this process's memory, whatever it permits? */
static bool
yama_forbids(void)
{
	static int scope = -1; /* not read yet; only an administrator raises it later */
	char digit = '0';
	int fd;

	if (__atomic_load_n(&scope, __ATOMIC_RELAXED) < 0) {
		fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			if (read(fd, &digit, 1) != 1)
				digit = '0';
			close(fd);
		}
		__atomic_store_n(&scope, digit - '0', __ATOMIC_RELAXED);
	}
	return __atomic_load_n(&scope, __ATOMIC_RELAXED) >= 2;
}

/*
 * Gives the daemon access to this process's memory, which it may have to copy: permits it to open
 * it, or attaches an open descriptor. Returns that, which the caller closes, or -1.
 */
static int
give_memory(const struct prov_context *ctx, const struct uroce_reg_mr_req *req, int *fds,
	    unsigned int *nfds)
{
	int fd, err = errno;

	if (req->npieces == 0 || req->piece[0].kind == UROCE_PIECE_FD ||
	    req->piece[0].kind == UROCE_PIECE_KEPT)
		return -1; /* adopted, at least in part: then never copied */
	page_pause_permit(ctx->ipc.sock);
	fd = yama_forbids() ? open("/proc/self/mem", O_RDWR | O_CLOEXEC) : -1;
	if (fd >= 0)
		fds[(*nfds)++] = fd;
	errno = err;
	return fd;
}

static void
close_memory(int fd)
{
	if (fd >= 0)
		close(fd);
}

/*
 * Allocates the anonymous pages of copied memory, as a NIC's driver does when it pins them. A page
 * that is first touched by the daemon's copy costs it many times as much (Linux clears a huge one),
 * which soon uses up its patience with this user: peers get RNR NAKs, and those without RNR retries
 * fail. Large regions may be sparse on purpose and stay so. Pages of files are left alone: they may
 * wait for a file system forever. Errors show when the memory is accessed.
 */
static void
populate(const struct uroce_reg_mr_req *req, const struct uroce_reg_mr_rep *rep)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = req->addr & ~(page - 1);
	uint64_t end = (req->addr + req->length + page - 1) & ~(page - 1);
	bool write = (req->access & IBV_ACCESS_LOCAL_WRITE) != 0;
	struct sysinfo machine;
	struct vma_scan scan;
	struct vma v;
	int err = errno;

	if (rep->path != UROCE_MR_PATH_COPY || sysinfo(&machine) != 0 ||
	    end - at > (uint64_t)machine.totalram * machine.mem_unit / LARGE_SHARE ||
	    vma_scan_open(&scan, 0) != 0) {
		errno = err;
		return;
	}
	while (at < end && vma_scan_next(&scan, at, &v) == 0 && v.start < end) {
		uint64_t to = v.end < end ? v.end : end;

		if (v.start > at)
			at = v.start;
		if (v.inode == 0 && !v.shared)
			madvise((void *)(uintptr_t)at, to - at,
				write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
		at = to;
	}
	vma_scan_close(&scan);
	errno = err;
}

struct ibv_mr *
prov_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	struct uroce_reg_mr_req req = {.pd = pd->handle, .access = (uint32_t)access};
	struct uroce_reg_mr_rep rep;
	struct prov_mr *mr = calloc(1, sizeof(*mr));
	int fds[MR_ADOPT_MAX_FDS + 1];
	unsigned int nfds = 0;
	int rc, mem;

	if (!mr)
		return NULL;
	if (access & IBV_ACCESS_ZERO_BASED) {
		/* ibv_reg_mr gives the address; another iova contradicts the flag. */
		if (iova != (uintptr_t)addr && iova != 0) {
			free(mr);
			errno = EINVAL;
			return NULL;
		}
		iova = 0;
	}
	mr->iova = iova;
	rc = mr_describe(&req, addr, length, iova, fds, &nfds, &mr->pin);
	if (rc == 0) {
		struct ipc_call call = {
			.op = UROCE_CTRL_REG_MR,
			.req = &req,
			.req_len = sizeof(req),
			.req_fds = fds,
			.rep = &rep,
			.rep_len = sizeof(rep),
		};

		attach(prov_context_of(pd->context), &req, fds, &nfds);
		mem = give_memory(prov_context_of(pd->context), &req, fds, &nfds);
		call.req_nfds = nfds;
		rc = call_until_unmapped(pd->context, &call);
		close_memory(mem);
		attached(prov_context_of(pd->context), &req, rc);
		if (rc)
			mr_pieces_release(mr->pin);
		else
			populate(&req, &rep);
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

/* The address of the first byte after a rereg. */
static uint64_t
iova_after(const struct prov_mr *mr, int flags, const void *addr, uint32_t access)
{
	if (access & IBV_ACCESS_ZERO_BASED)
		return 0;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) || (mr->vmr.access & IBV_ACCESS_ZERO_BASED))
		return (uintptr_t)addr;
	return mr->iova;
}

int
prov_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
	      int access)
{
	struct prov_mr *mr = prov_container(vmr, struct prov_mr, vmr);
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
	struct mr_pin *pin = NULL;
	int fds[MR_ADOPT_MAX_FDS + 1];
	unsigned int nfds = 0;
	int rc = 0, mem;

	if (vmr->mr_type == RCA_MR_TYPE_IMPORTED)
		return prov_fail(EINVAL); /* the owning context must do it */
	req.reg.pd = (flags & IBV_REREG_MR_CHANGE_PD) && pd ? pd->handle : 0;
	req.reg.access = (uint32_t)(flags & IBV_REREG_MR_CHANGE_ACCESS ? access : vmr->access);
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = vmr->ibv_mr.addr;
		length = vmr->ibv_mr.length;
	}
	/* Rights decide how the daemon maps the memory: new ones need it described again, too. */
	if (flags & remap)
		rc = mr_describe(&req.reg, addr, length,
				 iova_after(mr, flags, addr, req.reg.access), fds, &nfds, &pin);
	if (rc)
		return prov_fail(rc);
	attach(prov_context_of(vmr->ibv_mr.context), &req.reg, fds, &nfds);
	mem = give_memory(prov_context_of(vmr->ibv_mr.context), &req.reg, fds, &nfds);
	call.req_fds = fds;
	call.req_nfds = nfds;
	rc = call_until_unmapped(vmr->ibv_mr.context, &call);
	close_memory(mem);
	attached(prov_context_of(vmr->ibv_mr.context), &req.reg, rc);
	if (rc) {
		mr_pieces_release(pin);
		return prov_fail(rc);
	}
	if (flags & remap) {
		populate(&req.reg, &rep);
		mr_pieces_release(mr->pin);
		mr->pin = pin;
		mr->iova = req.reg.iova;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		vmr->access = access;
	vmr->ibv_mr.handle = rep.handle;
	vmr->ibv_mr.lkey = rep.lkey;
	vmr->ibv_mr.rkey = rep.rkey;
	return 0;
}

int
prov_dereg_mr(struct verbs_mr *vmr)
{
	struct prov_mr *mr = prov_container(vmr, struct prov_mr, vmr);
	int rc;

	if (vmr->mr_type == RCA_MR_TYPE_IMPORTED)
		return prov_fail(EINVAL); /* an imported MR is released by ibv_unimport_mr */
	rc = prov_call_destroy(vmr->ibv_mr.context, UROCE_CTRL_DEREG_MR, vmr->ibv_mr.handle);
	if (rc)
		return rc;
	mr_pieces_release(mr->pin);
	free(mr);
	return 0;
}

/* Memory windows: allocated by the daemon, bound through the send queue like any other WR. */

struct ibv_mw *
prov_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct uroce_alloc_mw_req req = {.pd = pd->handle, .type = type};
	struct uroce_alloc_mw_rep rep;
	struct ibv_mw *mw = calloc(1, sizeof(*mw));

	if (!mw)
		return NULL;
	if (prov_call(pd->context, UROCE_CTRL_ALLOC_MW, &req, sizeof(req), &rep, sizeof(rep))) {
		free(mw);
		return NULL;
	}
	mw->context = pd->context;
	mw->pd = pd;
	mw->rkey = rep.rkey;
	mw->handle = rep.handle;
	mw->type = type;
	return mw;
}

int
prov_dealloc_mw(struct ibv_mw *mw)
{
	int rc = prov_call_destroy(mw->context, UROCE_CTRL_DEALLOC_MW, mw->handle);

	if (rc == 0)
		free(mw);
	return rc;
}

/* Binding by verb, type 1 only: the window's key changes with every bind. */
int
prov_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
					 .wr_id = bind->wr_id,
					 .opcode = IBV_WR_BIND_MW,
					 .send_flags = bind->send_flags,
					 .bind_mw = {.mw = mw,
						     .rkey = ibv_inc_rkey(mw->rkey),
						     .bind_info = bind->bind_info},
				 };

	if (mw->type != IBV_MW_TYPE_1) {
		prov_refusal_print("ibv_bind_mw",
				   "the window is of type 2: post an IBV_WR_BIND_MW");
		return prov_fail(EINVAL);
	}
	if (bind->bind_info.mr && bind->bind_info.mr->pd != mw->pd) {
		prov_refusal_print("ibv_bind_mw", "window and region are of different PDs");
		return prov_fail(EINVAL);
	}
	return prov_post_send(qp, &wr, &bad);
}
