/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator: two engines (lib/engine/engine.h) with everything around them made up and
 * deterministic. One 64-bit seed gives one schedule, always the same.
 *
 *   config.c    what a schedule is like, drawn from the seed
 *   workload.c  which WQEs each QP posts, which receives meet them, what the bytes are
 *   world.c     nodes, regions, rings and QPs: made, connected, taken down
 *   loop.c      the virtual clock: an event heap, and the loop of a worker
 *   net.c, noise.c  links that lose, double, damage, hold back, overflow, and make things up
 *   trace.c, answers.c  every frame against the workload: is it what it has to be
 *   client.c    the client of each node: posts, rings, receives events
 *   receive.c   its receives, posted and completed; pieces.c cuts their memory
 *   reap.c      its polling: each completion against what may come next
 *   apm.c       alternate paths, and the end of the first
 *   invariants.c  what must hold when a schedule is over
 *   suites.c    named runs, by requirement; heap.c events in their order
 *
 * It looks at every frame of RC. mesh/ is the other half: all types, and what clients do to QPs,
 * regions, windows and queues under traffic, judged by the ends (mesh/mesh.h).
 *
 * Three copies of a node's memory: mem (real, the engine writes it), base (what is known to have to
 * be there) and model (windows only: what will be there once every WRITE posted so far is done).
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>
#include <uroce_abi/ring.h>
#include <uroce_abi/wqe.h>
#include "config.h"
#include "digest.h"
#include "heap.h"
#include "keys.h"
#include "prng.h"
#include "wire/parse.h"
#include "engine/engine.h"

#define SIM_NODES       2
#define SIM_MAX_PAIRS   8
#define SIM_MAX_SIDES   (2 * SIM_MAX_PAIRS)
#define SIM_MAX_OPS     72
#define SIM_MAX_RECVS   (SIM_MAX_OPS + 8)
#define SIM_MAX_ASKED   16
#define SIM_MAX_SGE     6
#define SIM_ATOMS       8 /* words for atomics */
#define SIM_MAX_CQ      4
#define SIM_MAX_PKTS    3500
#define SIM_MAX_RXQ     SIM_MAX_PKTS
#define SIM_NODE_BYTES  (16u << 20)
#define SIM_TABLE_BYTES (1u << 20)
#define SIM_NEVER       UINT64_MAX

struct sim;
struct sim_node;

/* What is wrong on purpose with a WQE (SIM_FAULTS). */
enum sim_fault {
	FAULT_NONE = 0,
	FAULT_LKEY,     /* SGE with a stale L_Key */
	FAULT_LRANGE,   /* SGE that ends behind its region */
	FAULT_LPD,      /* L_Key of another PD */
	FAULT_LACCESS,  /* READ into a region without local write */
	FAULT_OPCODE,   /* not an opcode */
	FAULT_NSGE,     /* more SGEs than the queue has */
	FAULT_RKEY,     /* stale R_Key */
	FAULT_RRANGE,   /* ends behind the window */
	FAULT_RWRAP,    /* address + length beyond 2^64 */
	FAULT_RPD,      /* R_Key of another PD */
	FAULT_RACCESS,  /* R_Key of a region without remote rights */
	FAULT_ALIGN,    /* atomic at an address that is no multiple of 8 */
	FAULT_LONG,     /* message longer than the receive buffer */
	FAULT_RECV_KEY, /* receive WQE with a bad L_Key */
	FAULT_KINDS,
};

enum sim_op_state {
	OP_NEW = 0,
	OP_POSTED,
	OP_DONE,   /* completed with SUCCESS, seen by a CQE of it or a later one */
	OP_FAILED, /* completed with another status */
};

/* A piece of a WQE's local memory: off in the node's memory. */
struct sim_seg {
	uint32_t off, len;
};

