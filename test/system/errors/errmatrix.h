/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errmatrix: an ordinary verbs program that runs every cell of the matrix operation x cause of
 * errors, and checks what both ends see (CQE-16; the tables of section 7 of the requirements). It
 * does not depend on uroce: the same binary runs on any verbs device.
 *
 *   errmatrix [options]            the responder waits for one requester
 *   errmatrix [options] HOST       the requester; its options decide which rows are run
 *
 * A row (rows_*.c) is data: an operation, its fault, and what each side must see. For each row both
 * sides make fresh queue pairs, and the requester posts one chain: a good SEND, the errant request,
 * and some good ones behind it. Then both queue pairs are moved to ERR, if they are not there yet,
 * so that every work request ends in exactly one completion. The order of all completions, the
 * asynchronous events, the states and the whole memory of both sides are compared with what
 * expect.c computes from the row.
 *
 * Output: TAP, or one JSON object per row. Exit status: 0 if all rows passed, else 1.
 * Single threaded. No check depends on time: waits end as soon as the event arrives.
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

/* The fault in the errant request or in its target. */
enum cause {
	CAUSE_NONE, /* no fault: it is executed */
	/* The responder's receive WQE. */
	RECV_SHORT,    /* less space than the message needs */
	RECV_LKEY,     /* unknown L_Key */
	RECV_READONLY, /* its region grants no local write */
	RECV_OTHER_PD,
	RECV_RANGE, /* its region ends inside it */
	RECV_DEREG, /* its region is deregistered after it was posted */
	RECV_NONE,  /* no receive is posted */
	/* What the R_Key and the remote address name. */
	RKEY_BAD,
	RKEY_OTHER_PD,
	RKEY_DEREG,
	RKEY_NO_RIGHT, /* its region does not grant this operation */
	RKEY_PAST_END,
	RKEY_BEFORE,
	RKEY_WRAP,  /* the range goes beyond 2^64 */
	MISALIGNED, /* an atomic at an address of 4 modulo 8 */
	MW_INVALIDATED,
	MW_FREED,
	MW_OTHER_QP, /* a type 2 window bound to another queue pair */
	MW_RANGE,    /* outside the window, inside its region */
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
	BAD_OPCODE,    /* not valid for this queue pair's type */
	BIND_LKEY,
	BIND_OTHER_PD,
	BIND_NO_RIGHT, /* the region does not allow binds */
	BIND_READONLY, /* remote write to a region that grants no local write */
	BIND_RANGE,
	BIND_TWICE,
	BIND_EMPTY, /* a type 2 window of zero bytes */
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
	ROW_DELIVERED = 1, /* the errant request is valid: the responder executes it */
	ROW_REFUSED = 2,   /* ibv_post_send refuses it with EINVAL and posts nothing behind it */
	ROW_SRQ = 4,       /* the responder receives through an SRQ */
	ROW_LOSSLESS = 8,  /* not run if packets are lost, although it is RC */
};

/* One cell of the matrix. 0 is the default: RC, no completion, no event. */
struct row {
	const char *name; /* begins with the requirements it tests */
	enum op op;
	enum cause cause;
	enum ibv_wc_status status; /* of the errant request */
	enum ibv_wc_status rsp;    /* of the receive that it used; 0: none */
	enum ibv_event_type event; /* at the responder; 0: none */
	enum ibv_qp_type type;     /* 0: RC */
	uint32_t flags;            /* enum row_flags */
	uint32_t len;              /* bytes of the message; 0: 64, atomics 8 */
};

/* Returns row number i over all tables, or NULL behind the last. */
const struct row *row_at(uint32_t i);
enum ibv_qp_type row_type(const struct row *row);

/* Options of this side only. */
struct options {
	const char *dev;  /* device name, NULL = the first one */
	const char *host; /* NULL = responder */
	const char *only; /* run rows whose name contains this; NULL = all */
	const char
		*look; /* command to run, with row and QPN, before queues are freed; NULL: none */
	const char *rows; /* run rows that have a separate line in this text; NULL = all */
	uint16_t tcp_port;
	uint8_t ib_port;
	uint8_t gid_index;
	bool json;
	bool list;
	bool no_events; /* this device raises no asynchronous events of queue pairs */
	double patience_s;
};

/* Options that the requester decides for both sides; sent over TCP unchanged. */
struct plan {
	uint32_t row;     /* ROW_END: no more */
	uint32_t timeout; /* ibv_qp_attr.timeout */
	uint32_t lossy;   /* packets are lost: await the first SEND; a NAK may not arrive */
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
	AREA_SRC,    /* source of SENDs and WRITEs */
	AREA_SINK,   /* destination of READs */
	AREA_TARGET, /* target of the errant WRITE, READ or atomic */
	AREA_FOLLOW, /* target of the good requests behind it */
	AREA_RECV,   /* RECVS receive buffers */
	AREAS = AREA_RECV + RECVS,
};

/*
 * Memory of a side, with guards between all areas. Each side knows both contents, because they
 * follow from the row; image is the expected content of mem.
 */
struct arena {
	uint8_t *mem, *image, *free; /* free: 1 if any content is valid */
	size_t bytes;
};

size_t area_offset(enum area a);
size_t area_bytes(enum area a);
void arena_open(struct arena *a);
/* Fills mem for a row; image is the same. */
void arena_fill(struct arena *a, uint32_t row, bool requester);
/* Copies the initial bytes of the other (or this) side's area to this side's image. */
void arena_expect(struct arena *a, enum area to, size_t to_off, enum area from, size_t from_off,
		  size_t len, uint32_t row, bool from_requester);
