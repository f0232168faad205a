/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "qp/migrate.h"
#include "qp/refusal.h"
#include "wire/icrc.h"
#include "wire/parse.h"
#include "../kit/unit_eal.h"
#include "world_parts.h"

#define POOL_MBUFS  511
#define BURST       8   /* frames that arrive together, at most */
#define KEPT        128 /* of them may hold early requests */
#define START_NS    1000000000ull
#define LATE_ROUNDS 8
#define LATE_NS     1000000 /* more than between two attempts at late memory */
#define MAX_ROUNDS  100000  /* of an engine that should come to rest */

struct world world;
bool world_hostile;
struct rte_mempool *world_rx_pool, *world_tx_pool;

static struct qp_sr_pool *held;

/* Per-QP settings. PSNs of the first are about to wrap. */
static const struct {
	enum qp_type type;
	enum qp_state state;
	uint32_t mtu_code, rq_psn, sq_psn;
	uint8_t svc;
} kind[WORLD_QPS] = {
	[WORLD_RC] = {QP_TYPE_RC, QP_RTS, 3, 0xfffff8, 0xfffffa, WIRE_SVC_RC},
	[WORLD_RC_SRQ] = {QP_TYPE_RC, QP_RTS, 1, 0x001000, 0x555000, WIRE_SVC_RC},
	[WORLD_RC_V6] = {QP_TYPE_RC, QP_RTR, 5, 0x7ffff0, 0, WIRE_SVC_RC},
	[WORLD_UC] = {QP_TYPE_UC, QP_RTS, 1, 0x002000, 0x003000, WIRE_SVC_UC},
	[WORLD_UD] = {QP_TYPE_UD, QP_RTS, 5, 0, 0x004000, WIRE_SVC_UD},
	[WORLD_UD_V6] = {QP_TYPE_UD, QP_RTS, 5, 0, 0x005000, WIRE_SVC_UD},
	[WORLD_LOOP] = {QP_TYPE_RC, QP_RTS, 3, 0xfffffc, 0xfffffc, WIRE_SVC_RC},
};

void
world_init(void)
{
	char prefix[64], lcores[32];
	char *argv[] = {"fuzz", "--no-huge",      "--no-pci",          "--no-shconf", "-m",
			"32",   "--no-telemetry", "--log-level=error", lcores,        prefix};

	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", unit_eal_cpu());
	snprintf(prefix, sizeof(prefix), "--file-prefix=fuzz-%d", getpid());
	CHECK(rte_eal_init(sizeof(argv) / sizeof(argv[0]), argv) >= 0);
	world_rx_pool = rte_pktmbuf_pool_create("rx", POOL_MBUFS, 0, 0,
						RTE_PKTMBUF_HEADROOM + STEP_MAX_FRAME, 0);
	world_tx_pool = rte_pktmbuf_pool_create("tx", POOL_MBUFS, 0, 0,
						RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + 4096, 0);
	CHECK(world_rx_pool != NULL && world_tx_pool != NULL);
	held = qp_sr_pool_create(world_rx_pool, KEPT);
	CHECK(held != NULL);
	memory_init();
	tune_init();
}

static bool
on_slow_path(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	return true;
}

static bool
on_host(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	return true;
}

static enum drop_reason
on_datagram(void *ctx, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt)
{
	CHECK(pkt->qpn == world_qpn(WORLD_CONSUMER) && wire_icrc_check(pkt));
	rte_pktmbuf_free(m);
	return DROP_NUM;
}

/* A frame for a QP of another worker is linear, whatever its source. */
static void
on_handoff(void *ctx, uint32_t worker, uint32_t qpn, struct rte_mbuf *m)
{
	enum wire_verdict v;
	struct wire_pkt pkt;

	CHECK(worker == 0 && m->port == WORLD_DEV);
	v = wire_parse(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, &pkt);
	/* Its QP handles it, malformed or not; copies for a group are valid frames. */
	CHECK(v == WIRE_OK || (wire_bad_form(v) && m->pool == world_rx_pool));
	CHECK((pkt.qpn & WORLD_OURS) == 0);
	CHECK(m->pool == world_rx_pool || wire_icrc_check(&pkt));
	rte_pktmbuf_free(m);
}

