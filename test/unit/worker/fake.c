/* SPDX-License-Identifier: BSD-3-Clause */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rte_mbuf.h>
#include "fake.h"

struct fake_worker fake[UROCE_MAX_WORKERS];
bool fake_sleep_for_ever;
uint32_t fake_sleeping;

int
ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *limit, const sigset_t *mask)
{
	int rc;

	if (!__atomic_load_n(&fake_sleep_for_ever, __ATOMIC_ACQUIRE))
		return poll(fds, nfds, (int)(limit->tv_nsec / 1000000) + 1);
	rc = poll(fds, nfds, 0); /* a wake-up that came late, after what it was for */
	if (rc != 0)
		return rc;
	__atomic_add_fetch(&fake_sleeping, 1, __ATOMIC_RELEASE);
	rc = poll(fds, nfds, -1);
	__atomic_sub_fetch(&fake_sleeping, 1, __ATOMIC_RELEASE);
	return rc;
}

void (*fake_before_read)(void);
int fake_read_fd;

ssize_t
read(int fd, void *buf, size_t n)
{
	void (*hook)(void) = fd == fake_read_fd ? fake_before_read : NULL;

	if (hook != NULL) {
		fake_before_read = NULL;
		hook();
	}
	return syscall(SYS_read, fd, buf, n);
}

void
engine_set_sr(struct engine *e, struct qp_sr_pool *sr)
{
	e->env.sr = sr;
}

void
engine_init(struct engine *e, struct rte_mempool *pool, struct qp_sqe_pool *sqes,
	    const struct mr_table *mrs, const struct qp_table *qps, uint32_t worker,
	    const struct engine_ops *ops, void *ops_ctx)
{
	memset(e, 0, sizeof(*e));
	memset(&fake[worker], 0, sizeof(fake[worker]));
	e->env.pool = pool;
	e->env.sqes = sqes;
	e->env.tx = e->tx;
	e->env.tx_cap = ENGINE_TX_CAP;
	e->worker = worker;
	e->qps = qps;
	e->ops = ops;
	e->ops_ctx = ops_ctx;
}

void
engine_add_dev(struct engine *e, uint16_t dev, const uint8_t mac[6], struct counter_block *counters)
{
	e->dev[dev].present = true;
	memcpy(&e->dev[dev].mac, mac, 6);
	e->dev[dev].counters = counters;
}

void
engine_set_lcore(struct engine *e, uint32_t lcore)
{
	e->lcore = lcore;
}

void
engine_set_pool(struct engine *e, uint16_t dev, struct rte_mempool *pool)
{
}

void
engine_set_segs(struct engine *e, struct qp_segs *segs)
{
	e->env.segs = segs;
}

void
engine_set_zero_copy(struct engine *e, uint16_t dev, uint32_t bytes)
{
}

void
engine_set_peers(struct engine *e, uint16_t dev, const struct engine_peers *peers)
{
}

void
engine_set_unknown_id(struct engine *e, uint16_t dev, bool unknown_id, bool strict)
{
}

void
engine_set_vlan(struct engine *e, uint16_t dev, uint16_t vid)
{
}

void
engine_set_hostif(struct engine *e, uint16_t dev, bool hostif)
{
}

enum fake_gives fake_gives;
uint32_t fake_disorder;
static bool fake_leaves; /* atomic */

const char *
engine_may_give(const struct qp *qp)
{
	enum fake_gives gives = __atomic_load_n(&fake_gives, __ATOMIC_RELAXED);
	bool leaves = __atomic_load_n(&fake_leaves, __ATOMIC_RELAXED);

	return gives == FAKE_GIVES || (gives == FAKE_GIVES_NOT_THEN && !leaves)
		       ? NULL
		       : "the test refuses";
}

const struct fake_send *fake_at_leave;

/* What a QP that moves sends. */
static struct fake_send fake_sending;

