/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One engine on a bench. The test plays its clock, its client (rings in plain memory, by the ABI)
 * and its peer (frames made by hand), and reads what the engine emits through wire_parse.
 *
 * Nothing runs by itself: post(), recv_post() and peer_*() only put things in front of the engine;
 * it runs when the test looks at something (pkt_*, cqe_*, event_*) or lets time pass. So frames
 * given one after the other, without a look between them, are one burst.
 */
#ifndef TEST_ENGINE_HARNESS_H
#define TEST_ENGINE_HARNESS_H

#include "../../kit/unit.h"
#include "wire/build.h"
#include "wire/parse.h"
#include "engine/engine.h"

#define BENCH_DEV    3 /* device that the engine knows */
#define BENCH_QPN    0x000120u
#define PEER_QPN     0x00abcdu
#define BENCH_BYTES  (128 * 1024) /* of each region, and of bench_bytes */
#define LOCAL_VA     0x10000000u  /* iova of a conn's region for its own work requests */
#define REMOTE_VA    0x20000000u  /* iova of its region that the peer may reach */
#define PEER_VA      0x7f0000001000u
#define PEER_RKEY    0xbeef01u
#define BENCH_CONNS  16
#define BENCH_EVENTS 64
#define BENCH_FRAMES 4096
#define ALL_REMOTE   (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ)

/* Data without repetition; what local regions hold at the start and what the peer sends. */
extern uint8_t bench_bytes[BENCH_BYTES];

struct bench_region {
	struct mr mr;
	uint8_t *bytes;     /* exactly mr.len bytes, so that a sanitizer detects an overrun */
	uint32_t good;      /* with region_by_ops: how many copies from now on do not fail */
	int error;          /* with region_by_ops: how the others fail; -EFAULT */
	uint64_t edge;      /* with region_by_ops: reads and writes beyond it fail; 0: none */
	uint32_t late;      /* with region_by_ops: number of first accesses that return -EAGAIN */
	bool late_done;     /* .. though they are executed, as mem/mr.h has it */
	bool runs;          /* .. and have not ended yet */
	bool lost;          /* .. and then end with a failure */
	uint32_t forgotten; /* .. and whose results nobody needs any more */
	uint32_t stores;    /* with region_by_ops: writes and atomics that were executed */
	/* with region_by_ops: the client deregisters it once it sees a write; NULL: it does not */
	struct bench *drop;
};

struct bench_cq {
	struct cq cq;
	struct uroce_cq_hdr *hdr;
	uint32_t entries, cons;
	uint32_t channel; /* number of requests to the daemon to write the channel */
};

struct bench_ring {
	struct uroce_ring_hdr *hdr;
	uint8_t *slots;
	uint32_t entries, stride, prod;
};

struct bench_srq {
	struct srq srq;
	struct bench_ring ring;
	struct bench_region *mem; /* memory of its receives, at LOCAL_VA */
};

struct bench_event {
	enum qp_event ev;
	struct qp *qp;
	struct cq *cq;
};

struct bench;

struct conn {
	struct bench *b;
	struct qp *qp;
	struct bench_cq scq, rcq;
	struct bench_ring sq, rq;
	struct bench_region *local, *remote;
	struct qp_path path, alt; /* alt: the path that a modify with QP_ALT_PATH loads */
	struct wire_path peer_path;
	struct wire_tmpl peer; /* of the frames that the peer sends */
	uint16_t pkey;         /* of the peer's packets; 0xffff by default */
	bool migreq;           /* the same; true */
};

/* Configuration of a connection: conn_rc, or CONN(cfg.field = value, ..), which is another one. */
struct conn_cfg {
	enum qp_type type;
	enum qp_state state; /* to bring it to */
	struct srq *srq;     /* instead of a separate RQ */
	const struct qp_ah_table *ahs;
	const uint16_t *pkeys; /* the device's table; NULL: only the default key */
	uint32_t pkey_index;
	uint32_t qkey;
	uint32_t qpn; /* 0: BENCH_QPN, and the next that this worker has for each further conn */
	uint32_t pd;
	uint32_t uid; /* of its client */
	uint32_t mtu_code, sq_psn, rq_psn, access;
	uint32_t timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd_atomic, max_dest_rd_atomic;
	uint32_t sq_entries, rq_entries, cq_entries, max_sge, max_inline;
	bool sig_all, v6;
};
extern const struct conn_cfg conn_rc;
#define CONN(...)                                                                                  \
	({                                                                                         \
		struct conn_cfg cfg = conn_rc;                                                     \
		__VA_ARGS__;                                                                       \
		cfg;                                                                               \
	})