static void
on_set_timer(void *ctx, struct qp *qp, uint64_t at_ns)
{
	CHECK(at_ns != 0);
	qp->bind.timer_at_ns = at_ns;
}

static void
on_cq_event(void *ctx, struct cq *cq)
{
	CHECK(cq == &world.scq.cq || cq == &world.rcq.cq);
}

static void
on_cq_waiter(void *ctx, struct cq *cq)
{
	CHECK(world_hostile);
	waiter_found(&world.worker, cq);
}

static void
on_cq_watched(void *ctx, const struct qp *qp, bool written)
{
	CHECK(qp->bind.recv_cq->watched);
}

static void
on_async_event(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq)
{
	if (world_hostile)
		return;
	CHECK(ev != QP_EVENT_CQ_ERR && cq == NULL);
	CHECK(qp != NULL || ev == QP_EVENT_SRQ_ERR || ev == QP_EVENT_SRQ_LIMIT_REACHED);
	/* Its rings are valid: the client of this world keeps the rules. */
	CHECK(ev != QP_EVENT_SRQ_ERR);
}

static const struct engine_ops ops = {
	.slow_path = on_slow_path,
	.host = on_host,
	.consumer = on_datagram,
	.handoff = on_handoff,
	.set_timer = on_set_timer,
	.cq_event = on_cq_event,
	.cq_waiter = on_cq_waiter,
	.cq_watched = on_cq_watched,
	.async_event = on_async_event,
};

/* A sentence for people, whatever the client asked for. */
static void
check_refusal(const struct qp_refusal *r)
{
	char text[96];

	memset(text, 'x', sizeof(text));
	qp_refusal_print(r, text, sizeof(text) / 2 + r->value % (sizeof(text) / 2));
	CHECK(memchr(text, '\0', sizeof(text)) > (void *)text);
}

static int
modify(uint32_t q, uint32_t mask, const struct uroce_qp_attr *attr)
{
	static const struct qp_limits lim = {.max_mtu = 5, .npkeys = 2, .ngids = 3, .gid_valid = 7};
	struct world_side *s = &world.side[q];
	struct uroce_qp_attr now;
	struct qp_refusal why;
	int rc = qp_modify_check(s->qp, mask, attr, &lim, &why);

	if (rc != 0) {
		check_refusal(&why);
		return rc;
	}
	world.worker.engine.env.now_ns = world.now;
	qp_modify_apply(&world.worker.engine.env, s->qp, mask, attr, mask & QP_AV ? &s->path : NULL,
			mask & QP_ALT_PATH ? &s->alt : NULL);
	qp_query(s->qp, &now);
	CHECK(now.qp_state == s->qp->conn.state);
	CHECK(now.qp_state == QP_RESET || !(mask & QP_STATE) || now.qp_state == QP_ERR ||
	      now.qp_state == attr->qp_state);
	return 0;
}

/* Attributes of every transition, for a QP that has peers_connect's path. */
static struct uroce_qp_attr
attributes(uint32_t q)
{
	return (struct uroce_qp_attr){
		.qp_access_flags =
			MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC,
		.port_num = 1,
		.path_mtu = kind[q].mtu_code,
		.dest_qp_num = q == WORLD_LOOP ? WORLD_QPN + q : WORLD_PEER + q,
		.rq_psn = kind[q].rq_psn,
		.sq_psn = kind[q].sq_psn,
		.qkey = WORLD_QKEY,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = q == WORLD_RC || q == WORLD_LOOP ? 16 : 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.ah = {.is_global = 1, .port_num = 1},
		.alt_ah = {.is_global = 1, .port_num = 1},
		.alt_port_num = 1,
		.alt_timeout = 13,
	};
}

