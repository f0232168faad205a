/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs: two engines (lib/engine/engine.h) in a simulated, deterministic environment. One 64-bit
 * seed gives one schedule, always the same.
 *
 *   config.c    the parameters of a schedule, drawn from the seed
 *   workload.c  the WQEs and receives that each QP posts, and their bytes
 *   world.c     nodes, regions, rings and QPs: made, connected, destroyed
 *   loop.c      the virtual clock: an event heap, and the loop of a worker
 *   net.c, noise.c  links that lose, duplicate, damage, delay, overflow, and forge frames
 *   trace.c, answers.c  check every frame against the workload
 *   client.c    the client of each node: posts, rings, receives events
 *   receive.c   its receives, posted and completed; pieces.c cuts their memory
 *   reap.c      its polling: each completion against those that may come next
 *   apm.c       alternate paths, and the failure of the first
 *   invariants.c  what must hold at the end of a schedule
 *
 * It checks every frame of RC. mesh/ is the other simulator: all types, and what clients do to QPs,
 * regions, windows and queues under traffic, checked at the ends (mesh/mesh.h).
 *
 * There are three copies of a node's memory: mem (real, the engine writes it), base (the contents
 * that are certain) and model (windows only: the contents after every WRITE posted so far).
 */
#ifndef PAIR_H
#define PAIR_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>
#include <uroce_abi/ring.h>
#include <uroce_abi/wqe.h>
#include "config.h"
#include "../keys.h"
#include "../sim.h"
#include "wire/parse.h"

#define PAIR_NODES     2
#define PAIR_MAX_PAIRS 8
#define PAIR_MAX_SIDES (2 * PAIR_MAX_PAIRS)
#define PAIR_MAX_OPS   72
#define PAIR_MAX_RECVS (PAIR_MAX_OPS + 8)
#define PAIR_MAX_ASKED 16
#define PAIR_MAX_SGE   6
#define PAIR_ATOMS     8 /* words for atomics */
#define PAIR_MAX_PKTS  3500
#define PAIR_MAX_RXQ   PAIR_MAX_PKTS

struct pair;
struct pair_node;

/* The deliberate fault of a WQE (PAIR_FAULTS). */
enum pair_fault {
	FAULT_NONE = 0,
	FAULT_LKEY,     /* SGE with a stale L_Key */
	FAULT_LRANGE,   /* SGE that ends past its region */
	FAULT_LPD,      /* L_Key of another PD */
	FAULT_LACCESS,  /* READ into a region without local write */
	FAULT_OPCODE,   /* not an opcode */
	FAULT_NSGE,     /* more SGEs than the queue has */
	FAULT_RKEY,     /* stale R_Key */
	FAULT_RRANGE,   /* ends beyond the window */
	FAULT_RWRAP,    /* address + length beyond 2^64 */
	FAULT_RPD,      /* R_Key of another PD */
	FAULT_RACCESS,  /* R_Key of a region without remote rights */
	FAULT_ALIGN,    /* atomic at an address that is not a multiple of 8 */
	FAULT_LONG,     /* message longer than the receive buffer */
	FAULT_RECV_KEY, /* receive WQE with a bad L_Key */
	FAULT_KINDS,
};

/* A piece of a WQE's local memory: off in the node's memory. */
struct pair_seg {
	uint32_t off, len;
};

struct pair_op {          /* a send WQE, from its planning to its completion */
	SIM_IS_A(sim_op); /* fault: enum pair_fault */
	uint8_t nseg;
	uint32_t imm;
	uint32_t roff;         /* offset in the peer's window */
	uint32_t recv;         /* index of the peer's receive that it uses; UINT32_MAX none */
	uint32_t first, npkts; /* its PSNs, counted from the QP's first */
	const uint8_t *data;   /* its payload (READ: the expected data) */
	uint8_t *snapshot;     /* owner of a READ's data */
	struct pair_seg seg[PAIR_MAX_SGE];
	uint32_t local_end;             /* local.head after its pieces */
	uint32_t asked[PAIR_MAX_ASKED]; /* READ: first response of each request for it */
	uint32_t nasked;
	uint32_t requests;          /* READ: requests sent for it */
	uint32_t resp_next;         /* .. one past the last that was built */
	uint32_t resp_sent;         /* READ: responses that the peer has built */
	uint32_t resp_got;          /* .. that arrived undamaged and in order */
	uint64_t va;                /* as in the RETH */
	uint64_t swap_add, compare; /* atomics */
	uint64_t after;             /* .. value of the word afterwards */
	uint32_t rkey;
};

