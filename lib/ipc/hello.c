/* SPDX-License-Identifier: BSD-3-Clause */
#include "ipc/hello.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include "ipc/ops.h"

const struct ipc_offer ipc_offer_own = {
	.version_min = UROCE_ABI_VERSION_MIN,
	.version_max = UROCE_ABI_VERSION,
	.features = UROCE_ABI_FEATURES,
	.required = UROCE_ABI_REQUIRED,
};
_Static_assert(UROCE_ABI_VERSION_MIN <= UROCE_ABI_VERSION, "the range is not empty");
_Static_assert((UROCE_ABI_REQUIRED & ~UROCE_ABI_FEATURES) == 0,
	       "required features are a subset of those offered");

static void
refuse_versions(const struct ipc_offer *own, uint16_t min, uint16_t max,
		char why[UROCE_CTRL_MAX_WHY])
{
	snprintf(why, UROCE_CTRL_MAX_WHY,
		 "no version of uroce's ABI in common: the client supports %u to %u, the daemon %u "
		 "to %u; install provider and daemon of the same release",
		 min, max, own->version_min, own->version_max);
}

static int
refuse_features(const char *who, uint64_t required, const char *other, uint64_t lacks,
		char why[UROCE_CTRL_MAX_WHY])
{
	snprintf(why, UROCE_CTRL_MAX_WHY,
		 "the %s requires features 0x%" PRIx64
		 " of uroce's ABI, and the %s lacks 0x%" PRIx64
		 " of them; install provider and daemon of the same release",
		 who, required, other, lacks);
	return EPROTONOSUPPORT;
}

int
ipc_hello_agree(const struct ipc_offer *own, const struct uroce_hello_req *req,
		struct uroce_hello_rep *rep, char why[UROCE_CTRL_MAX_WHY])
{
	uint16_t version =
		req->version_max < own->version_max ? req->version_max : own->version_max;

	if (req->version_min > req->version_max) {
		snprintf(why, UROCE_CTRL_MAX_WHY, "HELLO: version_min %u is above version_max %u",
			 req->version_min, req->version_max);
		return EINVAL;
	}
	if (version < own->version_min || version < req->version_min) {
		refuse_versions(own, req->version_min, req->version_max, why);
		return EPROTONOSUPPORT;
	}
	if (ipc_body_spare_used(&ipc_op_get(UROCE_CTRL_HELLO)->req, req) != NULL) {
		snprintf(why, UROCE_CTRL_MAX_WHY,
			 "hello_req.spare must be zero in all versions of uroce's ABI");
		return EINVAL;
	}
	if (req->features_required & ~req->features) {
		snprintf(why, UROCE_CTRL_MAX_WHY,
			 "HELLO: features_required 0x%" PRIx64
			 " is not a subset of features 0x%" PRIx64,
			 req->features_required, req->features);
		return EINVAL;
	}
	if (req->features_required & ~own->features)
		return refuse_features("client", req->features_required, "daemon",
				       req->features_required & ~own->features, why);
	if (own->required & ~req->features)
		return refuse_features("daemon", own->required, "client",
				       own->required & ~req->features, why);
	rep->version = version;
	rep->features = req->features & own->features;
	return 0;
}

void
ipc_hello_refuse_old(const struct ipc_offer *own, uint16_t version, char why[UROCE_CTRL_MAX_WHY])
{
	refuse_versions(own, version, version, why);
}

int
ipc_hello_check(const struct ipc_offer *own, const struct uroce_hello_rep *rep,
		char why[UROCE_CTRL_MAX_WHY])
{
	if (rep->version < own->version_min || rep->version > own->version_max)
		snprintf(why, UROCE_CTRL_MAX_WHY,
			 "the daemon chose version %u of uroce's ABI, the client offered %u to %u",
			 rep->version, own->version_min, own->version_max);
	else if (rep->features & ~own->features)
		snprintf(why, UROCE_CTRL_MAX_WHY,
			 "the daemon chose features 0x%" PRIx64 ", the client offered 0x%" PRIx64,
			 rep->features, own->features);
	else if (own->required & ~rep->features)
		snprintf(why, UROCE_CTRL_MAX_WHY,
			 "the daemon chose features 0x%" PRIx64 ", the client requires 0x%" PRIx64,
			 rep->features, own->required);
	else
		return 0;
	return EPROTO;
}
