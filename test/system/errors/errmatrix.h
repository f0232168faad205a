/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errmatrix: an ordinary verbs program that walks the matrix operation x cause of errors, and
 * checks what both ends see of each (CQE-16; the tables of section 7 of the requirements). It knows
 * nothing of uroce: the same binary runs on any verbs device.
 *
 *   errmatrix [options]            the responder waits for one requester
 *   errmatrix [options] HOST       the requester; its options decide which rows are run
 *
 * A row (rows_*.c) is data: an operation, what is wrong with it, and what each side must see of it.
 * For each row both sides make fresh queue pairs, and the requester posts one chain: a good SEND,
 * the errant request, and some good ones behind it. Then both queue pairs are moved to ERR by hand
 * where they are not yet, so that every work request ends in exactly one completion, and the order
 * of all completions, the asynchronous events, the states and the whole memory of both sides are
 * compared with what expect.c makes of the row.
 *
 * Output: TAP, or one JSON object a row. Exit status: 0 all rows as they should be; 1 not.
 * Single threaded; nothing asserts a time, waits end early once what is awaited has come.
 */
#ifndef ERRMATRIX_H
#define ERRMATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kit/link.h"
#include "kit/program.h"
#include "kit/verbs.h"

enum op {
	OP_SEND,
	OP_SEND_IMM,
	OP_SEND_INV,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_CMP_SWAP,
	OP_FETCH_ADD,
	OP_BIND_MW,
	OP_LOCAL_INV,
};

/* What is wrong with the errant request, or with what it meets. */
enum cause {
	CAUSE_NONE, /* nothing: it is executed */
	/* The responder's receive WQE. */
	RECV_SHORT,    /* less room than the message needs */
	RECV_LKEY,     /* its L_Key names nothing */
	RECV_READONLY, /* its region grants no local write */
	RECV_OTHER_PD,
	RECV_RANGE, /* its region ends inside of it */
	RECV_DEREG, /* its region is deregistered after it was posted */
	RECV_NONE,  /* no receive is left */
	/* What the R_Key and the remote address name. */
	RKEY_BAD,
	RKEY_OTHER_PD,
	RKEY_DEREG,
	RKEY_NO_RIGHT, /* its region does not grant this operation */
	RKEY_PAST_END,
	RKEY_BEFORE,
	RKEY_WRAP,  /* the range goes beyond 2^64 */
	MISALIGNED, /* an atomic at 4 modulo 8 */
	MW_INVALIDATED,
	MW_FREED,
	MW_OTHER_QP, /* a type 2 window bound to another queue pair */
	MW_RANGE,    /* outside of the window, inside of its region */
	MW_NO_RIGHT,
	/* The R_Key of a SEND with invalidate. */
	INV_BAD,
	INV_REGION,
	INV_OTHER_QP,
	/* The responder's queue pair. */
	QP_NO_RIGHT,
	DEPTH_ZERO,    /* max_dest_rd_atomic is 0 */
	DEPTH_OVERRUN, /* max_dest_rd_atomic is 1, and two requests come at once */
	RKEY_BAD_RECV_NONE,
	/* The requester's own memory and parameters. */
	LKEY_BAD,
	LKEY_OTHER_PD,
	LKEY_DEREG,
	LKEY_READONLY,
	LKEY_RANGE,
	TOO_LONG,      /* over 2^31 bytes; UD: over the MTU */
	ATOMIC_LENGTH, /* an atomic whose SGE is not 8 bytes long */
	NO_CREDIT,     /* max_rd_atomic is 0 */
	BAD_OPCODE,    /* not of this queue pair's type */
	BIND_LKEY,
	BIND_OTHER_PD,
	BIND_NO_RIGHT, /* the region may not be bound to */
	BIND_READONLY, /* remote write to a region that grants no local write */
	BIND_RANGE,
	BIND_TWICE,
	BIND_EMPTY, /* a type 2 window of no bytes */
	BIND_STALE, /* an R_Key that is not the window's */
	BIND_WINDOW_PD,
	INVALIDATE_BAD,
	INVALIDATE_REGION,
	INVALIDATE_UNBOUND,
	INVALIDATE_OTHER_QP,
	/* No peer. */
	PEER_NONE,
	PEER_DESTROYED,
	PEER_ERR,
	PEER_RESET,
	/* UD. */
	QKEY_WRONG,
	AH_OTHER_PD,
	/* States. */
	BY_HAND, /* the requester is moved to ERR by hand, then posts */
};

enum row_flags {
	ROW_DELIVERED = 1, /* the errant request is no error: the responder executes it */
	ROW_REFUSED = 2,   /* ibv_post_send refuses it: EINVAL, and nothing behind it is posted */
	ROW_SRQ = 4,       /* the responder receives through an SRQ */
	ROW_LOSSLESS = 8,  /* not to be run where packets are lost, though it is RC */
};

