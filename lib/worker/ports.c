/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attaching and detaching ports. Receive queue q belongs to worker q modulo the number of workers,
 * transmit queue q to worker q, if it exists.
 */
#include <errno.h>
#include <string.h>
#include "worker/worker_parts.h"

_Static_assert(PORT_IDS_MAX <= ENGINE_MAX_DEVS, "the engine has a device forevery port");

static void
resume_on_worker(struct worker *w, void *arg)
{
	const struct port *p = arg;
	struct worker_dev *d = &w->dev[p->id];

	memset(d, 0, sizeof(*d));
	d->own_queue = w->index < p->ntxq;
	d->queue = port_queue_of(p, (uint16_t)w->index);
	d->tx_worker = (uint16_t)(w->index % p->ntxq);
	d->rx_workers = (uint16_t)RTE_MIN(p->nrxq, w->ws->n);
	d->present = true;
	if (d->own_queue && p->tx_copies)
		engine_set_zero_copy(&w->engine, p->id, WORKER_VIEW_BYTES);
	for (unsigned q = w->index; q < p->nrxq; q += w->ws->n)
		w->rxqs[w->nrxqs++] = (struct worker_rxq){.q = port_queue_of(p, (uint16_t)q),
							  /* our own transmit queue, too */
							  .inward = p->inward && q == w->index,
							  .fd = port_rx_fd(p, (uint16_t)q)};
}

static void
pause_on_worker(struct worker *w, void *arg)
{
	const struct port *p = arg;
	unsigned n = 0;

	for (unsigned i = 0; i < w->nrxqs; i++) {
		if (w->rxqs[i].q.port != p->id)
			w->rxqs[n++] = w->rxqs[i];
	}
	w->nrxqs = n;
	w->dev[p->id].present = false;
	engine_set_zero_copy(&w->engine, p->id, UINT32_MAX);
	tx_forget_dev(w, p->id);
}

/* Receives the frames that others handed over before they released the port. */
static void
drain_on_worker(struct worker *w, void *arg)
{
	for (unsigned i = 0; i < WORKER_RING_FRAMES / WORKER_RX_BURST; i++) {
		handoff_rx(w);
		tx_flush(w);
	}
}

void
worker_pause_port(struct worker_set *ws, struct port *p)
{
	worker_call_all(ws, pause_on_worker, p);
	worker_call_all(ws, drain_on_worker, p);
}

void
worker_resume_port(struct worker_set *ws, struct port *p)
{
	worker_call_all(ws, resume_on_worker, p);
}

static void
add_on_worker(struct worker *w, void *arg)
{
	const struct port *p = arg;

	memset(&w->counters[p->id], 0, sizeof(w->counters[p->id]));
	engine_add_dev(&w->engine, p->id, p->mac, &w->counters[p->id]);
	engine_set_vlan(&w->engine, p->id, p->vlan);
	engine_set_hostif(&w->engine, p->id, w->ws->host[p->id] != NULL);
	engine_set_unknown_id(&w->engine, p->id, p->kind == PORT_UDP, p->strict);
	engine_set_peers(&w->engine, p->id, p->peers);
	engine_set_cnp(&w->engine, p->id, p->cnp_ns, p->cnp_dscp);
	/* a driver that sends only from its own buffers copies other frames into them */
	engine_set_pool(&w->engine, p->id, p->own_pool);
}

int
worker_add_port(struct worker_set *ws, struct port *p)
{
	if (p->id >= ENGINE_MAX_DEVS)
		return -ENOSPC;
	if (ws->port_present[p->id])
		return -EEXIST;
	ws->port_present[p->id] = true;
	memset(&ws->control_counters[p->id], 0, sizeof(ws->control_counters[p->id]));
	worker_call_all(ws, add_on_worker, p);
	if (p->started)
		worker_resume_port(ws, p);
	return 0;
}

static void
del_on_worker(struct worker *w, void *arg)
{
	const struct port *p = arg;

	w->engine.dev[p->id].present = false;
	engine_set_pool(&w->engine, p->id, NULL);
}

void
worker_del_port(struct worker_set *ws, struct port *p)
{
	if (p->id >= ENGINE_MAX_DEVS || !ws->port_present[p->id])
		return;
	worker_pause_port(ws, p);
	worker_call_all(ws, del_on_worker, p);
	ws->port_present[p->id] = false;
}
