/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss recovery of an RC requester: measures a QP's round trip and derives how long it waits for a
 * response before it probes. Owner worker only; no clock (now_ns is an argument everywhere).
 *
 * A probe retransmits the first unacknowledged packet, with AckReq, long before the ACK timeout
 * (REQ-04). The responder responds to a duplicate at once (RSP-01), which shows what it has
 * received. A probe uses up no retry and does not move the ACK timeout, which stays as the user set
 * it.
 *
 * The wait for a probe is the smoothed round trip plus four times its deviation, at least twice the
 * round trip and at least QP_PROBE_MIN_NS. If the round trip varies widely, it is limited to the
 * ACK timeout divided by QP_PROBES_LEAST. The wait doubles with every probe until a response
 * arrives.
 *
 * Before the first sample of a path nothing but the ACK timeout tells how slow the peer may be: the
 * wait is that timeout over QP_PROBES_LEAST, at least QP_PROBE_UNKNOWN_NS, which no round trip
 * within a data centre or between two comes near. ACK timeouts up to code 14 (67 ms) expire first:
 * no packet is sent twice before. With retry_cnt 0, which says that each packet is to be sent once,
 * there is no probe before the first sample. The price: a loss of the last packets of the first
 * flight, or of all of them, is found late. Once an ACK timeout has expired, a packet is taken for
 * lost, and the wait is QP_PROBE_FORGOT_NS. It is the same if the round trip was measured and
 * forgotten, and if the peer has agreed to selective repeat; it is that long because the peer's
 * worker may sleep or wait for its core.
 *
 * QP_PLAIN_TIMERS (probe=off) switches probes off: for a peer that is to see what the specification
 * says and no more. Such a QP does not use selective repeat, whose end of a flight needs probes.
 *
 * Retransmitted packets give no sample (Karn), because the response may be to either copy. With
 * selective repeat a SACK that names a packet sent once gives a sample, for congestion policies
 * that measure delay.
 *
 * The probe of a READ leaves the cursor where it is, because the responses may be on their way
 * behind those of others. It requests only the first missing response, or the whole READ if the
 * peer may not know it. If the response to such a probe comes first, the original responses are
 * lost, and the rest is requested again. If an original comes first, nothing is repeated, and the
 * duplicate that follows it gives a sample.
 *
 * The round trips of READs include the responses queued at the peer. A repeated READ request is
 * answered before these. Once such times are known, the wait is therefore at most twice the longest
 * recent one: it rises to each sample and falls by an eighth of the difference. A probe that was
 * spurious counts as a sample, too. After a sequence NAK fewer READs are requested at a time: a
 * round trip that makes the wait longer than QP_PROBE_FORGOT_NS is forgotten.
 *
 * An ACK timeout is excused if a thread of this process did not run meanwhile, because the packet
 * may not have left or the response may wait unseen. The timeout then restarts with another probe,
 * up to the four times its value that the specification allows (REQ-04).
 *
 * The fast path moves one deadline: QP_DEADLINE_PROBE is qp_snd.wait_ns after the last progress.
 * QP_DEADLINE_ACK is derived from it when the first probe is due: the ACK timeout ends timeout_ns
 * after probe_ns - wait_ns.
 */
#ifndef QP_LOSS_H
#define QP_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#define QP_PROBE_UNKNOWN_NS 100000000u /* shortest wait before the first sample */
#define QP_PROBE_FORGOT_NS  1000000u   /* the wait before the next one: the peer has responded */
#define QP_PROBE_MIN_NS     100000u    /* shortest wait after it */
#define QP_PROBE_SR_NS      10000u     /* the same with selective repeat: costs one packet only */
#define QP_PART_SENT        (1u << 24) /* in part_psn: PSN 0 may begin a part */
#define QP_PROBES_LEAST     8
#define QP_TIMEOUTS_MOST    4           /* longest excused timeout, in ACK timeouts */
#define QP_PROBE_MAX_NS     1000000000u /* longest wait if there is no ACK timeout */