void
engine_give(struct engine *e, struct qp *qp, void *wqes)
{
	fake[e->worker].given++;
	if (fake[e->worker].send.qp == qp) {
		fake_sending = fake[e->worker].send;
		memset(&fake[e->worker].send, 0, sizeof(fake_sending));
	}
	engine_leave(e, 0, 0);
	*(uint32_t *)wqes = qp->conn.qpn;
}

void
engine_leave(struct engine *e, uint32_t qpn, uint32_t to)
{
	e->leaving_qpn = qpn;
	__atomic_store_n(&fake_leaves, qpn != 0, __ATOMIC_RELAXED);
	if (qpn == 0)
		return;
	qp_table_own(e->qps, qpn, QP_TABLE_COMES | to);
	if (__atomic_load_n(&fake_at_leave, __ATOMIC_ACQUIRE) != NULL)
		fake[e->worker].send = *fake_at_leave;
	__atomic_store_n(&fake_at_leave, NULL, __ATOMIC_RELAXED);
}

bool
engine_take(struct engine *e, struct qp *qp, const void *wqes, struct counter_block *counters)
{
	qp_table_own(e->qps, qp->conn.qpn, e->worker);
	fake[e->worker].taken++;
	if (fake_sending.qp == qp)
		fake[e->worker].send = fake_sending;
	fake_sending.qp = NULL;
	return *(const uint32_t *)wqes == qp->conn.qpn;
}

void
engine_rx_extra(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf *m)
{
	engine_rx(e, now_ns, dev, &m, 1);
}

void
engine_rx(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	struct fake_worker *f = &fake[e->worker];
	uint32_t owner;

	for (uint32_t i = 0; i < n; i++) {
		const struct fake_frame *frame = rte_pktmbuf_mtod(m[i], const struct fake_frame *);

		if (frame->action == FAKE_SLOW) {
			if (!e->ops->slow_path(e->ops_ctx, dev, m[i]))
				e->dev[dev].counters->drop[DROP_SLOW_PATH_FULL]++;
			continue;
		}
		owner = frame->action == FAKE_QP ? qp_table_owner(e->qps, frame->qpn)
						 : frame->owner;
		if (owner != e->worker &&
		    !(e->rx_handed && frame->qpn == e->leaving_qpn && frame->qpn != 0)) {
			m[i]->port = dev;
			m[i]->hash.usr = ENGINE_RX_FRAME;
			e->ops->handoff(e->ops_ctx, owner & ~QP_TABLE_COMES, frame->qpn, m[i]);
			continue;
		}
		if (frame->action == FAKE_QP) {
			struct qp *qp = qp_table_find(e->qps, frame->qpn);

			/* Not atomic: the QP belongs to one worker. */
			if (qp == NULL || qp->conn.rx_bytes++ != frame->seq)
				__atomic_add_fetch(&fake_disorder, 1, __ATOMIC_RELAXED);
		}
		f->rx[f->rx_n % FAKE_LOG].seq = frame->seq;
		f->rx[f->rx_n % FAKE_LOG].dev = dev;
		__atomic_store_n(&f->rx_n, f->rx_n + 1, __ATOMIC_RELEASE);
		rte_pktmbuf_free(m[i]);
	}
}

void
engine_rx_loopback(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!qp_view_is(m[i]))
			continue;
		fake_views_seen++;
		fake_views_late += rte_pktmbuf_mtod(m[i], struct fake_frame *)->epoch != fake_epoch;
	}
	e->rx_loopback = true;
	engine_rx(e, now_ns, dev, m, n);
	e->rx_loopback = false;
}

bool
engine_own(const struct engine *e, struct rte_mbuf *m)
{
	qp_view_own(m);
	return true;
}

struct qp *
engine_doorbell(struct engine *e, uint32_t qpn)
{
	struct fake_worker *f = &fake[e->worker];

	f->bell[f->bell_n % FAKE_LOG] = qpn;
	__atomic_store_n(&f->bell_n, f->bell_n + 1, __ATOMIC_RELEASE);
	return NULL;
}

