/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion policy of an RC requester: how many request packets may be unacknowledged; a READ or
 * atomic is begun while those and the responses still to come are fewer together. The
 * requester reports what happened to a connection, and reads cc.window_pkts before each packet. A
 * policy is a table of functions; they get the time as an argument, and have no other input.
 *
 * One policy exists: `fixed`. Pacing (an earliest time for the next packet), CNPs and CE marks need
 * hooks that nobody could call yet: no CNP is parsed, and a QP cannot wait for a time to send.
 *
 * Called on the worker that owns the QP only. Includes nothing of the project.
 */
#ifndef CC_CC_H
#define CC_CC_H

#include <stdbool.h>
#include <stdint.h>

#define CC_WINDOW_PKTS 128u /* the most any policy allows (rxe's receive queue holds 128) */
#define CC_AGAIN_PKTS  16u  /* fixed: after a sequence NAK or a gap in READ responses */
#define CC_RESPONSES   32u  /* fixed: responses that count as much as one ACK */

enum cc_policy {
	CC_FIXED = 0,
	CC_POLICIES = 1,
};

/* A connection's state, part of struct qp_conn: no pointers. */
struct cc {
	uint8_t window_pkts; /* unacknowledged request packets allowed, 1 .. CC_WINDOW_PKTS */
	uint8_t policy;      /* enum cc_policy */
	uint8_t kept_pkts;   /* fixed: the window before the first of the last probes */
};

struct cc_ops {
	const char *name;
	/* A connection begins, or takes another path. Sets all but cc->policy. */
	void (*init)(struct cc *cc, uint64_t now_ns);
	/* Something new is acknowledged. rtt_ns: the smoothed round trip; 0: not measured yet. */
	void (*on_ack)(struct cc *cc, uint64_t now_ns, uint32_t rtt_ns);
	/* A sequence NAK or a gap in READ responses: go-back-N from there on. */
	void (*on_loss)(struct cc *cc, uint64_t now_ns);
	/* The ACK timeout is over: everything outstanding is sent again. */
	void (*on_timeout)(struct cc *cc, uint64_t now_ns);
	/* The first unacknowledged packet goes out once more; again: as it did already. */
	void (*on_probe)(struct cc *cc, uint64_t now_ns, bool again);
	/* A probe was answered by an ACK of all that was sent: no request was lost. */
	void (*on_spurious)(struct cc *cc, uint64_t now_ns);
};

/* By enum cc_policy. */
extern const struct cc_ops *const cc_policies[CC_POLICIES];

/* Whoever calls one of these names what happened; see struct cc_ops. */
static inline void
cc_init(struct cc *cc, uint64_t now_ns)
{
	cc_policies[cc->policy]->init(cc, now_ns);
}

/* fixed: twice the window, up to all of it. Here because it is on the fast path. */
static inline void
cc_fixed_on_ack(struct cc *cc)
{
	if (__builtin_expect(cc->window_pkts < CC_WINDOW_PKTS, 0))
		cc->window_pkts =
			cc->window_pkts < CC_WINDOW_PKTS / 2 ? 2 * cc->window_pkts : CC_WINDOW_PKTS;
}

static inline void
cc_on_ack(struct cc *cc, uint64_t now_ns, uint32_t rtt_ns)
{
	/* A switch, since the fast path cannot afford an indirect call. */
	switch ((enum cc_policy)cc->policy) {
	case CC_FIXED:
		cc_fixed_on_ack(cc);
		break;
	case CC_POLICIES:
		break;
	}
}

/*
 * A READ response or an atomic ACK has come, and psn is what is awaited next. fixed: responses
 * acknowledge one packet each, ACKs many; so one in many responses widens the window, beyond what a
 * loss leaves of it.
 */
static inline void
cc_on_response(struct cc *cc, uint64_t now_ns, uint32_t psn)
{
	if (psn % CC_RESPONSES == 0 || cc->window_pkts < CC_AGAIN_PKTS)
		cc_on_ack(cc, now_ns, 0);
}

static inline void
cc_on_loss(struct cc *cc, uint64_t now_ns)
{
	cc_policies[cc->policy]->on_loss(cc, now_ns);
}

static inline void
cc_on_timeout(struct cc *cc, uint64_t now_ns)
{
	cc_policies[cc->policy]->on_timeout(cc, now_ns);
}

static inline void
cc_on_probe(struct cc *cc, uint64_t now_ns, bool again)
{
	cc_policies[cc->policy]->on_probe(cc, now_ns, again);
}

static inline void
cc_on_spurious(struct cc *cc, uint64_t now_ns)
{
	cc_policies[cc->policy]->on_spurious(cc, now_ns);
}

#endif
