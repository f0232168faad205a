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

/* Name of an enumerator, name that urocectl shows, and what it counts. */
#define COUNTER_LIST(X)                                                                            \
	X(RX_FRAMES, "rx_frames", "frames received from the port or from loopback")                \
	X(RX_BYTES, "rx_bytes", "bytes of received frames")                                        \
	X(RX_ROCE, "rx_roce", "RoCEv2 frames accepted by a queue pair")                            \
	X(TX_FRAMES, "tx_frames", "frames handed to the port or to loopback")                      \
	X(TX_BYTES, "tx_bytes", "bytes of sent frames")                                            \
	X(TX_ROCE, "tx_roce", "RoCEv2 frames sent")                                                \
	X(TX_BUSY, "tx_busy", "bursts that the port accepted only in part")                        \
	X(RX_HANDOFF, "rx_handoff", "frames passed to the worker that owns the queue pair")        \
	X(LOOPBACK, "loopback", "frames to a GID of the same device")                              \
	X(SLOW_PATH, "slow_path", "frames passed to the control thread or to the kernel")          \
	X(TX_PORT_DOWN, "tx_port_down", "frames not sent because the port was gone or stalled")    \
	X(TX_NO_NEIGHBOUR, "tx_no_neighbour",                                                      \
	  "frames not sent because the next hop's MAC was unknown")                                \
	X(TX_CONTROL_LOST, "tx_control_lost",                                                      \
	  "ARP, ND and ICMP frames not sent for lack of space")                                    \
	X(MCAST_REFUSED, "multicast_refused", "multicast frames refused by a member of the group") \
	X(MCAST_BAD_PKEY, "multicast_bad_pkey", "multicast frames refused for their P_Key")        \
	X(DOORBELLS, "doorbells", "doorbells of clients")                                          \
	X(WQE_SEND, "send_wqes", "send work requests taken")                                       \
	X(CQE, "cqes", "completions posted")                                                       \
	X(REQ_CQE_ERROR, "req_cqe_error", "completions of send requests with an error")            \
	X(REQ_CQE_FLUSH, "req_cqe_flush_error", "send requests flushed")                           \
	X(REQ_REM_ACCESS, "req_remote_access_errors",                                              \
	  "send requests whose memory access the peer refused")                                    \
	X(REQ_REM_INVALID, "req_remote_invalid_request",                                           \
	  "send requests that the peer refused as invalid")                                        \
	X(RSP_CQE_ERROR, "resp_cqe_error", "completions of receive requests with an error")        \
	X(RSP_CQE_FLUSH, "resp_cqe_flush_error", "receive requests flushed")                       \
	X(RSP_LOCAL_LENGTH, "resp_local_length_error",                                             \
	  "receive requests whose buffer was too small")                                           \
	X(RSP_REM_ACCESS, "resp_remote_access_errors",                                             \
	  "NAKs sent because a memory access was refused")                                         \
	X(CQ_EVENTS, "cq_events", "completion events sent to clients")                             \
	X(REQ_RETRANS, "retransmitted_packets", "packets retransmitted")                           \
	X(REQ_TIMEOUT, "ack_timeouts", "expired ACK timeouts")                                     \
	X(REQ_EXCUSED, "excused_timeouts",                                                         \
	  "ACK timeouts that used up no retry because a worker stalled")                           \
	X(REQ_PROBE, "sent_probes", "packets retransmitted before the timeout, as a probe")        \
	X(REQ_PROBE_VAIN, "spurious_probes",                                                       \
	  "probes that were not needed: the packet or ACK was only late")                          \
	X(REQ_SEQ_NAK, "rcvd_seq_naks", "sequence NAKs received")                                  \
	X(REQ_RNR_NAK, "rcvd_rnr_naks", "RNR NAKs received")                                       \
	X(REQ_FATAL_NAK, "rcvd_fatal_naks", "NAKs received that fail the queue pair")              \
	X(REQ_RETRY_EXC, "retry_exceeded", "queue pairs that ran out of retries")                  \
	X(REQ_READ_GAP, "read_response_gaps", "gaps in READ responses")                            \
	X(RP_CNP_HANDLED, "rp_cnp_handled",                                                        \
	  "congestion notifications received that a policy handled")                               \
	X(RP_CNP_IGNORED, "rp_cnp_ignored",                                                        \
	  "congestion notifications received that no policy handled")                              \
	X(NP_CNP_SENT, "np_cnp_sent", "congestion notifications sent")                             \
	X(NP_MARKED, "np_ecn_marked_roce_packets",                                                 \
	  "packets received with the ECN mark of a congested switch")                              \
	X(REQ_DUP_ACK, "stale_responses", "responses that were no longer expected")                \
	X(RSP_DUP, "duplicate_requests", "duplicate requests received")                            \
	X(RSP_OUT_OF_SEQ, "out_of_sequence_requests", "requests received out of sequence")         \
	X(RSP_ACK, "sent_acks", "ACKs sent")                                                       \
	X(RSP_SEQ_NAK, "sent_seq_naks", "sequence NAKs sent")                                      \
	X(RSP_RNR_NAK, "sent_rnr_naks", "RNR NAKs sent")                                           \
	X(RSP_FATAL_NAK, "sent_fatal_naks", "NAKs sent that fail the peer's queue pair")           \
	X(RSP_WRONG_KEY, "wrong_keys", "requests with an R_Key that names nothing")                \
	X(RSP_READ_PKTS, "sent_read_responses", "READ response packets sent")                      \
	X(RSP_MSG_LOST, "lost_messages", "UC messages lost by a gap")                              \
	X(REQ_SELECTIVE, "selective_retransmissions",                                              \
	  "packets sent again without those behind them")                                          \
	X(REQ_SPURIOUS, "spurious_retransmissions",                                                \
	  "packets sent again alone although the original had arrived")                            \
	X(REQ_SACK, "rcvd_sacks", "selective acknowledgements received")                           \
	X(RSP_SACK, "sent_sacks", "selective acknowledgements sent")                               \
	X(RSP_HELD, "held_requests", "early requests kept until their turn")                       \
	X(RSP_HELD_LOST, "discarded_held_requests", "early requests that were given up")           \
	X(RSP_SR_FALLBACK, "selective_repeat_fallbacks",                                           \
	  "peers that ignored selective acknowledgements")                                         \
	X(MIGRATED, "path_migrations", "migrations to an alternate path")                          \
	X(MIG_FAILED, "failed_path_migrations", "migrations that the alternate path did not allow")

