/* SPDX-License-Identifier: BSD-3-Clause */
/* An RC connection without client or daemon, for modes engine and wire. */
#ifndef UROCE_BENCH_CONNECT_H
#define UROCE_BENCH_CONNECT_H

#include "qp/qp.h"

/*
 * Owner worker of qp, or its thread where there is none. From RESET to RTS: mtu bytes (256 ..
 * 4096), PSNs from 0, every remote right, timeout as in a modify (0 .. 31), all retries. path is
 * not kept. False: a step is refused.
 */
bool bench_connect(struct qp_env *env, struct qp *qp, uint32_t mtu, uint32_t dest_qpn,
		   uint8_t timeout, const struct qp_path *path);

#endif
