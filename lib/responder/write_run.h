/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RESPONDER_WRITE_RUN_H
#define RESPONDER_WRITE_RUN_H

#include <stdint.h>
#include "responder/responder_parts.h"

#define RSP_RUN_BYTES (128u * 1024) /* payload of a run: a burst */
#define RSP_RUN_PKTS  32u           /* the same in packets */

/*
 * A run: packets of SENDs, or of WRITEs without immediate, that follow each other in a burst
 * (qp_env, rx_next). Their payload is written to memory accessed by ops in one operation, which
 * costs hardly more than one packet. The packets behind the first are then checked and executed
 * like any others; only their payload is already written (rsp_written_ahead, rsp_send_prewritten).
 * The peer or the client may write to this memory anyway, whatever becomes of the later messages.
 */

/*
 * Worker. Writes the payload of pkt, the WRITE packet of an RC QP that has the ePSN and has passed
 * all checks, to memory that is accessed by ops: mr at addr. With it the rest of its run: R_Key and
 * rights were checked for the rest of the message, and are for later ones, which are in mr, too.
 * Returns 0 or -errno as mr_write_once does. rkey: of the message.
 */
int rsp_write_run(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
		  const struct mr *mr, uint64_t addr, uint32_t rkey);

/*
 * Worker. The first len bytes of pkt's run were written by a call of rsp_write_run that was late,
 * and pkt is executed without another one (rsp_late_fate).
 */
void rsp_write_was_late(struct qp *qp, const struct wire_pkt *pkt, uint32_t len);

/*
 * Worker. The same for a SEND packet, at offset off of the receive WQE. The rest of its run is
 * written with it if the first byte's memory is accessed by ops, all L_Keys are good for the run,
 * and no access fails; else pkt alone. Returns 0 or -errno of mr_write.
 */
int rsp_send_write(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t off);

/*
 * Worker. Was the payload of the first packet of a SEND, which has the ePSN and goes to mr (or
 * NULL) at addr, written with a message before it? The client may have changed the receive WQE
 * since: its address decides.
 */
bool rsp_send_prewritten(struct qp_env *env, struct qp *qp, const struct mr *mr, uint64_t addr);

/*
 * Worker. Was the payload of the packet with the ePSN, which is not the first of a SEND, written by
 * an earlier call? A WRITE then needs its region no more: a program that polls its memory may have
 * seen the data and deregistered it. The call for the run's last packet ends the run.
 */
bool rsp_written_ahead(struct qp *qp);

#endif
