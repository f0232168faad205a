/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by both simulators. One 64-bit seed gives one schedule, always the same: engines
 * (lib/engine/engine.h) on a virtual clock, in a simulated environment.
 *
 *   run.c    a schedule from its seed to its verdict; buffers that all schedules use
 *   world.c  memory, regions, rings and CQs of a node; engines
 *   loop.c   the virtual clock, and the turns of a worker
 *   pace.c   a congestion policy that paces
 *   ring.c   what a client does to its rings
 *   reap.c   a client's polling; send completions in their order
 *   fields.c configurations that are tables of fields
 *   prng.c, heap.c, digest.h, keys.h  random numbers, events in order, hashes, keys of regions
 *   suites.c named runs, by requirement
 *
 * pair/ and mesh/ are the two simulators: their topology, their clients, and their checks. Each
 * embeds the structs below in its own by SIM_IS_A and passes a struct sim_model.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>
#include <uroce_abi/cqe.h>
#include <uroce_abi/ring.h>
#include <uroce_abi/wqe.h>
#include "digest.h"
#include "heap.h"
#include "prng.h"
#include "engine/engine.h"

#define SIM_NODES       3
#define SIM_WORKERS     4 /* of a node */
#define SIM_ENDS        24
#define SIM_CQS         4
#define SIM_NODE_BYTES  (16u << 20)
#define SIM_TABLE_BYTES (1u << 20)
#define SIM_NEVER       UINT64_MAX
#define SIM_START_NS    1000000

/* First member of a struct that extends struct base: access by field, or as a whole. */
#define SIM_IS_A(base)                                                                             \
	union {                                                                                    \
		struct base base;                                                                  \
		struct base;                                                                       \
	}

struct sim;
struct sim_node;

enum sim_op_state { SIM_OP_NEW = 0, SIM_OP_POSTED, SIM_OP_DONE, SIM_OP_FAILED };

struct sim_op {         /* a send WQE, from its planning to its completion */
	uint8_t opcode; /* enum uroce_wr_opcode */
	uint8_t flags;  /* enum uroce_wqe_flags */
	uint8_t state;  /* enum sim_op_state */
	uint8_t fault;  /* deliberate fault; the simulator's own enum */
	uint8_t status; /* enum qp_wc_status, after a failure */
	uint32_t len;
};

struct sim_ring { /* a queue from its client's side */
	struct uroce_ring_hdr *hdr;
	uint8_t *slots;
	uint32_t entries, stride, prod;
};

struct sim_cqring {
	struct uroce_cq_hdr *hdr;
	uint32_t entries, cons;
};

struct sim_cq {
	struct cq cq;
	struct sim_cqring ring, old; /* old.hdr: entries left by a resize, to be read first */
	uint32_t need;               /* entries that its QPs may need */
	uint8_t arm;                 /* enum uroce_cq_arm; 0: its client does not wait for events */
	bool event;                  /* the engine has raised its event */
};

struct sim_area { /* a registered piece of a node's memory */
	struct mr mr;
	uint32_t off, len;
};

struct sim_worker {
	struct sim_node *home;
	struct engine eng;
	struct counter_block counters;
	uint32_t idx, id; /* in its node; in struct sim */
	uint64_t poll_at; /* time of its next turn; SIM_NEVER: asleep */
};

struct sim_node {
	struct sim *sim;
	uint32_t idx;
	uint16_t dev;
	uint8_t mac[6];
	struct mr_table mrs;
	struct qp_table qps;
	uint8_t *mem, *base;   /* written by the engine; expected contents */
	uint32_t used;         /* bytes of them in use */
	uint32_t first_worker; /* its id */
	uint32_t ncqs;
	struct sim_cq cq[SIM_CQS];
	uint64_t step_wait;
	uint64_t cqes; /* taken by its client */
};

struct sim_end { /* a QP and its client */
	struct sim_node *home;
	struct qp *qp; /* NULL: none at present */
	struct uroce_qp_attr attr;
	uint32_t idx, qpn, worker;
	struct uroce_qp_cap cap;
	struct sim_ring sq, rq;
	struct sim_cq *scq, *rcq;
	uint64_t cookie;
	uint64_t timer_ns; /* time it is armed for; 0 not armed */
	uint64_t bell_ns;  /* arrival of an outstanding doorbell; 0 none */
	bool sig_all;

	/* of this connection; see sim_end_renew */
	uint32_t nops, posted, reaped; /* send WQEs: planned, posted, known to be complete */
	bool flushed, rflushed;        /* a send WQE, a receive has failed */
	bool cut;                      /* reset without ERR: completions are lost */
};