static void
raise_to(uint32_t q, enum qp_state to)
{
	struct uroce_qp_attr a = attributes(q);
	enum qp_type type = kind[q].type;

	for (enum qp_state from = world.side[q].qp->conn.state; from < to; from++) {
		a.qp_state = from + 1;
		CHECK(modify(q, QP_STATE | qp_transition_get(type, from, from + 1)->required, &a) ==
		      0);
	}
}

/* Its peer's next packet with MigReq 0 arms it, the next with MigReq 1 has it change its path. */
static void
rearm(uint32_t q)
{
	struct uroce_qp_attr a = attributes(q);

	a.path_mig_state = QP_MIG_REARM;
	world.side[q].alt = world.side[q].path;
	world.side[q].alt.wire.udp_sport++;
	CHECK(modify(q, QP_ALT_PATH | QP_PATH_MIG_STATE, &a) == 0);
}

static void
make_qp(uint32_t q)
{
	struct world_side *s = &world.side[q];
	struct qp_create c = {
		.qpn = WORLD_QPN + q,
		.type = kind[q].type,
		.port = WORLD_DEV,
		.worker = WORLD_WORKER,
		.pd = WORLD_PD,
		.send_cq = &world.scq.cq,
		.recv_cq = &world.rcq.cq,
		.srq = q == WORLD_RC_SRQ ? &world.srq : NULL,
		.ahs = &world.ahs,
		.pkeys = world.pkeys,
		.dev_mtu = 5,
		.sig_all = true,
		.user_handle = q,
		.uid = q % 2,
		.cap = {ENTRIES, ENTRIES, MAX_SGE, MAX_SGE, MAX_INLINE},
		.counters = &world.counters,
	};

	c.sq = wq_open(&s->sq, uroce_sq_stride(MAX_SGE, MAX_INLINE), MAX_INLINE);
	if (c.srq == NULL)
		c.rq = wq_open(&s->rq, uroce_rq_stride(MAX_SGE), 0);
	s->qp = qp_create(&c);
	CHECK(s->qp != NULL);
	world.qps.slot[c.qpn & world.qps.mask] = s->qp;
	peers_connect(q, kind[q].svc);
	raise_to(q, kind[q].state);
	if (q == WORLD_RC_SRQ || q == WORLD_UC)
		rearm(q);
}

/* Only worker_add_doorbell calls it, which nothing calls here. */
void
worker_call(struct worker *w, void (*fn)(struct worker *w, void *arg), void *arg)
{
	fn(w, arg);
}

static void
world_start(void)
{
	uint32_t q;

	memset(&world, 0, sizeof(world));
	world.now = START_NS;
	world.pkeys[0] = WIRE_PKEY_DEFAULT;
	race_reset();
	memory_reset();
	CHECK(qp_table_init(&world.qps, 1024) == 0);
	for (q = 0; q <= world.qps.mask; q++)
		qp_table_own(&world.qps, q, (q & WORLD_OURS) != 0 ? WORLD_WORKER : 0);
	world.sqes = qp_sqe_pool_create(WORLD_QPS, 1);
	CHECK(world.sqes != NULL);
	engine_init(&world.worker.engine, world_tx_pool, world.sqes, &world.mrs, &world.qps,
		    WORLD_WORKER, &ops, NULL);
	engine_set_sr(&world.worker.engine, held);
	tune_reset();
	engine_add_dev(&world.worker.engine, WORLD_DEV, peers_our_mac, &world.counters);
	world.worker.engine.env.counters = &world.counters;
	cq_open(&world.scq);
	cq_open(&world.rcq);
	world.srq.rq = wq_open(&world.srq_wq, uroce_rq_stride(MAX_SGE), 0);
	world.srq.pd = WORLD_PD;
	world.ahs = (struct qp_ah_table){.slot = world.ah_slot, .nslots = AHS};
	for (q = 0; q < AHS; q++)
		world.ah_slot[(1 + q) & (AHS - 1)] = &world.ah[q];
	for (q = 0; q < WORLD_LOOP; q++)
		make_qp(q);
	bell_open();
	make_qp(WORLD_LOOP);
	peers_groups();
	client_start();
}

static struct rte_mbuf *looped[ENGINE_TX_CAP];
static uint32_t nlooped;

