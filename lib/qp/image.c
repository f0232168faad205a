/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include "qp/image.h"
#include "qp/recorder.h"

/* Bytes of the SGEs in conn's image. */
static size_t
sge_bytes(const struct qp_conn *conn)
{
	return conn->rcv.cur.taken ? conn->rcv.cur.wqe.num_sge * sizeof(struct uroce_sge) : 0;
}

/* Bytes of conn's image if a copy of a send WQE has entry_bytes. */
static size_t
image_bytes(const struct qp_conn *conn, size_t entry_bytes)
{
	return sizeof(*conn) + sge_bytes(conn) + (conn->snd.head - conn->snd.tail) * entry_bytes;
}

size_t
qp_image_bytes(const struct qp *qp)
{
	return image_bytes(&qp->conn, qp->bind.sqes.entry_bytes);
}

void
qp_image_save(const struct qp *qp, void *image)
{
	const struct qp_snd *snd = &qp->conn.snd;
	size_t sges = sge_bytes(&qp->conn);
	uint8_t *to = image;

	memcpy(to, &qp->conn, sizeof(qp->conn));
	to += sizeof(qp->conn);
	memcpy(to, qp->recv_sge, sges);
	to += sges;
	qp_sqes_save(&qp->bind.sqes, snd->tail, snd->head, to);
}

/* Can qp take over conn, from an image of this many bytes? 0 or -errno. */
static int
check(const struct qp *qp, const struct qp_conn *conn, size_t bytes)
{
	if (conn->version != QP_CONN_VERSION)
		return -EPROTO;
	if (conn->qpn != qp->conn.qpn || conn->type != qp->conn.type ||
	    memcmp(&conn->cap, &qp->conn.cap, sizeof(conn->cap)) != 0)
		return -EINVAL;
	if (!cc_policy_exists(conn->cc_flow.param.policy))
		return -EINVAL;
	if (conn->snd.head - conn->snd.tail > qp->bind.sqes.mask + 1u)
		return -EINVAL;
	return bytes == image_bytes(conn, qp->bind.sqes.entry_bytes) ? 0 : -EINVAL;
}

int
qp_image_load(struct qp *qp, struct qp_sqe_pool *pool, const void *image, size_t bytes)
{
	const uint8_t *from = image;
	struct qp_conn conn;
	size_t sges;
	int rc;

	if (bytes < sizeof(conn))
		return -EINVAL;
	memcpy(&conn, from, sizeof(conn));
	rc = check(qp, &conn, bytes);
	if (rc != 0)
		return rc;
	from += sizeof(conn);
	sges = sge_bytes(&conn);
	if (!qp_sqes_load(&qp->bind.sqes, pool, conn.snd.tail, conn.snd.head, from + sges))
		return -ENOMEM;
	memcpy(&qp->conn, &conn, sizeof(conn));
	memcpy(qp->recv_sge, from, sges);
	/* WQEs posted behind them are read from the shared rings. */
	qp->bind.sq.prod = conn.snd.head;
	qp->bind.rq.prod = conn.rcv.head;
	/* What was held, or was to be sent again, is not in the image. */
	qp->conn.rcv.holding = false;
	qp->conn.snd.resend = false;
	qp_recorder_sync(qp);
	return 0;
}
