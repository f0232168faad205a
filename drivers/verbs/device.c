/* SPDX-License-Identifier: BSD-3-Clause */
/* Discovery: libibverbs finds devices in sysfs and asks each provider whether it serves them. */
#include "provider.h"

#include <stdlib.h>

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
