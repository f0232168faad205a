/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mesh: two or three nodes of one to four workers each, with RC and UC pairs and UD QPs that
 * share CQs and SRQs. Clients connect the QPs again and again while packets of the previous life
 * are still in flight. pair/pair.h checks every frame of RC; the mesh checks the ends: what was
 * sent, what arrived, what completed, and the contents of memory.
 *
 *   config.c  the parameters of a schedule, drawn from the seed
 *   world.c   nodes, regions, queues: made and destroyed
 *   life.c    QPs through their states; kills, drains, recoveries, new lives
 *   change.c  what clients change under traffic: regions, windows, CQs
 *   post.c    send WQEs, some with faults; receives
 *   loop.c    the virtual clock and the loop of a worker, with hand-off between workers
 *   net.c     links that lose, duplicate, delay, damage
 *   model.c   UC and UD: each frame when it is built and when it arrives, and its required effect
 *   reap.c    completions, each against those that may come next
 *   run.c     one schedule
 *   check.c   what must hold at the end of a life, and of the schedule
 *
 * There are two copies of a node's memory: mem (the engine writes it) and base (the expected
 * contents). The effect of an outstanding WRITE or READ is settled when it is over (mesh_settle).
 */
#ifndef MESH_MESH_H
#define MESH_MESH_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>
#include <uroce_abi/ring.h>
#include <uroce_abi/wqe.h>
#include "config.h"
#include "../keys.h"
#include "../sim.h"
#include "wire/parse.h"

#define MESH_CONNS     14
#define MESH_SIDES     24
#define MESH_OPS       64 /* send WQEs of a life, including those posted to a dead QP */
#define MESH_SLOTS     32 /* buffers of an area */
#define MESH_CQS       3
#define MESH_WINS      2
#define MESH_GROUPS    2
#define MESH_AHS       16
#define MESH_DUE       256
#define MESH_PKTS      4000
#define MESH_RX        512
#define MESH_WIN_LEN   1024 /* largest WRITE or READ through a memory window */
#define MESH_CONST_LEN 8192

/* Deliberate faults of a send WQE. */
enum mesh_fault {
	MESH_OK = 0,
	MESH_BAD_LKEY,
	MESH_BAD_RANGE, /* SGE that ends past its region */
	MESH_BAD_OPCODE,
	MESH_BAD_NSGE,
	MESH_BAD_AH,   /* UD: no such handle */
	MESH_TOO_LONG, /* UD: longer than the MTU */
	MESH_BAD_QKEY, /* UD: not the receiver's Q_Key; not an error of the sender */
	MESH_BAD_RKEY, /* RC, from here on */
	MESH_BAD_RRANGE,
	MESH_STALE_WIN,   /* through an invalidated window */
	MESH_GONE,        /* through a region that is deregistered or no longer writable */
	MESH_ALIGN,       /* atomic at an address that is not a multiple of 8 */
	MESH_BAD_BIND,    /* bind to no region, beyond one, or of a bound window */
	MESH_BAD_INV,     /* LOCAL_INV of a window that is not bound */
	MESH_BAD_SENDINV, /* SEND with invalidate of a key that is not a window of the peer */
};

enum mesh_target { MESH_AT_SLOT, MESH_AT_CONST, MESH_AT_WIN, MESH_AT_WORD };

struct mesh_op {
	SIM_IS_A(sim_op); /* fault: enum mesh_fault */
	uint8_t target;
	bool maybe;  /* a region or window was removed while it was outstanding, so it may fail */
	uint8_t win; /* MESH_AT_WIN, binds, invalidations */
	uint32_t imm, npkts;
	uint32_t loc, at; /* offsets in the own and the peer's node memory */
	uint32_t rkey, gen;
	uint64_t va, add, compare, orig; /* atomics: orig is the expected result */
	const uint8_t *data;             /* READ: the expected data */
	int8_t ah, group;                /* UD; -1 none */
	struct mesh_side *to;            /* UD: the QP addressed */
	uint32_t to_qpn, qkey;
};

