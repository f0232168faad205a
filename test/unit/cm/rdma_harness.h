/* SPDX-License-Identifier: BSD-3-Clause */
/* Two hosts with an rdma_cm layer each, on the test's clock, one channel open at each. */
#ifndef TEST_CM_RDMA_HARNESS_H
#define TEST_CM_RDMA_HARNESS_H

#include <string.h>
#include "cm/rdma.h"
#include "../../kit/unit.h"

#define MS    1000000ull
#define SEC   (1000 * MS)
#define START (5 * SEC)
#define PORT  7471
#define SENT  1024

struct host {
	uint8_t gid[16], gid6[16];
	void *mem;
	struct cma *r;
	uint64_t now;
	uint32_t ch;       /* the open channel */
	uint32_t readable; /* calls of this callback */
	int answer;        /* of resolve and route */
	uint32_t asked;    /* the id of the last of them */
	uint8_t tos;
	uint32_t cancelled;  /* the id of the last cancel */
	uint32_t ncancelled; /* number of cancels */
	int32_t joined;      /* groups, on the wire */
	int refuse;          /* what joining returns */
	uint32_t nsent, delivered;
	struct {
		struct cm_addr addr;
		uint8_t mad[WIRE_MAD_LEN];
	} sent[SENT];
	struct cma_event ev; /* the last event that host_event returned */
};

extern struct host hosts[2];

/* cmocka setup and teardown. */
int hosts_make(void **state);
int hosts_make_large(void **state); /* for thousands of ids */
int hosts_free(void **state);
#define HOSTS_TEST(name) UNIT_TEST_IN(name, hosts_make, hosts_free)
/* The next event of the host's channel must be of this type. */
struct cma_event *host_event(struct host *h, enum cma_event_type type);
/* Checks that no event is pending. */
void host_quiet(struct host *h);
/* Delivers all MADs, and those sent in response. */
void hosts_deliver(void);
/* Let time pass at both; nothing is delivered. */
void hosts_pass(uint64_t ns);
/* The path to the host's peer, which its resolver returns. */
struct cma_path host_path(const struct host *h);

struct cma_addr addr_of(const struct host *h, uint16_t port);
struct cm_param conn_args(uint32_t qpn);
/* Calls that must succeed; events carry uid. */
uint32_t do_create(struct host *h, uint64_t uid, uint16_t space);
uint32_t do_listener(struct host *h, uint64_t uid, uint16_t space);
/* An id whose route to the peer's PORT is resolved; no event waits. */
uint32_t do_resolve(struct host *h, uint64_t uid, uint16_t space);
/* hosts[0] has connected to hosts[1]: both QPs are ready. uids 1 and 2, of the listener 3. */
struct cma_pair {
	uint32_t active, passive, listener;
};
struct cma_pair do_cma_pair(void);

#endif