struct bench {
	struct engine engine;
	struct counter_block counters;
	struct mr_table mrs;
	struct qp_table qps;
	uint64_t now;
	struct qp_sqe_pool *sqes;
	struct conn *conn[BENCH_CONNS];
	uint32_t nconns;
	struct bench_region *region[4 * BENCH_CONNS];
	uint32_t nregions;
	uint32_t nkeys; /* given out so far */
	struct bench_event event[BENCH_EVENTS];
	uint32_t nevents, events_seen;
	struct rte_mbuf *frame[BENCH_FRAMES]; /* emitted and not yet examined by the test */
	uint32_t nframes, frames_seen;
	uint32_t lent; /* of them: built around lent bytes, which the port copies at once */
	uint32_t slow, handoffs;
	uint32_t consumed;   /* datagrams for the consumer of engine_set_consumer */
	bool consumer_full;  /* it takes none */
	uint32_t hosted;     /* frames for the kernel, of engine_set_hostif */
	bool host_full;      /* it takes none */
	uint32_t timers_set; /* calls of set_timer */
};

/* cmocka fixtures: one EAL per program, one bench per test. A test must return every mbuf. */
int bench_setup(void **state);
int bench_teardown(void **state);
/*
 * Bytes allocated by malloc, to find leaks. Blocks below 2 KB may still count after free(). With
 * AddressSanitizer, which has its own allocator and finds leaks itself, the value is constant.
 */
size_t bench_heap(void);

/* A QP as cfg describes, with separate CQs, rings and two regions. */
struct conn *conn_open(struct bench *b, struct conn_cfg cfg);
/* From RESET, step by step, to cfg->state; PSNs, counters and the like from cfg. */
void conn_raise(struct conn *c, const struct conn_cfg *cfg);
/* qp_modify_check, and qp_modify_apply where that agrees. */
int conn_modify(struct conn *c, uint32_t mask, const struct uroce_qp_attr *attr);
int conn_to(struct conn *c, enum qp_state state); /* QP_STATE alone */

/* Register len fresh bytes at iova. */
/* A key that no other entry of b's table has. */
uint32_t bench_key(struct bench *b);
struct bench_region *region_add(struct bench *b, uint32_t pd, uint64_t iova, uint64_t len,
				uint32_t access);
/* From now on the region is accessed by copies, which fail after good successful ones. */
void region_by_ops(struct bench_region *r, uint32_t good);
void region_drop(struct bench *b, struct bench_region *r); /* dereg: its key is dead */

/* Run the engine until it is idle. */
void bench_run(struct bench *b);
/* Runs the engine once. A response longer than one turn is then partly sent. */
void bench_run_once(struct bench *b);
/* Lets ns pass. Timers that are due within them fire at their own time. */
void bench_pass(struct bench *b, uint64_t ns);

/* The client. Sends len bytes of the local region from offset 0 unless sges are given. */
struct wr {
	uint64_t id;
	uint8_t op, flags;
	uint32_t len;
	uint32_t imm;
	uint64_t raddr; /* 0: PEER_VA */
	uint32_t rkey;  /* 0: PEER_RKEY */
	const struct uroce_sge *sge;
	uint32_t nsge;
};
void post(struct conn *c, struct wr wr);
/* Signaled, and nothing else about it. */
void client_does(struct conn *c, uint64_t id, uint8_t op, uint32_t len);
void client_sends(struct conn *c, uint64_t id, uint32_t len);
void post_quiet(struct conn *c, struct wr wr); /* writes to the ring, rings no doorbell */
void post_inline(struct conn *c, struct wr wr, const void *data, uint32_t len);
/* Publishes the WQEs in the SQ by the protocol of ring.h. */
void ring_doorbell(struct conn *c);
/*
 * Posts a receive of len bytes of the local region at offset off, in one SGE or in the nsge given.
 */
void recv_post(struct conn *c, uint64_t id, uint32_t off, uint32_t len);
void recv_post_sges(struct conn *c, uint64_t id, const struct uroce_sge *sge, uint32_t n);
/* An SRQ of entries WQEs with one SGE each, for QPs of conn_rc's protection domain. */
struct bench_srq *srq_open(struct bench *b, uint32_t entries);
/* The same with max_sge SGEs a WQE and in the protection domain pd. */
struct bench_srq *srq_open_in(struct bench *b, uint32_t entries, uint32_t max_sge, uint32_t pd);
void srq_close(struct bench_srq *s);
void srq_post(struct bench_srq *s, uint64_t id, uint32_t off, uint32_t len);
void srq_post_sges(struct bench_srq *s, uint64_t id, const struct uroce_sge *sge, uint32_t n);
bool cqe_poll(struct bench_cq *cq, struct uroce_cqe *cqe);

