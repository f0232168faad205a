/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UROCED_DEFAULTS_H
#define UROCED_DEFAULTS_H

#include <stdint.h>

#define DEFAULTS_MAX      8  /* devices, the one of lo among them */
#define DEFAULTS_SPEC_MAX 64 /* bytes of a specification */

/*
 * What uroced offers if no option names a port: the specifications (--dev) of devices on the port
 * udp, written to spec[DEFAULTS_MAX]. First uroce0 on the interface of the default route, then
 * uroce1 .. on the other interfaces that are up and have an address that is not link-local, in the
 * kernel's order, and uroce_lo on lo. Interfaces beyond DEFAULTS_MAX are left out. Returns
 * their number. Reads /proc/net and the kernel's interfaces, in the network namespace of the
 * process; control thread.
 */
uint32_t defaults_devices(char spec[DEFAULTS_MAX][DEFAULTS_SPEC_MAX]);

#endif
