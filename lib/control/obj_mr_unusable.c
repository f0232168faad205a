/* SPDX-License-Identifier: BSD-3-Clause */
/* Why memory cannot be registered. */
#include <errno.h>
#include <inttypes.h>
#include "control/log.h"
#include "control/obj.h"
#include "map/mrmap.h"

/* The provider describes the memory, so the program cannot know what is wrong with that. */
static void
log_malformed(const struct session *s, const struct uroce_reg_mr_req *q,
	      const struct mrmap_found *found)
{
	const struct uroce_mr_piece *p = &q->piece[0];

	LOG_LIMITED(NOTICE,
		    "client %u: %s (pid %d): cannot register %" PRIu64 " bytes at 0x%" PRIx64
		    ": malformed description of the memory, noticed when it was %s: %u pieces, "
		    "the first of kind %u at 0x%" PRIx64 ", %" PRIu64 " bytes, file %u, offset "
		    "0x%" PRIx64 "; keep %u; found %u ranges in %u files",
		    s->id, s->comm, s->peer.pid, q->length, q->addr,
		    found->err != 0 ? "looked up" : "mapped", q->npieces, p->kind, p->va, p->len,
		    p->fd_index, p->fd_off, q->keep, found->err != 0 ? 0 : found->nruns,
		    found->err != 0 ? 0 : found->nfds);
}

void
mr_log_unusable(const struct session *s, const struct uroce_reg_mr_req *q,
		const struct mrmap_found *found, int rc)
{
	const char *why;

	if (rc == EINVAL)
		log_malformed(s, q, found);
	if (rc == EFAULT)
		why = "not mapped with the rights that the access flags need, or beyond the end of "
		      "its file";
	else if (rc == EPERM)
		why = "uroced may not read this process's memory: it has another user, cannot be "
		      "dumped (PR_SET_DUMPABLE, a set-user-id program) or may not be traced "
		      "(kernel.yama.ptrace_scope)";
	else
		return;
	LOG_LIMITED(NOTICE,
		    "client %u: %s (pid %d): cannot register %" PRIu64 " bytes at 0x%" PRIx64
		    ": %s",
		    s->id, s->comm, s->peer.pid, q->length, q->addr, why);
}
