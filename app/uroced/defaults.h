/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UROCED_DEFAULTS_H
#define UROCED_DEFAULTS_H

#include <stdint.h>

#define DEFAULTS_MAX      8  /* devices, including the one on lo */
#define DEFAULTS_SPEC_MAX 64 /* bytes of a specification */

/*
 * Chooses the devices of a uroced without any port option. Writes their specifications (--dev), all
 * on the port udp, to spec[DEFAULTS_MAX] and returns their number: uroce0 on the interface of the
 * default route; uroce1 .. on the other interfaces that are up and have an address that is not
 * link-local, in the kernel's order; uroce_lo on lo. Interfaces beyond DEFAULTS_MAX are left out.
 * Reads /proc/net and the kernel's interfaces, in the network namespace of the process. Control
 * thread.
 */
uint32_t defaults_devices(char spec[DEFAULTS_MAX][DEFAULTS_SPEC_MAX]);

#endif