static void
loopback_frames(void)
{
	struct rte_mbuf *given[ENGINE_TX_CAP];
	uint32_t n = nlooped;

	nlooped = 0;
	for (uint32_t i = 0; i < n && world.loop_waits; i++)
		engine_own(&world.worker.engine, looped[i]);
	memcpy(given, looped, n * sizeof(given[0]));
	if (n != 0)
		engine_rx_loopback(&world.worker.engine, world.now, WORLD_DEV, given, n);
}

/* Run until the engine rests, as a worker and its port would. */
static void
run(void)
{
	struct qp_env *env = &world.worker.engine.env;
	uint32_t i, rang, rounds = 0;
	bool more;

	world.worker.now_ns = world.now;
	do {
		loopback_frames();
		rang = world_hostile ? doorbell_poll(&world.worker) + hot_queue_poll(&world.worker)
				     : 0;
		more = engine_run(&world.worker.engine, world.now);
		waiters_notify(&world.worker);
		for (i = 0; i < env->tx_n; i++) {
			if (env->tx[i]->hash.usr == QP_TX_LOOPBACK) {
				looped[nlooped++] = env->tx[i];
				continue;
			}
			CHECK(env->tx[i]->hash.usr == QP_TX_WIRE);
			check_frame(env->tx[i]);
			rte_pktmbuf_free(env->tx[i]);
		}
		env->tx_n = 0;
		client_reap();
		CHECK(++rounds < MAX_ROUNDS);
		/* A QP whose memory is late tries again in each round. */
		more &= !memory_is_late() || rounds < LATE_ROUNDS;
	} while (more || rang > 0 || nlooped > 0);
}

/* After any previous packet the parser gives the same result: v and want. */
static void
parse_behind(const uint8_t *frame, uint16_t len, enum wire_verdict v, const struct wire_pkt *want)
{
	static uint8_t bytes[STEP_MAX_FRAME];
	static struct wire_pkt before;
	static bool known;
	struct wire_pkt got;

	memset(&got, 0, sizeof(got));
	if (known && wire_parse_like(frame, len, &before, &got)) {
		CHECK(v == WIRE_OK);
		CHECK(memcmp(&got, want, sizeof(got)) == 0);
	}
	memcpy(bytes, frame, len);
	known = wire_parse(bytes, len, &before) == WIRE_OK;
	memset(&got, 0, sizeof(got));
	if (known)
		CHECK(wire_parse_like(frame, len, &before, &got));
}

/* With the packet in the header cache or not, the parser gives the same result. */
static enum wire_verdict
parse(const uint8_t *frame, uint16_t len)
{
	struct wire_pkt want, got;
	enum wire_verdict v;
	uint32_t i;

	memset(&want, 0, sizeof(want));
	v = wire_parse(frame, len, &want);
	for (i = 0; i < 3; i++) {
		memset(&got, 0, sizeof(got));
		CHECK(wire_parse_with(frame, len, &world.memo, &got) == v);
		if (v != WIRE_OK && !wire_bad_form(v))
			continue;
		CHECK(wire_icrc_check(&got) == wire_icrc_check(&want));
		got.icrc_head = 0;
		CHECK(memcmp(&got, &want, sizeof(got)) == 0);
	}
	parse_behind(frame, len, v, &want);
	return v;
}

/* Packets that wait for late memory, and are not counted yet. */
static uint32_t
late_packets(void)
{
	const struct rx_late *late = &world.worker.engine.late;
	uint32_t n = 0;

	for (uint32_t i = 0; i < late->n; i++)
		n += !late->pkt[i].counted;
	return n;
}

/* All received frames are in the pool, or kept. */
static void
check_rx_pool(void)
{
	uint32_t kept = held->kept.n - held->kept.nfree + world.worker.engine.late.n;

	CHECK(rte_mempool_in_use_count(world_rx_pool) <= kept);
}

static struct rte_mbuf *burst[BURST];
static uint16_t nburst;

/* What has arrived together goes to the engine. bad_form: one frame, of which nothing is executed.
 */
