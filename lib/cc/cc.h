/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control of the requester of a connection. A policy decides how many request packets
 * may be unacknowledged (the window) and when the next packet may be sent (the pace). A READ or
 * atomic starts only while those packets and the outstanding responses are fewer than the window. A
 * policy is a table of functions, struct cc_ops. The requester calls them on events and reads the
 * two results before each packet. Time is an argument; a policy has no other input.
 *
 * The state has two parts, both in struct qp_conn. struct cc holds what every packet needs; it is
 * small because it shares the requester's cache line. struct cc_flow holds the rest, with a copy of
 * the policy's parameters (cc/param.h).
 *
 *   fixed.c    CC_FIXED: a full window, no pace; reduced after losses only
 *   dcqcn.c    CC_DCQCN: a rate, which CNPs reduce
 *   swift.c    CC_SWIFT: a window, which round trips above a target reduce
 *   timely.c   CC_TIMELY: a rate, which long or growing round trips reduce
 *   param.c    parameters: defaults, legal ranges, text
 *
 * `fixed` sets no pace and ignores sent packets, marks and CNPs: the requester skips the calls for
 * packets and ACKs (qp_snd.cc_active), so they cost nothing. The other policies set cc_flow.limits
 * while they need these calls. They do not need them at the full rate.
 *
 * All policies share the rule of `fixed` for the window after losses; it limits a go-back-N sender.
 *
 * Owner worker only. Includes no project headers.
 */
#ifndef CC_CC_H
#define CC_CC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CC_WINDOW_PKTS 128u  /* maximum of all policies (rxe's receive queue holds 128) .. */
#define CC_WIDE_PKTS   1024u /* .. but of `fixed` on a long path (cc_fixed_allow) */
#define CC_AGAIN_PKTS  16u   /* fixed: after a sequence NAK or a gap in READ responses */
#define CC_RESPONSES   32u   /* fixed: responses that count as one ACK */

enum cc_policy {
	CC_FIXED = 0,
	CC_TEST = 1, /* cc_test, for test programs; no QP of the daemon has it */
	CC_DCQCN = 2,
	CC_SWIFT = 3,
	CC_TIMELY = 4,
	CC_POLICIES,
};

/* The part of a connection's state that every packet needs. No pointers. */
struct cc {
	uint16_t window_pkts; /* allowed unacknowledged request packets, 1 .. most_pkts */
	uint16_t most_pkts;   /* limit of window_pkts: set by init */
};

/*
 * Parameters of a policy; cc/param.h has names, defaults and legal ranges. No pointers. `fixed`
 * uses none. Rates are in kb/s.
 */
struct cc_param {
	uint8_t policy;     /* enum cc_policy */
	uint8_t rounds : 7; /* dcqcn: rounds of fast recovery */
	uint8_t clamp : 1;  /* dcqcn: each cut sets the target rate, not only the first of a row */
	uint16_t mtu;       /* payload bytes of a packet; the requester sets it */
	uint32_t link_kbps; /* of the link */
	uint32_t max_kbps;  /* of a connection, at most link_kbps */
	uint32_t min_kbps;  /* of a connection, at most max_kbps */
	uint32_t window_ns; /* the window holds what the link carries in this time */
	uint32_t target_ns; /* swift: base delay; timely: below it the rate only grows */
	uint32_t high_ns;   /* timely: above it the rate only falls */
	uint32_t alpha_ns;  /* dcqcn: between updates of alpha */
	uint32_t decrease_ns; /* dcqcn: between cuts, at least */
	uint32_t increase_ns; /* dcqcn: between increases */
	uint32_t ai_kbps;     /* dcqcn, timely: additive step; swift: step of one round trip */
	uint32_t hai_kbps;    /* dcqcn: hyper increase step */
	uint32_t byte_kib;    /* dcqcn: bytes sent between increases, in KiB; 0: time only */
	uint32_t g_inv;       /* dcqcn: 1 / g */
};
_Static_assert(sizeof(struct cc_param) == 56, "no padding");

