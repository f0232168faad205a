/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RESPONDER_WRITE_RUN_H
#define RESPONDER_WRITE_RUN_H

#include <stdint.h>
#include "responder/responder_parts.h"

#define RSP_WRITE_RUN_BYTES (64u * 1024) /* payload of a run */

/*
 * Worker. Writes the payload of pkt, the WRITE packet of an RC QP that has the ePSN and has passed
 * all checks, to memory that is accessed by ops: mr at addr. Packets of the same message that
 * follow it in the burst (qp_env, rx_next) are written in the same operation, which costs hardly
 * more than one packet; rsp_written_ahead then finds them written. R_Key and rights were checked
 * for the rest of the message. Returns 0 or -errno as mr_write_once does.
 */
int rsp_write_run(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
		  const struct mr *mr, uint64_t addr);

/* Was the payload of the WRITE packet with the ePSN written by an earlier rsp_write_run? */
bool rsp_written_ahead(const struct qp *qp);

#endif
