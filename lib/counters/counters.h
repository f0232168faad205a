/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters and drop reasons. A block belongs to one worker and one device; the owner adds without
 * atomics, the control thread reads sums (values may be a burst old, never torn on x86-64).
 * Includes nothing of the other libraries. Every dropped packet has a reason here.
 *
 * Each received frame is in exactly one of rx_roce, slow_path and the drop reasons, and all of them
 * together are rx_frames once no frame is between two workers. A frame for a multicast group is one
 * frame, however many members get it: it is in rx_roce if one of them takes it.
 */
#ifndef COUNTERS_COUNTERS_H
#define COUNTERS_COUNTERS_H

#include <stdint.h>

#define COUNTER_LIST(X)                                                                            \
	X(RX_FRAMES, "rx_frames") /* frames that a port gave us, or that looped back */            \
	X(RX_BYTES, "rx_bytes")                                                                    \
	X(RX_ROCE, "rx_roce")     /* RoCEv2 frames that their QP has taken */                      \
	X(TX_FRAMES, "tx_frames") /* handed to the port or to loopback */                          \
	X(TX_BYTES, "tx_bytes")                                                                    \
	X(TX_ROCE, "tx_roce")                                                                      \
	X(TX_BUSY, "tx_busy")           /* bursts the port did not take whole */                   \
	X(RX_HANDOFF, "rx_handoff")     /* frames passed to the worker that owns the QP */         \
	X(LOOPBACK, "loopback")         /* frames to a GID of the same device */                   \
	X(SLOW_PATH, "slow_path")       /* ARP, ND, ICMP given to the control thread */            \
	X(TX_PORT_DOWN, "tx_port_down") /* not sent: port gone, or takes nothing for 100 ms */     \
	X(TX_NO_NEIGHBOUR, "tx_no_neighbour") /* not sent: MAC of the next hop unknown */          \
	X(TX_CONTROL_LOST, "tx_control_lost") /* not sent: ARP, ND, ICMP without buffer or room */ \
	X(MCAST_REFUSED, "multicast_refused") /* by a member of a group; others may have it */     \
	X(MCAST_BAD_PKEY, "multicast_bad_pkey") /* of these, for their P_Key (WIRE-09) */          \
	X(DOORBELLS, "doorbells")                                                                  \
	X(WQE_SEND, "send_wqes")                                                                   \
	X(CQE, "cqes")                                                                             \
	X(CQE_ERROR, "cqe_errors")                                                                 \
	X(CQ_EVENTS, "cq_events")                                                                  \
	X(REQ_RETRANS, "retransmitted_packets")                                                    \
	X(REQ_TIMEOUT, "ack_timeouts")                                                             \
	X(REQ_EXCUSED, "excused_timeouts") /* used up no retry: a worker did not run */            \
	X(REQ_PROBE, "sent_probes") /* first unacknowledged packet again, before the timeout */    \
	X(REQ_PROBE_VAIN, "spurious_probes") /* of those, what was only late */                    \
	X(REQ_SEQ_NAK, "rcvd_seq_naks")                                                            \
	X(REQ_RNR_NAK, "rcvd_rnr_naks")                                                            \
	X(REQ_FATAL_NAK, "rcvd_fatal_naks")                                                        \
	X(REQ_RETRY_EXC, "retry_exceeded")                                                         \
	X(REQ_READ_GAP, "read_response_gaps")                                                      \
	X(REQ_DUP_ACK, "stale_responses")                                                          \
	X(RSP_DUP, "duplicate_requests")                                                           \
	X(RSP_OUT_OF_SEQ, "out_of_sequence_requests")                                              \
	X(RSP_ACK, "sent_acks")                                                                    \
	X(RSP_SEQ_NAK, "sent_seq_naks")                                                            \
	X(RSP_RNR_NAK, "sent_rnr_naks")                                                            \
	X(RSP_FATAL_NAK, "sent_fatal_naks")                                                        \
	X(RSP_WRONG_KEY, "wrong_keys") /* R_Keys of requests that name nothing */                  \
	X(RSP_READ_PKTS, "sent_read_responses")                                                    \
	X(RSP_MSG_LOST, "lost_messages") /* UC: broken off by a gap or by the next message */      \
	X(MIGRATED, "path_migrations")                                                             \
	X(MIG_FAILED, "failed_path_migrations") /* the alternate path could not be used */

#define DROP_LIST(X)                                                                               \
	X(NOT_OURS, "not_ours") /* destination MAC or IP address of somebody else */               \
	X(RUNT, "runt")                                                                            \
	X(BAD_IP, "bad_ip")                                                                        \
	X(FRAGMENT, "fragment")                                                                    \
	X(BAD_UDP, "bad_udp_length")                                                               \
	X(BAD_TVER, "bad_tver")                                                                    \
	X(BAD_OPCODE, "bad_opcode")                                                                \
	X(BAD_PAD, "bad_pad")                                                                      \
	X(BAD_LENGTH, "bad_length")                                                                \
	X(BAD_ICRC, "bad_icrc")                                                                    \
	X(BAD_QPN, "bad_qpn")                                                                      \
	X(BAD_PKEY, "bad_pkey")                                                                    \
	X(BAD_QKEY, "bad_qkey")                                                                    \
	X(BAD_GID, "bad_gid")               /* not the addresses of its peer, or of no station */  \
	X(BAD_SERVICE, "bad_service")       /* opcode's service is not the QP's type */            \
	X(QP_STATE, "qp_state")             /* the QP's state takes no such packet */              \
	X(OUT_OF_SEQ, "out_of_sequence")    /* after a NAK, not the ePSN */                        \
	X(DUP_IGNORED, "duplicate_ignored") /* duplicate that cannot be answered */                \
	X(STALE_RESP, "stale_response")                                                            \
	X(NO_MBUF, "no_mbuf")                                                                      \
	X(HANDOFF_FULL, "handoff_full")                                                            \
	X(SLOW_PATH_FULL, "slow_path_full")                                                        \
	X(LOOPBACK_FULL, "loopback_full")                                                          \
	X(KEY_PAUSE, "wrong_key_pause")     /* after too many wrong R_Keys for its QP */           \
	X(PORT_DOWN, "port_down")           /* for a port that has gone meanwhile */               \
	X(NO_RECV_WQE, "no_recv_wqe")       /* UD, UC: nowhere to put it */                        \
	X(MSG_ABORTED, "message_aborted")   /* UC: rest of a message with a gap */                 \
	X(BAD_VLAN, "bad_vlan")             /* not the device's VLAN, or more than one tag */      \
	X(BAD_MULTICAST, "bad_multicast")   /* a group's address where there can be none */        \
	X(ETHERTYPE, "ethertype")           /* neither IPv4, IPv6 nor ARP */                       \
	X(IP_PROTOCOL, "ip_protocol")       /* neither UDP nor ICMP */                             \
	X(IPV6_EXTENSION, "ipv6_extension") /* IPv6 extension headers */                           \
	X(UDP_PORT, "udp_port")             /* UDP to a port other than RoCE's */                  \
	X(MEMORY_LATE, "memory_late")       /* memory that is copied is not there yet */           \
	X(CNP, "cnp")                       /* congestion notification: no policy takes it */

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

/* Received frames that are accounted for: of all blocks of a device together, its rx_frames. */
static inline uint64_t
counters_accounted(const struct counter_block *b)
{
	uint64_t sum = b->ctr[COUNTER_RX_ROCE] + b->ctr[COUNTER_SLOW_PATH];

	for (uint32_t i = 0; i < DROP_NUM; i++)
		sum += b->drop[i];
	return sum;
}

#endif
