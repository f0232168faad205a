/* SPDX-License-Identifier: BSD-3-Clause */
/* An RC connection without client or daemon: of two engines in one thread, or of two processes. */
#ifndef KIT_RC_CONNECT_H
#define KIT_RC_CONNECT_H

#include "qp/qp.h"

/*
 * From RESET to RTS: mtu bytes (256 .. 4096), PSNs from 0, every remote right, timeout as in a
 * modify (0 .. 31), all retries. path is not kept. Called by the thread that runs qp's engine.
 * False: a step is refused.
 */
bool rc_connect(struct qp_env *env, struct qp *qp, uint32_t mtu, uint32_t dest_qpn, uint8_t timeout,
		const struct qp_path *path);

/*
 * The path from side (0: 10.0.0.1, 1: 10.0.0.2) to the other, for the connection between two QPs of
 * number qpn.
 */
struct qp_path rc_path(const uint8_t smac[6], const uint8_t dmac[6], unsigned side, uint32_t qpn);

#endif
