/* SPDX-License-Identifier: BSD-3-Clause */
/* A core with a stream of frames through it: each test's frames are told apart by their PSN. */
#ifndef TEST_IMPAIR_RIG_H
#define TEST_IMPAIR_RIG_H

#include "../../kit/unit.h"
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

/* cmocka fixtures: EAL once a program; an unconfigured fixture a test, which must leak no mbuf. */
int fixture_group_setup(void **state);
int fixture_setup(void **state);
int fixture_teardown(void **state);
#define FIXTURE_TEST(name) UNIT_TEST_IN(name, fixture_setup, fixture_teardown)

struct fixture {
	struct impair_core core;
	struct impair_cfg cfg[2]; /* the one before stays, as the core demands */
	uint32_t ncfg;
	uint64_t now;
	struct rte_mbuf *out[RIG_OUT]; /* all that came out so far; freed by the teardown */
	uint64_t out_at[RIG_OUT];      /* and when */
	uint32_t out_n;
};

struct rte_mempool *fixture_pool(void);
/* A whole frame. */
struct rte_mbuf *fixture_frame(uint8_t opcode, bool v6, uint32_t qpn, uint32_t psn,
			       uint32_t payload);
/* One that is no RoCEv2: an ARP request. */
struct rte_mbuf *fixture_arp(void);

void fixture_config(struct fixture *r, const char *spec);
/* Give the core frames that arrive now, in one burst; n 0 is an empty one. */
void fixture_put(struct fixture *r, struct rte_mbuf **m, uint32_t n);
void fixture_put_one(struct fixture *r, struct rte_mbuf *m);
/* n RC_SEND_ONLY for RIG_QPN with PSNs psn, psn + 1 .., in bursts of burst at most. */
void fixture_stream(struct fixture *r, uint32_t psn, uint32_t n, uint32_t burst);
/* Let ns pass, with an empty burst after it. */
void fixture_pass(struct fixture *r, uint64_t ns);

/* The i-th frame that came out, parsed; fails where there is none. */
struct wire_pkt fixture_pkt(struct fixture *r, uint32_t i);
uint32_t fixture_psn(struct fixture *r, uint32_t i);
/* Exactly these PSNs came out so far. */
void fixture_expect_psns(struct fixture *r, const uint32_t *psn, uint32_t n, const char *file,
			 int line);
#define EXPECT(r, ...)                                                                             \
	do {                                                                                       \
		static const uint32_t want_[] = {__VA_ARGS__};                                     \
		fixture_expect_psns(r, want_, sizeof(want_) / sizeof(want_[0]), __FILE__,          \
				    __LINE__);                                                     \
	} while (0)
#define CTR(r, id) ((r)->core.ctr[IMPAIR_##id])

#endif