/* The peer. f.psn, f.opcode and the like by the caller; payload is bench_bytes + off, len of it. */
void peer_put(struct conn *c, struct wire_fields f, uint32_t off, uint32_t len);
/* Requests with AckReq: a SEND or WRITE packet of any kind, a READ of the conn's remote region. */
void peer_send(struct conn *c, uint8_t op, uint32_t psn, uint32_t off, uint32_t len);
void peer_write(struct conn *c, uint8_t op, uint32_t psn, uint64_t va, uint32_t dmalen,
		uint32_t off, uint32_t len);
void peer_read(struct conn *c, uint32_t psn, uint64_t va, uint32_t dmalen);
void peer_ack(struct conn *c, uint32_t psn);
void peer_nak(struct conn *c, uint32_t psn, uint8_t syndrome);
void peer_read_resp(struct conn *c, uint8_t op, uint32_t psn, uint32_t off, uint32_t len);
/*
 * The same frame as bytes, which a test can corrupt. Returns its length. The buffer holds
 * WIRE_MAX_OVERHEAD + len.
 */
uint32_t peer_frame(struct conn *c, struct wire_fields f, uint32_t off, uint32_t len,
		    uint8_t *frame);
void frame_seal(struct conn *c, uint8_t *frame, uint32_t len); /* ICRC right again */
void frame_rx(struct bench *b, const uint8_t *frame, uint32_t len);

/* The next frame emitted; every frame is checked to be well formed and for the peer. */
bool pkt_poll(struct conn *c, struct wire_pkt *pkt);
uint32_t pkt_count(struct conn *c); /* take all there are */
struct wire_pkt pkt_expect_at(struct conn *c, uint8_t op, uint32_t psn, const char *file, int line);
void pkt_none_at(struct conn *c, const char *file, int line);
struct uroce_cqe cqe_expect_at(struct conn *c, struct bench_cq *cq, uint64_t id, uint32_t status,
			       const char *file, int line);
void cqe_none_at(struct conn *c, const char *file, int line);
void event_expect_at(struct bench *b, enum qp_event ev, const char *file, int line);
void event_none_at(struct bench *b, const char *file, int line);

#define pkt_expect(c, op, psn) pkt_expect_at(c, op, psn, __FILE__, __LINE__)
#define pkt_none(c)            pkt_none_at(c, __FILE__, __LINE__)
#define send_cqe(c, id, st)    cqe_expect_at(c, &(c)->scq, id, st, __FILE__, __LINE__)
#define recv_cqe(c, id, st)    cqe_expect_at(c, &(c)->rcq, id, st, __FILE__, __LINE__)
#define cqe_none(c)            cqe_none_at(c, __FILE__, __LINE__)
#define event_expect(b, ev)    event_expect_at(b, ev, __FILE__, __LINE__)
#define event_none(b)          event_none_at(b, __FILE__, __LINE__)
#define SIG                    UROCE_WQE_SIGNALED
#define OBS(c, name)           ((c)->b->counters.ctr[COUNTER_##name])
#define DROPS(c, name)         ((c)->b->counters.drop[DROP_##name])

/* Expects an ACK or NAK with this syndrome and PSN, and no packet after it. */
#define answer_expect(c, psn_, syn)                                                                \
	do {                                                                                       \
		struct wire_pkt answer_ = pkt_expect(c, WIRE_OP_ACK, psn_);                        \
		_assert_int_equal(answer_.syndrome, syn, __FILE__, __LINE__);                      \
		pkt_none(c);                                                                       \
	} while (0)
#define ACK_SYN            (WIRE_SYN_ACK | WIRE_SYN_NO_CREDITS)
#define NAK_SYN(code)      (WIRE_SYN_NAK | WIRE_NAK_##code)
#define ack_expect(c, psn) answer_expect(c, psn, ACK_SYN)
#define state_expect(c, s) assert_int_equal((c)->qp->conn.state, s)
#define BENCH_TEST(name)   UNIT_TEST_IN(name, bench_setup, bench_teardown)

#endif