/* One cell of the matrix. What is 0 is the usual: RC, no completion, no event. */
struct row {
	const char *name; /* begins with the requirements it proves */
	enum op op;
	enum cause cause;
	enum ibv_wc_status status; /* of the errant request */
	enum ibv_wc_status rsp;    /* of the receive that it used; 0: it used none */
	enum ibv_event_type event; /* at the responder; 0: none */
	enum ibv_qp_type type;     /* 0: RC */
	uint32_t flags;            /* enum row_flags */
	uint32_t len;              /* bytes of the message; 0: 64, atomics 8 */
};

/* Row number i over all tables, or NULL behind the last. */
const struct row *row_at(uint32_t i);
enum ibv_qp_type row_type(const struct row *row);

/* What concerns this side alone. */
struct options {
	const char *dev;  /* device name, NULL = the first one */
	const char *host; /* NULL = responder */
	const char *only; /* run rows whose name contains this; NULL = all */
	const char *rows; /* run rows that have a line of their own in this; NULL = all */
	uint16_t tcp_port;
	uint8_t ib_port;
	uint8_t gid_index;
	bool json;
	bool list;
	bool no_events; /* this device is known to raise no asynchronous event of a queue pair */
	double patience_s;
};

/* What the requester decides for both sides; sent over TCP as it is. */
struct plan {
	uint32_t row;     /* ROW_END: no more */
	uint32_t timeout; /* ibv_qp_attr.timeout */
	uint32_t lossy;   /* packets get lost: the first SEND is awaited, a NAK may not come */
	uint32_t mtu;     /* enum ibv_mtu */
};
#define ROW_END UINT32_MAX

/* --- arena.c: the memory of a side ----------------------------------------------------------- */

#define RECVS        6
#define RECV_BYTES   4096u
#define TARGET_BYTES 65536u
#define GUARD_BYTES  4096u
#define GRH_BYTES    40u

enum area {
	AREA_SRC,    /* what the requester sends and writes */
	AREA_SINK,   /* what it reads goes here */
	AREA_TARGET, /* of the errant WRITE, READ or atomic */
	AREA_FOLLOW, /* of the good ones behind it */
	AREA_RECV,   /* RECVS of them */
	AREAS = AREA_RECV + RECVS,
};

/*
 * Memory of a side, guards between all areas. Both sides' content is known to both, since it
 * follows from the row; image is what mem must be in the end.
 */
struct arena {
	uint8_t *mem, *image, *free; /* free: 1 where any content is right */
	size_t bytes;
};

size_t area_offset(enum area a);
size_t area_bytes(enum area a);
void arena_open(struct arena *a);
/* Fills it for a row; image is the same. */
void arena_fill(struct arena *a, uint32_t row, bool requester);
/* The bytes that the other (or this) side's area was filled with go to this side's image. */
void arena_expect(struct arena *a, enum area to, size_t to_off, enum area from, size_t from_off,
		  size_t len, uint32_t row, bool from_requester);
/* Bytes that may become anything: a receive buffer whose message failed in the middle. */
void arena_any(struct arena *a, enum area area, size_t off, size_t len);
/* Offset of the first byte that is not as it should be, or -1. */
int64_t arena_differs(const struct arena *a);

/* --- expect.c: what a row must look like ------------------------------------------------------ */

#define MAX_CHAIN 8
#define MAX_WCS   16

/* Low halves of work request ids; the row is in the upper half. */
enum {
	ID_CHAIN = 0x100, /* + place in the chain */
	ID_SQE = 0x1f0,   /* posted in SQE */
	ID_AGAIN = 0x1f1, /* posted after SQE was left */
	ID_LAST = 0x1ff,  /* posted in ERR */
	ID_RECV = 0x200,
	ID_RECV_LAST = 0x2ff,
	ID_LOCAL = 0x300, /* the responder's own work: binds and invalidations */
};

/* The requests that a requester posts, in order. */
struct chain {
	uint32_t n, errant; /* errant: place of the request that the row is about */
	enum op op[MAX_CHAIN];
};

struct want_wc {
	uint32_t id;
	enum ibv_wc_status status;
};

/* What one side must see. Of each queue the first *_auto come by themselves, the others after ERR.
 */
struct want {
	struct want_wc send[MAX_WCS], recv[MAX_WCS];
	uint32_t nsend, nrecv, send_auto, recv_auto;
	uint32_t event; /* enum ibv_event_type, 0 = none */
	enum ibv_qp_state state;
	int post_error; /* of ibv_post_send of the chain */
};