struct cc_dcqcn {
	uint32_t rate_kbps, target_kbps;
	uint32_t alpha;        /* CC_DCQCN_ONE is 1 */
	uint8_t time_stage;    /* increases by time since the last cut, at most UINT8_MAX */
	uint8_t byte_stage;    /* the same by bytes */
	bool began;            /* a CNP was received */
	uint8_t cnp_alpha : 1; /* a CNP since the last update of alpha */
	uint8_t cnp_cut : 1;   /* a CNP since the last cut */
	uint64_t alpha_ns;     /* time of the last update of alpha */
	uint64_t cut_ns;       /* earliest next cut */
	uint64_t increase_ns;  /* time of the last increase by time, or cut */
	uint64_t bytes;        /* sent since the last increase by bytes, or cut */
};
#define CC_DCQCN_ONE (1u << 30)

/* The last gap between packets, so that it can be shortened (cc_pace_again in cc_parts.h). */
struct cc_gap {
	uint64_t from_ns;
	uint32_t bytes; /* of the packet before it */
	uint32_t spare; /* zero */
};

struct cc_swift {
	uint32_t cwnd;     /* packets, CC_SWIFT_ONE is 1 */
	uint32_t delay_ns; /* last round trip */
	uint64_t cut_ns;   /* time of the last cut */
	struct cc_gap gap;
};
#define CC_SWIFT_ONE (1u << 16)

struct cc_timely {
	uint32_t rate_kbps;
	uint32_t rtt_ns;   /* last round trip */
	uint32_t least_ns; /* shortest round trip */
	int32_t trend_ns;  /* smoothed difference of two round trips */
	uint64_t at_ns;    /* time of the last round trip, or loss that counted as one */
	struct cc_gap gap;
};

struct cc_fixed {
	uint32_t least_ns;  /* shortest of the round trips that were measured */
	uint16_t full_pkts; /* most_pkts without losses, 1 .. CC_WIDE_PKTS */
	uint8_t wanted;     /* round trips to measure until full_pkts is set by the shortest */
	uint8_t spare;
	uint16_t wide_pkts; /* limit of full_pkts (cc_fixed_allow) */
};

/*
 * The rest of a connection's state. No pointers. `fixed` uses only una_psn, param, kept_pkts and
 * its own part.
 */
struct cc_flow {
	uint64_t next_send_ns; /* no packet is sent before; 0: at once. Set by the policy */
	uint64_t ackreq_ns;    /* owned by the requester: time of the next AckReq while told */
	uint32_t una_psn;   /* owned by the requester: all PSNs before it were reported to on_ack */
	uint16_t kept_pkts; /* the window before the first of the latest probes */
	bool ce;            /* owned by the requester: a mark came since the last on_ack */
	bool limits;        /* set by the policy: it needs on_sent and on_ack, and may set a pace */
	union {             /* owned by the policy; zero before init */
		uint64_t own[6];
		struct cc_fixed fixed;
		struct cc_dcqcn dcqcn;
		struct cc_swift swift;
		struct cc_timely timely;
	};
	struct cc_param param; /* set before init; param.policy is the connection's policy */
};
_Static_assert(sizeof(struct cc_flow) == 128, "two cache lines' worth");

/* Contents of an acknowledgement. */
struct cc_ack {
	uint32_t bytes;  /* payload newly acknowledged; of a READ or atomic: that has arrived */
	uint32_t rtt_ns; /* smoothed round trip; 0: not measured yet */
	bool ce;         /* a response since the last call carried CE or BECN */
};

/* What `urocectl show qp` prints of a policy. */
struct cc_view {
	uint32_t rate_kbps; /* 0: not limited */
	uint32_t alpha_ppm; /* dcqcn: alpha in millionths */
	uint32_t cwnd_ppm;  /* swift: the window in millionths of a packet */
	uint32_t delay_ns;  /* swift, timely: last round trip */
};