struct sim_op {         /* a send WQE, from its planning to its completion */
	uint8_t opcode; /* enum uroce_wr_opcode */
	uint8_t flags;  /* enum uroce_wqe_flags */
	uint8_t state;  /* enum sim_op_state */
	uint8_t fault;  /* enum sim_fault */
	uint8_t status; /* enum qp_wc_status, once failed */
	uint8_t nseg;
	uint32_t len;
	uint32_t imm;
	uint32_t roff;         /* offset in the peer's window */
	uint32_t recv;         /* which receive of the peer it uses; UINT32_MAX none */
	uint32_t first, npkts; /* its PSNs, counted from the QP's first */
	const uint8_t *data;   /* what it carries (READ: has to bring back) */
	uint8_t *snapshot;     /* owner of a READ's data */
	struct sim_seg seg[SIM_MAX_SGE];
	uint32_t local_end;            /* local.head behind its pieces */
	uint32_t asked[SIM_MAX_ASKED]; /* READ: responses that requests began with */
	uint32_t nasked;
	uint32_t resp_next;         /* .. one behind the last that was built */
	uint32_t resp_sent;         /* READ: responses that the peer has built */
	uint32_t resp_got;          /* .. that came back undamaged and in order */
	uint64_t va;                /* as in the RETH */
	uint64_t swap_add, compare; /* atomics */
	uint64_t after;             /* .. what the word is then */
	uint32_t rkey;
};

struct sim_recv {
	uint32_t cap;
	uint8_t state; /* enum sim_op_state */
	uint8_t nseg;
	bool bad_key;
	struct sim_seg seg[SIM_MAX_SGE];
	uint32_t local_end;
};

/* A registered piece of a node's memory, given out as a FIFO. */
struct sim_area {
	struct mr mr;
	uint32_t off, len;
	uint32_t head, tail; /* free running */
};

struct sim_ring { /* a queue as its client sees it */
	struct uroce_ring_hdr *hdr;
	uint8_t *slots;
	uint32_t entries, stride;
	uint32_t prod;
};

struct sim_cq {
	struct cq cq;
	struct uroce_cq_hdr *hdr;
	uint32_t entries;
	uint32_t cons;
	bool event;  /* the engine has raised its event */
	uint8_t arm; /* enum uroce_cq_arm that this client uses */
};

struct sim_srq { /* the one SRQ of a node */
	struct srq srq;
	struct sim_ring ring;
	struct sim_area area;
	struct sim_recv recv[SIM_MAX_RECVS]; /* receive i at i % SIM_MAX_RECVS */
	uint32_t posted, reaped, oldest;     /* oldest: none before it is out */
	uint32_t max_wr, max_sge;
	uint64_t recv_ns, cookie;
	uint32_t limit_events;
};

struct sim_side { /* one end of a pair */
	struct sim *sim;
	struct sim_node *node;
	struct sim_side *peer;
	struct qp *qp;
	struct uroce_qp_attr attr;
	uint32_t idx, qpn, mtu;
	uint32_t pd;
	struct uroce_qp_cap cap;
	struct sim_ring sq, rq;
	struct sim_cq *scq, *rcq;
	struct sim_area local, recvs, window, readonly, atoms;
	uint64_t cookie, wr_salt;
	uint64_t timer_ns; /* armed for; 0 not armed */
	uint64_t bell_ns;  /* a doorbell is on its way; 0 none */

	/* from here on, of this connection: see sim_world_connect */
	struct sim_op op[SIM_MAX_OPS];
	uint32_t nops, posted, reaped;
	struct sim_recv recv[SIM_MAX_RECVS];
	uint32_t nrecvs, rposted, rreaped;
	bool flushed; /* a send WQE has failed: QP in error */
	bool rflushed;
	uint64_t dereg_ns; /* when the client deregisters its window */
	bool window_gone;
	uint64_t rtr_ns, rts_ns, path_ns, recv_ns, sqd_ns; /* when the client gets to it */
	uint8_t sqd;                                       /* 0 not yet, 1 draining, 2 done */

