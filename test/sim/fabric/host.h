/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host: one engine with RC QPs, and clients that post RDMA WRITEs or READs. Its worker polls once
 * in HOST_POLL_NS while it has work.
 */
#ifndef FABRIC_HOST_H
#define FABRIC_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/engine.h"
#include "line.h"
#include "qp/selective.h"
#include "test/kit/rc_connect.h"

#define HOST_POLL_NS  1000
#define HOST_MTU      4096u
#define HOST_CONNS    36u
#define HOST_PLACES   2u          /* buffers of a connection, used in turn */
#define HOST_SIZE     65536u      /* of a buffer: whole packets */
#define HOST_TX_BYTES (64 * 4170) /* frames in front of the host's line, about */
#define HOST_RX       4096u       /* frames that arrived and were not polled; a power of two */
#define HOST_CAME     1024u       /* PSNs of requests that are remembered; a power of two */
#define HOST_SR_BUFS  1024u       /* buffers that hold early requests */
#define FLOW_DEPTH    4u          /* messages posted at most */
#define FLOW_LAT      8192u

/* Messages of one connection, from the first to the second host. */
struct flow {
	uint32_t size;   /* of a message: whole packets, at most HOST_SIZE */
	uint32_t depth;  /* messages posted: 1 .. FLOW_DEPTH */
	uint32_t gap_ns; /* from a completion to the next post */
	bool read;       /* the first host READs from the second one; else it WRITEs to it */
	uint64_t start_ns, stop_ns; /* posts within; a message posted before is finished */
	/* state */
	uint64_t posted, done;
	uint64_t next_ns; /* earliest next post */
	uint64_t posted_at[FLOW_DEPTH];
	uint32_t lat_ns[FLOW_LAT], nlat; /* of messages that were posted and completed */
	bool failed;
};

struct host_conn {
	struct flow *flow; /* NULL: the responder's side */
	struct host *peer;
	uint32_t peer_conn;
	uint32_t came[HOST_CAME]; /* by PSN % HOST_CAME: 1 + PSN of a request that has arrived */
};

struct host {
	struct engine engine;
	struct counter_block counters;
	struct qp_sqe_pool *sqes;
	struct qp_sr_pool *sr; /* NULL: no selective repeat */
	struct rc_side rc;
	uint32_t idx, nconns;
	uint8_t mac[6];
	struct host_conn conn[HOST_CONNS];
	struct line up; /* to the switch */
	struct rte_mbuf *rx[HOST_RX];
	uint32_t rx_head, rx_tail;
	uint64_t rx_lost; /* HOST_RX was full */
	uint64_t poll_at; /* of its next poll; UINT64_MAX: asleep */
	uint64_t last_poll_ns;
	bool broken; /* an asynchronous event that no run expects, or a violation (check.h) */
};

/*
 * Opens h, which is zeroed memory. sr: its QPs do selective repeat; so must their peers. Exits with
 * status 2 if there is no memory.
 */
void host_open(struct host *h, uint32_t idx, struct rte_mempool *pool, bool sr);
/* Returns false if a QP did not return memory for selective repeat. */
bool host_close(struct host *h);
/* Connects a new QP of each, with this policy; flow is a's to run. */
void host_connect(struct host *a, struct host *b, struct flow *flow, const struct cc_param *policy);
/* A frame has arrived. Consumes m. */
void host_arrive(struct host *h, struct rte_mbuf *m);
/* One iteration of h's worker. Returns the time of the next. */
uint64_t host_poll(struct host *h, uint64_t now_ns);
/* Offset of the buffer of message n of connection i, in the memory of its host. */
static inline uint64_t
host_place(uint32_t i, uint64_t n)
{
	return ((uint64_t)i * HOST_PLACES + n % HOST_PLACES) * HOST_SIZE;
}

/* Have all posted messages completed? */
bool host_idle(const struct host *h);
/* Are the bytes of all completed messages of connection i of h, the requester, at the peer? */
bool host_verify(const struct host *h, uint32_t i);
/* PSN that the responder's side of connection i of h expects. */
uint32_t host_expected_psn(const struct host *h, uint32_t i);
/* The oldest PSN that is not acknowledged, of the requester's side; of READs: not arrived. */
uint32_t host_una_psn(const struct host *h, uint32_t i);

#endif