struct mesh_recv {
	uint32_t off;
	uint8_t state;
};

struct mesh_area {
	SIM_IS_A(sim_area);
	uint64_t told; /* its address as sent to the peer */
	uint32_t stride;
	bool gone, shown; /* gone: deregistered or changed; shown: in the table */
};

enum mesh_win_state { MESH_WIN_FREE, MESH_WIN_BINDING, MESH_WIN_BOUND, MESH_WIN_LEAVING };
struct mesh_win { /* a memory window of a side, for its peer to use */
	struct mr mr;
	uint8_t state;
	uint32_t gen, key; /* key: while BOUND */
	uint32_t off;      /* in the node's memory */
	uint64_t iova;     /* as bound */
	bool known;        /* the peer knows that it is bound */
	bool zero_based;
};

struct mesh_srq { /* of one worker */
	struct srq srq;
	struct sim_ring ring;
	struct sim_ring next; /* hdr: a resize is in progress; nothing is posted meanwhile */
	struct qp_ring next_qp;
	uint32_t next_prod;
	struct mesh_area area;
	struct mesh_recv recv[MESH_SLOTS];
	uint32_t posted, completed, lost; /* lost: with a QP that was reset during a message */
	uint32_t armed;                   /* limit set and not reached */
	uint64_t cookie;
};

/* A message that has arrived whole at a UC or UD QP, and must complete; or MESH_ABORTED. */
#define MESH_ABORTED 0xfe
struct mesh_due {
	uint64_t hash; /* of its bytes */
	uint32_t len, imm, src_qp;
	uint8_t opcode; /* enum uroce_cqe_opcode */
	bool with_imm, solicited, grh_v6;
};

/* A frame that has arrived at a UC or UD QP and is not executed yet. */
#define MESH_WAITS 65 /* QP_CAP of lib/engine/rx_late.c, and the one that has just arrived */
struct mesh_wait {
	uint32_t psn;
	uint8_t opcode;
	bool tried; /* memory was late: it may be written in part */
	bool took;  /* .. and it has a receive WQE */
	/* .. and its key was valid: it may have been executed, and succeed if it no longer is */
	bool granted;
};

struct mesh_in { /* UC: the message being received */
	bool open, send;
	bool gave_up; /* an SRQ's WQE, because of the current frame */
	bool granted; /* of the current frame: struct mesh_wait */
	uint32_t epsn, len;
	uint64_t hash;
	uint32_t rkey, left;
	uint64_t va;
};

struct mesh_conn;
struct mesh_side { /* a QP */
	SIM_IS_A(sim_end);
	struct mesh *m;
	struct mesh_conn *conn;
	struct mesh_side *peer; /* NULL: UD */
	struct mesh_node *node;
	uint32_t gen; /* of its QPN */
	enum qp_type type;
	struct mesh_srq *srq;
	struct mesh_area local, recvs, slots, words, wins;
	struct mesh_win win[MESH_WINS];
	uint64_t recv_ns;
	uint32_t const_off; /* of the node's constant area; see mesh_node */

	/* of this life, from here on */
	struct mesh_op op[MESH_OPS];
	uint32_t mtu;
	struct mesh_recv recv[MESH_SLOTS];
	uint32_t rposted, rreaped;
	uint32_t delivered; /* RC: the peer's WQE after the last received one */
	uint64_t rtr_ns, rts_ns, die_ns, sqd_ns, dereg_ns;
	uint8_t die_to; /* enum qp_state, or MESH_DESTROY */
	bool dead;      /* moved to ERR or RESET by its client */
	bool was_sqe;
	uint8_t first_status; /* of the first send WQE that failed */
	bool first_dead;      /* .. after the client had moved the QP */
	uint8_t sqd;          /* 0 not yet, 1 draining, 2 drained */
	uint32_t sqd_begun;
	uint32_t sq_drained, comm_est, access_errs, req_errs, fatals, last_wqe, recv_errs;
	uint32_t win_news; /* windows whose state its peer may learn now */
	uint64_t word;     /* its word at the peer after all posted atomics */
	bool word_unsure;

