/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol state of a connection: cursors, PSNs, the READ and atomic history, the path, the
 * attributes. struct qp_conn has no pointers, and memcpy copies it. The local resources of a QP
 * (queues, rings, timers) are in struct qp_bind (bind.h). The owner worker writes all of it.
 */
#ifndef QP_CONN_H
#define QP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uroce_abi/ctrl.h>
#include <uroce_abi/wqe.h>
#include "cc/cc.h"
#include "qp/loss.h"
#include "qp/selective.h"
#include "wire/build.h"

#define QP_MAX_RD_ATOMIC   16    /* READs and atomics outstanding, either way */
#define QP_MAX_SGE         32    /* SGEs of a WQE */
#define QP_MAX_INLINE      1024  /* bytes of inline data */
#define QP_MAX_WR          16384 /* WQEs of a queue */
#define QP_MAX_MSG_BYTES   (1u << 31)
#define QP_ACKREQ_PKTS     32u        /* packets between two AckReqs, at most */
#define QP_READ_CHUNK_PKTS (1u << 22) /* responses to one READ request, at most */
/* Responses to one retransmitted READ request, at most; a power of two. */
#define QP_READ_AGAIN_PKTS 64u
/* With rd_lossy: no READ or atomic is started with this many PSNs outstanding. */
#define QP_READ_WINDOW_PKTS 64u

/*
 * Times at which a QP must act although nothing has arrived (qp/deadline.h). PROBE is the last: it
 * is kept elsewhere.
 */
enum qp_deadline {
	QP_DEADLINE_ACK,   /* end of the ACK timeout (REQ-04); set from the first probe on */
	QP_DEADLINE_RNR,   /* end of an RNR wait (REQ-06), or of the wait for late memory */
	QP_DEADLINE_PATH,  /* end of the wait for the next hop's MAC */
	QP_DEADLINE_PACE,  /* earliest next packet: its pace, or memory that is late */
	QP_DEADLINE_PROBE, /* silence has lasted for snd.wait_ns: probe (qp/loss.h) */
	QP_DEADLINES,
};

/* The requester half. PSNs: una <= next <= high <= alloc in the circle. */
struct qp_snd {
	/* used by every turn and response: one cache line */
	uint32_t head;     /* next WQE to take from the SQ, free running: head .. prod are posted */
	uint32_t tail;     /* oldest WQE not retired; published as the ring's cons */
	uint32_t cur;      /* WQE whose packets are being sent, tail .. head */
	uint32_t cur_pkt;  /* next packet of it, 0 .. npkts */
	uint32_t una_psn;  /* oldest PSN not acknowledged */
	uint32_t next_psn; /* next PSN to send; moves back for a retry */
	uint32_t high_psn; /* one past the highest PSN ever sent */
	uint32_t alloc_psn;   /* first PSN not yet given to a WQE */
	uint64_t probe_ns;    /* QP_DEADLINE_PROBE; 0 = not set */
	uint64_t wait_ns;     /* from progress to probe_ns (qp/loss.h); 0 = never probe */
	uint32_t rd_psns;     /* PSNs of outstanding responses, una .. next (not in the window) */
	uint8_t rd_out;       /* READs and atomics outstanding */
	uint8_t since_ackreq; /* packets since the last AckReq */
	union {
		struct {
			uint8_t watch;     /* enum qp_watch */
			uint8_t deadlines; /* which of conn.deadline_ns are set: QP_DEADLINE_BIT */
		};
		uint16_t off_fast_path; /* both; 0 on the fast path */
	};
	struct cc cc;  /* unacknowledged request packets allowed (cc/cc.h) */
	bool ack_owed; /* within a turn: a message ended without requesting its ACK yet */
	union {
		struct {
			/* packets are to be sent again, out of order (bind.scoreboard, probe_read)
			 */
			bool resend : 1;
			/* RTS after SQE: WQEs before conn.flush_to must still be flushed */
			bool flushing : 1;
			/* the peer sends end-to-end credits: conn.rq_credits and rq_out are kept */
			bool limited : 1;
			/* the congestion policy limits the QP: it takes packets and responses */
			bool cc_active : 1;
			bool rd_lossy : 1;  /* READ responses or atomic ACKs were lost once */
			bool draining : 1;  /* SQD: finish what was started */
			bool resending : 1; /* within req_resend: the cursor is moved for a packet
					     */
			bool read_gap : 1;  /* a gap in READ responses was requested again */
		};
		struct {
			uint8_t first : 2;   /* resend or flushing: work before any new packet */
			uint8_t general : 2; /* limited or cc_active: WQEs take the general path */
		};
	};
	uint8_t retry_left;
	uint8_t rnr_left;
};
_Static_assert(sizeof(struct qp_snd) == 64, "the requester half is one cache line");

