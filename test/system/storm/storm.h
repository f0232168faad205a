/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many threads of one process use one context: each runs jobs in random order. A job creates
 * objects, uses them, checks all bytes that it transfers, and destroys them. No object of a job is
 * used by another thread, except where the job says so.
 */
#ifndef STORM_H
#define STORM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define STORM_MAX_THREADS  64
#define STORM_HUB_CQES     (16 * STORM_MAX_THREADS) /* at least */
#define STORM_COMMON_BYTES (256u << 10)
#define STORM_ACCESS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/* What all threads share; constant while they run, except for the counters. */
struct storm {
	const char *device;
	const char *address; /* IPv4 address of the device */
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *hub; /* any thread polls and resizes it */
	uint8_t *common;    /* STORM_COMMON_BYTES that all threads register; never written */
	uint64_t end_ns;
	unsigned int threads;
	bool sanitized; /* the child of a fork cannot allocate */
	atomic_bool stop;
	atomic_uint failed;
};
extern struct storm storm;

struct worker {
	unsigned int id;
	uint64_t rng;
	const char *job; /* that it runs, for messages */
	void *own;       /* memory of its arena */
};

typedef void storm_job(struct worker *w);
/* queues.c */
storm_job job_connection, job_datagrams, job_queues;
/* burst.c */
storm_job job_burst;
/* hub.c */
storm_job job_hub;
/* memory.c */
storm_job job_domains, job_regions, job_same_pages;
/* events.c */
storm_job job_channel, job_limit, job_context, job_import;
/* connect.c */
storm_job job_cm, job_cm_group;

/* Reports asynchronous events of the shared context until storm.stop; events.c. */
void *storm_events(void *unused);

/* Records a failure; at most a few are printed. All threads stop after their current job. */
void storm_failed(const struct worker *w, const char *file, int line, const char *what);
/* Returns from a job whose condition is not met. Its objects are then left behind. */
#define NEED(w, cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			storm_failed(w, __FILE__, __LINE__, #cond);                                \
			return;                                                                    \
		}                                                                                  \
	} while (0)
/* The same, for a function that returns false. */
#define MUST(w, cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			storm_failed(w, __FILE__, __LINE__, #cond);                                \
			return false;                                                              \
		}                                                                                  \
	} while (0)

/* A random number below n. */
uint32_t storm_random(struct worker *w, uint32_t n);
void storm_fill(uint8_t *to, size_t len, uint32_t seed);
bool storm_is_filled(const uint8_t *from, size_t len, uint32_t seed);

/* queues.c: waits for one completion, at most STORM_WAIT_S. Returns false after a failure. */
#define STORM_WAIT_S 60
bool storm_wait(struct worker *w, struct ibv_cq *cq, struct ibv_wc *wc);
/* The same, and it must be a success. */
bool storm_done(struct worker *w, struct ibv_cq *cq);
/* Connects a and b of the device to each other, from RESET to RTS. */
bool storm_connect(struct worker *w, struct ibv_qp *a, struct ibv_qp *b);
/* A QP on cq with room for depth WRs in each queue; srq may be NULL. */
struct ibv_qp *storm_qp(struct worker *w, struct ibv_pd *pd, enum ibv_qp_type type,
			struct ibv_cq *cq, struct ibv_srq *srq, uint32_t depth);
bool storm_post_recv(struct ibv_qp *qp, struct ibv_mr *mr, size_t off, uint32_t len);
bool storm_post_send(struct ibv_qp *qp, struct ibv_mr *mr, size_t off, uint32_t len);

/* memory.c: registered memory of some kind. */
struct region {
	uint8_t *buf;
	size_t len;
	struct ibv_mr *mr;
	int kind, fd;
};
/* Registers len bytes of heap, mmap or memfd in pd. */
bool region_make(struct worker *w, struct region *r, struct ibv_pd *pd, size_t len);
bool region_end(struct worker *w, struct region *r);

#endif
