/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that start at once on a context that has just been opened, so that its memory grows. */
#include "storm.h"

#include <pthread.h>
#include "kit/verbs.h"

#define THREADS 4
#define QUEUES  3

struct burst {
	struct worker w;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	pthread_barrier_t *start;
	pthread_t thread;
};

static bool
create_and_destroy(struct burst *b)
{
	struct ibv_cq *cq[QUEUES];
	struct ibv_qp *qp[QUEUES];
	struct ibv_srq *srq[QUEUES];

	for (int i = 0; i < QUEUES; i++) {
		struct ibv_srq_init_attr attr = {
			.attr = {.max_wr = 1 + storm_random(&b->w, 8000), .max_sge = 2}};

		cq[i] = ibv_create_cq(b->ctx, (int)(1 + storm_random(&b->w, 16000)), NULL, NULL, 0);
		MUST(&b->w, cq[i] != NULL);
		srq[i] = ibv_create_srq(b->pd, &attr);
		MUST(&b->w, srq[i] != NULL);
		qp[i] = storm_qp(&b->w, b->pd, IBV_QPT_RC, cq[i], NULL,
				 1 + storm_random(&b->w, 4000));
		MUST(&b->w, qp[i] != NULL);
	}
	for (int i = 0; i < QUEUES; i++)
		MUST(&b->w, ibv_destroy_qp(qp[i]) == 0 && ibv_destroy_srq(srq[i]) == 0 &&
				    ibv_destroy_cq(cq[i]) == 0);
	return true;
}

static void *
burst_main(void *arg)
{
	struct burst *b = arg;

	pthread_barrier_wait(b->start);
	create_and_destroy(b);
	return NULL;
}

void
job_burst(struct worker *w)
{
	struct ibv_context *ctx = verbs_open(storm.device);
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct burst b[THREADS];
	pthread_barrier_t start;

	NEED(w, pd);
	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		b[i] = (struct burst){.w = *w, .ctx = ctx, .pd = pd, .start = &start};
		b[i].w.rng += (uint64_t)i * 977;
		NEED(w, pthread_create(&b[i].thread, NULL, burst_main, &b[i]) == 0);
	}
	storm_random(w, 2);
	for (int i = 0; i < THREADS; i++)
		NEED(w, pthread_join(b[i].thread, NULL) == 0);
	pthread_barrier_destroy(&start);
	NEED(w, ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0);
}
