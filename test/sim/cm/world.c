/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "world.h"

#define MS       1000000ull
#define START_NS 1000
#define END_NS   (6 * 3600 * 1000 * MS) /* a longer schedule counts as endless */
#define GID_BASE 10

void
world_fail(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->failed)
		return;
	w->failed = true;
	va_start(ap, fmt);
	vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
}

void
world_log(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (!w->verbose)
		return;
	printf("%12.3f ms  ", (double)w->now_ns / 1e6);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

void
world_digest(struct world *w, const void *bytes, uint32_t len)
{
	const uint8_t *p = bytes;

	while (len-- > 0)
		w->digest = (w->digest ^ *p++) * 0x100000001b3u;
}

struct node *
world_node_of(struct world *w, const uint8_t gid[16])
{
	return &w->node[(gid[15] - GID_BASE) % WORLD_NODES];
}

/* Sends one copy of a MAD. */
static void
net_put(struct world *w, const struct cm_addr *addr, const uint8_t *mad)
{
	struct mad *m = &w->mad[w->nmads];

	if (w->nmads == WORLD_MADS) {
		world_fail(w, "more MADs in flight than the network holds");
		return;
	}
	w->nmads++;
	m->order = w->order++;
	m->at_ns = w->now_ns + w->cfg.min_delay_ns +
		   sim_rand(&w->net) % (w->cfg.max_delay_ns - w->cfg.min_delay_ns + 1);
	m->addr = *addr;
	m->to = world_node_of(w, addr->remote)->idx;
	memcpy(m->bytes, mad, sizeof(m->bytes));
}

static void
node_send(void *ctx, const struct cm_addr *addr, const uint8_t *mad)
{
	struct node *n = ctx;
	struct world *w = n->w;

	world_digest(w, mad, WIRE_MAD_LEN);
	if (sim_chance(&w->net, w->cfg.loss)) {
		w->lost++;
		world_log(w, "node %u: %s lost", n->idx, wire_cm_attr_name[WIRE_CM_INDEX(mad[17])]);
		return;
	}
	world_log(w, "node %u: %s", n->idx, wire_cm_attr_name[WIRE_CM_INDEX(mad[17])]);
	net_put(w, addr, mad);
	if (sim_chance(&w->net, w->cfg.dup)) {
		w->doubled++;
		net_put(w, addr, mad);
	}
}

static void
node_event(void *ctx, const struct cm_event *ev)
{
	program_event(ctx, ev);
}

static void
node_open(struct node *n)
{
	static const struct cm_ops ops = {.send = node_send, .event = node_event};
	struct cm_config c = {.max_ids = WORLD_IDS,
			      .max_peer_pending = n->w->cfg.polite ? 64 : 12,
			      .seed = sim_rand(&n->w->load)};

	if (n->mem == NULL)
		n->mem = aligned_alloc(64, (cm_bytes(&c) + 63) / 64 * 64);
	if (n->mem == NULL)
		abort();
	n->cm = cm_init(n->mem, &c, &ops, n);
	program_listen(n);
}

void
world_kill(struct node *n)
{
	struct world *w = n->w;

	world_log(w, "node %u dies", n->idx);
	w->deaths++;
	n->life++;
	n->next_qpn = 0; /* QPNs are reused soon */
	for (uint32_t i = 0; i < w->nends; i++)
		if (w->end[i].node == n->idx && w->end[i].life != n->life)
			w->end[i].act_ns = WORLD_NEVER;
	node_open(n);
}

/* Draws a configuration. */
static struct config
config_draw(struct sim_rng *r)
{
	struct config c = {
		.nodes = sim_between(r, 2, WORLD_NODES),
		.connects = sim_between(r, 1, 60),
		.loss = sim_chance(r, 300000) ? 0 : sim_scale(r, 1000, 400000),
		.dup = sim_chance(r, 500000) ? 0 : sim_scale(r, 1000, 400000),
		.min_delay_ns = 10000,
		.think_ns = sim_scale(r, 1000, 4000000) * 1000ull,
		.polite = sim_chance(r, 250000),
	};

	c.max_delay_ns = c.min_delay_ns + sim_scale(r, 10, 40000) * 1000ull;
	if (c.polite) {
		/* so that 16 copies are enough in any number of schedules */
		c.loss = c.loss > 100000 ? 100000 : c.loss;
		c.connects = c.connects > 20 ? 20 : c.connects;
	} else if (sim_chance(r, 300000)) {
		c.dies = sim_scale(r, 1000, 60000);
	}
	return c;
}

static uint32_t
net_first(const struct world *w)
{
	uint32_t first = 0;

	for (uint32_t i = 1; i < w->nmads; i++)
		if (w->mad[i].at_ns < w->mad[first].at_ns ||
		    (w->mad[i].at_ns == w->mad[first].at_ns &&
		     w->mad[i].order < w->mad[first].order))
			first = i;
	return first;
}

static void
net_arrive(struct world *w, uint32_t i)
{
	struct mad m = w->mad[i];
	struct cm_rx_info info = {.addr = m.addr, .qkey = WIRE_GSI_QKEY, .src_qpn = WIRE_GSI_QPN};

	w->mad[i] = w->mad[--w->nmads];
	memcpy(info.addr.local, m.addr.remote, 16);
	memcpy(info.addr.remote, m.addr.local, 16);
	cm_rx(w->node[m.to].cm, &info, m.bytes, sizeof(m.bytes), w->now_ns);
}

/* The program that acts next. */
static struct end *
end_first(struct world *w)
{
	struct end *first = NULL;

	for (uint32_t i = 0; i < w->nends; i++)
		if (w->end[i].act_ns != WORLD_NEVER &&
		    (first == NULL || w->end[i].act_ns < first->act_ns))
			first = &w->end[i];
	return first;
}

/* The node whose timer is next, or NULL. */
static struct node *
node_first(struct world *w)
{
	struct node *first = NULL;

	for (uint32_t i = 0; i < w->cfg.nodes; i++) {
		uint64_t at = cm_next_ns(w->node[i].cm);

		if (at != CM_NEVER && (first == NULL || at < cm_next_ns(first->cm)))
			first = &w->node[i];
	}
	return first;
}

/* Executes the next event. False: there is none. */
static bool
step(struct world *w)
{
	uint64_t mad_ns = w->nmads != 0 ? w->mad[net_first(w)].at_ns : WORLD_NEVER;
	struct end *e = end_first(w);
	struct node *n = node_first(w);
	uint64_t end_ns = e != NULL ? e->act_ns : WORLD_NEVER;
	uint64_t tick_ns = n != NULL ? cm_next_ns(n->cm) : WORLD_NEVER;
	uint64_t new_ns = w->connects_left != 0 ? w->next_connect_ns : WORLD_NEVER;
	uint64_t at = mad_ns;

	at = end_ns < at ? end_ns : at;
	at = tick_ns < at ? tick_ns : at;
	at = new_ns < at ? new_ns : at;
	if (at == WORLD_NEVER)
		return false;
	w->now_ns = at > w->now_ns ? at : w->now_ns;
	if (at == mad_ns) {
		net_arrive(w, net_first(w));
	} else if (at == tick_ns) {
		cm_tick(n->cm, w->now_ns);
	} else if (at == end_ns) {
		program_act(w, e);
	} else {
		w->connects_left--;
		w->next_connect_ns = w->now_ns + sim_scale(&w->load, 1, 1000000) * 1000ull;
		program_connect(w);
	}
	return true;
}

/* At the end no event is left, and nothing else may be. */
static void
check_end(struct world *w)
{
	for (uint32_t i = 0; i < w->cfg.nodes && !w->failed; i++) {
		struct node *n = &w->node[i];
		struct cm_info info;
		uint32_t pos = 0, id = cm_next_id(n->cm, &pos);

		if (cm_nids(n->cm) == 0 && id == 0)
			continue;
		cm_info_get(n->cm, id, &info);
		world_fail(w, "node %u: %u ids left, one of them %08x in %s%s", i, cm_nids(n->cm),
			   id, cm_state_name[info.state], info.orphan ? ", without an owner" : "");
	}
	for (uint32_t i = 0; i < w->cfg.nodes && !w->failed; i++)
		for (uint32_t qpn = 0; qpn < 128; qpn++)
			if (cm_qpn_held(w->node[i].cm, 0, qpn))
				world_fail(w, "node %u: QPN %u is still held", i, qpn);
}

bool
world_run(struct world *w, uint64_t seed, const struct config *forced)
{
	bool verbose = w->verbose;
	void *mem[WORLD_NODES];
	struct sim_rng cfg;

	for (uint32_t i = 0; i < WORLD_NODES; i++)
		mem[i] = w->node[i].mem;
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->verbose = verbose;
	w->digest = 0xcbf29ce484222325u;
	w->now_ns = START_NS;
	sim_rng_init(&w->net, seed, 100);
	sim_rng_init(&w->load, seed, 101);
	sim_rng_init(&cfg, seed, 102);
	w->cfg = forced != NULL ? *forced : config_draw(&cfg);
	w->connects_left = w->cfg.connects;
	w->next_connect_ns = START_NS;
	for (uint32_t i = 0; i < WORLD_NODES; i++) {
		struct node *n = &w->node[i];

		n->w = w;
		n->idx = i;
		n->mem = mem[i];
		n->gid[10] = n->gid[11] = 0xff;
		n->gid[12] = 10;
		n->gid[15] = (uint8_t)(GID_BASE + i);
		if (i < w->cfg.nodes)
			node_open(n);
	}
	while (!w->failed && w->now_ns < END_NS && step(w))
		;
	if (w->now_ns >= END_NS)
		world_fail(w, "does not end");
	program_close(w);
	while (!w->failed && step(w))
		;
	check_end(w);
	return !w->failed;
}
