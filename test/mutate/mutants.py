# SPDX-License-Identifier: BSD-3-Clause
"""
Rules broken on purpose, one per row: the requirement, the file, a text that occurs once in it, the replacement, and
the test that must fail. Adapt a row's text when the code changes, but keep the rule.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Mutant:
    """The mutation, and the test that must notice it."""
    rule: str
    file: str
    old: str
    new: str
    test: str


PARSE = 'lib/wire/parse.c'
STATE, FLUSH, RECV = (f'lib/qp/{f}.c' for f in ('state', 'flush', 'recv'))
ENGINE_RX = 'lib/engine/rx.c'
SEND, ACK, READ_RESPONSE, RETRY, GO_BACK_N = (
    f'lib/requester/{f}.c' for f in ('send', 'ack', 'read_response', 'retry', 'timers'))
UNRELIABLE = 'lib/responder/receive.c'
RECEIVE, IN_ORDER, RESPOND, READ, ATOMIC = (
    f'lib/responder/{f}.c' for f in ('receive', 'in_order', 'respond', 'read', 'atomic'))

MUTANTS = [Mutant(*row) for row in (
    # section 2: the state machine
    ('QP-01', STATE, '	[QP_SQE][QP_RTS] = LEGAL(.optional = QP_CUR_STATE | QP_ACCESS_FLAGS),\n', '',
     'every_pair_of_states_is_legal_as_specified'),
    ('QP-02', STATE, '[QP_RTR][QP_RTS] = LEGAL(.required = QP_SQ_PSN, .optional = UD_RTS_OPT)',
     '[QP_RTR][QP_RTS] = LEGAL(.optional = QP_SQ_PSN | UD_RTS_OPT)',
     'every_attribute_bit_of_every_pair_is_checked'),
    ('QP-13', RECEIVE, '	qp->conn.rcv.comm_est = true;\n', '',
     'comm_est_is_raised_once_in_rtr'),
    ('QP-17', FLUSH, 'qp->conn.state = QP_SQE;', 'qp->conn.state = QP_ERR;',
     'send_error_stops_the_send_queue_only'),
    ('QP-19', ENGINE_RX, 'f->icrc == RX_VIEW ? rx_view_holds(e, f->m)', 'f->icrc == RX_VIEW ? true',
     'zero_copy_frames_of_a_flushed_qp_are_not_received'),
    ('QP-19', 'lib/engine/rx.c', '		qp_view_lose(m);\n', '', 'zero_copy_frames_of_a_flushed_qp_are_not_kept'),
    # section 3: the wire
    ('WIRE-03', PARSE, 'heads_equal(e->head, ip, WIRE_HEAD4)', 'heads_equal(e->head, ip, WIRE_HEAD4 - 4)',
     'header_cache_misses_on_each_changed_bit'),
    ('WIRE-03', PARSE, 'heads_equal(prev->ip, frame + l2, WIRE_HEAD4)', 'heads_equal(prev->ip, frame + l2, WIRE_HEAD4 - 4)',
     'header_cache_misses_on_each_changed_bit'),
    ('WIRE-03', PARSE, 'ip[0] >> 4 == (is_v6 ? 6 : 4)', 'true', 'header_cache_misses_on_another_ethertype'),
    ('WIRE-04', PARSE, 'n - 8 - WIRE_UDP_LEN + pkt->udp_len', '0', 'header_cache_checks_each_length'),
    ('WIRE-04', PARSE, '	if (v == WIRE_OK)\n		remember(', '	if (v == WIRE_OK || wire_bad_form(v))\n		remember(',
     'header_cache_agrees_with_the_parser_on_each_opcode'),
    # section 4: the requester
    ('RSP-02', SEND, '	if (snd->ack_owed)\n		send_owed_ackreq(env, qp);\n', '',
     'consecutive_messages_request_one_ack'),
    ('REQ-02', SEND, '(e->wqe.flags & UROCE_WQE_FENCE) && snd->rd_out != 0', 'false',
     'fence_waits_for_reads'),
    ('REQ-02', SEND, 'snd->rd_out >= qp->conn.attr.max_rd_atomic',
     'snd->rd_out > qp->conn.attr.max_rd_atomic', 'at_most_max_rd_atomic_outstanding'),
    ('REQ-01', ACK, 'while (e->fast && qp_is_silent(qp, e) && !psn_lt(upto, end))',
     'while (qp_is_silent(qp, e) && !psn_lt(upto, end))',
     'unsignaled_wqes_complete_only_when_acknowledged'),
    ('REQ-04', ACK, '	snd->retry_left = qp->conn.retry_cnt;\n	snd->rnr_left',
     '	snd->rnr_left', 'progress_reloads_the_retry_counters'),
    ('RSP-07', SEND, 'qp->conn.rq_out > qp->conn.rq_credits', 'qp->conn.rq_out > qp->conn.rq_credits + 1',
     'one_message_beyond_the_credits_is_sent'),
    ('RSP-07', ACK, '	if (req_oldest_started(&qp->conn.snd))\n', '',
     'ack_of_packets_before_a_rewind_releases_no_extra_credit'),
    ('REQ-04', GO_BACK_N, '	qp_loss_back_off(qp);\n', '', 'probes_back_off_and_use_no_retry'),
    ('REQ-04', GO_BACK_N, 'env->now_ns >= end_ns', 'false',
     'probes_do_not_move_the_timeout'),
    ('REQ-04', GO_BACK_N, '		rewind_cursor(env, qp);\n	}\n	qp_loss_back_off(qp);', '		req_rewind(env, qp);\n	}\n	qp_loss_back_off(qp);',
     'probes_do_not_move_the_timeout'),
    ('REQ-04', GO_BACK_N, '	else if (!qp->conn.path_ok)\n', '	else if (false)\n', 'unresolved_path_uses_no_retry'),
    ('REQ-04', GO_BACK_N, 'l->excused == QP_TIMEOUTS_MOST - 1 ||', 'l->excused == QP_TIMEOUTS_MOST ||',
     'timeout_is_excused_while_a_thread_is_stalled'),
    ('REQ-04', GO_BACK_N, '		l->excused = 0;\n', '', 'progress_resets_excused_timeouts'),
    ('REQ-04', 'lib/qp/loss.c', '	if (probe_is_wait(qp))\n', '	if (false)\n',
     'longer_round_trip_does_not_shorten_the_timeout'),
    ('REQ-04', 'lib/qp/loss.c', 'l->eager || qp->conn.retry_cnt != 0 ||', 'l->eager || true ||',
     'excused_timeout_of_a_patient_qp_resends_nothing'),
    ('REQ-04', 'lib/qp/loss.c', 'ns = l->eager || sr ?', 'ns = l->eager || sr || true ?', 'slow_peer_sees_one_frame'),
    ('NAK-04', IN_ORDER, '!qp_is_plain(env, qp, QP_PLAIN_RESPONDER)', 'true', 'letter_sends_one_nak_for_a_gap'),
    ('NAK-04', IN_ORDER, 'early_psn == rcv->gap_psn', 'false', 'gap_in_a_second_pass_gets_another_nak'),
    ('REQ-06', RETRY, 'env->now_ns + wire_rnr_timer_ns(code)',
     'env->now_ns + wire_rnr_timer_ns(code) / 2',
     'rnr_wait_at_least_the_named_time'),
    ('REQ-07', ACK,
     '	if (psn_lt(pkt->psn, snd->una_psn) || !psn_lt(pkt->psn, snd->high_psn)) {',
     '	if (psn_lt(pkt->psn, snd->una_psn)) {',
     'stale_and_unexpected_responses_are_dropped'),
    ('REQ-08', RETRY, '	req_ask_again(env, qp);\n	snd->read_gap = true;', '	snd->read_gap = true;',
     'read_resumes_at_the_missing_response'),
    ('REQ-09', READ_RESPONSE, 'return ends && pkt->payload_len == e->length - k * qp->conn.mtu;',
     'return pkt->payload_len == e->length - k * qp->conn.mtu;',
     'response_of_wrong_kind_or_length_ends_the_wqe'),
    ('REQ-09', READ_RESPONSE, '	req_fault(env, qp, UROCE_ERROR_RESPONSE_MALFORMED, pkt->psn);\n	qp_error(env, qp, QP_WC_BAD_RESP_ERR);', '', 'malformed_response_ends_the_wqe'),
    # section 5: the responder
    ('RSP-01', IN_ORDER, '		rsp_duplicate(env, qp, pkt);\n', '		rx_expected(env, qp, pkt);\n',
     'duplicates_during_a_gap_are_answered'),
    ('RSP-01', ATOMIC, 'op.psn != pkt->psn || op.va', 'op.va', 'duplicate_atomic_is_not_executed_again'),
    ('RSP-03', READ, 'busy < qp->conn.attr.max_dest_rd_atomic', 'busy <= qp->conn.attr.max_dest_rd_atomic',
     'more_reads_and_atomics_than_the_depth_are_refused'),
    ('RSP-05', RECEIVE, 'return flags & WIRE_F_IMM ? RX_TAKE_WQE : RX_EXECUTE;', 'return RX_EXECUTE;',
     'write_with_immediate_gets_rnr_nak_at_its_last_packet'),
    ('RSP-06', UNRELIABLE, '	rcv->epsn = pkt->psn;\n	if (first || rcv->msg != QP_MSG_NONE)',
     '	rcv->epsn = pkt->psn;\n	if (true)', 'lost_packet_drops_the_message'),
    # section 6: NAKs
    ('NAK-03', READ, '	qp->conn.rcv.nak_psn = psn;\n', '', 'read_whose_memory_is_deregistered_gets_nak'),
    ('NAK-04', IN_ORDER, '	if (rcv->nak_sent && !gap_reopened(env, qp, early_psn)) {', '	if (false) {', 'each_gap_gets_one_sequence_nak'),
    ('NAK-05', IN_ORDER, '	} else if (ahead > 0 && !rcv->nak_sent) {', '	} else if (!rcv->nak_sent) {',
     'malformed_duplicate_is_dropped'),
    ('NAK-06', RECEIVE, 'mr_lookup_remote(env->mrs, rkey, qp->bind.pd, qp->conn.qpn, va, left,',
     'mr_lookup_remote(env->mrs, rkey, qp->bind.pd, qp->conn.qpn, va, pkt->payload_len,',
     'write_imm_refused_at_its_first_packet'),
    ('NAK-07', 'lib/engine/rx.c', '		if (why == DROP_NUM)\n			rx_malformed(e, qp, pkt);\n', '',
     'reserved_opcode_is_refused'),
    ('NAK-07', PARSE, 'return WIRE_BTH_TVER(bth->se_m_pad_ver) == 0 ? v : WIRE_BAD_TVER;',
     'return v != WIRE_OK || WIRE_BTH_TVER(bth->se_m_pad_ver) == 0 ? v : WIRE_BAD_TVER;',
     'packet_validation_precedes_the_request_checks'),
    ('NAK-07', RECEIVE, '((flags & WIRE_F_LAST) && pkt->payload_len != left)', 'false',
     'payloads_that_miss_the_reth_length_are_refused'),
    ('NAK-07', RECEIVE, 'if (unlikely(qp->conn.rcv.msg != msg))',
     'if (!(flags & WIRE_F_FIRST) && qp->conn.rcv.msg != msg)', 'wrong_sequence_of_opcodes_is_refused'),
    ('NAK-07', ATOMIC, '(pkt->va & 7) != 0 || ', '', 'misaligned_atomic_raises_the_access_event'),
    ('NAK-09', RESPOND, 'if (qp->conn.rcv.cur.taken && status != QP_WC_SUCCESS) {', 'if (false) {',
     'send_longer_than_its_receive_is_refused'),
    ('NAK-10', RESPOND, 'WIRE_SYN_RNR | qp->conn.attr.min_rnr_timer', 'WIRE_SYN_RNR | 1',
     'rnr_nak_carries_every_timer_code'),
    ('NAK-11', 'lib/wire/timer.c', '48,    64,   96,', '48,    64,   95,', 'rnr_timer_values_are_as_specified'),
    ('NAK-12', RETRY, '[WIRE_NAK_REM_ACCESS] = QP_WC_REM_ACCESS_ERR', '[WIRE_NAK_REM_ACCESS] = QP_WC_REM_OP_ERR',
     'nak_remote_access_ends_the_wqe'),
    # section 7: completion errors
    ('CQE-02', RECEIVE, 'QP_WC_LOC_LEN_ERR, QP_EVENT_QP_REQ_ERR', 'QP_WC_REM_INV_REQ_ERR, QP_EVENT_QP_REQ_ERR',
     'send_longer_than_its_receive_is_refused'),
    ('CQE-05', FLUSH, 'status != QP_WC_SUCCESS ? status : QP_WC_WR_FLUSH_ERR);',
     'status);', 'wqes_after_the_failed_one_are_flushed_in_order'),
    ('CQE-07', RECEIVE, 'flags & WIRE_F_RWQE ? QP_WC_LOC_ACCESS_ERR : QP_WC_SUCCESS', 'QP_WC_SUCCESS',
     'write_imm_with_a_bad_rkey_completes_the_receive_in_error'),
    ('CQE-14', UNRELIABLE, 'QP_WC_REM_ABORT_ERR, &cqe', 'QP_WC_WR_FLUSH_ERR, &cqe',
     'bad_packet_aborts_a_message_and_returns_its_wqe'),
    # section 8: events
    ('EVT-07', FLUSH, 'qp->conn.last_wqe_due = qp->bind.srq != NULL;', 'qp->conn.last_wqe_due = false;',
     'last_wqe_reached_event_is_raised'),
    ('EVT-10', RECV, 'left < srq->limit', 'left <= srq->limit', 'limit_event_comes_once_below_the_limit'),
    # section 10: memory
    ('MEM-02', 'lib/mem/mr.h', 'mr->kind != MR_REGION || mr->key != key || mr->pd != pd',
     'mr->kind != MR_REGION || mr->key != key', 'access_needs_rights_and_the_protection_domain'),
    ('MEM-02', 'lib/mem/mr.h', 'mr->pd != pd || (mr->access & access) != access)\n		return NULL;\n	return mr_covers',
     'mr->pd != pd)\n		return NULL;\n	return mr_covers', 'every_forbidden_access_is_refused'),
    ('RSP-08', 'lib/mem/store.h', 'dst = memmove(dst, src, body);', 'dst = memmove(dst, src, *len);',
     'writes_store_their_tail_last'),
    ('MEM-04', 'lib/mem/mw.c', 'mw->qpn != qpn || !mw_claim(mw, key)', '!mw_claim(mw, key)',
     'type_2_window_belongs_to_one_qp'),
    # section 11: completion queues, shared receive queues
    ('CQ-01', 'lib/cq/cq.c', 'return __atomic_exchange_n(&hdr->arm, UROCE_CQ_UNARMED, __ATOMIC_ACQ_REL) !=\n'
     '	       UROCE_CQ_UNARMED;', 'return true;', 'arm_raises_one_event_only'),
    ('SRQ-01', 'lib/qp/qp.c', '__atomic_store_n(&to->hdr->cons, srq->head, __ATOMIC_RELEASE);', '',
     'resize_works_while_wqes_are_outstanding'),
    ('SRQ-01', 'lib/qp/qp.c', 'from->slots + (size_t)(head & from->mask)', 'from->slots + (size_t)(head & to->mask)',
     'resize_keeps_posted_wqes'),
)]