static void
burst_rx(bool bad_form)
{
	const struct counter_block *ctr = &world.counters;
	uint64_t before = bad_form ? memory_sum() : 0, counted;
	struct rte_mbuf *given[BURST];
	uint16_t n = nburst;

	if (n == 0)
		return;
	nburst = 0;
	memcpy(given, burst, n * sizeof(given[0]));
	counted = counters_accounted(ctr) + ctr->ctr[COUNTER_RX_HANDOFF] + late_packets();
	engine_rx(&world.worker.engine, world.now, WORLD_DEV, given, n);
	CHECK(counters_accounted(ctr) + ctr->ctr[COUNTER_RX_HANDOFF] + late_packets() ==
	      counted + n);
	/* Whatever the response is, nothing of the packet is executed (NAK-07). */
	CHECK(!bad_form || memory_sum() == before);
	/* Most are free again, but their pool does not write to their bytes. */
	for (uint16_t i = 0; i < n; i++)
		memory_fence_frame(burst[i], false);
	check_rx_pool();
}

static void
frame(const struct step *s)
{
	uint16_t len = s->len <= STEP_MAX_FRAME ? s->len : STEP_MAX_FRAME;
	struct rte_mbuf *m = rte_pktmbuf_alloc(world_rx_pool);
	bool bad_form;

	CHECK(m != NULL);
	memcpy(rte_pktmbuf_append(m, len), s->body, len);
	memory_fence_frame(m, true);
	bad_form = wire_bad_form(parse(rte_pktmbuf_mtod(m, const uint8_t *), len));
	burst[nburst++] = m;
	if (s->arg != 1 || nburst == BURST)
		burst_rx(bad_form && nburst == 1);
}

static struct qp *
next_timer(uint64_t end)
{
	struct qp *best = NULL;
	uint32_t q;

	for (q = 0; q < WORLD_QPS; q++) {
		struct qp *qp = world.side[q].qp;

		if (qp->bind.timer_at_ns == 0 || qp->bind.timer_at_ns > end)
			continue;
		if (best == NULL || qp->bind.timer_at_ns < best->bind.timer_at_ns)
			best = qp;
	}
	return best;
}

static void
pass(uint64_t ns)
{
	uint64_t end = world.now + ns;
	uint32_t fired = 0;
	struct qp *qp;

	for (;;) {
		uint64_t paced = engine_next_ns(&world.worker.engine);

		qp = next_timer(end < paced ? end : paced);
		if (qp == NULL && paced > end)
			break;
		if (qp != NULL) {
			world.now = RTE_MAX(qp->bind.timer_at_ns, world.now);
			engine_timer(&world.worker.engine, world.now, qp);
		} else {
			world.now = RTE_MAX(paced, world.now + 1);
		}
		run();
		CHECK(++fired < MAX_ROUNDS);
	}
	world.now = RTE_MAX(end, world.now);
}

/* What the client asks for: attributes of the transition to a state, as the body changes them. */
static void
modify_any(uint32_t q, enum qp_state to, const uint8_t *body, uint32_t len)
{
	const struct qp *qp = world.side[q].qp;
	struct {
		uint32_t mask;
		struct uroce_qp_attr attr;
	} m = {.attr = attributes(q)};

	m.mask = QP_STATE | qp_transition_get(qp->conn.type, qp->conn.state, to)->required;
	m.attr.qp_state = to;
	step_overlay((uint8_t *)&m, sizeof(m), body, len);
	/* The checks, and frames of the mutator, know the peers by their QPNs. */
	if (m.attr.dest_qp_num <= WIRE_QPN_MASK)
		m.attr.dest_qp_num = attributes(q).dest_qp_num;
	if (modify(q, m.mask, &m.attr) == 0 && qp->conn.state == QP_RESET)
		client_forget(q);
}

