/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order in which a responder executes the requests of an RC QP. Shared by the files of
 * lib/responder; owner worker only. Implemented by in_order.c: executes requests in PSN order,
 * drops a packet that comes too early, and sends a sequence NAK.
 *
 * By its PSN a request has one of three places. The order decides which, and what follows:
 *
 *   expected   has the ePSN: rsp_execute, now
 *   duplicate  executed before: rsp_duplicate
 *   early      a packet before it is missing: the order's choice; in_order.c drops it
 *
 * Who frees the packet's mbuf: the engine, at the end of the burst (engine_rx), unless the order
 * keeps an early packet. Then the order
 *
 * - makes it linear (qp_view_own), because a payload in client memory is valid for this burst only;
 * - tells the engine not to free it (env->dropped = QP_ENV_KEPT) and copies the struct wire_pkt,
 *   whose pointers into the frame remain valid (but payload, if the frame was made linear);
 * - frees it once the packet is executed, or when the QP is reset, fails or is destroyed;
 * - keeps few, and only buffers of the engine's pool. Other buffers belong to the port, which
 * cannot receive into them meanwhile: qp_hold_put copies those.
 *
 * UC has a separate order, without NAKs (RSP-06, receive.c); UD has none.
 */
#ifndef RESPONDER_ORDER_H
#define RESPONDER_ORDER_H

#include <rte_mbuf.h>
#include "qp/qp.h"
#include "wire/parse.h"

/*
 * A request pkt of qp (RC, may receive, not fatal), well-formed, in the frame m. Executes or drops
 * it, or makes a NAK due. m: see above.
 */
void rsp_order_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
		  struct rte_mbuf *m);

/*
 * The same for a request that was not executed because its memory was late, and that the engine has
 * kept. Nothing if it was executed meanwhile. A sequence NAK asks for those that came behind it.
 */
void rsp_order_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * The same for a packet with a format error, which is never executed. Expected: NAK-07; early: a
 * sequence NAK; duplicate: nothing (NAK-05). No mbuf: such a packet is never kept.
 */
void rsp_order_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

#endif
