/* SPDX-License-Identifier: BSD-3-Clause */
/* Why memory cannot be registered. */
#include <errno.h>
#include <inttypes.h>
#include "control/log.h"
#include "control/obj.h"

void
mr_log_unusable(const struct session *s, const struct uroce_reg_mr_req *q, int rc)
{
	const char *why;

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