static void
modify_step(uint32_t q, const uint8_t *body, uint32_t len)
{
	static const uint32_t states[] = {QP_SQD, QP_RTS, QP_ERR, QP_SQD};
	uint32_t choice = len > 0 ? body[0] : 0;
	struct uroce_qp_attr a = {.qp_state = states[choice % 4]};

	run(); /* what was sent before, is of the state before */
	if (len < 2)
		modify(q, QP_STATE, &a); /* the check refuses what is not legal */
	else if (choice % 8 == 0)
		raise_to(q, QP_RTS);
	else
		modify_any(q, choice % QP_NSTATES, body + 1, len - 1);
}

static void
selective_step(uint32_t q, bool on)
{
	struct qp *qp = world.side[q].qp;

	world.worker.engine.env.now_ns = world.now;
	if (qp->conn.type != QP_TYPE_RC || qp->conn.state == QP_ERR)
		return;
	if (on)
		qp_sr_agree(&world.worker.engine.env, qp);
	else
		qp_sr_set(held, qp, QP_SR_CAN);
}

static void
take_step(const struct step *s)
{
	if (s->op != STEP_FRAME)
		burst_rx(false);
	switch ((enum step_op)s->op) {
	case STEP_FRAME:
		frame(s);
		break;
	case STEP_TIME:
		pass(1ull << s->arg % 34);
		break;
	case STEP_RECV:
		client_recv(s->arg % WORLD_QPS, s->body, s->len);
		break;
	case STEP_SEND:
		client_send(s->arg % WORLD_QPS, s->body, s->len);
		break;
	case STEP_MODIFY:
		modify_step(s->arg % WORLD_QPS, s->body, s->len);
		break;
	case STEP_DEREG:
		memory_drop(s->arg % WORLD_REGIONS);
		break;
	case STEP_SELECTIVE:
		selective_step(s->arg / 2 % WORLD_QPS, s->arg & 1);
		break;
	case STEP_SCRIBBLE:
		if (world_hostile)
			race_scribble(s->arg, s->body, s->len);
		break;
	case STEP_TUNE:
		tune_step(s->arg, s->len > 0 ? s->body[0] : 0);
		break;
	case STEP_OPS:
		break;
	}
	run();
	check_step();
}

/* Where the QPs are now, before they go. */
static struct world_psns last[WORLD_QPS];

static void
world_end(void)
{
	struct uroce_qp_attr err = {.qp_state = QP_ERR};
	uint32_t q;

	tune_step(TUNE_PAUSE, 0);
	tune_step(TUNE_PAUSE, 2);
	for (q = 0; q < WORLD_QPS; q++) {
		struct qp *qp = world.side[q].qp;

		engine_last_turn(&world.worker.engine, world.now, qp);
		last[q] = (struct world_psns){.epsn = qp->conn.rcv.epsn,
					      .una = qp->conn.snd.una_psn,
					      .high = qp->conn.snd.high_psn};
		CHECK(modify(q, QP_STATE, &err) == 0);
	}
	run();
	check_step();
	memory_late(false);
	pass(LATE_NS);
	race_reset(); /* the queues go */
	client_end();
	for (q = 0; q < WORLD_QPS; q++) {
		hot_queue_forget(&world.worker, world.side[q].qp);
		engine_forget(&world.worker.engine, world.side[q].qp);
		qp_free(world.side[q].qp);
		wq_close(&world.side[q].sq);
		wq_close(&world.side[q].rq);
	}
	wq_close(&world.srq_wq);
	cq_close(&world.scq);
	cq_close(&world.rcq);
	free(world.bell_ring);
	qp_table_free(&world.qps);
	CHECK(qp_sqe_pool_whole(world.sqes) && qp_sr_pool_whole(held));
	qp_sqe_pool_free(world.sqes);
	memory_end();
	tune_end();
	CHECK(rte_mempool_full(world_rx_pool) && rte_mempool_full(world_tx_pool));
}

void
world_run(const uint8_t *data, size_t size)
{
	uint32_t n = 0;
	struct step s;

	world_start();
	run();
	while (n++ < STEP_MAX && step_take(&data, &size, &s))
		take_step(&s);
	burst_rx(false);
	run();
	world_end();
}

struct world_psns
world_psns(enum world_qp q)
{
	return last[q < WORLD_QPS ? q : 0];
}