	/* its next frame: WQE, packet, and PSN (UC, UD) */
	uint32_t tx_op, tx_k, tx_psn;
	uint32_t begun; /* RC: WQEs whose first packet was built */
	struct mesh_in in;
	struct mesh_wait wait[MESH_WAITS];
	uint32_t nwaits;
	struct mesh_due due[MESH_DUE];
	uint32_t due_head, due_tail;
};
#define MESH_DESTROY QP_NSTATES

enum mesh_conn_state { MESH_DOWN, MESH_UP, MESH_DYING, MESH_OVER };
#define MESH_CONN_STATES (MESH_OVER + 1)
extern const char *const mesh_conn_state_name[MESH_CONN_STATES]; /* "down" .. */
struct mesh_conn {
	struct mesh_side *side[2];
	uint32_t nsides, life;
	uint8_t state;
	enum qp_type type;
	uint64_t at_ns, kill_ns;
	bool trouble; /* RC: it was changed in a way that may end it */
};

#define MESH_ANY UINT32_MAX
struct mesh_worker {
	SIM_IS_A(sim_worker);
	struct mesh_node *node;
	struct mesh_srq srq;
	struct rte_mbuf *rx[MESH_RX], *in[MESH_RX];
	uint32_t rx_n, in_n;
	bool group;                /* the current frame is a group's, and valid */
	uint32_t handed, expected; /* hand-overs of the current frame, or MESH_ANY */
	uint64_t late_lost; /* frames that it had no place for, while their memory was late */
};

struct mesh_node {
	SIM_IS_A(sim_node);
	struct mesh *m;
	uint8_t gid[2][16]; /* IPv4, IPv6 */
	struct mesh_worker worker[SIM_WORKERS];
	struct mesh_area consts, idle, counter;
	struct qp_ah ah[MESH_AHS];
	struct qp_ah *ah_slot[MESH_AHS];
	struct qp_ah_table ahs;
	struct engine_addrs addrs;
	struct engine_member member[MESH_SIDES * MESH_GROUPS];
	uint32_t counted, maybe_counted; /* executed fetch-and-adds of 1, and possible others */
	uint8_t seen[4096];              /* results of these */
	uint64_t dark_from, dark_to, free_ns;
};

struct mesh_pkt {
	struct rte_mbuf *m;
	uint8_t node, worker;
};

struct mesh_stats { /* in addition to struct sim_stats */
	uint64_t lives, kills;
	uint64_t handed, delivered, datagrams, binds, invalidated, drained, recovered, resized,
		moves;
};

struct mesh {
	SIM_IS_A(sim);
	struct mesh_cfg cfg;
	struct mesh_node node[SIM_NODES];
	struct mesh_side side[MESH_SIDES];
	struct mesh_conn conn[MESH_CONNS];
	uint32_t nconns;
	struct mesh_pkt pkt[MESH_PKTS];
	uint16_t free_pkt[MESH_PKTS];
	uint32_t nfree_pkt;
	struct mesh_stats more;
	struct sim_rng mover; /* with cfg.move: a separate stream, so that old seeds stay valid */
	uint8_t wqes[ENGINE_MOVE_BYTES];
	uint8_t scratch[16384];
};

/* run.c: allocates memory, once. sim_run runs a schedule. */
void mesh_open(struct mesh *m, const struct sim_stock *stock);
void mesh_close(struct mesh *m);
/* Prints statistics of all schedules so far on one line. */
void mesh_summary(const struct mesh *m);

