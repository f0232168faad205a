/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "connect": rdma_cm connections per second, and the times of connect and disconnect. The mode
 * (connect.c) starts a daemon with two devices and one process under uroce-run
 * (connect_process.c), in which one thread accepts on uroce0 and others connect to it. The
 * destination is an address of uroce0, so uroce0 is the device of both ends.
 */
#ifndef UROCE_BENCH_CONNECT_H
#define UROCE_BENCH_CONNECT_H

#include <stdint.h>
#include "client.h"

#define CONNECT_MODE        "connect-process" /* argv[1] of the process; internal */
#define CONNECT_MAX_CLIENTS 64

/* An order for the process, over SOCK_SEQPACKET: connections to make, by all threads together. */
struct connect_order {
	uint32_t count;
	uint32_t clients; /* threads that connect, 1 .. CONNECT_MAX_CLIENTS */
	uint32_t keep; /* 1: they stay open; 0: each is disconnected before its thread's next one */
	uint32_t no_qps; /* 1: without QPs, with made-up QPNs; only with keep */
};

/* The reply; a struct client_hist of connects and one of disconnects follow it. */
struct connect_answer {
	uint64_t ns; /* from the first thread's start to the last one's end */
	/* sums over all connections */
	uint64_t connects_ns; /* from rdma_create_id to ESTABLISHED */
	uint64_t asked_ns;    /* from rdma_connect to ESTABLISHED */
};

int connect_main(int argc, char **argv);

#endif