/* Functions of a policy. All but init may be NULL: the policy ignores the event. */
struct cc_ops {
	const char *name;
	bool ect; /* data packets have ECT, so that switches mark them */
	/*
	 * Called when a connection begins, migrates to another path, or changes its policy. Sets
	 * all of *cc. *flow is zero except una_psn, param, and limits, which is set.
	 */
	void (*init)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/*
	 * Called for each request packet sent, retransmissions included, while limits is set.
	 * bytes: with headers.
	 */
	void (*on_sent)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes);
	/* Called when new packets are acknowledged, while limits is set. */
	void (*on_ack)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns,
		       const struct cc_ack *ack);
	/* Called with each round trip that was measured, of a packet that was sent once. */
	void (*on_rtt)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t rtt_ns);
	/* Called when the peer sent a congestion notification packet. */
	void (*on_cnp)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* Called on a sequence NAK or a gap in READ responses: go-back-N from there on. */
	void (*on_loss)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/* Called when the ACK timeout expires: all outstanding packets are retransmitted. */
	void (*on_timeout)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/*
	 * Called when the oldest outstanding packet is sent as a probe, or alone after an RNR wait.
	 * again: not the first probe, or no probe.
	 */
	void (*on_probe)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, bool again);
	/* Called when an ACK of all sent packets answers a probe: no request was lost. */
	void (*on_spurious)(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
	/*
	 * Returns the responses that one READ request may ask for, at least 1: they come at the
	 * rate of the responder's link. Called while limits is set. NULL: any number.
	 */
	uint32_t (*read_pkts)(const struct cc_flow *flow);
	/* Describes the state; *view is zero before. */
	void (*view)(const struct cc *cc, const struct cc_flow *flow, struct cc_view *view);
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
	flow->limits = true;
	cc_policies[flow->param.policy]->init(cc, flow, now_ns);
}

static inline void
cc_on_sent(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes)
{
	if (cc_policies[flow->param.policy]->on_sent != NULL)
		cc_policies[flow->param.policy]->on_sent(cc, flow, now_ns, bytes);
}

/* on_ack of `fixed`: doubles the window until it is full. Inline because every ACK needs it. */
static inline void
cc_fixed_on_ack(struct cc *cc)
{
	if (__builtin_expect(cc->window_pkts < cc->most_pkts, 0))
		cc->window_pkts =
			cc->window_pkts < cc->most_pkts / 2 ? 2 * cc->window_pkts : cc->most_pkts;
}

/* Sets the largest window. Reduces the window if that is larger. */
static inline void
cc_fixed_most(struct cc *cc, uint32_t most)
{
	cc->most_pkts = (uint16_t)most;
	if (cc->window_pkts > most)
		cc->window_pkts = (uint16_t)most;
}

/*
 * `fixed`, with selective repeat: so many requests were lost at once that a queue on the path must
 * be too short for the window. Halves the largest window, which cc_fixed_uncap widens again. A
 * random loss of some percent does not reduce it: with selective repeat it costs little.
 */
#define CC_CAP_LEAST 4u
static inline void
cc_fixed_cap(struct cc *cc)
{
	cc_fixed_most(cc, cc->most_pkts / 2 > CC_CAP_LEAST ? cc->most_pkts / 2 : CC_CAP_LEAST);
}

/*
 * `fixed`, with selective repeat: packets wait for the processor, not on the wire. Each packet that
 * waits behind a lost one costs time there, because the peer has to hold it. The largest window is
 * reduced to what keeps the processor busy: one burst, and half of one on its way.
 */
#define CC_BEHIND_PKTS 48u
static inline void
cc_fixed_behind(struct cc *cc)
{
	if (cc->most_pkts > CC_BEHIND_PKTS)
		cc_fixed_most(cc, CC_BEHIND_PKTS);
}

/*
 * Widens it once a round trip: by one packet up to CC_WINDOW_PKTS, above by a 64th of the full
 * window. Returns true if it is full again.
 */
static inline bool
cc_fixed_uncap(struct cc *cc, const struct cc_flow *flow)
{
	uint32_t full = flow->fixed.full_pkts, most = cc->most_pkts;

	most += most < CC_WINDOW_PKTS ? 1 : full / 64;
	cc->most_pkts = (uint16_t)(most < full ? most : full);
	return cc->most_pkts == full;
}

