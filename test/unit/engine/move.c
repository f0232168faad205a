/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving a connection to a fresh QP, as an upgrade of the daemon will. */
#include <stdlib.h>
#include <string.h>
#include "harness.h"
#include "conn_print.h"
#include "qp/image.h"

void
conn_equal(const struct qp_conn *is, const struct qp_conn *expected)
{
	static char a[QP_CONN_PRINT_BYTES], b[QP_CONN_PRINT_BYTES];
	char *x = a, *y = b, *field, *was;

	if (memcmp(is, expected, sizeof(*is)) == 0)
		return;
	qp_conn_print(is, a, sizeof(a));
	qp_conn_print(expected, b, sizeof(b));
	while ((field = strsep(&x, "\n")) != NULL && (was = strsep(&y, "\n")) != NULL) {
		if (strcmp(field, was) != 0)
			print_error("is %s, expected %s\n", field, was);
	}
	fail_msg("the connections differ");
}

struct qp *
conn_fresh_qp(struct conn *c)
{
	const struct qp *q = c->qp;
	struct qp_create n = {
		.qpn = q->conn.qpn,
		.type = q->conn.type,
		.port = q->bind.port,
		.pd = q->bind.pd,
		.send_cq = q->bind.send_cq,
		.recv_cq = q->bind.recv_cq,
		.srq = q->bind.srq,
		.cap = q->conn.cap,
		.sq = q->bind.sq,
		.rq = q->bind.rq,
		.counters = q->bind.counters,
	};
	struct qp *qp;

	n.sq.prod = n.rq.prod = 0;
	qp = qp_create(&n);
	assert_non_null(qp);
	return qp;
}

void
conn_move(struct conn *c)
{
	struct engine *e = &c->b->engine;
	struct qp *fresh;
	size_t bytes;
	void *image;

	bench_run(c->b);
	bytes = qp_image_bytes(c->qp);
	image = malloc(bytes);
	assert_non_null(image);
	qp_image_save(c->qp, image);
	fresh = conn_fresh_qp(c);
	engine_forget(e, c->qp);
	memset(&c->qp->conn, 0xa5, sizeof(c->qp->conn)); /* nobody may read it any more */
	qp_free(c->qp);
	assert_int_equal(qp_image_load(fresh, c->b->sqes, image, bytes), 0);
	conn_equal(&fresh->conn, image);
	free(image);
	c->b->qps.slot[fresh->conn.qpn & c->b->qps.mask] = fresh;
	c->qp = fresh;
	engine_wake(e, fresh);
	bench_run(c->b);
}
