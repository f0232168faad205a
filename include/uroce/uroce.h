/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce's extensions to verbs. A verbs program needs none of them.
 */
#ifndef UROCE_UROCE_H
#define UROCE_UROCE_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UROCE_VERSION_MAJOR 0
#define UROCE_VERSION_MINOR 1
#define UROCE_VERSION_PATCH 0

/*
 * ibv_device_attr.vendor_id of uroce's devices. It identifies them among other devices.
 * vendor_part_id is 1; hw_ver is the version of the daemon's ABI.
 */
#define UROCE_VENDOR_ID 0x75726fu

struct ibv_qp;

/*
 * Sets the congestion policy of qp, an RC or UC QP of a uroce device that this process has created.
 * The policy takes effect at once and also applies to later connections of qp, until an operator
 * sets the policy of the device. policy: "POLICY" or "POLICY:name=value:name=value", at most 63
 * characters; policies and parameters are those of the device option cc= (doc/congestion.md). Any
 * thread.
 *
 * Returns 0 or a positive errno, which is also in errno: EINVAL for a wrong policy or parameter or
 * a UD QP; EPERM if qp is not a QP of this context; EIO if the daemon is gone. With EINVAL, why
 * holds a sentence with the legal values, truncated to size bytes including the NUL (250 suffice;
 * with size 0 nothing is written).
 *
 * The function is part of uroce's provider, which libibverbs loads. Programs cannot link with it;
 * uroce_provider_call looks it up.
 */
typedef int uroce_qp_set_policy_fn(struct ibv_qp *qp, const char *policy, char *why, size_t size);
uroce_qp_set_policy_fn uroce_qp_set_policy;

/*
 * Returns the provider's function of this name, or a null pointer if this process has not opened a
 * uroce device or its provider is older than the function. Uses <dlfcn.h>, which this header
 * includes.
 */
static inline void *
uroce_provider_call(const char *name)
{
	void *provider = dlopen("liburoce-rdmav34.so", RTLD_LAZY | RTLD_NOLOAD);
	void *call = provider != NULL ? dlsym(provider, name) : NULL;

	if (provider != NULL)
		dlclose(provider);
	return call;
}

#ifdef __cplusplus
}
#endif

#endif
