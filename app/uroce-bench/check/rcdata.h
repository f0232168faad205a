/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `uroce-bench check`: an ordinary verbs program that moves data between two processes over RC
 * queue pairs and checks every byte of it. It does not depend on uroce: the same binary runs on any
 * verbs device.
 *
 *   uroce-bench check [options]            the server waits for one client
 *   uroce-bench check [options] HOST       the client; its options decide what both sides do
 *
 * Two modes. "check" posts random SEND, WRITE (each with and without immediate) and READ requests
 * in both directions on several queue pairs at once (check.c). With --mixed it also posts atomics
 * and fenced SENDs of the data of a READ; with --srq all queue pairs receive from one queue.
 * "bench" measures ping-pong latency and WRITE, READ and SEND bandwidth, with each byte moved
 * exactly once per round (bench.c). Both modes compare received with sent data by SHA-256.
 *
 * Exit status: 0 success; 1 set-up failed or data differ; 3 a completion error; 4 no progress.
 * Single threaded; everything here runs on the main thread.
 */
#ifndef RCDATA_H
#define RCDATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kit/link.h"
#include "kit/program.h"
#include "kit/verbs.h"

enum rcdata_exit {
	EXIT_GOOD = 0,
	EXIT_BAD = 1,
	EXIT_WC_ERROR = 3,
	EXIT_STALLED = 4,
};

#define MAX_QPS      64
#define DIGEST_BYTES 32
#define GUARD_BYTES  64   /* untouched bytes kept on both sides of what a peer may write */
#define GUARD_FILL   0xA5 /* their value */

/* What the client decides for both sides; sent over TCP unchanged. */
struct plan {
	uint64_t seed;
	uint64_t ops;         /* check: requests per queue pair and direction */
	uint64_t duration_ms; /* check: post for this long instead, 0 = count ops */
	uint64_t bytes;       /* bench: bytes per round */
	uint32_t bench;       /* 0 check, 1 bench */
	uint32_t qps;         /* 1 .. MAX_QPS */
	uint32_t depth;       /* requests in flight per queue pair, 1 .. */
	uint32_t max_len;     /* largest message, bytes */
	uint32_t iters;       /* bench: ping-pong round trips */
	uint32_t rounds;      /* bench: rounds per kind of operation */
	uint32_t oneway;      /* check: only the client posts requests */
	uint32_t mixed;       /* check: atomics, fences and solicited events too */
	uint32_t srq;         /* check: one shared receive queue */
	uint32_t mtu;         /* path MTU as enum ibv_mtu, 0 = the smaller of both ports' */
};

/* Options of this side only. */
struct options {
	const char *dev;  /* device name, NULL = the first one */
	const char *host; /* NULL = server */
	uint16_t tcp_port;
	uint8_t ib_port;
	uint8_t gid_index;
	uint8_t timeout; /* ibv_qp_attr.timeout */
	uint8_t retry;   /* ibv_qp_attr.retry_cnt */
	bool events;     /* sleep on a completion channel instead of polling */
	bool json;
	uint32_t stall_s; /* give up after this long without progress */
};

/* The verbs objects that both modes use. */
struct endpoint {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* NULL unless options.events */
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* NULL unless plan.srq */
	struct ibv_qp *qp[MAX_QPS];
	uint32_t nqps;
	uint32_t max_inline; /* granted forevery QP, bytes */
	int link;            /* TCP socket to the peer */
};

/* How a buffer is made: registration must cope with every kind of memory (MEM-05). */
enum mem_kind {
	MEM_HEAP,   /* malloc, not page aligned */
	MEM_ANON,   /* private anonymous mapping */
	MEM_SHARED, /* shared anonymous mapping */
	MEM_KINDS,
};

/* A registered buffer with GUARD_BYTES of GUARD_FILL around the len bytes at addr. */
struct buffer {
	uint8_t *addr;
	size_t len;
	struct ibv_mr *mr; /* covers addr .. addr + len exactly */
	uint8_t *base;     /* of the allocation, guards included */
	enum mem_kind kind;
};

/* --- endpoint.c: buffers and their content
 * -------------------------------------------------------- */

/* Next value of the splitmix64 generator whose state is *state. */
uint64_t random_next(uint64_t *state);
/* A value in lo .. hi, both included. */
uint64_t random_range(uint64_t *state, uint64_t lo, uint64_t hi);
/* Fills buf with the byte stream of seed. */
void random_fill(void *buf, size_t len, uint64_t seed);
/* Allocates, guards and registers a buffer; dies on failure. Freed by buffer_free. */
struct buffer buffer_make(struct ibv_pd *pd, enum mem_kind kind, size_t len, int access);
void buffer_free(struct buffer *buf);
/* Are all bytes of the guards unchanged? */
bool buffer_guards_intact(const struct buffer *buf);
/* Are all len bytes at p GUARD_FILL? */
bool all_guard(const uint8_t *p, size_t len);

/* A running SHA-256. Made by digest_start; digest_end writes DIGEST_BYTES and frees it. */
struct digest;
struct digest *digest_start(void);
void digest_add(struct digest *dig, const void *buf, size_t len);
void digest_end(struct digest *dig, uint8_t *sha);

/* --- device, queue pairs, completions ------------------------------------------- */

/* Opens the device, makes the queue pairs and connects them to the peer's; dies on failure. */
void endpoint_open(struct endpoint *ep, const struct options *opt, const struct plan *plan);
void endpoint_close(struct endpoint *ep);
/* Polls up to max completions; sleeps (events) or yields when there are none. Dies on an error. */
int endpoint_poll(struct endpoint *ep, struct ibv_wc *wc, int max);
/* Prints the failed completion and exits with EXIT_WC_ERROR. */
void endpoint_wc_failed(const struct ibv_wc *wc) __attribute__((noreturn));

/* --- the two modes -------------------------------------------------------------------------- */

/* Both print the result and return true if there was no error. */
bool check_run(struct endpoint *ep, const struct options *opt, const struct plan *plan);
bool bench_run(struct endpoint *ep, const struct options *opt, const struct plan *plan);

#endif
