/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The deadlines of a QP (enum qp_deadline): times of env->now_ns at which it must act although
 * nothing has arrived. Changing one sends no notification. After each turn and each
 * response the engine compares the earliest deadline with the QP's timer, and arms the timer only
 * if it would expire too late. PACE has no timer: the engine's run list waits for it.
 *
 * The fast path moves QP_DEADLINE_PROBE only. It is kept in snd.probe_ns, in the requester's cache
 * line, and 0 means that it is not set. The others are in conn.deadline_ns, and a bit of
 * snd.deadlines flags those that are set: a QP without loss or waits has none, and pays a test of
 * one byte.
 *
 * Owner worker only.
 */
#ifndef QP_DEADLINE_H
#define QP_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_branch_prediction.h>
#include "qp/conn.h"

/* A set of deadlines: bit d stands for enum qp_deadline d. */
#define QP_DEADLINE_BIT(d) (1u << (d))

/* Is deadline d set? */
static inline bool
qp_deadline_is_set(const struct qp_conn *conn, enum qp_deadline d)
{
	if (d == QP_DEADLINE_PROBE)
		return conn->snd.probe_ns != 0;
	return (conn->snd.deadlines & QP_DEADLINE_BIT(d)) != 0;
}

/* The time of deadline d in ns; 0 if it is not set. */
static inline uint64_t
qp_deadline_get(const struct qp_conn *conn, enum qp_deadline d)
{
	return d == QP_DEADLINE_PROBE ? conn->snd.probe_ns : conn->deadline_ns[d];
}

/* Set or move deadline d to at_ns, which is not 0. */
static inline void
qp_deadline_set(struct qp_conn *conn, enum qp_deadline d, uint64_t at_ns)
{
	if (d == QP_DEADLINE_PROBE) {
		conn->snd.probe_ns = at_ns;
		return;
	}
	conn->snd.deadlines |= (uint8_t)QP_DEADLINE_BIT(d);
	conn->deadline_ns[d] = at_ns;
}

/* Clear deadline d, whether it is set or not. */
static inline void
qp_deadline_clear(struct qp_conn *conn, enum qp_deadline d)
{
	if (d == QP_DEADLINE_PROBE) {
		conn->snd.probe_ns = 0;
		return;
	}
	if (likely(!qp_deadline_is_set(conn, d)))
		return;
	conn->snd.deadlines &= (uint8_t)~QP_DEADLINE_BIT(d);
	conn->deadline_ns[d] = 0;
}

/* Clear all deadlines. */
void qp_deadline_clear_all(struct qp_conn *conn);

/* As qp_deadline_earliest, if snd.deadlines is not 0. */
uint64_t qp_deadline_earliest_set(const struct qp_conn *conn);

/* The earliest deadline that needs a timer, in ns: any but PACE. 0 if none is set. */
static inline uint64_t
qp_deadline_earliest(const struct qp_conn *conn)
{
	if (likely(conn->snd.deadlines == 0))
		return conn->snd.probe_ns;
	return qp_deadline_earliest_set(conn);
}

/* The set of deadlines, except PACE, that are not later than now_ns. They stay set. */
uint32_t qp_deadline_passed(const struct qp_conn *conn, uint64_t now_ns);

#endif