/* world.c */
void mesh_world_make(struct mesh *m);
void mesh_world_free(struct mesh *m);
/* Register len bytes at off as region a, again. */
void mesh_area_show(struct mesh_node *n, struct mesh_area *a);
void mesh_area_hide(struct mesh_node *n, struct mesh_area *a);
void mesh_qp_make(struct mesh_side *side);
void mesh_qp_destroy(struct mesh_side *side);
/* Sets the engines' table of the groups that QPs listen to. */
void mesh_members_set(struct mesh_node *n);
void mesh_group_gid(uint32_t group, uint8_t gid[16]);
struct mesh_side *mesh_side_of(struct mesh *m, uint32_t qpn);

/* life.c */
void mesh_modify(struct mesh_side *side, enum qp_state to);
/* The client moves its QPs through their states. True if a state changed. */
bool mesh_life_step(struct mesh_node *n);
bool mesh_over(const struct mesh *m);
bool mesh_may_post(const struct mesh_side *side);

/* change.c */
bool mesh_change_step(struct mesh_side *side);
void mesh_cq_resize(struct mesh_node *n);
/* Resizes an SRQ in two steps, between which its worker continues. */
void mesh_srq_resize(struct mesh_node *n);
void mesh_ah_step(struct mesh_node *n);
void mesh_windows_renew(struct mesh_side *side);
/* op, a bind, an invalidation or an access that used up a window, has ended. */
void mesh_window_done(struct mesh_side *side, struct mesh_op *op);
void mesh_window_gone(struct mesh_side *side, struct mesh_win *w);

/* post.c */
bool mesh_post(struct mesh_side *side);
void mesh_post_dead(struct mesh_side *side);
bool mesh_srq_post(struct mesh_node *n);
bool mesh_is_atomic(const struct mesh_op *op);
bool mesh_is_write(const struct mesh_op *op);
bool mesh_uses_recv(const struct mesh_op *op);
bool mesh_is_local(const struct mesh_op *op);

/* loop.c: one iteration of a worker; one step of a client; for -v, what each side waits for */
void mesh_poll(struct sim_worker *worker);
void mesh_step(struct sim_node *node);
void mesh_dump(struct sim *sim);
extern const struct engine_ops mesh_engine_ops;

/* net.c */
void mesh_net_reset(struct mesh *m);
void mesh_net_send(struct sim_worker *worker, struct rte_mbuf *frame);
void mesh_net_arrive(struct sim *sim, uint32_t pkt);
void mesh_net_drain(struct mesh *m);

/* model.c */
void mesh_built(struct mesh_worker *w, struct rte_mbuf *frame);
void mesh_arriving(struct mesh_worker *w, struct rte_mbuf *frame);
void mesh_taken(struct mesh_worker *w);
/* After the engine's turn: the frames that wait must be those that the model expects. */
void mesh_waits_check(struct mesh_worker *w);
/* The QP leaves RTR, RTS: its frames that wait are lost. */
void mesh_waits_forget(struct mesh_side *side);

/* reap.c: of struct sim_model */
void mesh_reap_cqe(struct sim_node *node, struct sim_cq *cq, const struct uroce_cqe *cqe);
void mesh_reap_commit(struct sim_end *end, struct sim_op *op);
bool mesh_reap_has_cause(struct sim_end *end, const struct sim_op *op, uint8_t status);
/* At the end: all remaining completions must be void. */
void mesh_poll_rest(struct mesh_node *n);
/* Do unpolled completions of its receives exist? */
bool mesh_cqes_left(const struct mesh_side *side);
/* The QP goes to RESET or is destroyed: its unpolled completions are void (QP-10, QP-22). */
void mesh_forget_cqes(struct mesh_side *side);

/* check.c */
/* op changes memory no more: the bytes that it may have written are now the expected ones. */
void mesh_settle(struct mesh_side *side, struct mesh_op *op);
void mesh_check_life(struct mesh_conn *c);
void mesh_check_end(struct mesh *m);
uint64_t mesh_hash(uint64_t h, const uint8_t *p, uint32_t len);
/* As mesh_hash, for len bytes that arrived in packets of mtu. */
uint64_t mesh_hash_pieces(const uint8_t *p, uint32_t len, uint32_t mtu);
#define MESH_HASH 0xcbf29ce484222325u

#endif
