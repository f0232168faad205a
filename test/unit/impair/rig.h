/* SPDX-License-Identifier: BSD-3-Clause */
/* A core with a stream of frames through it: each test's frames are told apart by their PSN. */
#ifndef TEST_IMPAIR_RIG_H
#define TEST_IMPAIR_RIG_H

#include "suite.h"
#include <rte_mbuf.h>
#include "drivers/impair/impair_core.h"
#include "drivers/impair/impair_spec.h"
#include "wire/build.h"
#include "wire/opcode.h"
#include "wire/parse.h"

#define RIG_QPN     0x11u
#define RIG_PAYLOAD 200
#define RIG_BURST   32
#define RIG_OUT     4096
#define US          1000ull
#define MS          1000000ull

/* cmocka fixtures: EAL once a program; an unconfigured rig a test, which must leak no mbuf. */
int rig_group_setup(void **state);
int rig_setup(void **state);
int rig_teardown(void **state);
#define rig_test(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

struct rig {
	struct impair_core core;
	struct impair_cfg cfg[2]; /* the one before stays, as the core demands */
	uint32_t ncfg;
	uint64_t now;
	struct rte_mbuf *out[RIG_OUT]; /* all that came out so far; freed by the teardown */
	uint64_t out_at[RIG_OUT];      /* and when */
	uint32_t out_n;
};

struct rte_mempool *rig_pool(void);
/* A whole frame. */
struct rte_mbuf *rig_frame(uint8_t opcode, bool v6, uint32_t qpn, uint32_t psn, uint32_t payload);
/* One that is no RoCEv2: an ARP request. */
struct rte_mbuf *rig_arp(void);

void rig_config(struct rig *r, const char *spec);
/* Give the core frames that arrive now, in one burst; n 0 is an empty one. */
void rig_put(struct rig *r, struct rte_mbuf **m, uint32_t n);
void rig_put_one(struct rig *r, struct rte_mbuf *m);
/* n RC_SEND_ONLY for RIG_QPN with PSNs psn, psn + 1 .., in bursts of burst at most. */
void rig_stream(struct rig *r, uint32_t psn, uint32_t n, uint32_t burst);
/* Let ns pass, with an empty burst after it. */
void rig_pass(struct rig *r, uint64_t ns);

/* The i-th frame that came out, parsed; fails where there is none. */
struct wire_pkt rig_pkt(struct rig *r, uint32_t i);
uint32_t rig_psn(struct rig *r, uint32_t i);
/* Exactly these PSNs came out so far. */
void rig_expect_psns(struct rig *r, const uint32_t *psn, uint32_t n, const char *file, int line);
#define EXPECT(r, ...)                                                                             \
	do {                                                                                       \
		static const uint32_t want_[] = {__VA_ARGS__};                                     \
		rig_expect_psns(r, want_, sizeof(want_) / sizeof(want_[0]), __FILE__, __LINE__);   \
	} while (0)
#define CTR(r, id) ((r)->core.ctr[IMPAIR_##id])

#endif