struct pair_recv {
	uint32_t cap;
	uint8_t state; /* enum sim_op_state */
	uint8_t nseg;
	bool bad_key;
	struct pair_seg seg[PAIR_MAX_SGE];
	uint32_t local_end;
};

/* A registered piece of a node's memory, given out as a FIFO. */
struct pair_area {
	SIM_IS_A(sim_area);
	uint32_t head, tail; /* free running */
};

struct pair_srq { /* the one SRQ of a node */
	struct srq srq;
	struct sim_ring ring;
	struct pair_area area;
	struct pair_recv recv[PAIR_MAX_RECVS]; /* receive i at i % PAIR_MAX_RECVS */
	uint32_t posted, reaped, oldest;       /* oldest: none before it is outstanding */
	uint32_t max_wr, max_sge;
	uint64_t recv_ns, cookie;
	uint32_t limit_events;
};

struct pair_side { /* one end of a pair */
	SIM_IS_A(sim_end);
	struct pair *pair;
	struct pair_node *node;
	struct pair_side *peer;
	uint32_t mtu, pd;
	struct pair_area local, recvs, window, readonly, atoms;
	uint64_t wr_salt;

	/* of this connection, from here on: see pair_world_connect */
	struct pair_op op[PAIR_MAX_OPS];
	struct pair_recv recv[PAIR_MAX_RECVS];
	uint32_t nrecvs, rposted, rreaped;
	uint64_t dereg_ns; /* when the client deregisters its window */
	bool window_gone;
	uint64_t rtr_ns, rts_ns, path_ns, recv_ns, sqd_ns; /* times of the client's steps */
	uint8_t sqd;                                       /* 0 not yet, 1 draining, 2 done */

	/* what the trace knows of this side's requests */
	uint32_t total;  /* PSNs of all ops */
	uint32_t high;   /* one past the highest PSN sent */
	uint32_t contig; /* first PSN that has not arrived undamaged and in order */
	/* with cfg.sr: requests that have arrived undamaged, by their first PSN */
	uint64_t came[PAIR_MAX_OPS * 131072 / 256 / 64];
	uint64_t data_came[PAIR_MAX_OPS * 131072 / 256 / 64]; /* with sr: responses with data */
	uint32_t told; /* with sr: one past the last PSN acknowledged, whatever data is missing */
	uint64_t answered_ns;      /* time of the last response */
	uint32_t acked;            /* first PSN that is not acknowledged yet */
	uint32_t read_op;          /* first READ with responses outstanding */
	uint32_t naks, gaps, rnrs; /* received since the last progress */
	uint32_t fatal_naks;       /* received */
	bool sent_fatal;           /* as a responder: it has sent a fatal NAK */
	uint64_t progress_ns;
	uint64_t rnr_until_ns;
	bool rnr_waited;     /* before the current frame */
	bool gap;            /* as a responder: a NAK of the ePSN is due */
	bool naked;          /* .. was sent, and the ePSN has not arrived since */
	bool rnr_naked;      /* .. it was an RNR NAK */
	uint32_t opened;     /* .. PSN of the packet behind the gap that caused it */
	uint32_t early;      /* .. PSN of the last early packet */
	uint32_t told_again; /* .. retransmissions of the sequence NAK */
	uint32_t comm_est, sq_drained, async_errors, last_wqe;

	/* path migration (apm.c) */
	bool rearmed, migrated;
	bool dark;        /* of the pair, at its first side: the path has failed */
	uint64_t dark_ns; /* not before */
};

struct pair_pkt;
struct pair_node {
	SIM_IS_A(sim_node);
	struct pair *pair;
	struct sim_worker worker;
	uint8_t *model;
	struct pair_area idle; /* registered, but never addressed */
	struct pair_srq srq;
	struct pair_pkt *rxq[PAIR_MAX_RXQ];
	uint32_t rxq_n;
};

enum pair_link_id { /* wire from node 0, wire from node 1, loopback of either */
		    PAIR_LINK_LOOPBACK = 2,
		    PAIR_LINKS = 4,
};
struct pair_link {
	uint64_t free_ns; /* time at which its last byte is sent */
	uint32_t inflight;
	uint32_t burst; /* frames of a loss burst left to lose */
	uint64_t dark_from, dark_to;
};

