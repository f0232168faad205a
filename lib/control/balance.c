/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/balance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uroce_abi/ctrl.h>
#include "control/daemon.h"
#include "control/device.h"
#include "control/log.h"
#include "control/obj.h"
#include "worker/worker.h"

#define DIFFERENCE 200u /* permille of time: smaller ones are left */
#define PERIOD_NS  1000000000ull
#define REST_NS    10000000000ull /* between two moves of a QP */

struct balance {
	struct daemon *d;
	uint64_t next_ns; /* next look */
	struct worker_usage last[UROCE_MAX_WORKERS];
	uint32_t busy[UROCE_MAX_WORKERS]; /* permille, smoothed since the last move */
	uint32_t samples;                 /* in busy */
};

/* --- the choice */

uint32_t
balance_choose(const uint32_t *busy, uint32_t nworkers, const struct balance_qp *qp, uint32_t n,
	       uint32_t *to)
{
	uint64_t bytes[UROCE_MAX_WORKERS] = {0}, most = 0;
	uint32_t least = 0, best = n, i;

	for (i = 1; i < nworkers; i++) {
		if (busy[i] < busy[least])
			least = i;
	}
	for (i = 0; i < n; i++)
		bytes[qp[i].worker] += qp[i].bytes;
	for (i = 0; i < n; i++) {
		uint32_t from = qp[i].worker, diff = busy[from] - busy[least];
		uint64_t part, gain;

		if (qp[i].stays || qp[i].bytes == 0 || diff < DIFFERENCE)
			continue;
		part = qp[i].bytes * busy[from] / bytes[from];
		if (part > diff * 3 / 4)
			continue;
		gain = part < diff - part ? part : diff - part;
		if (gain > most) {
			most = gain;
			best = i;
		}
	}
	*to = least;
	return best;
}

/* --- once a second */

static void
measure(struct balance *b)
{
	for (uint32_t i = 0; i < b->d->nworkers; i++) {
		struct worker_usage u, *last = &b->last[i];
		uint64_t busy, all;
		uint32_t now;

		worker_usage_get(worker_get(b->d->workers, i), &u);
		busy = u.busy_ns - last->busy_ns;
		all = busy + u.idle_ns - last->idle_ns;
		now = all != 0 ? (uint32_t)(busy * 1000 / all) : 0;
		b->busy[i] = b->samples == 0 ? now : (b->busy[i] + now) / 2;
		*last = u;
	}
	b->samples++;
}

/* Looks at a QP, which gets a row. */
static struct balance_qp
look(struct obj_qp *q, uint64_t now_ns)
{
	const struct qp *qp = q->qp;
	uint64_t bytes = counters_read(&qp->conn.rx_bytes) + counters_read(&qp->conn.tx_bytes);
	struct balance_qp row = {
		.bytes = bytes > q->balance.bytes ? bytes - q->balance.bytes : 0,
		.worker = qp_worker(qp),
		.stays = qp->bind.fixed || (qp->bind.pinned && !q->balance.pinned) ||
			 now_ns < q->balance.rest_until_ns,
	};

	q->balance.bytes = bytes;
	return row;
}

static void
move(struct balance *b, struct obj_qp *q, uint32_t to, uint64_t now_ns)
{
	bool pinned = q->qp->bind.pinned;
	uint32_t from = qp_worker(q->qp);
	const char *why;

	/* It must not follow its packets back. */
	__atomic_store_n(&q->qp->bind.pinned, true, __ATOMIC_RELAXED);
	why = worker_move_qp(b->d->workers, q->qp, to);
	q->balance.rest_until_ns = now_ns + REST_NS;
	if (why != NULL) {
		__atomic_store_n(&q->qp->bind.pinned, pinned, __ATOMIC_RELAXED);
		return;
	}
	q->balance.pinned = true;
	b->d->balance_moves++;
	b->samples = 0;
	LOG(INFO, "balance: QP %u moved from worker %u to worker %u", q->qp->conn.qpn, from, to);
}

static uint32_t
count_qps(const struct daemon *d)
{
	const struct obj_qp *q;
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->ndevs; i++) {
		TAILQ_FOREACH (q, &d->dev[i]->qps, dev_link)
			n++;
	}
	return n;
}

/* choose: move one if that is worth it; else only look. */
static void
round_of(struct balance *b, bool choose)
{
	uint32_t room = count_qps(b->d), n = 0, to, i;
	struct balance_qp *row = calloc(room + 1, sizeof(*row));
	struct obj_qp *q, **of = calloc(room + 1, sizeof(*of));
	uint64_t now_ns = daemon_now_ns();

	measure(b);
	for (i = 0; row != NULL && of != NULL && i < b->d->ndevs; i++) {
		TAILQ_FOREACH (q, &b->d->dev[i]->qps, dev_link) {
			of[n] = q;
			row[n++] = look(q, now_ns);
		}
	}
	i = balance_choose(b->busy, b->d->nworkers, row, n, &to);
	if (choose && i < n)
		move(b, of[i], to, now_ns);
	free(row);
	free(of);
}

void
balance_look(struct daemon *d)
{
	uint64_t now_ns = daemon_now_ns();

	if (d->balance == NULL || now_ns < d->balance->next_ns)
		return;
	d->balance->next_ns = now_ns + PERIOD_NS;
	round_of(d->balance, true);
	d->balance_rounds++;
}

int
balance_start(struct daemon *d)
{
	struct balance *b;

	if (d->balance != NULL)
		return 0;
	b = calloc(1, sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	b->d = d;
	b->next_ns = daemon_now_ns() + PERIOD_NS;
	round_of(b, false);
	b->samples = 0;
	d->balance = b;
	return 0;
}

void
balance_stop(struct daemon *d)
{
	struct balance *b = d->balance;
	struct obj_qp *q;

	if (b == NULL)
		return;
	for (uint32_t i = 0; i < d->ndevs; i++) {
		TAILQ_FOREACH (q, &d->dev[i]->qps, dev_link) {
			if (q->balance.pinned)
				__atomic_store_n(&q->qp->bind.pinned, false, __ATOMIC_RELAXED);
			q->balance.pinned = false;
		}
	}
	free(b);
	d->balance = NULL;
}
