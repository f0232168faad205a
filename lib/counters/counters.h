/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters and drop reasons. A block belongs to one worker and one device. Its owner adds without
 * atomics; the control thread reads sums, which may be a burst old but are never torn.
 * Includes no other library.
 *
 * Every dropped packet has a reason. Each received frame is counted in exactly one of rx_roce,
 * slow_path and the drop reasons; together they equal rx_frames when no frame is in transit between
 * two workers. A multicast frame counts once, in rx_roce if at least one member of the group
 * accepts it.
 */
#ifndef COUNTERS_COUNTERS_H
#define COUNTERS_COUNTERS_H

#include <stdint.h>

#define COUNTER_LIST(X)                                                                            \
	X(RX_FRAMES, "rx_frames") /* frames from a port or from loopback */                        \
	X(RX_BYTES, "rx_bytes")                                                                    \
	X(RX_ROCE, "rx_roce")     /* RoCEv2 frames accepted by a QP */                             \
	X(TX_FRAMES, "tx_frames") /* handed to the port or to loopback */                          \
	X(TX_BYTES, "tx_bytes")                                                                    \
	X(TX_ROCE, "tx_roce")                                                                      \
	X(TX_BUSY, "tx_busy")                   /* bursts the port took only in part */            \
	X(RX_HANDOFF, "rx_handoff")             /* frames passed to the worker that owns the QP */ \
	X(LOOPBACK, "loopback")                 /* frames to a GID of the same device */           \
	X(SLOW_PATH, "slow_path")               /* to the control thread, or to the kernel */      \
	X(TX_PORT_DOWN, "tx_port_down")         /* not sent: port gone, or stalled for 100 ms */   \
	X(TX_NO_NEIGHBOUR, "tx_no_neighbour")   /* not sent: next hop's MAC unknown */             \
	X(TX_CONTROL_LOST, "tx_control_lost")   /* not sent: ARP, ND, ICMP, no buffer or space */  \
	X(MCAST_REFUSED, "multicast_refused")   /* by a group member; others may accept it */      \
	X(MCAST_BAD_PKEY, "multicast_bad_pkey") /* of these, by P_Key (WIRE-09) */                 \
	X(DOORBELLS, "doorbells")                                                                  \
	X(WQE_SEND, "send_wqes")                                                                   \
	X(CQE, "cqes")                                                                             \
	X(REQ_CQE_ERROR, "req_cqe_error")             /* completions of sends with an error */     \
	X(REQ_CQE_FLUSH, "req_cqe_flush_error")       /* of these, flushed */                      \
	X(REQ_REM_ACCESS, "req_remote_access_errors") /* of these, the peer refused its memory */  \
	X(REQ_REM_INVALID, "req_remote_invalid_request") /* or the request */                      \
	X(RSP_CQE_ERROR, "resp_cqe_error")               /* completions of receives */             \
	X(RSP_CQE_FLUSH, "resp_cqe_flush_error")         /* of these, flushed */                   \
	X(RSP_LOCAL_LENGTH, "resp_local_length_error")   /* of these, buffer too small */          \
	X(RSP_REM_ACCESS, "resp_remote_access_errors")   /* NAKs of refused memory accesses */     \
	X(CQ_EVENTS, "cq_events")                                                                  \
	X(REQ_RETRANS, "retransmitted_packets")                                                    \
	X(REQ_TIMEOUT, "ack_timeouts")                                                             \
	X(REQ_EXCUSED, "excused_timeouts") /* did not use up a retry: a worker stalled */          \
	X(REQ_PROBE, "sent_probes") /* first unacknowledged packet resent before the timeout */    \
	X(REQ_PROBE_VAIN, "spurious_probes") /* of these, the original or ACK was late */          \
	X(REQ_SEQ_NAK, "rcvd_seq_naks")                                                            \
	X(REQ_RNR_NAK, "rcvd_rnr_naks")                                                            \
	X(REQ_FATAL_NAK, "rcvd_fatal_naks")                                                        \
	X(REQ_RETRY_EXC, "retry_exceeded")                                                         \
	X(REQ_READ_GAP, "read_response_gaps")                                                      \
	X(RP_CNP_HANDLED, "rp_cnp_handled") /* congestion notifications that a policy took */      \
	X(RP_CNP_IGNORED, "rp_cnp_ignored") /* dropped as `cnp`: the policy takes none */          \
	X(NP_CNP_SENT, "np_cnp_sent")                                                              \
	X(NP_MARKED, "np_ecn_marked_roce_packets") /* accepted packets with CE */                  \
	X(REQ_DUP_ACK, "stale_responses")                                                          \
	X(RSP_DUP, "duplicate_requests")                                                           \
	X(RSP_OUT_OF_SEQ, "out_of_sequence_requests")                                              \
	X(RSP_ACK, "sent_acks")                                                                    \
	X(RSP_SEQ_NAK, "sent_seq_naks")                                                            \
	X(RSP_RNR_NAK, "sent_rnr_naks")                                                            \
	X(RSP_FATAL_NAK, "sent_fatal_naks")                                                        \
	X(RSP_WRONG_KEY, "wrong_keys") /* requests with an R_Key that names nothing */             \
	X(RSP_READ_PKTS, "sent_read_responses")                                                    \
	X(RSP_MSG_LOST, "lost_messages") /* UC: ended by a gap or by the next message */           \
	X(REQ_SELECTIVE,                                                                           \
	  "selective_retransmissions")              /* packets sent again without those behind */  \
	X(REQ_SPURIOUS, "spurious_retransmissions") /* of these, the original had arrived */       \
	X(REQ_SACK, "rcvd_sacks")                   /* selective acknowledgements */               \
	X(RSP_SACK, "sent_sacks")                                                                  \
	X(RSP_HELD, "held_requests") /* early requests kept until their turn came */               \
	X(RSP_HELD_LOST, "discarded_held_requests") /* of these, given up: NAK, error, reset */    \
	X(RSP_SR_FALLBACK, "selective_repeat_fallbacks") /* peers that ignored SACKs */            \
	X(MIGRATED, "path_migrations")                                                             \
	X(MIG_FAILED, "failed_path_migrations") /* the alternate path was unusable */

