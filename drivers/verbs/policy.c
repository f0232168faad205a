/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of uroce/uroce.h. libibverbs does not know them; programs look them up by name. */
#include "provider.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uroce/uroce.h>

__attribute__((visibility("default"))) int
uroce_qp_set_policy(struct ibv_qp *qp, const char *policy, char *why, size_t size)
{
	struct uroce_set_req req = {.what = UROCE_SET_CC, .index = qp->qp_num};
	struct uroce_set_rep rep;
	int rc;

	if (size != 0)
		why[0] = '\0';
	if (strlen(policy) >= sizeof(req.addr)) {
		snprintf(why, size, "policy: longer than %zu characters", sizeof(req.addr) - 1);
		return errno = EINVAL;
	}
	strcpy(req.addr, policy);
	rc = prov_call(qp->context, UROCE_CTRL_SET, &req, sizeof(req), &rep, sizeof(rep));
	if (rc != 0)
		return rc;
	if (rep.done)
		return 0;
	rep.error[sizeof(rep.error) - 1] = '\0';
	snprintf(why, size, "%s", rep.error);
	return errno = EINVAL;
}