/* Buffers that all schedules use, one after the other. */
struct sim_stock {
	uint8_t *table; /* random bytes that payloads are cut from */
	struct rte_mempool *pool, *small_pool, *net_pool;
	struct qp_segs *segs; /* of all engines */
};

struct sim_stats {
	uint64_t frames, lost, doubled, damaged, cqes, failed_wqes, paced, virtual_ns;
};

enum sim_event_kind {
	SIM_EV_FRAME, /* arg: a packet of the simulator's */
	SIM_EV_POLL,  /* arg: worker */
	SIM_EV_STEP,  /* arg: node */
	SIM_EV_TIMER, /* arg: end */
	SIM_EV_BELL,  /* arg: end */
};

/* The differences between the simulators. */
struct sim_model {
	uint32_t stream; /* the first of its four streams of random numbers */
	/* One schedule: make configuration and world; run until no event is left; check the end. */
	void (*begin)(struct sim *s, struct sim_rng *r, const char *const *set, unsigned nset);
	void (*play)(struct sim *s);
	void (*end)(struct sim *s);
	/* Events. step: of a node's client. due: does ev still mean that end must wake? */
	void (*arrive)(struct sim *s, uint32_t pkt);
	void (*poll)(struct sim_worker *w);
	void (*step)(struct sim_node *n);
	bool (*due)(const struct sim_end *e, const struct sim_event *ev);
	/* Sends a frame that was built. */
	void (*send)(struct sim_worker *w, struct rte_mbuf *m);
	/* The engine is about to access unmapped memory. NULL: no effect. */
	void (*touched)(struct sim_node *n);
	/* Prints the state of all sides. NULL: prints nothing. */
	void (*dump)(struct sim *s);
	/* Completions. has_cause: may op be the first that failed? */
	struct sim_op *(*op)(struct sim_end *e, uint32_t index);
	void (*cqe)(struct sim_node *n, struct sim_cq *cq, const struct uroce_cqe *cqe);
	void (*commit)(struct sim_end *e, struct sim_op *op);
	bool (*has_cause)(struct sim_end *e, const struct sim_op *op, uint8_t status);
	/* op, not marked yet, has failed with a status that is allowed. */
	void (*failing)(struct sim_end *e, const struct sim_op *op, uint8_t status);
};

struct sim {
	const struct sim_model *model;
	uint64_t seed, now_ns, last_progress_ns, patience_ns;
	struct sim_rng load, cli, netr;
	bool verbose, failed;
	char why[512];
	SIM_IS_A(sim_stock);
	struct sim_node *node_at[SIM_NODES];
	struct sim_worker *worker_at[SIM_NODES * SIM_WORKERS];
	struct sim_end *end_at[SIM_ENDS];
	uint32_t nnodes, nsides, max_ends;
	uint32_t copy_mr, late; /* ppm: regions that are not mapped; accesses that come too early */
	struct sim_heap heap;
	struct sim_digest digest;
	struct sim_stats stats;
};

