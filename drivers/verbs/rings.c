/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests whose replies name rings in shared segments. The descriptor of a segment arrives once,
 * with the reply that names it first. It must not be lost:
 *
 *   - Replies are handled in the order of their requests.
 *   - A context keeps descriptors in reserve, so that it can grow in a process that is at its limit
 *     of descriptors (RLIMIT_NOFILE). No request is sent without them.
 *   - A segment that cannot be mapped (RLIMIT_AS) is mapped when it is named again.
 *
 * Whatever fails, the object of the request is destroyed. A resize cannot be undone: it reserves
 * address space before.
 */
#include "provider.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fork.h"

/* Bytes of most segments; larger ones have a multiple of it, or of a page. */
#define SEG_BYTES (2u << 20)

void
prov_rings_init(struct prov_context *ctx)
{
	for (unsigned int i = 0; i < PROV_MAX_RINGS; i++)
		ctx->spare_fd[i] = -1;
}

/* Reserves the descriptors that are not. 0 or a positive errno. */
int
prov_rings_open(struct prov_context *ctx)
{
	for (unsigned int i = 0; i < PROV_MAX_RINGS; i++) {
		if (ctx->spare_fd[i] >= 0)
			continue;
		/* A copy of any descriptor that a child of a fork may keep. */
		ctx->spare_fd[i] = fcntl(ctx->worker[0].wake_fd, F_DUPFD_CLOEXEC, 0);
		if (ctx->spare_fd[i] < 0)
			return errno;
	}
	return 0;
}

void
prov_rings_close(struct prov_context *ctx)
{
	for (unsigned int i = 0; i < PROV_MAX_RINGS; i++) {
		if (ctx->spare_fd[i] >= 0)
			close(ctx->spare_fd[i]);
		ctx->spare_fd[i] = -1;
	}
}

/* Maps the rings of a reply, and closes every descriptor. 0 or a positive errno. */
static int
map_rings(struct prov_context *ctx, const struct prov_rings *r, int *fds, unsigned int nfds)
{
	int rc = 0;

	for (unsigned int i = 0; i < r->n && rc == 0; i++) {
		r->rings[i] = NULL;
		if (r->locs[i]->entries)
			rc = ipc_segmap_ring(&ctx->segs, r->locs[i], r->hdr_bytes, &fds, &nfds,
					     &r->rings[i]);
	}
	while (nfds)
		close(fds[--nfds]);
	return -rc;
}

/* Reserves address space for a segment that holds bytes. NULL: there is not enough. */
static void *
reserve(size_t *bytes)
{
	void *base;

	*bytes = (*bytes + SEG_BYTES - 1) / SEG_BYTES * SEG_BYTES;
	base = mmap(NULL, *bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return base == MAP_FAILED ? NULL : base;
}

/* prov_call_rings with its lock. *made: the daemon has executed the request. */
static int
call_locked(struct prov_context *ctx, struct ipc_call *call, const struct prov_rings *r, bool *made)
{
	size_t bytes = r->resize_bytes;
	void *space = NULL;
	int rc;

	rc = prov_rings_open(ctx);
	if (rc)
		return rc;
	if (bytes) {
		space = reserve(&bytes);
		if (!space)
			return ENOMEM;
	}
	call->spare = ctx->spare_fd;
	call->nspare = PROV_MAX_RINGS;
	rc = prov_call_fds(&ctx->vctx.context, call);
	*made = rc == 0 || call->fds_lost;
	if (space)
		munmap(space, bytes);
	if (rc == 0)
		rc = map_rings(ctx, r, call->rep_fds, call->rep_nfds);
	prov_rings_open(ctx); /* else the next request does it */
	return rc;
}

int
prov_call_rings(struct ibv_context *ibctx, struct ipc_call *call, const struct prov_rings *r)
{
	struct prov_context *ctx = prov_context_of(ibctx);
	int fds[PROV_MAX_RINGS];
	bool made = false;
	int rc;

	call->rep_fds = fds;
	call->rep_fds_max = r->n;
	fork_enter(); /* before the lock: a child initialises it */
	pthread_mutex_lock(&ctx->seg_mutex);
	rc = call_locked(ctx, call, r, &made);
	pthread_mutex_unlock(&ctx->seg_mutex);
	if (made && rc && r->made)
		prov_call_destroy(ibctx, r->destroy, *r->made);
	if (rc)
		errno = rc;
	return rc;
}
