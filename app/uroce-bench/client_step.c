/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker's own part of --measure hops: the same WQE for a requester whose client is on the same
 * core, so that no cache line goes from core to core. Only what lies between WQE and CQE counts:
 * the end of an engine's turn comes when the client has its completion already.
 */
#include <string.h>
#include "client.h"
#include "engine_link.h"
#include "requester/requester.h"

#define STEPS  (1u << 14)
#define WINDOW 0x200003c3 /* its key: any whose slot is free */

static void
post(struct rc_conn *c, const struct mr *mw)
{
	struct uroce_send_wqe w = {
		.opcode = UROCE_WR_BIND_MW,
		.flags = UROCE_WQE_SIGNALED,
		.bind = {.mw_rkey = mw->key, .new_rkey = mw->key},
	};

	memcpy(c->sq.slots + (size_t)(c->sq.prod++ & c->sq.mask) * c->sq.stride, &w, sizeof(w));
}

double
client_step_ns(void)
{
	static struct engine_link link;
	struct engine_pair_node *n = &link.pair.node[0];
	struct bench_options o = {.size = 64, .mtu = 4096, .qps = 1, .depth = 16};
	struct client_hist h = {0};
	struct mr mw = {.kind = MR_WINDOW_1};
	struct qp_env *env = &n->engine.env;
	struct qp *qp;

	engine_link_open(&link, &o);
	qp = n->rc.conn[0].qp;
	qp->bind.polled = true; /* as the worker has it of a client that posts all the time */
	env->counters = qp->bind.counters;
	mw.pd = n->rc.mr.pd;
	if (mr_table_add(&n->rc.mrs, &mw, WINDOW) != 0)
		bench_die("no memory for a window");
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t start;

		post(&n->rc.conn[0], &mw);
		engine_pair_publish(&link.pair, 0);
		env->work = ENGINE_QUANTUM; /* the engine sets it for each of its runs */
		start = bench_tsc();
		req_run(env, qp, ENGINE_QUANTUM);
		client_hist_add(&h, bench_tsc() - start);
		qp_env_flush(env);
		if (engine_link_poll(&link, 0) != 1)
			bench_die("a window was not bound");
	}
	engine_link_close(&link);
	return client_hist_low(&h) * bench_ns(1000) / 1000 - bench_tsc_ns();
}
