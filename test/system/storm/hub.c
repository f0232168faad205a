/* SPDX-License-Identifier: BSD-3-Clause */
/* One CQ of all threads: each takes any thread's completions, while others resize it. */
#include "storm.h"

#include <errno.h>
#include <sched.h>
#include "kit/program.h"

#define MAX_BYTES 2000
#define BATCH     4

static atomic_uint taken[STORM_MAX_THREADS]; /* completions of each thread's WRs */

/* Polls the CQ until all threads together have taken n completions of this thread's WRs. */
static bool
hub_wait(struct worker *w, unsigned int n)
{
	uint64_t end = now_ns() + STORM_WAIT_S * 1000000000ull;
	struct ibv_wc wc[BATCH];

	while (taken[w->id] < n) {
		int got = ibv_poll_cq(storm.hub, BATCH, wc);

		MUST(w, got >= 0 && now_ns() < end);
		for (int i = 0; i < got; i++) {
			errno = (int)wc[i].status;
			MUST(w, wc[i].status == IBV_WC_SUCCESS);
			taken[wc[i].wr_id]++;
		}
		if (got == 0)
			sched_yield();
	}
	return true;
}

static bool
hub_message(struct worker *w, struct ibv_qp *qp[2], struct region r[2])
{
	uint32_t seed = storm_random(w, 1u << 24), len = 1 + storm_random(w, MAX_BYTES - 1);
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {.wr_id = w->id,
				 .sg_list = &sge[0],
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND},
			   *bad;
	struct ibv_recv_wr rwr = {.wr_id = w->id, .sg_list = &sge[1], .num_sge = 1}, *rbad;

	for (int i = 0; i < 2; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)r[i].buf, len, r[i].mr->lkey};
	storm_fill(r[0].buf, len, seed);
	taken[w->id] = 0;
	MUST(w, ibv_post_recv(qp[1], &rwr, &rbad) == 0 && ibv_post_send(qp[0], &wr, &bad) == 0);
	if (storm_random(w, 4) == 0)
		MUST(w,
		     ibv_resize_cq(storm.hub, (int)(STORM_HUB_CQES + storm_random(w, 3000))) == 0);
	if (!hub_wait(w, 2))
		return false;
	MUST(w, storm_is_filled(r[1].buf, len, seed));
	return true;
}

void
job_hub(struct worker *w)
{
	uint32_t n = 1 + storm_random(w, 6);
	struct region r[2];
	struct ibv_qp *qp[2];

	for (int i = 0; i < 2; i++) {
		qp[i] = storm_qp(w, storm.pd, IBV_QPT_RC, storm.hub, NULL, 4);
		if (!qp[i] || !region_make(w, &r[i], storm.pd, MAX_BYTES))
			return;
	}
	if (!storm_connect(w, qp[0], qp[1]))
		return;
	while (n-- > 0) {
		if (!hub_message(w, qp, r))
			return;
	}
	for (int i = 0; i < 2; i++) {
		NEED(w, ibv_destroy_qp(qp[i]) == 0);
		if (!region_end(w, &r[i]))
			return;
	}
}
