/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control of the requester of a connection. A policy decides how many request packets
 * may be unacknowledged (the window) and when the next packet may be sent (the pace). A READ or
 * atomic starts only while those packets and the outstanding responses are fewer than the window. A
 * policy is a table of functions, struct cc_ops. The requester calls them on events and reads the
 * two results before each packet. Time is an argument; a policy has no other input.
 *
 * The state has two parts, both in struct qp_conn. struct cc holds what every packet needs; it is
 * small because it shares the requester's cache line. struct cc_flow holds the rest.
 *
 * `fixed` is the only policy of the daemon. It sets no pace and ignores sent packets, marks and
 * CNPs: the requester skips these calls (qp_snd.cc_told), so they cost nothing.
 *
 * Owner worker only. Includes no project headers.
 */
#ifndef CC_CC_H
#define CC_CC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CC_WINDOW_PKTS 128u /* maximum of all policies (rxe's receive queue holds 128) */
#define CC_AGAIN_PKTS  16u  /* fixed: after a sequence NAK or a gap in READ responses */
#define CC_RESPONSES   32u  /* fixed: responses that count as one ACK */

enum cc_policy {
	CC_FIXED = 0,
	CC_TEST = 1, /* cc_test, for test programs; no QP of the daemon has it */
	CC_POLICIES,
};

/* The part of a connection's state that every packet needs. No pointers. */
struct cc {
	uint8_t window_pkts; /* allowed unacknowledged request packets, 1 .. CC_WINDOW_PKTS */
	uint8_t policy;      /* enum cc_policy */
	uint8_t kept_pkts;   /* fixed: the window before the first of the latest probes */
};

/* The rest of a connection's state. No pointers. `fixed` leaves it zero. */
struct cc_flow {
	uint64_t next_send_ns; /* no packet is sent before; 0: at once. Set by the policy */
	uint32_t una_psn; /* owned by the requester: all PSNs before it were reported to on_ack */
	bool ce;          /* owned by the requester: a mark came since the last on_ack */
	uint8_t spare[3]; /* zero */
	uint64_t own[6];  /* owned by the policy; zero before init */
};
_Static_assert(sizeof(struct cc_flow) == 64, "a cache line's worth");

/* Contents of an acknowledgement. */
struct cc_ack {
	uint32_t bytes;  /* payload newly acknowledged; of a READ or atomic: that has arrived */
	uint32_t rtt_ns; /* smoothed round trip; 0: not measured yet */
	bool ce;         /* a response since the last call carried CE or BECN */
};

/* Functions of a policy. All but init may be NULL: the policy ignores the event. */
struct cc_ops {
	const char *name;
	/*
	 * Called when a connection begins, or takes another path. Sets all of *cc except policy.
	 * *flow is zero except una_psn.
	 */
	void (*init)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* Called when a request packet was sent, also again. bytes: with headers. */
	void (*on_sent)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes);
	/* Called when new packets are acknowledged. */
	void (*on_ack)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns,
		       const struct cc_ack *ack);
	/* Called when the peer sent a congestion notification packet. */
	void (*on_cnp)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* Called on a sequence NAK or a gap in READ responses: go-back-N from there on. */
	void (*on_loss)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* Called when the ACK timeout expires: all outstanding packets are retransmitted. */
	void (*on_timeout)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* Called when the oldest outstanding packet is sent as a probe. again: not the first. */
	void (*on_probe)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, bool again);
	/* Called when an ACK of all sent packets answers a probe: no request was lost. */
	void (*on_spurious)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
};

/* Indexed by enum cc_policy. CC_TEST: NULL, unless the program defines cc_test. */
extern const struct cc_ops *const cc_policies[CC_POLICIES];

/* The policy CC_TEST. A test program may define it. */
extern const struct cc_ops cc_test __attribute__((weak));

/* Returns true if this program has a policy of this number. */
static inline bool
cc_policy_exists(uint32_t policy)
{
	return policy < CC_POLICIES && cc_policies[policy] != NULL;
}

/* The functions below call the policy of a connection, as struct cc_ops describes. */
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

/* on_ack of `fixed`: doubles the window until it is full. Inline because every ACK needs it. */
static inline void
cc_fixed_on_ack(struct cc *cc)
{
	if (__builtin_expect(cc->window_pkts < CC_WINDOW_PKTS, 0))
		cc->window_pkts =
			cc->window_pkts < CC_WINDOW_PKTS / 2 ? 2 * cc->window_pkts : CC_WINDOW_PKTS;
}

/*
 * `fixed`: handles a READ response or an atomic ACK; psn is expected next. Responses acknowledge
 * one packet each, ACKs many; so only one in CC_RESPONSES widens the window beyond CC_AGAIN_PKTS.
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

/* Returns false if the policy ignores CNPs. */
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