#define DROP_LIST(X)                                                                               \
	X(NOT_OURS, "not_ours")         /* not our destination MAC or IP address */                \
	X(REFUSED_PEER, "refused_peer") /* from a host that the device does not accept */          \
	X(RUNT, "runt")                                                                            \
	X(BAD_IP, "bad_ip")                                                                        \
	X(FRAGMENT, "fragment")                                                                    \
	X(BAD_UDP, "bad_udp_length")                                                               \
	X(BAD_TVER, "bad_tver")                                                                    \
	X(BAD_OPCODE, "bad_opcode")                                                                \
	X(BAD_PAD, "bad_pad")                                                                      \
	X(BAD_LENGTH, "bad_length")                                                                \
	X(BAD_ICRC, "bad_icrc")                                                                    \
	X(INEXACT_ICRC, "inexact_icrc") /* strict: right only for another identification */        \
	X(BAD_QPN, "bad_qpn")                                                                      \
	X(BAD_PKEY, "bad_pkey")                                                                    \
	X(BAD_QKEY, "bad_qkey")                                                                    \
	X(BAD_GID, "bad_gid")            /* not its peer's addresses, or not a unicast source */   \
	X(BAD_SERVICE, "bad_service")    /* opcode's service differs from the QP's type */         \
	X(QP_STATE, "qp_state")          /* not accepted in the QP's state */                      \
	X(PAUSED, "paused")              /* its QP's user is paused (worker/blame.h) */            \
	X(OUT_OF_SEQ, "out_of_sequence") /* not the ePSN, after a NAK was sent */                  \
	X(DUP_IGNORED, "duplicate_ignored") /* duplicate without a possible response */            \
	X(STALE_RESP, "stale_response")                                                            \
	X(NO_MBUF, "no_mbuf")                                                                      \
	X(HANDOFF_FULL, "handoff_full")                                                            \
	X(SLOW_PATH_FULL, "slow_path_full")                                                        \
	X(LOOPBACK_FULL, "loopback_full")                                                          \
	X(KEY_PAUSE, "wrong_key_pause")     /* throttled: too many wrong R_Keys for its QP */      \
	X(PORT_DOWN, "port_down")           /* the port is gone */                                 \
	X(NO_RECV_WQE, "no_recv_wqe")       /* UD, UC: no receive WQE */                           \
	X(MSG_ABORTED, "message_aborted")   /* UC: rest of a message with a gap */                 \
	X(BAD_VLAN, "bad_vlan")             /* not the device's VLAN, or more than one tag */      \
	X(BAD_MULTICAST, "bad_multicast")   /* multicast address where none is allowed */          \
	X(ETHERTYPE, "ethertype")           /* neither IPv4, IPv6 nor ARP */                       \
	X(IP_PROTOCOL, "ip_protocol")       /* neither UDP nor ICMP */                             \
	X(IPV6_EXTENSION, "ipv6_extension") /* IPv6 extension headers */                           \
	X(UDP_PORT, "udp_port")             /* UDP to a port other than RoCE's */                  \
	X(MEMORY_LATE, "memory_late")       /* copied memory did not respond in time */            \
	X(CNP, "cnp")                       /* congestion notification: the policy handles none */ \
	X(SACK, "sack")                     /* not agreed, of a wrong form, or for unsent packets */

#define COUNTER_ENUM(id, name) COUNTER_##id,
#define DROP_ENUM(id, name)    DROP_##id,
enum counter { COUNTER_LIST(COUNTER_ENUM) COUNTER_NUM };
enum drop_reason { DROP_LIST(DROP_ENUM) DROP_NUM };
#undef COUNTER_ENUM
#undef DROP_ENUM

/* Names as urocectl shows them, indexed by the enums. */
extern const char *const counter_name[COUNTER_NUM];
extern const char *const drop_reason_name[DROP_NUM];

struct counter_block {
	uint64_t ctr[COUNTER_NUM];
	uint64_t drop[DROP_NUM];
} __attribute__((aligned(64)));

/*
 * Reads a counter of another thread's block. Any thread: the owner adds with plain aligned stores
 * of 8 bytes, which no 64-bit processor tears. Counters order nothing. ThreadSanitizer ignores this
 * one read, because the stores are plain.
 */
static inline __attribute__((no_sanitize_thread)) uint64_t
counters_read(const uint64_t *c)
{
	return __atomic_load_n(c, __ATOMIC_RELAXED);
}

/* Number of accounted frames. Summed over all blocks of a device it equals rx_frames. */
static inline uint64_t
counters_accounted(const struct counter_block *b)
{
	uint64_t sum = b->ctr[COUNTER_RX_ROCE] + b->ctr[COUNTER_SLOW_PATH];

	for (uint32_t i = 0; i < DROP_NUM; i++)
		sum += b->drop[i];
	return sum;
}

#endif
