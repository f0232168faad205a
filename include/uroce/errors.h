/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reasons of errors. vendor_err of a failed completion (struct ibv_wc, ibv_wc_read_vendor_err) is
 * one of these values, never 0. For IBV_WC_WR_FLUSH_ERR it is the reason why the queue pair left
 * its working state. `urocectl show qp QPN` shows the same reason with the packet, key, address and
 * peer; doc/errors.md is the table with remedies. Values keep their meaning in later versions; a
 * later version may add others.
 *
 * UROCE_ERROR_LIST(X) calls X(value, NAME, word, sentence, remedy) for each reason. word is the
 * name that tools show. The sentence completes "QP N failed: ".
 */
#ifndef UROCE_ERRORS_H
#define UROCE_ERRORS_H

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define UROCE_ERROR_LIST(X) \
	/* 0x1xx: this side, as the responder, refused a request of the peer */ \
	X(0x101, RKEY_UNKNOWN, "rkey_unknown", "the R_Key names no region or window", \
	  "check that the peer got the rkey of a region that is still registered") \
	X(0x102, RKEY_PD, "rkey_pd", "the R_Key belongs to another protection domain", \
	  "register the region in the protection domain of this queue pair") \
	X(0x103, RKEY_RIGHTS, "rkey_rights", "the region or window does not grant this operation", \
	  "register the region with the IBV_ACCESS_REMOTE_ flag of the operation") \
	X(0x104, RKEY_BOUNDS, "rkey_bounds", "the address range is not inside the region or window", \
	  "compare the peer's remote address and length with those of the region") \
	X(0x105, WINDOW_UNBOUND, "window_unbound", "the R_Key names a memory window that is not bound", \
	  "bind the window before the peer uses it; an invalidated window must be bound again") \
	X(0x106, WINDOW_OTHER_QP, "window_other_qp", "the memory window is bound to another queue pair", \
	  "bind type 2 windows on the queue pair that receives the requests") \
	X(0x107, RKEY_CHANGED, "rkey_changed", "the region or window changed while the request was executed", \
	  "do not bind, invalidate or deregister memory while the peer accesses it") \
	X(0x111, INV_UNKNOWN, "inv_rkey_unknown", "the R_Key to invalidate names no window", \
	  "invalidate the rkey of a bound type 2 window") \
	X(0x112, INV_NOT_WINDOW, "inv_not_window", "the R_Key to invalidate is not that of a type 2 window", \
	  "only type 2 windows can be invalidated; deregister regions instead") \
	X(0x113, INV_PD, "inv_window_pd", "the window to invalidate belongs to another protection domain", \
	  "allocate the window in the protection domain of the queue pair") \
	X(0x114, INV_UNBOUND, "inv_window_unbound", "the window to invalidate is not bound", \
	  "invalidate a window once, after it was bound") \
	X(0x115, INV_OTHER_QP, "inv_window_other_qp", "the window to invalidate is bound to another queue pair", \
	  "invalidate a window through the queue pair on which it was bound") \
	X(0x121, QP_ACCESS, "qp_access_flags", "the queue pair does not allow this remote operation", \
	  "set qp_access_flags with ibv_modify_qp on this side") \
	X(0x122, OPCODE_SEQUENCE, "opcode_sequence", "the packet's opcode does not continue the message", \
	  "capture the packets: the peer mixed the packets of two messages") \
	X(0x123, PATH_MTU, "path_mtu", "the packet's payload does not match the path MTU", \
	  "set the same path_mtu on both sides") \
	X(0x124, EMPTY_PACKET, "empty_packet", "the last packet of a message has no payload", \
	  "capture the packets: the peer violates the protocol") \
	X(0x125, RETH_LENGTH, "reth_length", "the payload and the length in the RETH differ, or it is over 2 GiB", \
	  "capture the packets: the peer violates the protocol") \
	X(0x126, READ_DEPTH, "read_depth", "more READs and atomics at a time than max_dest_rd_atomic", \
	  "make the peer's max_rd_atomic at most max_dest_rd_atomic of this side") \
	X(0x127, ATOMIC_ALIGNMENT, "atomic_misaligned", "the address of the atomic is not a multiple of 8", \
	  "align the remote address to 8 bytes") \
	X(0x128, MALFORMED, "malformed_packet", "the packet has a reserved opcode, wrong padding or wrong length", \
	  "capture the packets: the peer violates the protocol") \
	X(0x129, QKEY, "wrong_qkey", "the datagram's Q_Key is not that of the queue pair", \
	  "send with the qkey of the receiving queue pair") \
	/* 0x2xx: this side's receive queue and memory */ \
	X(0x201, RECV_TOO_SMALL, "recv_too_small", "the message is longer than the receive buffer", \
	  "post receive buffers as long as the longest message; datagrams need 40 bytes more") \
	X(0x202, NO_RECV, "no_recv", "no receive buffer was posted", \
	  "post receive buffers before the peer sends, or raise rnr_retry and min_rnr_timer") \
	X(0x203, RECV_SGES, "recv_too_many_sges", "the receive request has more SGEs than the queue allows", \
	  "create the queue with a larger max_recv_sge") \
	X(0x204, RECV_LKEY_UNKNOWN, "recv_lkey_unknown", "the L_Key of the receive buffer names no region", \
	  "keep the region registered until the receive has completed") \
	X(0x205, RECV_LKEY_PD, "recv_lkey_pd", "the receive buffer's region is in another protection domain", \
	  "register it in the protection domain of the queue pair or SRQ") \
	X(0x206, RECV_LKEY_RIGHTS, "recv_lkey_rights", "the receive buffer's region does not grant local write", \
	  "register it with IBV_ACCESS_LOCAL_WRITE") \
	X(0x207, RECV_LKEY_BOUNDS, "recv_lkey_bounds", "the receive buffer is not inside its region", \
	  "compare address and length of the receive SGE with those of the region") \
	X(0x208, MEMORY_GONE, "memory_gone", "memory under a region was unmapped, truncated or did not respond", \
	  "deregister a region before its memory is unmapped or its file truncated") \
	X(0x209, CLIENT_GONE, "client_gone", "the program ended", \
	  "look for the reason why the program ended") \
	X(0x20a, MESSAGE_LOST, "message_lost", "packets of an unreliable message were lost", \
	  "look at the drop counters of both devices") \
	/* 0x3xx: a work request of this side is wrong; nothing of it was sent, or not all */ \
	X(0x301, WR_OPCODE, "wr_opcode", "the queue pair's type does not have this operation", \
	  "use an operation that the type of the queue pair has") \
	X(0x302, WR_FLAGS, "wr_flags", "the work request has send flags that its operation does not have", \
	  "do not set IBV_SEND_INLINE for operations without data to send") \
	X(0x303, WR_SGES, "wr_too_many_sges", "the work request has more SGEs than the queue allows", \
	  "create the queue pair with a larger max_send_sge") \
	X(0x304, WR_INLINE, "wr_inline_too_long", "the work request has more inline data than the queue allows", \
	  "create the queue pair with a larger max_inline_data") \
	X(0x305, WR_LENGTH, "wr_too_long", "the message is longer than 2 GiB", \
	  "split the message") \
	X(0x306, DATAGRAM_LENGTH, "datagram_too_long", "the datagram is longer than the path MTU", \
	  "send at most active_mtu bytes in a datagram") \
	X(0x307, ATOMIC_LENGTH, "atomic_length", "the SGEs of an atomic are not 8 bytes in total", \
	  "give an atomic exactly 8 bytes") \
	X(0x308, NO_READ_CREDIT, "no_read_credit", "a READ or atomic on a queue pair with max_rd_atomic 0", \
	  "set max_rd_atomic on the way to RTS") \
	X(0x311, LKEY_UNKNOWN, "lkey_unknown", "the L_Key names no region", \
	  "keep the region registered until the work request has completed") \
	X(0x312, LKEY_PD, "lkey_pd", "the L_Key belongs to another protection domain", \
	  "register the region in the protection domain of the queue pair") \
	X(0x313, LKEY_RIGHTS, "lkey_rights", "the region does not grant local write", \
	  "register the region with IBV_ACCESS_LOCAL_WRITE") \
	X(0x314, LKEY_BOUNDS, "lkey_bounds", "the SGE is not inside its region", \
	  "compare address and length of the SGE with those of the region") \
	X(0x321, AH_UNKNOWN, "ah_unknown", "the address handle does not exist", \
	  "destroy address handles after the completion of their sends") \
	X(0x322, AH_PD, "ah_pd", "the address handle belongs to another protection domain", \
	  "create it in the protection domain of the queue pair") \
	X(0x323, REMOTE_QPN, "remote_qpn", "the remote QPN has more than 24 bits", \
	  "set wr.ud.remote_qpn to a queue pair number") \
	X(0x331, BIND_WINDOW, "bind_window_unknown", "the R_Key to bind is not the window's present one", \
	  "bind with the rkey of the last bind of the window") \
	X(0x332, BIND_WINDOW_PD, "bind_window_pd", "the window belongs to another protection domain", \
	  "allocate the window in the protection domain of the queue pair") \
	X(0x333, BIND_FLAGS, "bind_flags", "a window cannot grant these access flags", \
	  "bind with IBV_ACCESS_REMOTE_ flags and IBV_ACCESS_ZERO_BASED only") \
	X(0x334, BIND_LKEY_UNKNOWN, "bind_lkey_unknown", "the L_Key of the region to bind to is unknown", \
	  "bind to a region that is registered") \
	X(0x335, BIND_LKEY_PD, "bind_lkey_pd", "the region to bind to is in another protection domain", \
	  "register it in the protection domain of the queue pair") \
	X(0x336, BIND_LKEY_RIGHTS, "bind_lkey_rights", "the region does not allow such a window", \
	  "register it with IBV_ACCESS_MW_BIND, and with IBV_ACCESS_LOCAL_WRITE for remote writes") \
	X(0x337, BIND_LKEY_BOUNDS, "bind_lkey_bounds", "the window is not inside the region", \
	  "compare address and length of the bind with those of the region") \
	X(0x338, BIND_ALIGNMENT, "bind_misaligned", "a window for atomics at this address could not be aligned to 8", \
	  "bind at an address that is a multiple of 8") \
	X(0x339, BIND_TWICE, "bind_twice", "the type 2 window is bound already", \
	  "invalidate the window before it is bound again") \
	X(0x33a, BIND_EMPTY, "bind_empty", "a type 2 window of 0 bytes", \
	  "use an invalidation to unbind a type 2 window") \
	X(0x33b, BIND_RACE, "bind_race", "the window was changed by another queue pair at the same time", \
	  "bind and invalidate a window from one queue pair at a time") \
	/* 0x4xx: responses of the peer, or none */ \
	X(0x401, NAK_INVALID_REQUEST, "nak_invalid_request", "the peer refused the request: NAK invalid request", \
	  "look at the peer's queue pair for the reason") \
	X(0x402, NAK_REMOTE_ACCESS, "nak_remote_access", "the peer refused the request: NAK remote access error", \
	  "compare rkey, remote address and length with the peer's region; look at the peer's queue pair") \
	X(0x403, NAK_REMOTE_OPERATION, "nak_remote_operation", "the peer could not execute the request: NAK remote operational error", \
	  "look at the peer's queue pair: its receive buffer or memory is wrong") \
	X(0x404, NO_RESPONSE, "no_response", "the peer did not respond until all retries were used up", \
	  "check that the peer's queue pair exists and works, its dest_qp_num, GIDs and P_Key; urocectl doctor PEER checks the network") \
	X(0x405, SEQ_NAK_RETRIES, "seq_nak_retries", "packets were lost again and again until all retries were used up", \
	  "look for loss in the network, or raise retry_cnt") \
	X(0x406, RNR_RETRIES, "rnr_retries", "the peer had no receive buffer until all RNR retries were used up", \
	  "post receives at the peer earlier, or set rnr_retry to 7") \
	X(0x407, NO_NEIGHBOUR, "no_neighbour", "the next hop did not answer ARP or neighbour discovery", \
	  "check the addresses and routes: urocectl show neigh") \
	X(0x411, RESPONSE_OPCODE, "response_opcode", "a response does not belong to the request", \
	  "capture the packets: the peer violates the protocol") \
	X(0x412, RESPONSE_LENGTH, "response_length", "a READ response has another length than the request asks for", \
	  "set the same path_mtu on both sides") \
	X(0x413, RESPONSE_MALFORMED, "response_malformed", "a READ response is malformed", \
	  "capture the packets: the peer violates the protocol") \
	/* 0x5xx: the queue pair itself */ \
	X(0x501, MOVED, "moved_by_program", "the program moved the queue pair to the error state", \
	  "nothing failed before") \
	X(0x502, CQ_OVERRUN, "cq_overrun", "a completion queue was full", \
	  "create the completion queue as large as all work requests that complete to it") \
	X(0x503, SRQ_FAILED, "srq_failed", "its shared receive queue failed", \
	  "the memory of the SRQ was overwritten by the program") \
	X(0x504, SQ_CORRUPT, "sq_corrupt", "the indices of the send queue are impossible", \
	  "the memory of the send queue was overwritten by the program") \
	X(0x505, RQ_CORRUPT, "rq_corrupt", "the indices of the receive queue are impossible", \
	  "the memory of the receive queue was overwritten by the program") \
	X(0x506, DAEMON_LOST, "daemon_lost", "the daemon ended", \
	  "look at the daemon's log; open the device again")