#define DROP_LIST(X)                                                                               \
	X(NOT_OURS, "not_ours", "not our destination MAC or IP address")                           \
	X(REFUSED_PEER, "refused_peer", "from a host that peer= does not name")                    \
	X(RUNT, "runt", "too short for its headers")                                               \
	X(BAD_IP, "bad_ip", "wrong IP header")                                                     \
	X(FRAGMENT, "fragment", "IP fragment")                                                     \
	X(BAD_UDP, "bad_udp_length", "wrong UDP length")                                           \
	X(BAD_TVER, "bad_tver", "unknown transport version")                                       \
	X(BAD_OPCODE, "bad_opcode", "unknown opcode")                                              \
	X(BAD_PAD, "bad_pad", "wrong padding")                                                     \
	X(BAD_LENGTH, "bad_length", "wrong length for its opcode")                                 \
	X(BAD_ICRC, "bad_icrc", "wrong ICRC")                                                      \
	X(INEXACT_ICRC, "inexact_icrc", "strict: right only for another identification")           \
	X(BAD_QPN, "bad_qpn", "no such queue pair")                                                \
	X(BAD_PKEY, "bad_pkey", "wrong P_Key")                                                     \
	X(BAD_QKEY, "bad_qkey", "wrong Q_Key")                                                     \
	X(BAD_GID, "bad_gid", "not its peer's addresses, or not a unicast source")                 \
	X(BAD_SERVICE, "bad_service", "opcode's service differs from the QP's type")               \
	X(QP_STATE, "qp_state", "not accepted in the QP's state")                                  \
	X(PAUSED, "paused", "its QP's user is paused: workers had to wait for its memory")         \
	X(OUT_OF_SEQ, "out_of_sequence", "not the ePSN, after a NAK was sent")                     \
	X(DUP_IGNORED, "duplicate_ignored", "duplicate without a possible response")               \
	X(STALE_RESP, "stale_response", "response to nothing outstanding")                         \
	X(NO_MBUF, "no_mbuf", "no packet buffer")                                                  \
	X(HANDOFF_FULL, "handoff_full", "no space on the way to another worker")                   \
	X(SLOW_PATH_FULL, "slow_path_full", "no space on the way to the control thread")           \
	X(MAD_LIMIT, "mad_limit", "MAD of a host that has sent too many useless ones")             \
	X(LOOPBACK_FULL, "loopback_full", "no space on the way to this device")                    \
	X(KEY_PAUSE, "wrong_key_pause", "throttled: too many wrong R_Keys for its QP")             \
	X(PORT_DOWN, "port_down", "the port is gone")                                              \
	X(NO_RECV_WQE, "no_recv_wqe", "UD, UC: no receive WQE")                                    \
	X(MSG_ABORTED, "message_aborted", "UC: rest of a message with a gap")                      \
	X(BAD_VLAN, "bad_vlan", "not the device's VLAN, or more than one tag")                     \
	X(BAD_MULTICAST, "bad_multicast", "multicast address where none is allowed")               \
	X(ETHERTYPE, "ethertype", "neither IPv4, IPv6 nor ARP")                                    \
	X(IP_PROTOCOL, "ip_protocol", "neither UDP nor ICMP")                                      \
	X(IPV6_EXTENSION, "ipv6_extension", "IPv6 extension headers")                              \
	X(UDP_PORT, "udp_port", "UDP to a port other than RoCE's")                                 \
	X(MEMORY_LATE, "memory_late", "copied memory did not respond in time")                     \
	X(CNP, "cnp", "congestion notification: the policy handles none")                          \
	X(SACK, "sack", "selective acknowledgement that was not valid here")

#define COUNTER_ENUM(id, name, doc) COUNTER_##id,
#define DROP_ENUM(id, name, doc)    DROP_##id,
enum counter { COUNTER_LIST(COUNTER_ENUM) COUNTER_NUM };
enum drop_reason { DROP_LIST(DROP_ENUM) DROP_NUM };
#undef COUNTER_ENUM
#undef DROP_ENUM

/* Names as urocectl shows them, and what they count; indexed by the enums. */
extern const char *const counter_name[COUNTER_NUM], *const counter_doc[COUNTER_NUM];
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
