/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_common.h>
#include "qp/deadline.h"

void
qp_deadline_clear_all(struct qp_conn *conn)
{
	conn->snd.probe_ns = 0;
	conn->snd.deadlines = 0;
	memset(conn->deadline_ns, 0, sizeof(conn->deadline_ns));
}

uint64_t
qp_deadline_earliest_set(const struct qp_conn *conn)
{
	uint64_t at_ns = UINT64_MAX;

	for (enum qp_deadline d = 0; d < QP_DEADLINES; d++) {
		if (d != QP_DEADLINE_PACE && qp_deadline_is_set(conn, d))
			at_ns = RTE_MIN(at_ns, qp_deadline_get(conn, d));
	}
	return at_ns == UINT64_MAX ? 0 : at_ns;
}

uint32_t
qp_deadline_passed(const struct qp_conn *conn, uint64_t now_ns)
{
	uint32_t passed = 0;

	for (enum qp_deadline d = 0; d < QP_DEADLINES; d++) {
		if (d != QP_DEADLINE_PACE && qp_deadline_is_set(conn, d) &&
		    qp_deadline_get(conn, d) <= now_ns)
			passed |= QP_DEADLINE_BIT(d);
	}
	return passed;
}
