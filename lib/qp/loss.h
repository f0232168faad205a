/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss recovery of an RC requester: the round trip of a QP, and how long it waits for an answer
 * before it probes. Owner worker only; no clock (now_ns is an argument everywhere).
 *
 * A probe is the first unacknowledged packet sent again, with AckReq, long before the ACK timeout
 * (REQ-04). A responder answers a duplicate at once (RSP-01), and the answer says where it is. A
 * probe uses up no retry and does not move the ACK timeout, which stays what the user set.
 *
 * The wait for a probe is the smoothed round trip and four times its deviation, at least
 * QP_PROBE_MIN_NS, and where that varies widely a QP_PROBES_LEAST-th of the ACK timeout;
 * QP_PROBE_FIRST_NS until a round trip was measured, because the peer's worker may sleep or wait
 * for its core. The wait doubles with every probe until an answer comes. Packets that were sent
 * twice give no sample (Karn), because their answer may be to either.
 *
 * An ACK timeout is not charged when a thread of this process did not run meanwhile, so that the
 * packet may not have left, or the answer may wait unseen: it begins anew with another probe, up to
 * the four times its value that the specification allows (REQ-04).
 *
 * The fast path holds one deadline, qp_snd.deadline_ns, and adds qp_snd.wait_ns to it. All else is
 * derived when the deadline comes: the ACK timeout ends timeout_ns behind deadline_ns - wait_ns.
 */
#ifndef QP_LOSS_H
#define QP_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#define QP_PROBE_FIRST_NS 1000000u /* before the first sample */
#define QP_PROBE_MIN_NS   100000u  /* after it */
#define QP_PROBES_LEAST   8
#define QP_TIMEOUTS_MOST  4           /* ACK timeouts that a charged one may last */
#define QP_PROBE_MAX_NS   1000000000u /* without an ACK timeout: the longest pause between probes */

/* qp_snd.watch: what the next progress has to look at. 0 on the fast path. */
enum qp_watch {
	QP_WATCH_RTT_FLIGHT = 1, /* nothing is outstanding: the next first packet is timed */
	QP_WATCH_RTT_WANT = 2,   /* time the next packet that is sent for the first time */
	QP_WATCH_RTT_PSN = 4,    /* rtt_psn is timed */
	QP_WATCH_RTT = 7,        /* any of these */
	QP_WATCH_PROBED = 8,     /* a probe went out and nothing has been acknowledged since */
	QP_WATCH_SPURIOUS = 16,  /* a probe was answered: was it the probe that was answered? */
	QP_WATCH_PATH = 32,      /* deadline_ns is the end of the wait for the next hop's MAC */
	QP_WATCH_TOLD = 64,      /* told_psn is valid */
	QP_WATCH_ASKED = 128,    /* READ data was asked for again: retry_at_ns is valid */
};

struct qp_loss {
	uint64_t timeout_ns;  /* local ACK timeout; 0: none */
	uint64_t retry_at_ns; /* end of the ACK timeout, with PROBED or ASKED; 0: not yet derived */
	uint64_t silent_ns;   /* before the probe: the last progress, or the first packet sent */
	uint64_t rtt_from_ns; /* when rtt_psn was sent, or earlier by less than a round trip */
	uint64_t gap_at_ns;   /* read_gap: when the gap was asked for again */
	uint64_t rtt_last_ns; /* from silent_ns to the answer that ended it */
	uint32_t rtt_psn;
	uint32_t srtt_ns; /* smoothed round trip; 0: not measured */
	uint32_t rttvar_ns;
	uint32_t gap_psn;  /* read_gap: the PSN of the response that showed the gap */
	uint32_t told_psn; /* the furthest PSN a sequence NAK behind missing READ data has named */
	uint8_t excused;   /* retry_at_ns: how often it was put off, 0 .. QP_TIMEOUTS_MOST - 1 */
};

struct qp;
struct qp_env;

/* A connection or another path: forget what was measured. */
void qp_loss_reset(const struct qp_env *env, struct qp *qp);
/*
 * The ACK timeout may have changed, or the round trip: derive wait_ns anew. What deadline_ns counts
 * from stays.
 */
void qp_loss_rewait(const struct qp_env *env, struct qp *qp);
/* A round trip took ns. */
void qp_loss_sample(const struct qp_env *env, struct qp *qp, uint64_t ns);
/* Twice the wait until the next probe. */
void qp_loss_back_off(struct qp *qp);

#endif
