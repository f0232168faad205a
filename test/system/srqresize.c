/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shared receive queue that is resized while several QPs receive from it (SRQ-01).
 *
 *   srqresize DEVICE DEVICE MESSAGES
 *
 * The first device sends, in several QPs; the QPs of the second share the queue. One thread posts,
 * polls and checks that each message arrives once, in order, whole, into a posted receive; the
 * other resizes the queue. Exit status 0 and "ok", or 1 and the error, on stdout.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kit/program.h"
#include "kit/verbs.h"

#define QPS      4
#define DEPTH    16 /* outstanding sends of a QP */
#define LEN      48
#define SLOTS    512
#define MAX_SIZE 256
#define GID      1
#define PAUSE    20 /* messages between two resizes */

struct message {
	uint32_t qp, seq;
	uint8_t fill[LEN - 8];
};

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp[QPS];
	union ibv_gid gid;
	struct message *area;
};

static struct side from, to;
static bool posted[SLOTS]; /* outstanding receives, and their number */
static uint32_t out;
static uint32_t sent[QPS], acked[QPS], got[QPS], total;
static bool stop;
static uint32_t grown, shrunk, refused;

static void
need(bool ok, const char *what)
{
	if (!ok)
		die("%s: %s", what, strerror(errno));
}

static uint32_t
draw(uint32_t *state, uint32_t n)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % n;
}

static void
open_side(struct side *s, const char *name, size_t bytes)
{
	s->ctx = verbs_open(name);
	need(s->ctx != NULL, name);
	need(ibv_query_gid(s->ctx, 1, GID, &s->gid) == 0, "ibv_query_gid");
	s->area = calloc(1, bytes);
	s->pd = ibv_alloc_pd(s->ctx);
	need(s->pd != NULL, "ibv_alloc_pd");
	s->mr = ibv_reg_mr(s->pd, s->area, bytes, IBV_ACCESS_LOCAL_WRITE);
	need(s->mr != NULL, "ibv_reg_mr");
	s->cq = ibv_create_cq(s->ctx, 4096, NULL, NULL, 0);
	need(s->cq != NULL, "ibv_create_cq");
}

static void
make_qps(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.srq = s->srq,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
	};

	for (int i = 0; i < QPS; i++) {
		s->qp[i] = ibv_create_qp(s->pd, &init);
		need(s->qp[i] != NULL, "ibv_create_qp");
	}
}

static void
connect_qp(struct ibv_qp *qp, const struct ibv_qp *peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr a = verbs_attr(peer->qp_num, gid);

	errno = verbs_raise(qp, &a, IBV_QPS_RTS);
	need(errno == 0, "connect");
}

/* False: the queue is full. */
static bool
post_recv(uint32_t slot)
{
	struct ibv_sge sge = {(uintptr_t)&to.area[slot], LEN, to.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	memset(&to.area[slot], 0, LEN);
	posted[slot] = true;
	errno = ibv_post_srq_recv(to.srq, &wr, &bad);
	out++;
	if (errno == 0)
		return true;
	out--;
	posted[slot] = false;
	need(errno == ENOMEM, "ibv_post_srq_recv");
	return false;
}

static void
post_sends(void)
{
	for (uint32_t q = 0; q < QPS; q++) {
		while (sent[q] - acked[q] < DEPTH) {
			struct message *m = &from.area[q * DEPTH + sent[q] % DEPTH];
			struct ibv_sge sge = {(uintptr_t)m, LEN, from.mr->lkey};
			struct ibv_send_wr *bad, wr = {.wr_id = q,
						       .sg_list = &sge,
						       .num_sge = 1,
						       .opcode = IBV_WR_SEND};

			m->qp = q;
			m->seq = sent[q]++;
			memset(m->fill, (int)(m->seq + 31 * q), sizeof(m->fill));
			errno = ibv_post_send(from.qp[q], &wr, &bad);
			need(errno == 0, "ibv_post_send");
		}
	}
}

static void
take_receive(const struct ibv_wc *wc)
{
	struct message *m = &to.area[wc->wr_id % SLOTS];

	if (wc->status != IBV_WC_SUCCESS || wc->wr_id >= SLOTS || wc->byte_len != LEN)
		die("receive %ju: %s", (uintmax_t)wc->wr_id, ibv_wc_status_str(wc->status));
	if (!posted[wc->wr_id])
		die("receive %ju is not posted", (uintmax_t)wc->wr_id);
	posted[wc->wr_id] = false;
	out--;
	if (m->qp >= QPS || wc->qp_num != to.qp[m->qp]->qp_num || m->seq != got[m->qp])
		die("message %u of QP %u in %ju, want %u", m->seq, m->qp, (uintmax_t)wc->wr_id,
		    got[m->qp % QPS]);
	for (uint32_t i = 0; i < sizeof(m->fill); i++) {
		if (m->fill[i] != (uint8_t)(m->seq + 31 * m->qp))
			die("message %u of QP %u is damaged", m->seq, m->qp);
	}
	got[m->qp]++;
	__atomic_fetch_add(&total, 1, __ATOMIC_RELAXED);
}

static void
poll_both(void)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(to.cq, 16, wc);

	need(n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++)
		take_receive(&wc[i]);
	n = ibv_poll_cq(from.cq, 16, wc);
	need(n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			die("send: %s", ibv_wc_status_str(wc[i].status));
		acked[wc[i].wr_id]++;
	}
}

static struct ibv_srq_attr
queried(void)
{
	struct ibv_srq_attr a;

	errno = ibv_query_srq(to.srq, &a);
	need(errno == 0, "ibv_query_srq");
	return a;
}