void chain_build(const struct row *row, struct chain *chain);
uint32_t row_bytes(const struct row *row);
uint32_t row_recvs(const struct row *row); /* that the responder posts */
bool row_peer_gone(const struct row *row);
void want_requester(const struct row *row, struct want *w);
void want_responder(const struct row *row, struct want *w);
/* What the row does to the memory of each side. */
void want_memory(const struct row *row, uint32_t nr, bool requester, struct arena *a);

/* --- side.c, setup.c, run.c: one side ----------------------------------------------------------
 */

struct seen_wc {
	uint64_t wr_id;
	uint32_t status, qp_num;
};

/* What one side saw; the responder sends it to the requester as it is. */
struct report {
	char failed[120]; /* why the row could not be set up; empty: it was */
	int32_t post_error, bad_wr;
	int32_t state;
	int32_t left_sqe; /* errno of SQE > RTS, where that was done */
	uint32_t qp_num, no_events;
	uint32_t nsend, nrecv, nevents;
	struct seen_wc send[MAX_WCS], recv[MAX_WCS];
	uint32_t event[MAX_WCS];
	int64_t memory; /* arena_differs */
};

/* What the requester must know of the responder's memory. */
struct target {
	uint64_t addr, follow;
	uint32_t rkey, follow_rkey, inv_rkey;
	uint32_t failed;
};

/* What a peer must know of a queue pair to connect to it. */
struct address {
	uint8_t gid[16];
	uint32_t qpn, psn;
	uint32_t failed;
};

/* Objects that last for all rows. */
struct side {
	const struct options *opt;
	bool requester;
	int link;
	struct ibv_context *ctx;
	struct ibv_pd *pd, *other_pd;
	union ibv_gid gid;
	enum ibv_mtu port_mtu;
	struct arena arena;
	struct ibv_mr *area[AREA_RECV + 1]; /* whole areas, all rights; the last: all receives */
};

#define MAX_EXTRA 4

/* One row on one side. */
struct run {
	struct side *s;
	const struct row *row;
	const struct plan *plan;
	struct want want;
	struct report rep;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp, *helper; /* helper: another queue pair, where a row needs one */
	struct ibv_srq *srq;
	struct ibv_ah *ah, *other_ah;
	struct ibv_mr *mr[MAX_EXTRA]; /* made for this row */
	struct ibv_mw *mw;
	uint32_t nmrs;
	struct address peer;
	struct target target;
};

void side_open(struct side *s, const struct options *opt);
void side_close(struct side *s);
/* The row cannot be set up: says why, once. Returns false. */
bool run_failed(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Queues of the row, not connected; false after run_failed. */
bool queues_make(struct run *r, struct address *mine);
bool queues_connect(struct run *r, const struct address *mine);
/* A queue pair in RTS beside the row's, to bind windows to. */
bool helper_make(struct run *r);
void queues_free(struct run *r);
/* A region of part of an area in a PD, freed with the row; NULL after run_failed. */
struct ibv_mr *extra_mr(struct run *r, struct ibv_pd *pd, enum area area, size_t len, int access);
bool extra_dereg(struct run *r, struct ibv_mr *mr);
uint64_t area_addr(const struct side *s, enum area area);

/* Responder: receives and what its peer's requests name. */
bool recvs_post(struct run *r, uint32_t n);
bool target_make(struct run *r, struct target *t);
/* A bind of the row's window on qp, and its end awaited; the window's key is then rkey. */
bool window_bind(struct run *r, struct ibv_qp *qp, struct ibv_mr *mr, size_t len, int access);
bool window_alloc(struct run *r, struct ibv_pd *pd);
/* Posts wr, which must succeed by itself, on qp and takes its completion. */
bool local_work(struct run *r, struct ibv_qp *qp, struct ibv_send_wr *wr);

/* Requester: a work request and what it points to. */
struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	struct ibv_mr fake_mr;
	struct ibv_mw fake_mw;
};
/* errant: it names the target, and is spoilt where it is of the row's operation. */
bool request_make(struct run *r, enum op op, bool errant, uint32_t id, struct request *q);

/* The time, as now_ns has it, until which this side waits for what must come. */
uint64_t patience_end(const struct run *r);
/* Walk one row; the report is in r->rep then. */
void row_run(struct run *r);

/* --- judge.c: seen against wanted --------------------------------------------------------------
 */

/* "RESET" .., or "?" for a value that is no enum ibv_qp_state. */
const char *qp_state_name(uint32_t state);

/*
 * Prints the row's result, in TAP or JSON. True when nothing differs from what is wanted. nr counts
 * from 1.
 */
bool row_judge(const struct run *r, const struct report *rsp, uint32_t nr);

#endif
