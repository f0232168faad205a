/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control of the requester of a connection. A policy decides how many request packets
 * may be unacknowledged (the window) and when the next packet may be sent (the pace). A READ or
 * atomic is begun while those packets and the responses still to come are fewer than the window. A
 * policy is a table of functions, struct cc_ops. The requester calls them when something happens
 * and reads the two results before each packet. Time is an argument; a policy has no other input.
 *
 * The state is in two parts, both in struct qp_conn. struct cc is what every packet needs. It lies
 * in the requester's cache line, so it is small. struct cc_flow is the rest.
 *
 * `fixed` is the only policy of the daemon. It sets no pace, and takes no report of packets sent,
 * of marks or of CNPs: the requester skips these calls (qp_snd.cc_told), so they cost nothing.
 *
 * Owner worker only. Includes nothing of the project.
 */
#ifndef CC_CC_H
#define CC_CC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CC_WINDOW_PKTS 128u /* the most any policy allows (rxe's receive queue holds 128) */
#define CC_AGAIN_PKTS  16u  /* fixed: after a sequence NAK or a gap in READ responses */
#define CC_RESPONSES   32u  /* fixed: responses that count as much as one ACK */

enum cc_policy {
	CC_FIXED = 0,
	CC_TEST = 1, /* cc_test, for test programs; no QP of the daemon has it */
	CC_POLICIES,
};

/* What every packet needs of a connection's state. No pointers. */
struct cc {
	uint8_t window_pkts; /* unacknowledged request packets allowed, 1 .. CC_WINDOW_PKTS */
	uint8_t policy;      /* enum cc_policy */
	uint8_t kept_pkts;   /* fixed: the window before the first of the last probes */
};

/* The rest of a connection's state. No pointers. `fixed` leaves it zero. */
struct cc_flow {
	uint64_t next_send_ns; /* no packet is sent before; 0: at once. Set by the policy */
	uint32_t una_psn;      /* the requester's: on_ack was told of all PSNs before it */
	bool ce;               /* the requester's: a mark came since the last on_ack */
	uint8_t spare[3];      /* zero */
	uint64_t own[6];       /* the policy's; zero before init */
};
_Static_assert(sizeof(struct cc_flow) == 64, "a cache line's worth");

/* What an acknowledgement says. */
struct cc_ack {
	uint32_t bytes;  /* newly acknowledged, each packet counted as a full path MTU */
	uint32_t rtt_ns; /* smoothed round trip; 0: not measured yet */
	bool ce;         /* an answer since the last call carried CE or BECN */
};

/* Each function but init may be NULL: the policy does nothing then. */
struct cc_ops {
	const char *name;
	/*
	 * A connection begins, or takes another path. Sets all of *cc but policy. *flow is zero but
	 * for una_psn.
	 */
	void (*init)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* A request packet of so many bytes was sent, headers included; again or for the first
	 * time. */
	void (*on_sent)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes);
	/* Something new is acknowledged. */
	void (*on_ack)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns,
		       const struct cc_ack *ack);
	/* The peer sent a congestion notification packet. */
	void (*on_cnp)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* A sequence NAK or a gap in READ responses: go-back-N from there on. */
	void (*on_loss)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* The ACK timeout is over: everything outstanding is sent again. */
	void (*on_timeout)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* The first unacknowledged packet is sent again as a probe. again: not the first probe. */
	void (*on_probe)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, bool again);
	/* A probe was answered by an ACK of all that was sent: no request was lost. */
	void (*on_spurious)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
};

/* By enum cc_policy. CC_TEST: NULL, unless the program defines cc_test. */
extern const struct cc_ops *const cc_policies[CC_POLICIES];

/* The policy CC_TEST. A test program may define it. */
extern const struct cc_ops cc_test __attribute__((weak));

/* Is this the number of a policy that this program has? */
static inline bool
cc_policy_exists(uint32_t policy)
{
	return policy < CC_POLICIES && cc_policies[policy] != NULL;
}

/* The functions below call the policy of a connection; struct cc_ops says what they report. */
static inline void
cc_init(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc_policies[cc->policy]->init(cc, flow, now_ns);
}

static inline void
cc_on_sent(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes)
{
	if (cc_policies[cc->policy]->on_sent != NULL)
		cc_policies[cc->policy]->on_sent(cc, flow, now_ns, bytes);
}

/* on_ack of `fixed`: double the window until it is full. Inline because every ACK needs it. */
static inline void
cc_fixed_on_ack(struct cc *cc)
{
	if (__builtin_expect(cc->window_pkts < CC_WINDOW_PKTS, 0))
		cc->window_pkts =
			cc->window_pkts < CC_WINDOW_PKTS / 2 ? 2 * cc->window_pkts : CC_WINDOW_PKTS;
}

/*
 * `fixed`: a READ response or an atomic ACK has come, and psn is awaited next. Responses
 * acknowledge one packet each, ACKs many; so only one in CC_RESPONSES widens the window beyond
 * CC_AGAIN_PKTS.
 */
static inline void
cc_fixed_on_response(struct cc *cc, uint32_t psn)
{
	if (psn % CC_RESPONSES == 0 || cc->window_pkts < CC_AGAIN_PKTS)
		cc_fixed_on_ack(cc);
}

static inline void
cc_on_ack(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, const struct cc_ack *ack)
{
	if (cc_policies[cc->policy]->on_ack != NULL)
		cc_policies[cc->policy]->on_ack(cc, flow, now_ns, ack);
}

/* False: the policy takes no CNPs. */
static inline bool
cc_on_cnp(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	if (cc_policies[cc->policy]->on_cnp == NULL)
		return false;
	cc_policies[cc->policy]->on_cnp(cc, flow, now_ns);
	return true;
}

static inline void
cc_on_loss(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	if (cc_policies[cc->policy]->on_loss != NULL)
		cc_policies[cc->policy]->on_loss(cc, flow, now_ns);
}

static inline void
cc_on_timeout(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	if (cc_policies[cc->policy]->on_timeout != NULL)
		cc_policies[cc->policy]->on_timeout(cc, flow, now_ns);
}

static inline void
cc_on_probe(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, bool again)
{
	if (cc_policies[cc->policy]->on_probe != NULL)
		cc_policies[cc->policy]->on_probe(cc, flow, now_ns, again);
}

static inline void
cc_on_spurious(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	if (cc_policies[cc->policy]->on_spurious != NULL)
		cc_policies[cc->policy]->on_spurious(cc, flow, now_ns);
}

#endif