/* One READ or atomic being executed, or kept for duplicates. */
struct qp_rd_op {
	uint64_t va;
	union {
		uint64_t orig; /* atomic: the original value */
		struct {
			uint32_t len;
			uint32_t pos; /* READ: next response to send; npkts = done */
		};
	};
	uint32_t rkey;
	uint32_t npkts; /* responses */
	uint32_t psn;   /* of the first response */
	uint32_t msn : 24;
	uint32_t atomic : 1; /* else a READ */
	uint32_t replay : 1; /* for a duplicate: errors are silent, uses no resource */
	uint32_t spare : 6;  /* zero */
};
_Static_assert(sizeof(struct qp_rd_op) == 32, "two to a cache line");
/* The outstanding READs and atomics of a peer, new or duplicate, and one slot for a new one. */
#define QP_RD_QUEUE (QP_MAX_RD_ATOMIC + 1)

/* The kind of message that the responder is receiving. */
enum qp_msg {
	QP_MSG_NONE = 0,
	QP_MSG_SEND,
	QP_MSG_WRITE,
};

/* The receive WQE of the message being received. Its SGEs are in qp.recv_sge. */
struct qp_recv_wqe {
	struct uroce_recv_wqe wqe;
	bool taken; /* the message being received uses a WQE */
	uint8_t spare[3];
	uint32_t index;  /* of the WQE in its queue */
	uint32_t length; /* sum of the SGEs */
	uint32_t spare2;
};

/* A wait for late memory (mem/mr.h). */
struct qp_late {
	uint64_t due_ns; /* READ response: time of the next report to the peer */
	uint32_t psn;    /* of the packet that needs the memory */
	uint16_t naks;   /* number of reports to the peer; 0: psn may be invalid */
	/* WRITE, SEND: packets from psn on whose payload was written at once .. */
	uint16_t ahead;
	uint16_t tried; /* WRITE: .. or for whose payload the memory was late */
	uint16_t spare[3];
};

/* The responder half. The fields that every request needs are at the end, on a new cache line. */
struct qp_rcv {
	struct qp_rd_op rdq[QP_RD_QUEUE];       /* being executed, in PSN order */
	struct qp_rd_op hist[QP_MAX_RD_ATOMIC]; /* the last READs and atomics executed */
	struct qp_late late;                    /* of the request with the ePSN */
	struct qp_late rd_late;                 /* of the next READ response */

	/* used by SENDs and messages of several packets: one cache line */
	uint64_t write_va; /* next byte of the WRITE being received */
	uint32_t write_rkey;
	uint32_t write_left;
	struct qp_recv_wqe cur;
	uint32_t head; /* next receive WQE to take, free running: head .. prod are posted */
	uint32_t nak_psn;
	uint32_t early_psn; /* the last packet that came too early, for which a NAK is due */
	uint8_t nak_syndrome;
	uint8_t hist_next; /* next slot in hist */
	uint8_t spare[2];

	/* used by every request and turn: shares a cache line with the start of qp_bind */
	uint32_t msg_off; /* bytes of the SEND (or WRITE) so far; 0 between messages */
	uint32_t epsn;
	uint32_t msn;
	uint32_t ack_psn;
	uint32_t gap_psn;       /* nak_sent: PSN of the early packet that caused it */
	uint8_t msg;            /* enum qp_msg */
	uint8_t rdq_n;          /* entries in rdq */
	uint8_t naks_again : 7; /* nak_sent: retransmissions of the sequence NAK */
	bool sr_acks : 1;       /* sr.lossy or sr.dup_again is set, which an ACK changes */
	bool nak_sent : 1;      /* sequence or RNR NAK was sent; silent until the ePSN arrives */
	bool comm_est : 1;      /* COMM_EST was raised since RTR */
	bool ack_due : 1;       /* send an ACK of ack_psn once the READs before it are done */
	bool nak_due : 1;       /* send a NAK once the READs before it are done */
	bool key_pause : 1;     /* too many wrong R_Keys: see conn.wrong_keys */
	bool fatal : 1;    /* the NAK due is fatal: accept no more requests, ERR once it was sent */
	bool holding : 1;  /* early requests are held (bind.reorder); no NAK is due or sent then */
	bool sack_due : 1; /* send a selective acknowledgement, in place of an ACK */
};

/* The message that is being received ends, or is given up. */
static inline void
qp_msg_end(struct qp_rcv *rcv)
{
	rcv->msg = QP_MSG_NONE;
	rcv->msg_off = 0;
}

