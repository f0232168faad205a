/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flight recorder of a QP: its last fault and its last QP_RECORDS events, in fixed memory. The
 * owner worker writes; the control thread reads copies (qp_recorder_copy).
 *
 * A run of packets without a special event is one record: first PSN, count, operations. The fast
 * path only notes which operations a run has (conn.sent_ops, conn.got_ops); PSNs and counts come
 * from the cursors when the run ends, which is when something else is recorded. So a record costs
 * nothing for packets in order, and the records reach far back.
 *
 * Compiled out with -Dflight_recorder=false; the last fault stays.
 */
#ifndef QP_RECORDER_H
#define QP_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_branch_prediction.h>
#include "qp/fault.h"

struct qp;
struct qp_env;

#ifdef UROCE_NO_RECORDER
#define QP_RECORDER 0
#else
#define QP_RECORDER 1
#endif
#define QP_RECORDS 64u /* a power of two */

enum qp_record_kind {
	QP_RECORD_NONE,
	QP_RECORD_STATE, /* arg: new state, n: previous state, psn: reason if it is ERR or SQE */
	QP_RECORD_SENT,  /* n requests from psn on; ops: bits 1 << enum uroce_wr_opcode */
	QP_RECORD_SENT_AGAIN, /* the same, retransmitted */
	QP_RECORD_ACKED,      /* the peer has acknowledged n PSNs up to psn */
	QP_RECORD_GOT,        /* n requests from psn on; ops: low bits of enum wire_op_flags */
	QP_RECORD_ANSWERED,   /* sent an ACK up to psn */
	QP_RECORD_NAK_SENT,   /* of psn; arg: syndrome */
	QP_RECORD_NAK_GOT,    /* of psn; arg: syndrome */
	QP_RECORD_DUPLICATE,  /* n requests that were executed before; psn: of the first */
	QP_RECORD_EARLY,      /* n requests ahead of the expected PSN; psn: of the first */
	QP_RECORD_AGAIN,      /* sent n packets from psn on again, without those behind them */
	QP_RECORD_SR_OFF,     /* the peer ignores SACKs: go-back-N from here on */
	QP_RECORD_READ_GAP,   /* READ responses before psn are missing */
	QP_RECORD_PROBE,      /* no response for a while: n times sent psn again */
	QP_RECORD_TIMEOUT,    /* ACK timeout, waiting for psn; arg: retries left, n: window */
	QP_RECORD_EXCUSED,    /* ACK timeout that cost no retry, because a worker stalled */
	QP_RECORD_LATE,       /* memory under psn is late */
	QP_RECORD_PATH,       /* another path is in use: migrated */
	QP_RECORD_PATH_BAD,   /* migration failed */
	QP_RECORD_NEIGHBOUR,  /* the MAC of the next hop became known */
	QP_RECORD_NO_MAC,     /* gave up waiting for the MAC of the next hop */
	QP_RECORD_MODIFIED,   /* attributes changed; n: enum qp_attr_mask */
	QP_RECORD_DRAINED,
	QP_RECORD_REFUSED, /* n: enum uroce_error; the QP continues; psn */
	QP_RECORD_FAILED,  /* n: enum uroce_error; psn; arg: enum qp_side */
	QP_RECORD_KINDS,
};

#define QP_RECORD_TICK_NS 64u

struct qp_record {
	uint64_t at : 48;  /* ticks of QP_RECORD_TICK_NS; of a run: its first packet; wraps in 208
			      days */
	uint64_t kind : 8; /* enum qp_record_kind */
	uint64_t arg : 8;
	uint32_t psn : 24;
	uint32_t arg2 : 8;
	uint32_t n;
};
_Static_assert(sizeof(struct qp_record) == 16, "1 KiB for 64 records");

struct qp_recorder {
	struct qp_fault fault;
	uint32_t count; /* records ever; the last is at (count - 1) % QP_RECORDS; atomic */
	/* where the runs of packets began that are not recorded yet */
	uint32_t sent_psn, una_psn, got_psn, ack_psn;
	bool sent_again;
	uint8_t spare[3];
	uint64_t sent_ns, got_ns;
	struct qp_record record[QP_RECORDER ? QP_RECORDS : 1];
};

/* Worker. Record an event. n is added to the previous record of this kind if nothing is between. */
void qp_record(struct qp_env *env, struct qp *qp, enum qp_record_kind kind, uint32_t arg,
	       uint32_t psn, uint32_t n);
/* Worker. Cursors were set, not moved by packets: what follows begins from here. */
void qp_recorder_sync(struct qp *qp);
/*
 * Any thread, on copies of a QP and its recorder: record the runs of packets that have not ended.
 */
void qp_recorder_close(struct qp *qp, uint64_t now_ns);
/*
 * Control thread. Copies from, which its worker may change meanwhile. The copy is consistent unless
 * the worker records faster than this copies, which three attempts make unlikely.
 */
void qp_recorder_copy(struct qp_recorder *to, const struct qp_recorder *from);

/*
 * Worker. The requester's cursor is about to move back: record the packets sent so far. And: it has
 * moved; packets of WQEs that were taken are a new run.
 */
void qp_recorder_cut(const struct qp_env *env, struct qp *qp);
void qp_recorder_continue(const struct qp_env *env, struct qp *qp);

/* Worker. Out of line parts of qp_taken and qp_got: a run of packets begins. */
void qp_sent_begin(const struct qp_env *env, struct qp *qp);
void qp_got_begin(const struct qp_env *env, struct qp *qp);

#endif
