/* SPDX-License-Identifier: BSD-3-Clause */
/* The policies, indexed by number. */
#include "cc/cc_parts.h"

const struct cc_ops *const cc_policies[CC_POLICIES] = {
	[CC_FIXED] = &cc_fixed, [CC_TEST] = &cc_test,     [CC_DCQCN] = &cc_dcqcn,
	[CC_SWIFT] = &cc_swift, [CC_TIMELY] = &cc_timely,
};