/* run.c: allocates buffers, once. Aborts if there is no memory. */
void sim_stock_open(struct sim_stock *stock);
void sim_stock_close(struct sim_stock *stock);
/* Runs the schedule of seed, with fields of its configuration overridden; true: no violation. */
bool sim_run(struct sim *s, uint64_t seed, const char *const *set, unsigned nset);
/* Records a violation (the first one counts) and stops. */
void sim_fail(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* With -v: one line of the log. */
void sim_log(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Checks that mem and base of a node are equal; in: names the owner of byte off. */
void sim_check_memory(struct sim_node *n, const char *(*in)(const struct sim_node *, uint32_t));
/* Bytes that an unfinished WQE may or may not have written: accepts either content. */
void sim_either(struct sim_node *n, uint32_t off, const uint8_t *data, uint32_t len);

/* world.c: zeroed bytes, aligned to a cache line; free with free(). */
void *sim_zalloc(size_t bytes);
/* Allocates memory of a node, once. Aborts if there is none. */
void sim_node_memory(struct sim_node *n);
/* Makes node idx of s, without regions: tables of nkeys keys and nqps QPs. */
void sim_node_make(struct sim *s, struct sim_node *n, uint32_t idx, uint32_t nkeys, uint32_t nqps);
void sim_node_free(struct sim_node *n);
/* Makes worker idx of n, number id of the simulator. view: as engine_set_zero_copy; 0: none. */
void sim_worker_make(struct sim_node *n, struct sim_worker *w, uint32_t idx, uint32_t id,
		     uint32_t nworkers, bool small_pool, uint32_t view,
		     const struct engine_ops *ops);
/* Frees the frames that it has not sent. */
void sim_worker_free(struct sim_worker *w);
/* Places the region of len bytes at off of n's memory, not in the table yet; n->used follows it. */
void sim_area_place(struct sim_node *n, struct sim_area *a, uint32_t off, uint32_t len, uint32_t pd,
		    uint32_t access);
/* Adds the region to the table at iova, mapped or not at random. */
void sim_area_show(struct sim_node *n, struct sim_area *a, uint64_t iova);
/* A zeroed queue of this many entries, in the client's and the daemon's form. */
struct qp_ring sim_ring_make(struct sim_ring *r, uint32_t entries, uint32_t stride,
			     uint32_t max_sge, uint32_t max_inline);
void sim_cqring_make(struct sim_cqring *r, uint32_t entries);
/* Makes CQ i of n, with arm set and need counted. */
void sim_cq_make(struct sim_node *n, uint32_t i);
/* Fills mem and base with the same random bytes. */
void sim_node_fill(struct sim_node *n);
/* Resets the state of the previous connection. */
void sim_end_renew(struct sim_end *e);
/* Removes e's QP from its engine and frees it, with its rings. */
void sim_end_free(struct sim_end *e, struct engine *eng);

/* loop.c */
void sim_at(struct sim *s, uint64_t at_ns, enum sim_event_kind kind, uint32_t arg);
void sim_wake(struct sim_worker *w, uint32_t after_ns);
/* Runs until no event is left, or a check failed. */
void sim_loop(struct sim *s);
/*
 * Schedules the next turn of w, at the end of a turn. busy: soon, poll_ns later on average or,
 * stall times in a million, much later. Otherwise: when the pace of a QP permits its next packet,
 * if any.
 */
void sim_again(struct sim_worker *w, bool busy, uint32_t stall, uint32_t poll_ns);
/* Schedules the next step of n's client: after step_ns on average, later when it is not busy. */
void sim_step_again(struct sim_node *n, bool busy, uint32_t step_ns);
/* Executes doorbells and timers of w that are due. */
void sim_bells_and_timers(struct sim_worker *w);
/* Sends built frames; refuse times in a million the port takes only some of them. */
void sim_tx(struct sim_worker *w, uint32_t refuse);
/* Operations of an engine (engine/engine.h) whose ctx begins with a struct sim_worker. */
void sim_ops_set_timer(void *ctx, struct qp *qp, uint64_t at_ns);
bool sim_ops_slow_path(void *ctx, uint16_t dev, struct rte_mbuf *m);
void sim_ops_cq_event(void *ctx, struct cq *cq);

/* pace.c: of all schedules of the process, because a policy gets no context. */
struct sim_pace {
	uint32_t gap_ns; /* longest usual gap between two packets of a QP; 0: policy `fixed` */
	bool parts;      /* READs are requested in parts */
	/* packets; .. that were sent as soon as their pace permitted; .. before that */
	uint64_t sent, held, early;
};
extern struct sim_pace sim_pace;
/* Gives qp, which is in RESET, the policy, unless sim_pace.gap_ns is 0. */
void sim_pace_set(struct qp *qp);
/* Bytes that were reported as acknowledged to the policy of qp, which has one. */
uint64_t sim_pace_acked(const struct qp *qp);

/* ring.c: the next slot of a client's queue; name and id identify it. */
uint8_t *sim_ring_slot(struct sim *s, struct sim_ring *r, const char *name, uint32_t id);
/* Publishes posted WQEs, and sends a doorbell if the engine requested one. */
void sim_ring_publish(struct sim_end *e, struct sim_ring *r);

/* reap.c: a client takes the entries of its CQs. True if there were any. */
bool sim_reap(struct sim_node *n);
/* Takes all entries of cq, or max. True if the queue is then empty. */
bool sim_reap_cq(struct sim_node *n, struct sim_cq *cq, uint32_t max);
/* Entry number at of the ring, or NULL: not written yet. */
struct uroce_cqe *sim_cqring_slot(const struct sim_cqring *r, uint32_t at);
/* Handles the completion of send WQE index of e, and of the unsignaled ones before it. */
void sim_reap_send(struct sim_end *e, uint32_t index, const struct uroce_cqe *cqe);
/* READ or atomic: returns data. */
bool sim_op_fetches(const struct sim_op *op);
const char *sim_op_name(uint8_t opcode);

#endif