static int
resize(uint32_t size)
{
	struct ibv_srq_attr a = {.max_wr = size};

	return ibv_modify_srq(to.srq, &a, IBV_SRQ_MAX_WR);
}

static uint32_t
rounded(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Random sizes; a size below the number of posted receives is refused and changes nothing. */
static void *
resizer(void *arg)
{
	uint32_t rng = 7, was = queried().max_wr, last = 0, size;
	int rc;

	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		/* Constant resizing would keep the other thread from posting. */
		if (__atomic_load_n(&total, __ATOMIC_RELAXED) - last < PAUSE) {
			sched_yield();
			continue;
		}
		last = __atomic_load_n(&total, __ATOMIC_RELAXED);
		size = 1 + draw(&rng, draw(&rng, 2) ? 16 : MAX_SIZE);
		rc = resize(size);
		if (rc != 0 && rc != EINVAL)
			die("ibv_modify_srq to %u: %s", size, strerror(rc));
		if (queried().max_wr != (rc == 0 ? rounded(size) : was))
			die("%u requested, from %u: %u reported, %s", size, was, queried().max_wr,
			    strerror(rc));
		refused += rc != 0;
		grown += rc == 0 && rounded(size) > was;
		shrunk += rc == 0 && rounded(size) < was;
		was = queried().max_wr;
	}
	return NULL;
}

static void
traffic(uint32_t messages)
{
	uint32_t rng = 1, slot = 0, want = 8;
	pthread_t thread;

	need(pthread_create(&thread, NULL, resizer, NULL) == 0, "pthread_create");
	while (total < messages || grown < 20 || shrunk < 20) {
		post_sends();
		poll_both();
		/* Varies the number of receives: a queue that is always full cannot shrink. */
		if (draw(&rng, 50) == 0)
			want = 1 + draw(&rng, draw(&rng, 2) ? 8 : MAX_SIZE);
		while (out < want && post_recv(slot)) {
			do
				slot = (slot + 1) % SLOTS;
			while (posted[slot]);
		}
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

/* Stops sending: the outstanding messages complete, with the receives they need. */
static void
come_to_rest(void)
{
	uint32_t left, slot = 0;

	do {
		poll_both();
		left = 0;
		for (uint32_t q = 0; q < QPS; q++)
			left += sent[q] - got[q] + sent[q] - acked[q];
		if (left > 0 && !posted[slot])
			post_recv(slot);
		slot = (slot + 1) % SLOTS;
	} while (left > 0);
}

static void
expect(const char *what, int rc, int want)
{
	if (rc != want)
		die("%s: %s, want %s", what, strerror(rc), strerror(want));
}

/* Without traffic: which sizes are refused, and how many receives fit. */
static void
edges(void)
{
	struct ibv_device_attr dev;
	struct ibv_srq_attr a = queried();
	uint32_t n, slot, max = MAX_SIZE;

	need(ibv_query_device(to.ctx, &dev) == 0, "ibv_query_device");
	need(dev.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, "IBV_DEVICE_SRQ_RESIZE");
	expect("room", resize(max), 0);
	for (slot = 0; out < 100; slot++) {
		if (!posted[slot])
			need(post_recv(slot), "room");
	}
	n = out;
	expect("size 0", resize(0), EINVAL);
	expect("beyond the device's", resize((uint32_t)dev.max_srq_wr + 1), EINVAL);
	expect("below what is posted", resize(n - 1), EINVAL);
	if (queried().max_wr != max)
		die("a refused change changed the size to %u", queried().max_wr);
	expect("what is posted", resize(n), 0);
	max = rounded(n);
	for (; posted[slot] || post_recv(slot); slot++)
		n = out;
	if (n != max || queried().max_wr != max)
		die("%u receives fit, size %u, want %u", n, queried().max_wr, max);
	a.max_wr = 2 * max;
	a.srq_limit = 2 * max + 1;
	expect("a limit above the size", ibv_modify_srq(to.srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT),
	       EINVAL);
	a.srq_limit = 10;
	expect("size and limit", ibv_modify_srq(to.srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	a = queried();
	if (a.max_wr != 2 * max || a.srq_limit != 10)
		die("size %u, limit %u, want %u and 10", a.max_wr, a.srq_limit, 2 * max);
}

int
main(int argc, char **argv)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};

	if (argc != 4)
		die("usage: srqresize DEVICE DEVICE MESSAGES");
	open_side(&from, argv[1], QPS * DEPTH * sizeof(struct message));
	open_side(&to, argv[2], SLOTS * sizeof(struct message));
	to.srq = ibv_create_srq(to.pd, &init);
	need(to.srq != NULL, "ibv_create_srq");
	make_qps(&from);
	make_qps(&to);
	for (int i = 0; i < QPS; i++) {
		connect_qp(from.qp[i], to.qp[i], &to.gid);
		connect_qp(to.qp[i], from.qp[i], &from.gid);
	}
	traffic((uint32_t)strtoul(argv[3], NULL, 0));
	come_to_rest();
	edges();
	for (int i = 0; i < QPS; i++)
		need(ibv_destroy_qp(to.qp[i]) == 0 && ibv_destroy_qp(from.qp[i]) == 0, "destroy");
	need(ibv_destroy_srq(to.srq) == 0, "ibv_destroy_srq");
	printf("%u messages, grown %u times, shrunk %u, refused %u\nok\n", total, grown, shrunk,
	       refused);
	return 0;
}