	/* what the trace knows of the requests of this side */
	uint32_t total;   /* PSNs of all ops */
	uint32_t high;    /* one past the highest PSN sent */
	uint32_t contig;  /* first PSN that has not come to the peer undamaged and in order */
	uint32_t acked;   /* first PSN that nothing which came back acknowledges */
	uint32_t read_op; /* first READ whose responses are not all back */
	uint32_t naks, gaps, rnrs; /* came back since the last progress */
	uint32_t fatal_naks;       /* came back */
	bool sent_fatal;           /* as a responder: it has sent one */
	uint64_t progress_ns;
	uint64_t rnr_until_ns;
	bool rnr_waited;     /* before the frame at hand */
	bool gap;            /* as a responder: a NAK of the ePSN is due */
	bool naked;          /* .. was sent, and the ePSN has not come since */
	bool rnr_naked;      /* .. it was an RNR NAK */
	uint32_t opened;     /* .. the packet behind the gap that led to it */
	uint32_t early;      /* .. the last one that came too early */
	uint32_t told_again; /* .. how often the sequence NAK was due again */
	uint32_t comm_est, sq_drained, async_errors, last_wqe;

	/* path migration (apm.c) */
	bool rearmed, migrated;
	bool dark;        /* of the pair, at its first side: the path is cut */
	uint64_t dark_ns; /* not before */
};

struct sim_pkt;
struct sim_node {
	struct sim *sim;
	uint32_t idx;
	uint16_t dev;
	uint8_t mac[6];
	struct engine eng;
	struct mr_table mrs;
	struct qp_table qps;
	struct obs_block obs;
	uint8_t *mem, *base, *model;
	uint32_t used;        /* bytes of them in use */
	struct sim_area idle; /* registered, and nobody ever addresses it */
	struct sim_cq cq[SIM_MAX_CQ];
	struct sim_srq srq;
	struct sim_pkt *rxq[SIM_MAX_RXQ];
	uint32_t rxq_n;
	uint64_t poll_at; /* next loop of the worker; SIM_NEVER: asleep */
	uint64_t step_wait;
	uint64_t cqes;
};

enum sim_link_id { /* wire from node 0, wire from node 1, loopback of either */
		   SIM_LINK_LOOPBACK = 2,
		   SIM_LINKS = 4,
};
struct sim_link {
	uint64_t free_ns; /* when its last byte is out */
	uint32_t inflight;
	uint32_t burst; /* frames of a loss burst still to lose */
	uint64_t dark_from, dark_to;
};

/* What the trace keeps of a frame, so that its arrival needs no second look. */
struct sim_view {
	struct sim_side *from, *to; /* NULL: noise */
	uint32_t flags;             /* enum wire_op_flags */
	uint32_t psn;               /* from the first of the QP whose space it is in */
	uint32_t npkts;             /* PSNs of a request */
	uint8_t opcode, syndrome;
	bool fresh; /* sent for the first time */
	bool alt;   /* by the alternate path */
};

struct sim_pkt {
	struct rte_mbuf *m;
	struct sim_view view;
	uint8_t link, node; /* where it goes */
	bool intact;
	uint32_t id;
};

enum sim_event_kind {
	SIM_EV_FRAME, /* arg: index in pkt[] */
	SIM_EV_POLL,  /* arg: node */
	SIM_EV_STEP,  /* arg: node */
	SIM_EV_TIMER, /* arg: side */
	SIM_EV_BELL,  /* arg: side */
};

struct sim_stats {
	uint64_t frames, lost, doubled, damaged, overflow, cqes, bytes, virtual_ns;
	uint64_t naks, rnrs, failed_wqes, migrations;
};