/*
 * `fixed`: the peer takes wide_pkts packets at once, 1 .. CC_WIDE_PKTS. If these are more than
 * CC_WINDOW_PKTS, the largest window is what CC_RATE_PPS fills in a round trip, the shortest of the
 * next CC_ROUND_TRIPS, but at most wide_pkts. A window that losses have reduced stays reduced.
 */
#define CC_ROUND_TRIPS 8u
#define CC_RATE_PPS    2000000u
static inline void
cc_fixed_allow(struct cc *cc, struct cc_flow *flow, uint32_t wide_pkts)
{
	uint32_t full = wide_pkts < CC_WINDOW_PKTS ? wide_pkts : CC_WINDOW_PKTS;
	bool whole = cc->most_pkts >= flow->fixed.full_pkts;

	flow->fixed.wanted = wide_pkts > CC_WINDOW_PKTS ? CC_ROUND_TRIPS : 0;
	flow->fixed.wide_pkts = (uint16_t)wide_pkts;
	flow->fixed.least_ns = UINT32_MAX;
	flow->fixed.full_pkts = (uint16_t)full;
	if (whole || cc->most_pkts > full)
		cc_fixed_most(cc, full);
}

/*
 * `fixed`: too much was lost while more than CC_WINDOW_PKTS were allowed: perhaps a queue on the
 * path is too short. Halves the largest window, but to no less than CC_WINDOW_PKTS. Returns true if
 * it did; cc_fixed_uncap widens it again.
 */
static inline bool
cc_fixed_narrow(struct cc *cc)
{
	if (cc->most_pkts <= CC_WINDOW_PKTS)
		return false;
	cc_fixed_most(cc, cc->most_pkts / 2 > CC_WINDOW_PKTS ? cc->most_pkts / 2 : CC_WINDOW_PKTS);
	return true;
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
	if (cc_policies[flow->param.policy]->on_ack != NULL)
		cc_policies[flow->param.policy]->on_ack(cc, flow, now_ns, ack);
}

static inline void
cc_on_rtt(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t rtt_ns)
{
	if (cc_policies[flow->param.policy]->on_rtt != NULL)
		cc_policies[flow->param.policy]->on_rtt(cc, flow, now_ns, rtt_ns);
}

/* Returns true if the policy needs another round-trip measurement: most do all the time. */
static inline bool
cc_times(const struct cc_flow *flow)
{
	return cc_policies[flow->param.policy]->on_rtt != NULL &&
	       (flow->param.policy != CC_FIXED || flow->fixed.wanted != 0);
}

/* UINT32_MAX: any number. */
static inline uint32_t
cc_read_pkts(const struct cc_flow *flow)
{
	if (!flow->limits || cc_policies[flow->param.policy]->read_pkts == NULL)
		return UINT32_MAX;
	return cc_policies[flow->param.policy]->read_pkts(flow);
}

/* Returns false if the policy ignores CNPs. */
static inline bool
cc_on_cnp(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	if (cc_policies[flow->param.policy]->on_cnp == NULL)
		return false;
	cc_policies[flow->param.policy]->on_cnp(cc, flow, now_ns);
	return true;
}

static inline void
cc_on_loss(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	if (cc_policies[flow->param.policy]->on_loss != NULL)
		cc_policies[flow->param.policy]->on_loss(cc, flow, now_ns);
}

static inline void
cc_on_timeout(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	if (cc_policies[flow->param.policy]->on_timeout != NULL)
		cc_policies[flow->param.policy]->on_timeout(cc, flow, now_ns);
}

static inline void
cc_on_probe(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, bool again)
{
	if (cc_policies[flow->param.policy]->on_probe != NULL)
		cc_policies[flow->param.policy]->on_probe(cc, flow, now_ns, again);
}

static inline void
cc_on_spurious(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	if (cc_policies[flow->param.policy]->on_spurious != NULL)
		cc_policies[flow->param.policy]->on_spurious(cc, flow, now_ns);
}

#endif
