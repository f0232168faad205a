/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the provider itself exports. Discovery: libibverbs finds devices in sysfs and asks each
 * provider whether it serves them.
 */
#include "provider.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uroce/uroce.h>

static const struct verbs_match_ent match_table[] = {
	{.u.text = "rdma_device:*N" PROV_DEVICE_PREFIX "*", .kind = RCA_MATCH_MODALIAS},
	{.kind = RCA_MATCH_END},
};

static struct verbs_device *
prov_alloc_device(struct verbs_sysfs_dev *sysfs)
{
	(void)sysfs;
	return calloc(1, sizeof(struct verbs_device));
}

static void
prov_uninit_device(struct verbs_device *device)
{
	free(device);
}

const struct verbs_device_ops prov_device_ops = {
	.name = PROV_DEVICE_PREFIX,
	.match_min_abi_version = UROCE_ABI_VERSION_MIN,
	.match_max_abi_version = UROCE_ABI_VERSION,
	.match_table = match_table,
	.alloc_context = prov_alloc_context,
	.import_context = prov_import_context,
	.alloc_device = prov_alloc_device,
	.uninit_device = prov_uninit_device,
};

static __attribute__((constructor)) void
prov_register(void)
{
	if (rca_register(&prov_device_ops))
		prov_hooks_install();
}

/* The functions of uroce/uroce.h. libibverbs does not know them; programs look them up by name. */
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
