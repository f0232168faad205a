/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection as bytes: everything that a fresh QP needs to continue where another QP stopped. An
 * image is struct qp_conn, the SGEs of the receive WQE in use (if there is one), and the copies of
 * the send WQEs snd.tail .. snd.head, in this order. It has no pointers. It is not in network
 * order: an image is for this machine and this QP_CONN_VERSION.
 *
 * The client's rings do not move: the fresh QP is made with the same rings, capacities, type and
 * QPN. Deadlines in an image are times of the clock that env->now_ns comes from.
 */
#ifndef QP_IMAGE_H
#define QP_IMAGE_H

#include <stddef.h>
#include "qp/qp.h"

/* Owner worker, between two calls of the requester or responder. Bytes of qp's image, <= 300 KB. */
size_t qp_image_bytes(const struct qp *qp);

/*
 * Owner worker, as above. Write qp's image, of qp_image_bytes bytes, to image; qp is unchanged. It
 * has no late operation: bind.late_op.op.state is NONE.
 */
void qp_image_save(const struct qp *qp, void *image);

/*
 * Called on the worker that will own qp. qp_create has just made qp, and nothing refers to it yet.
 * qp continues as the QP whose image was saved, with copies of its WQEs from pool. The caller wakes
 * it; its first turn sets its timer and arms its doorbell. The image must come from this daemon: it
 * is checked for mistakes, not for malice. The other QP must not run again.
 *
 * 0. -EPROTO: the image has another version. -EINVAL: wrong length, or the image's QP has other
 * capacities, type or QPN. -ENOMEM: pool has no space; dropping the other QP's copies first may
 * help (qp_sqes_drop). After an error qp is unchanged.
 */
int qp_image_load(struct qp *qp, struct qp_sqe_pool *pool, const void *image, size_t bytes);

#endif
