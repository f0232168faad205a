/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the world share.
 *
 *   world.c    QPs, and the steps of an input      memory.c   regions and their guards
 *   client.c   posting and completions             check.c    what must hold after each step
 *   peers.c    addresses, multicast groups         tune.c     settings
 *   race.c     writes to the rings while the engine reads
 */
#ifndef FUZZ_WORLD_PARTS_H
#define FUZZ_WORLD_PARTS_H

#include <stdio.h>
#include <stdlib.h>
#include "worker/worker_parts.h"
#include "world.h"

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #cond);   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define ENTRIES    16u /* of each send and receive queue */
#define CQ_ENTRIES 256u
#define MAX_SGE    6u
#define MAX_INLINE 256u
#define AHS        2u
#define SRQ_INDEX  WORLD_QPS /* in wr_ids, in place of the QP */

/* A queue as the client sees it. */
struct wq {
	struct uroce_ring_hdr *hdr;
	uint8_t *slots;
	uint32_t stride, prod;
	uint32_t done;      /* completions so far, which come in order */
	uint32_t bytes[32]; /* posted with each WQE that is out, modulo 32 */
};

struct world_side {
	struct qp *qp;
	struct wq sq, rq;
	struct qp_path path, alt; /* alt: of the QPs that have an alternate path */
	struct world_peer peer;
};

struct world_cq {
	struct cq cq;
	struct uroce_cq_hdr *hdr, *old; /* old: before the last resize, or NULL */
	uint32_t entries, cons;
};

struct world {
	struct worker worker; /* its engine; of the rest, only doorbells and hot queues */
	struct worker_doorbell bell;
	struct uroce_db_ring *bell_ring; /* of a hostile client; the other one needs none */
	struct wire_memo memo;           /* of the test's own */
	struct counter_block counters;
	struct mr_table mrs;
	struct qp_table qps;
	struct qp_sqe_pool *sqes;
	uint64_t now;
	struct world_side side[WORLD_QPS];
	struct world_cq scq, rcq;
	struct srq srq;
	struct wq srq_wq;
	uint32_t srq_out; /* bit i: WQE i of the SRQ has not completed, modulo 32 */
	struct qp_ah ah[AHS];
	struct qp_ah *ah_slot[AHS];
	struct qp_ah_table ahs;
	struct mr mr[WORLD_REGIONS];
	bool gone[WORLD_REGIONS];                         /* deregistered */
	struct world_peer other[WORLD_PEERS - WORLD_QPS]; /* from WORLD_GROUP on */
	uint16_t pkeys[UROCE_MAX_PKEYS];
	uint8_t sges;    /* region of the SGEs that the client posts */
	bool loop_waits; /* looped frames are owned before they are received */
	struct engine_member member[4];
	struct engine_addrs addrs;
};
extern struct world world;
extern struct rte_mempool *world_rx_pool, *world_tx_pool;

static inline bool
is_ud(uint32_t q)
{
	return q == WORLD_UD || q == WORLD_UD_V6;
}

static inline bool
is_v6(uint32_t q)
{
	return q == WORLD_RC_V6 || q == WORLD_UD_V6;
}

/* memory.c */
void memory_init(void);
void memory_reset(void); /* contents and table */
void memory_end(void);   /* checks guards and unchanged memory, then frees the table */
void memory_drop(uint32_t region);
void memory_late(bool on); /* copies are late from now on, or no longer */
bool memory_is_late(void);
uint64_t memory_sum(void); /* of all contents: another once a byte changed */
/* The frame in an mbuf, and nothing beside it that may be read (with ASan). */
void memory_fence_frame(struct rte_mbuf *m, bool on);

/* peers.c */
extern const uint8_t peers_our_mac[6];
/* QP q is there, and not connected yet: the path of its packets, and of those to it. */
void peers_connect(uint32_t q, uint8_t svc);
/* Two groups; each has a UD QP as a member, and a QP of another worker. QPs are connected. */
void peers_groups(void);

/* tune.c */
void tune_init(void);
void tune_reset(void); /* the engine is new */
void tune_step(uint32_t what, uint32_t value);
void tune_end(void); /* all that was lent is back */

/* client.c */
struct qp_ring wq_open(struct wq *w, uint32_t stride, uint32_t max_inline);
void wq_close(struct wq *w);
void cq_open(struct world_cq *c);
void cq_close(struct world_cq *c);
void bell_open(void);    /* the doorbell ring, after all queues */
void client_start(void); /* posts the work that every input begins with */
void client_recv(uint32_t q, const uint8_t *body, uint32_t len);
void client_send(uint32_t q, const uint8_t *body, uint32_t len);
void client_arm(uint32_t how);    /* for events: each CQ, and whether the second is watched */
void client_resize(uint32_t how); /* a CQ, as the daemon does it */
void client_reap(void);           /* takes completions; checks that each WQE has one, in order */
void client_forget(uint32_t q);   /* its QP goes to RESET */
void client_end(void);            /* all QPs are in ERR: every WQE has completed */

/* race.c */
void race_reset(void); /* nothing waits; which memory there is */
void race_add(void *at, uint32_t n);
void race_move(const void *from, void *to, uint32_t n); /* memory is elsewhere now */
/* A step's body: when, 2 bytes, and a step_overlay of memory which. */
void race_scribble(uint32_t which, const uint8_t *body, uint32_t len);

/* check.c */
void check_frame(const struct rte_mbuf *m); /* one that the engine sends to the wire */
void check_step(void);

#endif