/*
 * Unknown R_Keys in requests to a QP (MEM-01). Each ends the connection, so a peer that guesses
 * makes its victim connect again and again: the count is therefore kept when the QP is reset. After
 * more than QP_WRONG_KEYS of them within QP_WRONG_KEY_NS all requests are dropped for another
 * QP_WRONG_KEY_NS.
 */
#define QP_WRONG_KEYS   16u
#define QP_WRONG_KEY_NS 1000000000ull
struct qp_wrong_keys {
	uint64_t since_ns; /* start of the count */
	uint64_t until_ns; /* while rcv.key_pause: requests are dropped until then */
	uint32_t count;    /* since since_ns */
	uint32_t total;    /* over the QP's life; atomic: the control thread reads it */
};

/* Where the packets of a connected QP go. */
struct qp_path {
	struct wire_path wire;
	bool loopback;   /* the peer's GID is one of this device */
	bool path_ok;    /* the next hop's MAC is known */
	uint8_t hop[16]; /* the next hop, as a GID; zero: there is none */
};

/* Marks, congestion notifications and retransmissions of a connection, since RESET. */
struct qp_ecn {
	uint64_t marks; /* accepted packets with CE */
	uint64_t cnps_sent;
	uint64_t cnps_got;    /* for this QP, whether its policy takes them or not */
	uint64_t again_bytes; /* of retransmitted frames */
	uint64_t cnp_next_ns; /* earliest next CNP */
};

/*
 * Attributes as the last modify left them (QP-05), values derived from them, and the two halves.
 * With thousands of QPs each cache line is a cache miss, so the fields for WRITEs and their
 * responses are adjacent: the four lines from qpn to snd, and the three from rcv.msg_off to the end
 * of qp_bind's copies of WQEs.
 */
struct qp_conn {
	struct uroce_qp_attr attr; /* except path_mig_state: mig */
	struct uroce_qp_cap cap;
	struct qp_path alt;                      /* of path migration (qp/migrate.h) */
	struct qp_loss loss;                     /* requester only */
	uint64_t deadline_ns[QP_DEADLINE_PROBE]; /* by enum qp_deadline; 0 = not set */
	struct cc_flow cc_flow; /* state of the congestion policy cc_flow.param.policy */
	struct qp_sr sr;
	struct qp_ecn ecn;
	uint8_t hop[16]; /* next hop of the path in use; zero: there is none */

	/* packets are matched against these: one cache line */
	uint32_t qpn;
	uint8_t type;    /* enum qp_type */
	uint8_t state;   /* enum qp_state */
	uint8_t dev_mtu; /* path MTU code of the device */
	uint8_t mig;     /* enum qp_mig */
	uint16_t pkey; /* value behind attr.pkey_index; 0: an empty entry, which matches nothing */
	uint16_t mtu;  /* bytes */
	bool loopback; /* the peer's GID is one of this device */
	bool path_ok;  /* the next hop's MAC is known */
	bool sig_all;
	bool rings_bad;    /* qp_fatal: the shared rings are no longer read */
	uint32_t access;   /* remote rights enabled: MEM_REMOTE_* */
	uint32_t dest_qpn; /* this, pkey_index, retry_cnt and rnr_retry: as in attr */
	uint16_t pkey_index;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	/* operations of the runs of packets that are not recorded yet (qp/recorder.h) */
	uint16_t sent_ops; /* bits 1 << enum uroce_wr_opcode */
	uint16_t got_ops;  /* low bits of enum wire_op_flags */
	uint8_t sgid[16], dgid[16];

	/* header template, which each frame is built from, and traffic: two lines */
	struct wire_tmpl tmpl;
	uint64_t
		tx_bytes; /* of frames built since the QP exists, with headers, sent again or not */
	uint64_t rx_bytes; /* of frames that it was given, with headers, also duplicates */

	struct qp_snd snd; /* one line */

	struct qp_wrong_keys wrong_keys;
	uint32_t flush_to; /* with snd.flushing */
	/* end-to-end credits, kept if snd.limited */
	uint16_t rq_credits; /* receive WQEs that the peer has behind una; UINT16_MAX: no limit */
	uint16_t rq_out;     /* messages of tail .. cur that have started and use a credit */
	bool alt_loaded;
	bool mig_refused;    /* PATH_MIG_ERR was raised for the peer's request */
	bool last_wqe_due;   /* LAST_WQE_REACHED is raised at the end of the flush */
	uint8_t peer_buffer; /* receive buffer of the peer's socket (qp_sr_told) */
	uint8_t spare2[10];
	uint16_t
		why; /* enum uroce_error: reason of SQE, ERR or the NAK due; 0: none (qp/fault.h) */
	struct qp_rcv rcv;
};

#endif