void
engine_wake(struct engine *e, struct qp *qp)
{
}

bool fake_views;
uint32_t fake_views_kept, fake_views_seen, fake_views_late, fake_epoch;

/* The last 32 bytes of m elsewhere. */
static void
view(struct rte_mbuf *m)
{
	static const uint8_t zero[32];

	rte_pktmbuf_mtod(m, struct fake_frame *)->epoch = fake_epoch;
	qp_view_set(m, m->data_len - sizeof(zero), (struct qp_view){zero, sizeof(zero)},
		    m->data_len);
}

/* Puts the last 8 bytes of m into a separate segment. */
static void
split(struct engine *e, struct rte_mbuf *m)
{
	struct rte_mbuf *tail = rte_pktmbuf_alloc(e->env.pool);

	if (tail == NULL)
		return;
	__builtin_memset(rte_pktmbuf_append(tail, 8), 0, 8);
	rte_pktmbuf_trim(m, 8);
	rte_pktmbuf_chain(m, tail);
}

void
engine_set_loop_zero_copy(struct engine *e, uint32_t bytes)
{
}

bool
engine_run(struct engine *e, uint64_t now_ns)
{
	struct fake_worker *f = &fake[e->worker];
	static struct cq cq;

	for (uint32_t i = 0; i < e->env.tx_n; i++)
		__atomic_fetch_add(&fake_views_kept,
				   e->env.tx[i]->nb_segs != 1 || qp_view_is(e->env.tx[i]),
				   __ATOMIC_RELAXED);

	/*
	 * Several workers and the test share one or two cores, and a polling worker never yields:
	 * without this, each wait of the test costs a time slice of every other thread.
	 */
	if (f->send.next == f->send.end || f->send.qpn != 0)
		sched_yield();
	while (f->send.next != f->send.end && e->env.tx_n < e->env.tx_cap) {
		struct rte_mbuf *m =
			fake_frame_make(e->env.pool, f->send.qpn != 0 ? FAKE_QP : FAKE_FOR,
					f->send.owner, f->send.next);

		if (m == NULL)
			return true;
		rte_pktmbuf_mtod(m, struct fake_frame *)->qpn = f->send.qpn;
		if (FAKE_FLAG(fake_views) && f->send.loopback)
			view(m);
		else if (FAKE_FLAG(fake_views))
			split(e, m);
		f->send.next++;
		m->port = f->send.dev;
		m->hash.usr = f->send.loopback ? QP_TX_LOOPBACK : QP_TX_WIRE;
		e->env.tx[e->env.tx_n++] = m;
		if (f->send.qpn != 0 && (f->send.qp == NULL || f->send.next % 64 == 0))
			break;
	}
	for (; f->send.events != 0; __atomic_sub_fetch(&f->send.events, 1, __ATOMIC_RELEASE)) {
		cq.event_pending = false; /* as if each belonged to another worker */
		e->ops->cq_event(e->ops_ctx, &cq);
	}
	return f->send.next != f->send.end;
}

uint64_t
engine_next_ns(const struct engine *e)
{
	return UINT64_MAX;
}

void
engine_timer(struct engine *e, uint64_t now_ns, struct qp *qp)
{
	struct fake_worker *f = &fake[e->worker];

	qp->bind.timer_at_ns = 0;
	if (qp->conn.snd.probe_ns > now_ns) {
		e->ops->set_timer(e->ops_ctx, qp, qp->conn.snd.probe_ns);
		return;
	}
	qp->conn.snd.probe_ns = 0;
	f->timer_now_ns = now_ns;
	f->timer_rx_n = f->rx_n;
	__atomic_store_n(&f->timer_n, f->timer_n + 1, __ATOMIC_RELEASE);
}

void
engine_last_turn(struct engine *e, uint64_t now_ns, struct qp *qp)
{
}

void
engine_forget(struct engine *e, struct qp *qp)
{
}

void
engine_pause_user(struct engine *e, uint8_t user, bool paused)
{
}
