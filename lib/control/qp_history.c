/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/qp_history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control/session.h"

#define HALF (QP_HISTORY / 2)

int
qp_history_init(struct qp_history *k)
{
	k->qp = calloc(QP_HISTORY, sizeof(*k->qp));
	return k->qp != NULL ? 0 : -ENOMEM;
}

void
qp_history_free(struct qp_history *k)
{
	free(k->qp);
	k->qp = NULL;
}

__attribute__((no_sanitize_thread, noinline)) void
qp_history_copy(struct qp *to, const struct qp *from)
{
	uint64_t *out = (uint64_t *)(void *)to;
	const uint64_t *in = (const uint64_t *)(const void *)from;

	/* A QP is allocated with as many of the SGEs at its end as its receive queue allows. */
	_Static_assert(offsetof(struct qp, recv_sge) % sizeof(*in) == 0, "whole words");
	for (size_t i = 0; i < offsetof(struct qp, recv_sge) / sizeof(*in); i++)
		out[i] = __atomic_load_n(&in[i], __ATOMIC_RELAXED);
}

void
qp_history_look(const struct obj_qp *q, struct past_qp *to)
{
	static struct qp copy; /* large, and there is one control thread */
	const struct session *s = q->o.s;

	memset(to, 0, sizeof(*to));
	qp_history_copy(&copy, q->qp);
	qp_recorder_copy(&to->recorder, q->qp->bind.recorder);
	copy.bind.recorder = &to->recorder;
	qp_recorder_close(&copy, timer_now_ns());
	to->qpn = copy.conn.qpn;
	to->dest_qpn = copy.conn.dest_qpn;
	to->uid = s->peer.uid;
	to->who = quota_who(s->user, s->peer.uid);
	to->pid = s->peer.pid;
	memcpy(to->comm, s->comm, sizeof(to->comm));
	strcpy(to->dev, s->dev->name);
	to->type = copy.conn.type;
	to->state = copy.conn.state;
	to->why = copy.conn.why;
	memcpy(to->sgid, copy.conn.sgid, sizeof(to->sgid));
	memcpy(to->dgid, copy.conn.dgid, sizeof(to->dgid));
}

void
qp_history_add(struct qp_history *k, struct obj_qp *q)
{
	const struct qp_recorder *r = q->qp->bind.recorder;
	bool failed = r->fault.reason != UROCE_ERROR_NONE;
	struct past_qp *to;

	if (k->qp == NULL || (!failed && r->count == 0))
		return;
	to = &k->qp[(failed ? HALF : 0) + k->count[failed]++ % HALF];
	qp_history_look(q, to);
	to->end_ns = timer_now_ns();
}

const struct past_qp *
qp_history_next(const struct qp_history *k, uint32_t *pos)
{
	while (k->qp != NULL && *pos < QP_HISTORY) {
		uint32_t half = *pos / HALF, i = (*pos)++ % HALF;
		uint32_t count = k->count[half], used = RTE_MIN(count, HALF);

		if (i < used)
			return &k->qp[half * HALF + (count - used + i) % HALF];
	}
	return NULL;
}
