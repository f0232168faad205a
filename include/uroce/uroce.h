/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Definitions for programs that use more of uroce than verbs. A verbs program needs none of them.
 */
#ifndef UROCE_UROCE_H
#define UROCE_UROCE_H

#ifdef __cplusplus
extern "C" {
#endif

#define UROCE_VERSION_MAJOR 0
#define UROCE_VERSION_MINOR 1
#define UROCE_VERSION_PATCH 0

/*
 * ibv_device_attr.vendor_id of uroce's devices: how a program tells them from others.
 * vendor_part_id is 1; hw_ver is the version of the daemon's ABI.
 */
#define UROCE_VENDOR_ID 0x75726fu

#ifdef __cplusplus
}
#endif

#endif
