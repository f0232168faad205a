/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include "control/device.h"
#include "control/log.h"
#include "control/obj.h"
#include "control/session.h"

#define GUESS_LOOK_NS (2 * QP_WRONG_KEY_NS)
#define GUESS_TELL    QP_WRONG_KEYS /* wrong keys on a device between two checks */

static uint64_t
wrong_keys(const struct device *dev)
{
	uint64_t sum = 0;

	for (uint32_t w = 0; w < dev->d->nworkers; w++) {
		const struct counter_block *b =
			worker_counters(worker_get(dev->d->workers, w), dev->port.id);

		sum += counters_read(&b->ctr[COUNTER_RSP_WRONG_KEY]) +
		       counters_read(&b->drop[DROP_KEY_PAUSE]);
	}
	return sum;
}

/* Returns the QP with most wrong keys since the last check; NULL: the QPs are destroyed. */
static struct obj_qp *
most_guessed(struct device *dev, uint32_t *most)
{
	struct obj_qp *q, *found = NULL;

	*most = 0;
	TAILQ_FOREACH (q, &dev->qps, dev_link) {
		uint32_t total = __atomic_load_n(&q->qp->conn.wrong_keys.total, __ATOMIC_RELAXED);
		uint32_t n = total - q->wrong_keys;

		q->wrong_keys = total;
		if (n > *most) {
			*most = n;
			found = q;
		}
	}
	return found;
}

void
guess_look(struct device *dev)
{
	uint64_t now = wrong_keys(dev), n = now - dev->wrong_keys;
	struct obj_qp *q;
	uint32_t most;

	if (daemon_now_ns() < dev->next_guess_ns)
		return;
	dev->next_guess_ns = daemon_now_ns() + GUESS_LOOK_NS;
	dev->wrong_keys = now;
	if (n == 0)
		return;
	q = most_guessed(dev, &most);
	if (n <= GUESS_TELL)
		return;
	if (q != NULL)
		LOG_LIMITED(WARNING,
			    "%s: peers use R_Keys of no region: %" PRIu64
			    " requests since the last check, %u of them to QP 0x%x of uid %u "
			    "(pid %d), which has received %u in total",
			    dev->name, n, most, q->qp->conn.qpn, q->o.s->peer.uid, q->o.s->peer.pid,
			    q->wrong_keys);
	else
		LOG_LIMITED(WARNING,
			    "%s: peers use R_Keys of no region: %" PRIu64
			    " requests since the last check, to QPs that no longer exist",
			    dev->name, n);
}