#define UROCE_ERROR_ENUM(value, name, word, sentence, remedy) UROCE_ERROR_##name = value,
enum uroce_error {
	UROCE_ERROR_NONE = 0,
	UROCE_ERROR_LIST(UROCE_ERROR_ENUM)
};
#undef UROCE_ERROR_ENUM

/* Returns the word of a vendor_err, or NULL if the list does not contain it. */
static inline const char *
uroce_error_word(unsigned int vendor_err)
{
#define UROCE_ERROR_CASE(value, name, word, sentence, remedy) case value: return word;
	switch (vendor_err) {
	UROCE_ERROR_LIST(UROCE_ERROR_CASE)
	default:
		return 0;
	}
#undef UROCE_ERROR_CASE
}

/* Returns the sentence of a vendor_err, or NULL. */
static inline const char *
uroce_error_sentence(unsigned int vendor_err)
{
#define UROCE_ERROR_CASE(value, name, word, sentence, remedy) case value: return sentence;
	switch (vendor_err) {
	UROCE_ERROR_LIST(UROCE_ERROR_CASE)
	default:
		return 0;
	}
#undef UROCE_ERROR_CASE
}

/* Returns the remedy for a vendor_err, or NULL. */
static inline const char *
uroce_error_remedy(unsigned int vendor_err)
{
#define UROCE_ERROR_CASE(value, name, word, sentence, remedy) case value: return remedy;
	switch (vendor_err) {
	UROCE_ERROR_LIST(UROCE_ERROR_CASE)
	default:
		return 0;
	}
#undef UROCE_ERROR_CASE
}
/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif
