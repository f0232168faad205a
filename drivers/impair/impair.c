/* SPDX-License-Identifier: BSD-3-Clause */
#include "impair.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

/* An active configuration. Workers read it: immutable, and freed when no worker can see it. */
struct live {
	struct impair_cfg cfg;
	uint64_t gen; /* unique */
	struct live *next;
};

/* The polling worker owns core and gen; the control thread writes live. */
struct queue {
	struct impair_core core;
	uint64_t gen; /* of core's current configuration; 0: none yet */
	const struct live *live;
	const void *cb;
	uint16_t index;
	uint16_t port_id;
};

struct port_state {
	char spec[IMPAIR_SPEC_MAX];
	struct live *live;
	struct port_state *next;
	const struct impair_hooks *hooks;
	uint16_t nqueues;
	struct queue queue[];
};

/* Owned by the control thread. */
static struct port_state *ports[RTE_MAX_ETHPORTS];
static struct port_state *gone_ports; /* detached, not reaped yet */
static struct live *gone_lives;
static uint64_t last_gen;

/* Set by the control thread, read by those that poll. func is written last and cleared first. */
static struct {
	impair_watch *func;
	void *arg;
} watches[RTE_MAX_ETHPORTS];

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void
tell_watch(void *arg, const struct rte_mbuf *m, const struct impair_fate *fate)
{
	const struct queue *q = arg;
	impair_watch *func = __atomic_load_n(&watches[q->port_id].func, __ATOMIC_ACQUIRE);

	if (func != NULL)
		func(watches[q->port_id].arg, q->index, m, fate);
}

void
impair_set_watch(uint16_t port_id, impair_watch *func, void *arg)
{
	if (func != NULL)
		watches[port_id].arg = arg;
	__atomic_store_n(&watches[port_id].func, func, __ATOMIC_RELEASE);
}

/* Called on the thread that polls the queue. */
static uint16_t
on_burst(uint16_t port_id, uint16_t queue, struct rte_mbuf *m[], uint16_t n, uint16_t cap,
	 void *user)
{
	struct queue *q = user;
	const struct live *live = __atomic_load_n(&q->live, __ATOMIC_ACQUIRE);

	/* Compare generations, because the address of a freed configuration may be reused. */
	if (q->gen != live->gen) {
		q->gen = live->gen;
		impair_core_config(&q->core, &live->cfg, q->index);
	}
	/* Most polls bring nothing and need no time. */
	if (n == 0 && q->core.heap_n == 0 && q->core.back_n == 0)
		return 0;
	return (uint16_t)impair_core_burst(&q->core, now_ns(), m, n, cap);
}

static const void *
ethdev_add(uint16_t port_id, uint16_t queue, rte_rx_callback_fn func, void *arg)
{
	return rte_eth_add_rx_callback(port_id, queue, func, arg);
}

static void
ethdev_remove(uint16_t port_id, uint16_t queue, const void *added)
{
	rte_eth_remove_rx_callback(port_id, queue, added);
}

static const struct impair_hooks ethdev_hooks = {ethdev_add, ethdev_remove};

static void
retire_live(struct live *live)
{
	live->next = gone_lives;
	gone_lives = live;
}

/* Stops the queues below n; impair_reap frees their state. */
static void
retire_port(struct port_state *p, uint16_t port_id, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++)
		p->hooks->remove(port_id, i, p->queue[i].cb);
	retire_live(p->live);
	p->next = gone_ports;
	gone_ports = p;
}

static int
hook_queues(struct port_state *p, uint16_t port_id)
{
	uint16_t i;
	int rc;

	for (i = 0; i < p->nqueues; i++) {
		struct queue *q = &p->queue[i];

		q->index = i;
		q->port_id = port_id;
		q->core.tell = tell_watch;
		q->core.tell_arg = q;
		q->live = p->live;
		q->cb = p->hooks->add(port_id, i, on_burst, q);
		if (q->cb == NULL) {
			rc = rte_errno != 0 ? -rte_errno : -EIO;
			retire_port(p, port_id, i);
			return rc;
		}
	}
	ports[port_id] = p;
	return 0;
}

static void
change_live(struct port_state *p, struct live *live)
{
	uint16_t i;

	for (i = 0; i < p->nqueues; i++)
		__atomic_store_n(&p->queue[i].live, live, __ATOMIC_RELEASE);
	retire_live(p->live);
	p->live = live;
}

/* Attaches to a port without impair. Takes live over, even on failure. */
static int
attach_new(uint16_t port_id, uint16_t nqueues, const struct impair_hooks *hooks, struct live *live)
{
	struct port_state *p = calloc(1, sizeof(*p) + nqueues * sizeof(p->queue[0]));

	if (p == NULL) {
		free(live);
		return -ENOMEM;
	}
	p->nqueues = nqueues;
	p->hooks = hooks != NULL ? hooks : &ethdev_hooks;
	p->live = live;
	return hook_queues(p, port_id);
}

int
impair_attach(uint16_t port_id, uint16_t nqueues, const struct impair_hooks *hooks,
	      const char *spec, char *err, size_t err_len)
{
	struct live *live;
	int rc;

	if (hooks == NULL && !rte_eth_dev_is_valid_port(port_id)) {
		snprintf(err, err_len, "port %u: no such port", port_id);
		return -ENODEV;
	}
	live = calloc(1, sizeof(*live));
	if (live == NULL) {
		snprintf(err, err_len, "no memory");
		return -ENOMEM;
	}
	rc = impair_spec_parse(spec, &live->cfg, err, err_len);
	if (rc < 0) {
		free(live);
		return rc;
	}
	live->gen = ++last_gen;
	if (ports[port_id] != NULL)
		change_live(ports[port_id], live);
	else
		rc = attach_new(port_id, nqueues, hooks, live);
	if (rc == 0)
		strcpy(ports[port_id]->spec, spec);
	else
		snprintf(err, err_len, "port %u: %s", port_id, strerror(-rc));
	return rc;
}

int
impair_detach(uint16_t port_id)
{
	struct port_state *p = port_id < RTE_MAX_ETHPORTS ? ports[port_id] : NULL;

	if (p == NULL)
		return -ENOENT;
	ports[port_id] = NULL;
	retire_port(p, port_id, p->nqueues);
	return 0;
}

void
impair_reap(void)
{
	struct port_state *p;
	struct live *live;
	uint16_t i;

	while ((p = gone_ports) != NULL) {
		gone_ports = p->next;
		for (i = 0; i < p->nqueues; i++) {
			impair_core_drain(&p->queue[i].core);
			rte_free((void *)(uintptr_t)p->queue[i].cb);
		}
		free(p);
	}
	while ((live = gone_lives) != NULL) {
		gone_lives = live->next;
		free(live);
	}
}

/*
 * Numbers of a queue's worker, which writes them with plain aligned stores, as counters. Nothing is
 * ordered by them. ThreadSanitizer ignores these reads, as counters_read (counters/counters.h).
 */
static inline __attribute__((no_sanitize_thread)) uint64_t
read_u64(const uint64_t *v)
{
	return __atomic_load_n(v, __ATOMIC_RELAXED);
}

static inline __attribute__((no_sanitize_thread)) uint32_t
read_u32(const uint32_t *v)
{
	return __atomic_load_n(v, __ATOMIC_RELAXED);
}

static void
add_queue(const struct queue *q, uint64_t rate_bps, struct impair_show *out)
{
	uint32_t i;

	for (i = 0; i < IMPAIR_NCOUNTERS; i++)
		out->ctr[i] += read_u64(&q->core.ctr[i]);
	out->held += read_u32(&q->core.heap_n);
	out->held += read_u32(&q->core.back_n);
	out->queue_bytes += impair_queue_bytes(rate_bps, read_u64(&q->core.link_free_ns), now_ns());
	out->queue_peak = RTE_MAX(out->queue_peak, read_u64(&q->core.queue_peak));
	for (i = 0; i < out->nrules; i++) {
		out->rule[i].matched += read_u64(&q->core.rule[i].matched);
		out->rule[i].acted += read_u64(&q->core.rule[i].acted);
	}
}

int
impair_show(uint16_t port_id, struct impair_show *out)
{
	const struct port_state *p = port_id < RTE_MAX_ETHPORTS ? ports[port_id] : NULL;
	uint16_t i;

	if (p == NULL)
		return -ENOENT;
	memset(out, 0, sizeof(*out));
	strcpy(out->spec, p->spec);
	out->nrules = p->live->cfg.nrules;
	for (i = 0; i < p->nqueues; i++)
		add_queue(&p->queue[i], p->live->cfg.rate_bps, out);
	return 0;
}