struct sim {
	uint64_t seed, now_ns;
	struct sim_cfg cfg;
	struct sim_rng load, cli, netr;
	bool verbose;
	bool failed;
	bool quiet;   /* no more traffic is wanted: clients only poll */
	bool by_hand; /* the client has moved QPs to error */
	char why[512];
	uint8_t *table; /* random bytes that payloads are cut from */
	struct rte_mempool *pool, *small_pool, *net_pool;
	struct qp_segs *segs; /* of all engines */
	struct sim_node node[SIM_NODES];
	struct sim_side side[SIM_MAX_SIDES];
	uint32_t nsides;
	struct sim_link link[SIM_LINKS];
	struct sim_pkt pkt[SIM_MAX_PKTS];
	uint16_t free_pkt[SIM_MAX_PKTS];
	uint32_t nfree_pkt, next_id;
	struct sim_heap heap;
	struct sim_digest digest;
	uint64_t nevents;
	uint64_t last_progress_ns, patience_ns;
	struct sim_stats stats;
	uint8_t scratch[8192];
};

/* The VLAN that all devices of the schedule are in; 0: none. */
static inline uint16_t
sim_vid(const struct sim *s)
{
	return s->seed & 16 ? 0x64 : 0;
}

/* main.c: pools and memory, once. run.c: one schedule; true when nothing was violated. */
void sim_open(struct sim *s);
bool sim_run(struct sim *s, uint64_t seed, const char *const *set, unsigned nset);
/* Note what was violated (the first one counts) and stop. */
void sim_fail(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* With -v: one line of the log. */
void sim_log(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* workload.c */
void sim_plan_side(struct sim *s, struct sim_side *side);
void sim_plan_recvs(struct sim *s, struct sim_side *side);
void sim_plan_faults(struct sim *s);
bool sim_op_uses_recv(const struct sim_op *op);
/* READ or atomic: brings something back. */
bool sim_op_fetches(const struct sim_op *op);
/* The status that op's fault has to end in at the requester; SUCCESS without one. */
uint8_t sim_fault_status(uint8_t fault);
/* The fault shows at the requester, before anything is sent. */
bool sim_fault_is_local(uint8_t fault);

/* world.c */
void sim_world_make(struct sim *s);
void sim_world_free(struct sim *s);
/* Plan what comes, and bring all QPs from RESET to INIT. */
void sim_world_connect(struct sim *s);
void sim_side_modify(struct sim_side *side, enum qp_state to);
void sim_side_resolve(struct sim_side *side);

/* loop.c */
void sim_at(struct sim *s, uint64_t at_ns, enum sim_event_kind kind, uint32_t arg);
void sim_wake(struct sim_node *n, uint32_t after_ns);
/* Run until no event is left, or something failed. */
void sim_loop(struct sim *s);
extern const struct engine_ops sim_engine_ops;

/* net.c */
void sim_net_reset(struct sim *s);
/* Frames that node's engine has built: onto the link. Consumes them. */
void sim_net_send(struct sim_node *n, struct rte_mbuf *m);
/* The frame of pkt has come to the end of its link. */
void sim_net_arrive(struct sim *s, uint32_t pkt);
void sim_pkt_free(struct sim *s, struct sim_pkt *p);
void sim_net_drain(struct sim *s);

/* trace.c */
void sim_trace_built(struct sim_node *n, struct rte_mbuf *m, struct sim_view *v);
/* Before and after the engine takes a frame. */
void sim_trace_arriving(struct sim *s, const struct sim_pkt *p);
void sim_trace_taken(struct sim *s, const struct sim_pkt *p);
/* The engine says that it has nothing more to do. */
void sim_trace_idle(struct sim_node *n);
const char *sim_op_text(uint8_t opcode);

/* client.c, reap.c */
void sim_client_step(struct sim_node *n);
void sim_client_race(struct sim_node *n);
void sim_client_ring(struct sim_side *side, struct sim_ring *ring);
bool sim_client_poll(struct sim_node *n);
/* One WQE more on each queue of a QP that is in the error state: must be flushed. */
void sim_client_post_dead(struct sim_side *side);
bool sim_sends_done(const struct sim *s);
/* Write bytes of op into base (and check that they are there) as of its success. */
void sim_op_commit(struct sim_side *side, struct sim_op *op);

/* invariants.c */
void sim_check_end(struct sim *s);
void sim_check_memory(struct sim *s);
void sim_check_pools(struct sim *s);

#endif