/* qp_snd.watch: what to check at the next progress. 0 on the fast path. */
enum qp_watch {
	QP_WATCH_RTT_FLIGHT = 1, /* nothing is outstanding: the next first packet is timed */
	QP_WATCH_RTT_WANT = 2,   /* time the next packet sent for the first time */
	QP_WATCH_RTT_PSN = 4,    /* rtt_psn is being timed */
	QP_WATCH_RTT = 7,        /* any of these */
	QP_WATCH_PROBED = 8,     /* a probe was sent, and nothing was acknowledged since */
	QP_WATCH_SPURIOUS = 16,  /* a response after a probe: is it to the probe or the original? */
	QP_WATCH_CAPPED = 32,    /* the largest window is reduced; see cap_psn */
	QP_WATCH_NAK_PSN = 64,   /* nak_psn is valid */
	QP_WATCH_ASKED = 128,    /* READ data was requested again: the ACK timeout continues */
};

struct qp_loss {
	uint64_t timeout_ns;  /* local ACK timeout; 0: none */
	uint64_t silent_ns;   /* last progress or first packet sent before the probe */
	uint64_t rtt_from_ns; /* time when rtt_psn was sent, or up to a round trip earlier */
	uint64_t gap_at_ns;   /* read_gap: time when the missing data was requested again */
	uint64_t rtt_last_ns; /* from silent_ns to the next response */
	uint32_t rtt_psn;
	uint32_t srtt_ns; /* smoothed round trip; 0: not measured */
	uint32_t rttvar_ns;
	uint32_t repair_ns; /* longest recent time to the response to a repeated READ; 0: none */
	uint32_t gap_psn;   /* read_gap: the PSN of the response that showed the gap */
	uint32_t nak_psn;   /* furthest PSN in sequence NAKs while READ data is missing */
	uint32_t cap_psn;   /* when it is acknowledged, a capped window may grow */
	uint32_t alone_psn; /* alone: the response that the last probe of a READ requested */
	uint32_t part_psn;  /* QP_PART_SENT | first PSN of a READ's last new part; 0: none yet */
	uint8_t excused;    /* times that QP_DEADLINE_ACK was deferred, 0 .. QP_TIMEOUTS_MOST - 1 */
	bool probe_read;    /* with snd.resend: a probe of the oldest WQE, a READ, is to be sent */
	bool alone;         /* a probe requested one response of a READ, and none came since */
	bool rtt_sack; /* only a SACK ends the timing of rtt_psn: ACKs wait for older packets */
	bool eager;    /* the path's round trip was measured once, or an ACK timeout expired */
};

struct qp;
struct qp_env;

/* New connection or path: discard all measurements. */
void qp_loss_reset(const struct qp_env *env, struct qp *qp);
/* The round trips of packets to come differ from those measured: forget these. */
void qp_loss_forget_rtt(const struct qp_env *env, struct qp *qp);
/*
 * Derive wait_ns again after a change of the ACK timeout or the round trip. The time that probe_ns
 * counts from stays, unless the end of the ACK timeout is already set.
 */
void qp_loss_rewait(const struct qp_env *env, struct qp *qp);
/* Add a round-trip sample of ns. */
void qp_loss_sample(const struct qp_env *env, struct qp *qp, uint64_t ns);
/*
 * With selective repeat: the response to a repeated READ request arrived after ns, or a probe
 * turned out to be spurious after ns.
 */
void qp_loss_repaired(const struct qp_env *env, struct qp *qp, uint64_t ns);
/*
 * May the requester retransmit before the ACK timeout expires, and when it was excused? Not if
 * probes are off, nor before the first sample if retry_cnt is 0 and there is a timeout.
 */
bool qp_loss_may_probe(const struct qp_env *env, const struct qp *qp);
/*
 * Owner worker. Sets bind.plain, also for WQEs in flight. Returns 0, or -EBUSY if the QP uses
 * selective repeat and plain has QP_PLAIN_TIMERS. A QP that only waits for its peer's agreement
 * does without.
 */
int qp_loss_set_plain(struct qp_env *env, struct qp *qp, uint8_t plain);
/* Double the wait until the next probe. */
void qp_loss_back_off(struct qp *qp);

#endif