/* The trace's data about a frame, so that its arrival needs no second parse. */
struct pair_view {
	struct pair_side *from, *to; /* NULL: noise */
	uint32_t flags;              /* enum wire_op_flags */
	uint32_t psn;                /* relative to the first PSN of the requester's QP */
	uint32_t npkts;              /* PSNs of a request */
	uint8_t opcode, syndrome;
	bool fresh; /* sent for the first time */
	bool alt;   /* by the alternate path */
};

struct pair_pkt {
	struct rte_mbuf *m;
	struct pair_view view;
	uint8_t link, node; /* its destination */
	bool intact;
	uint32_t id;
};

struct pair_stats { /* besides struct sim_stats */
	uint64_t overflow, bytes, naks, rnrs, sacks, migrations;
};

struct pair {
	SIM_IS_A(sim);
	struct pair_cfg cfg;
	bool by_hand; /* the client has moved QPs to ERR */
	struct pair_node node[PAIR_NODES];
	struct pair_side side[PAIR_MAX_SIDES];
	struct pair_link link[PAIR_LINKS];
	struct pair_pkt pkt[PAIR_MAX_PKTS];
	uint16_t free_pkt[PAIR_MAX_PKTS];
	uint32_t nfree_pkt, next_id;
	struct pair_stats more;
	uint8_t scratch[8192];
};

/* The VLAN that all devices of the schedule are in; 0: none. */
static inline uint16_t
pair_vid(const struct pair *s)
{
	return s->seed & 16 ? 0x64 : 0;
}

/* run.c: allocates memory, once. sim_run runs a schedule. */
void pair_open(struct pair *s, const struct sim_stock *stock);
void pair_close(struct pair *s);

/* workload.c */
void pair_plan_side(struct pair *s, struct pair_side *side);
void pair_plan_recvs(struct pair *s, struct pair_side *side);
void pair_plan_faults(struct pair *s);
bool pair_op_uses_recv(const struct pair_op *op);
/* The status with which op's fault must end at the requester; SUCCESS without a fault. */
uint8_t pair_fault_status(uint8_t fault);
/* Is the fault found at the requester, before anything is sent? */
bool pair_fault_is_local(uint8_t fault);

/* world.c */
void pair_world_make(struct pair *s);
void pair_world_free(struct pair *s);
/* Plans the next round, and brings all QPs from RESET to INIT. */
void pair_world_connect(struct pair *s);
void pair_side_modify(struct pair_side *side, enum qp_state to);
void pair_side_resolve(struct pair_side *side);

/* loop.c: one iteration of the node's worker */
void pair_poll(struct sim_worker *w);
extern const struct engine_ops pair_engine_ops;

/* net.c */
void pair_net_reset(struct pair *s);
/* Puts a frame that the node's engine built on the link. Consumes it. */
void pair_net_send(struct sim_worker *w, struct rte_mbuf *m);
/* The frame of pkt has arrived at the end of its link. */
void pair_net_arrive(struct sim *sim, uint32_t pkt);
void pair_pkt_free(struct pair *s, struct pair_pkt *p);
void pair_net_drain(struct pair *s);

/* trace.c */
void pair_trace_built(struct pair_node *n, struct rte_mbuf *m, struct pair_view *v);
/* Called before and after the engine takes a frame. */
void pair_trace_arriving(struct pair *s, const struct pair_pkt *p);
void pair_trace_taken(struct pair *s, const struct pair_pkt *p);
/* The engine reports that it has no more work. */
void pair_trace_idle(struct pair_node *n);
/* With selective repeat: takes over what the requester of side has counted. Called before a check.
 */
void pair_trace_sync(struct pair_side *side);
const char *pair_op_text(uint8_t opcode);

/* client.c, reap.c */
void pair_client_step(struct sim_node *node);
void pair_client_race(struct sim_node *node);
/* Posts one more WQE on each queue of a QP in the error state: must be flushed. */
void pair_client_post_dead(struct pair_side *side);
bool pair_sends_done(const struct pair *s);
/* Of struct sim_model. */
void pair_reap_cqe(struct sim_node *node, struct sim_cq *cq, const struct uroce_cqe *cqe);
void pair_reap_commit(struct sim_end *end, struct sim_op *op);
bool pair_reap_has_cause(struct sim_end *end, const struct sim_op *op, uint8_t status);

/* invariants.c */
void pair_check_end(struct pair *s);
void pair_check_memory(struct pair *s);

#endif