/* Marks bytes that may have any content: a receive buffer whose message failed in the middle. */
void arena_any(struct arena *a, enum area area, size_t off, size_t len);
/* Offset of the first wrong byte, or -1. */
int64_t arena_differs(const struct arena *a);

/* --- expect.c: what a row must look like ------------------------------------------------------ */

#define MAX_CHAIN 8
#define MAX_WCS   16

/* Low halves of work request ids; the row is in the upper half. */
enum {
	ID_CHAIN = 0x100, /* + position in the chain */
	ID_SQE = 0x1f0,   /* posted in SQE */
	ID_AGAIN = 0x1f1, /* posted after leaving SQE */
	ID_LAST = 0x1ff,  /* posted in ERR */
	ID_RECV = 0x200,
	ID_RECV_LAST = 0x2ff,
	ID_LOCAL = 0x300, /* the responder's local work: binds and invalidations */
};

/* The requests that a requester posts, in order. */
struct chain {
	uint32_t n, errant; /* errant: index of the request under test */
	enum op op[MAX_CHAIN];
};

struct want_wc {
	uint32_t id;
	enum ibv_wc_status status;
};

/*
 * What one side must see. In each queue the first *_auto complete by themselves, the others after
 * ERR.
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
uint32_t row_recvs(const struct row *row); /* number of receives that the responder posts */
bool row_peer_gone(const struct row *row);
void want_requester(const struct row *row, struct want *w);
void want_responder(const struct row *row, struct want *w);
/* Applies the row's effect to the image of each side's memory. */
void want_memory(const struct row *row, uint32_t nr, bool requester, struct arena *a);

/* --- side.c, setup.c, run.c: one side ----------------------------------------------------------
 */

struct seen_wc {
	uint64_t wr_id;
	uint32_t status, qp_num, vendor_err;
	uint32_t spare;
};

/* What one side saw; the responder sends it to the requester unchanged. */
struct report {
	char failed[120]; /* why the row could not be set up; empty: no failure */
	int32_t post_error, bad_wr;
	int32_t state;
	int32_t left_sqe; /* errno of SQE > RTS, if attempted */
	uint32_t qp_num, no_events;
	uint32_t nsend, nrecv, nevents;
	struct seen_wc send[MAX_WCS], recv[MAX_WCS];
	uint32_t event[MAX_WCS];
	int64_t memory; /* arena_differs */
};

/* The responder's memory as the requester needs to know it. */
struct target {
	uint64_t addr, follow;
	uint32_t rkey, follow_rkey, inv_rkey;
	uint32_t failed;
};

/* What a peer needs in order to connect to a queue pair. */
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
	struct ibv_qp *qp, *helper; /* helper: another queue pair, if a row needs one */
	struct ibv_srq *srq;
	struct ibv_ah *ah, *other_ah;
	struct ibv_mr *mr[MAX_EXTRA]; /* registered for this row */
	struct ibv_mw *mw;
	uint32_t nmrs;
	struct address peer;
	struct target target;
};

void side_open(struct side *s, const struct options *opt);
void side_close(struct side *s);
/* Records once why the row cannot be set up. Returns false. */
bool run_failed(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Creates the row's queues, unconnected; false after run_failed. */
bool queues_make(struct run *r, struct address *mine);
bool queues_connect(struct run *r, const struct address *mine);
/* Creates a separate queue pair in RTS to bind windows on. */
bool helper_make(struct run *r);
void queues_free(struct run *r);
/* Registers part of an area in a PD, freed with the row; NULL after run_failed. */
struct ibv_mr *extra_mr(struct run *r, struct ibv_pd *pd, enum area area, size_t len, int access);
bool extra_dereg(struct run *r, struct ibv_mr *mr);
uint64_t area_addr(const struct side *s, enum area area);

/* Responder: posts receives and prepares the targets of its peer's requests. */
bool recvs_post(struct run *r, uint32_t n);
bool target_make(struct run *r, struct target *t);
/* Binds the row's window on qp and waits; then rkey is the window's key. */
bool window_bind(struct run *r, struct ibv_qp *qp, struct ibv_mr *mr, size_t len, int access);
bool window_alloc(struct run *r, struct ibv_pd *pd);
/* Posts wr, which must succeed, on qp and takes its completion. */
bool local_work(struct run *r, struct ibv_qp *qp, struct ibv_send_wr *wr);

/* Requester: a work request and its buffers. */
struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	struct ibv_mr fake_mr;
	struct ibv_mw fake_mw;
};
/* errant: the request names the target, and gets the row's fault if it has the row's operation. */
bool request_make(struct run *r, enum op op, bool errant, uint32_t id, struct request *q);

/* The time, on the clock of now_ns, until which this side waits for events. */
uint64_t patience_end(const struct run *r);
/* Runs one row; the report is then in r->rep. */
void row_run(struct run *r);

/* --- judge.c: seen against wanted --------------------------------------------------------------
 */

/* "RESET" .., or "?" for a value that is no enum ibv_qp_state. */
const char *qp_state_name(uint32_t state);
/* "RKEY_BAD" .. */
extern const char *const cause_name[];

/* Prints the row's result, in TAP or JSON. True if the report matches. nr counts from 1. */
bool row_judge(const struct run *r, const struct report *rsp, uint32_t nr);

#endif
