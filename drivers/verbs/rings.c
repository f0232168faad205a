/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests whose replies name rings in shared segments. When the daemon has no room for a ring, the
 * context gets a further segment, and repeats the request. A context keeps a descriptor in reserve,
 * so that it can grow in a process that is at its limit of descriptors (RLIMIT_NOFILE). A segment
 * that does not fit or cannot be mapped (RLIMIT_AS) is offered again.
 */
#include "provider.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "fork.h"

int
prov_rings_open(struct prov_context *ctx)
{
	if (ctx->spare_fd >= 0)
		return 0;
	/* A copy of any descriptor that a child of a fork may keep. */
	ctx->spare_fd = fcntl(ctx->worker[0].wake_fd, F_DUPFD_CLOEXEC, 0);
	return ctx->spare_fd < 0 ? errno : 0;
}

void
prov_rings_close(struct prov_context *ctx)
{
	if (ctx->spare_fd >= 0)
		close(ctx->spare_fd);
	ctx->spare_fd = -1;
}

/* Gets the segment that the daemon lacks. 0 or a positive errno. */
static int
segment_add(struct prov_context *ctx)
{
	struct uroce_segment_rep rep;
	int fd, rc;
	struct ipc_call call = {
		.op = UROCE_CTRL_SEGMENT,
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = &fd,
		.rep_fds_max = 1,
		.spare = &ctx->spare_fd,
		.nspare = 1,
	};

	prov_rings_open(ctx); /* if the last try failed */
	rc = prov_call_fds(&ctx->vctx.context, &call);
	if (rc == 0)
		rc = call.rep_nfds == 1 ? -ipc_segmap_add(&ctx->segs, &rep, fd) : EPROTO;
	prov_rings_open(ctx);
	return rc;
}

int
prov_call_rings(struct ibv_context *ibctx, struct ipc_call *call, const struct prov_rings *r)
{
	struct prov_context *ctx = prov_context_of(ibctx);
	int rc;

	fork_enter(); /* before the lock: a child initialises it */
	pthread_mutex_lock(&ctx->seg_mutex);
	rc = prov_call_fds(ibctx, call);
	for (unsigned int i = 0; rc == ENOSPC && i < r->n; i++) {
		rc = segment_add(ctx);
		if (rc == 0)
			rc = prov_call_fds(ibctx, call);
	}
	for (unsigned int i = 0; i < r->n && rc == 0; i++) {
		r->rings[i] = NULL;
		if (r->locs[i]->entries == 0)
			continue;
		r->rings[i] = ipc_segmap_ring(&ctx->segs, r->locs[i], r->hdr_bytes);
		if (!r->rings[i])
			rc = EPROTO;
	}
	pthread_mutex_unlock(&ctx->seg_mutex);
	if (rc)
		errno = rc;
	return rc;
}
