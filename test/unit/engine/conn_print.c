/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables list the fields by offset and size. Bit-fields have no offset: print_bits reads them one
 * by one. A test changes each bit of a struct qp_conn except padding, and expects another text, so
 * it fails if a new field is missing here (test/unit/engine/test_image.c).
 */
#include <stdint.h>
#include <string.h>
#include <rte_common.h>
#include "conn_print.h"

struct field {
	const char *name;
	uint16_t offset, size;
	bool bytes; /* else a number of 1, 2, 4 or 8 bytes */
};

#define FIELD(of, m, as_bytes)                                                                     \
	{                                                                                          \
#m, offsetof(struct of, m), sizeof(((struct of *)0)->m), as_bytes                  \
	}
#define N(m) FIELD(qp_conn, m, false)
#define B(m) FIELD(qp_conn, m, true)

static const struct field before_rcv[] = {
	N(version),
	N(attr.qp_state),
	N(attr.cur_qp_state),
	N(attr.path_mtu),
	N(attr.path_mig_state),
	N(attr.qkey),
	N(attr.rq_psn),
	N(attr.sq_psn),
	N(attr.dest_qp_num),
	N(attr.qp_access_flags),
	N(attr.cap.max_send_wr),
	N(attr.cap.max_recv_wr),
	N(attr.cap.max_send_sge),
	N(attr.cap.max_recv_sge),
	N(attr.cap.max_inline),
	B(attr.ah.dgid),
	N(attr.ah.flow_label),
	N(attr.ah.sgid_index),
	N(attr.ah.hop_limit),
	N(attr.ah.traffic_class),
	N(attr.ah.sl),
	N(attr.ah.is_global),
	N(attr.ah.port_num),
	N(attr.ah.static_rate),
	N(attr.ah.src_path_bits),
	N(attr.ah.dlid),
	N(attr.ah.spare),
	B(attr.alt_ah.dgid),
	N(attr.alt_ah.flow_label),
	N(attr.alt_ah.sgid_index),
	N(attr.alt_ah.hop_limit),
	N(attr.alt_ah.traffic_class),
	N(attr.alt_ah.sl),
	N(attr.alt_ah.is_global),
	N(attr.alt_ah.port_num),
	N(attr.alt_ah.static_rate),
	N(attr.alt_ah.src_path_bits),
	N(attr.alt_ah.dlid),
	N(attr.alt_ah.spare),
	N(attr.pkey_index),
	N(attr.alt_pkey_index),
	N(attr.en_sqd_async_notify),
	N(attr.sq_draining),
	N(attr.max_rd_atomic),
	N(attr.max_dest_rd_atomic),
	N(attr.min_rnr_timer),
	N(attr.port_num),
	N(attr.timeout),
	N(attr.retry_cnt),
	N(attr.rnr_retry),
	N(attr.alt_port_num),
	N(attr.alt_timeout),
	N(attr.spare),
	N(attr.rate_limit),
	N(cap.max_send_wr),
	N(cap.max_recv_wr),
	N(cap.max_send_sge),
	N(cap.max_recv_sge),
	N(cap.max_inline),
	B(alt.wire.smac),
	B(alt.wire.dmac),
	B(alt.wire.sgid),
	B(alt.wire.dgid),
	N(alt.wire.udp_sport),
	N(alt.wire.vlan_tci),
	N(alt.wire.tclass),
	N(alt.wire.hop_limit),
	N(alt.wire.flow_label),
	N(alt.loopback),
	N(alt.path_ok),
	B(alt.hop),
	N(loss.timeout_ns),
	N(loss.silent_ns),
	N(loss.rtt_from_ns),
	N(loss.gap_at_ns),
	N(loss.rtt_last_ns),
	N(loss.rtt_psn),
	N(loss.srtt_ns),
	N(loss.rttvar_ns),
	N(loss.repair_ns),
	N(loss.gap_psn),
	N(loss.nak_psn),
	N(loss.cap_psn),
	N(loss.alone_psn),
	N(loss.part_psn),
	N(loss.excused),
	N(loss.probe_read),
	N(loss.alone),
	N(loss.rtt_sack),
	N(loss.eager),
	N(deadline_ns[QP_DEADLINE_ACK]),
	N(deadline_ns[QP_DEADLINE_RNR]),
	N(deadline_ns[QP_DEADLINE_PATH]),
	N(deadline_ns[QP_DEADLINE_PACE]),
	N(cc_flow.next_send_ns),
	N(cc_flow.una_psn),
	N(cc_flow.ce),
	N(cc_flow.ackreq_ns),
	N(cc_flow.kept_pkts),
	N(cc_flow.limits),
	B(cc_flow.own),
	B(cc_flow.param),
	N(sr.state),
	N(sr.threshold),
	N(sr.ignored),
	N(sr.expect_dup),
	N(sr.dup_reported),
	N(sr.undelayed),
	N(sr.dups),
	N(sr.dups_seen),
	N(sr.unreported),
	N(sr.dup_psn),
	N(sr.resent),
	N(sr.spurious),
	N(sr.acked_psn),
	N(sr.fresh),
	N(sr.lossy),
	N(sr.dup_again),
	N(sr.known),
	N(ecn.marks),
	N(ecn.cnps_sent),
	N(ecn.cnps_got),
	N(ecn.again_bytes),
	N(ecn.cnp_next_ns),
	B(hop),
	N(qpn),
	N(type),
	N(state),
	N(dev_mtu),
	N(mig),
	N(pkey),
	N(mtu),
	N(loopback),
	N(path_ok),
	N(sig_all),
	N(rings_bad),
	N(access),
	N(dest_qpn),
	N(pkey_index),
	N(retry_cnt),
	N(rnr_retry),
	N(sent_ops),
	N(got_ops),
	B(sgid),
	B(dgid),
	B(tmpl.bytes),
	N(tmpl.shape),
	N(tmpl.extended),
	N(tmpl.icrc),
	N(tmpl.icrc_known),
	N(tmpl.len),
	N(tmpl.ip_off),
	N(tmpl.bth_off),
	N(tmpl.is_v6),
	N(tmpl.ect),
	N(tmpl.tclass),
	N(tmpl.ip_id),
	N(tmpl.ip_sum),
	N(tx_bytes),
	N(rx_bytes),
	N(snd.head),
	N(snd.tail),
	N(snd.cur),
	N(snd.cur_pkt),
	N(snd.una_psn),
	N(snd.next_psn),
	N(snd.high_psn),
	N(snd.alloc_psn),
	N(snd.probe_ns),
	N(snd.wait_ns),
	N(snd.rd_psns),
	N(snd.rd_out),
	N(snd.since_ackreq),
	N(snd.watch),
	N(snd.deadlines),
	N(snd.cc.window_pkts),
	N(snd.cc.most_pkts),
	N(snd.ack_owed),
	N(snd.retry_left),
	N(snd.rnr_left),
	N(wrong_keys.since_ns),
	N(wrong_keys.until_ns),
	N(wrong_keys.count),
	N(wrong_keys.total),
	N(flush_to),
	N(rq_credits),
	N(rq_out),
	N(alt_loaded),
	N(mig_refused),
	N(last_wqe_due),
	B(spare2),
	N(why),
};

static const struct field of_rcv[] = {
	N(rcv.late.due_ns),
	N(rcv.late.psn),
	N(rcv.late.naks),
	N(rcv.late.ahead),
	N(rcv.late.tried),
	B(rcv.late.spare),
	N(rcv.rd_late.due_ns),
	N(rcv.rd_late.psn),
	N(rcv.rd_late.naks),
	N(rcv.rd_late.ahead),
	N(rcv.rd_late.tried),
	B(rcv.rd_late.spare),
	N(rcv.write_va),
	N(rcv.write_rkey),
	N(rcv.write_left),
	N(rcv.cur.wqe.wr_id),
	N(rcv.cur.wqe.num_sge),
	N(rcv.cur.wqe.spare),
	N(rcv.cur.taken),
	B(rcv.cur.spare),
	N(rcv.cur.index),
	N(rcv.cur.length),
	N(rcv.cur.spare2),
	N(rcv.head),
	N(rcv.nak_psn),
	N(rcv.early_psn),
	N(rcv.nak_syndrome),
	N(rcv.hist_next),
	B(rcv.spare),
	N(rcv.msg_off),
	N(rcv.epsn),
	N(rcv.msn),
	N(rcv.ack_psn),
	N(rcv.gap_psn),
	N(rcv.msg),
	N(rcv.rdq_n),
};

/* Fields of a READ or atomic; orig overlays len and pos. */
static const struct field of_rd_op[] = {
	FIELD(qp_rd_op, va, false),   FIELD(qp_rd_op, len, false),   FIELD(qp_rd_op, pos, false),
	FIELD(qp_rd_op, rkey, false), FIELD(qp_rd_op, npkts, false), FIELD(qp_rd_op, psn, false),
};

struct text {
	char *buf;
	size_t room, len; /* len: of the whole text, even if it does not fit */
};

static void
put_char(struct text *t, char c)
{
	if (t->len + 1 < t->room)
		t->buf[t->len] = c;
	t->len++;
}

static void
put_string(struct text *t, const char *s)
{
	while (*s != '\0')
		put_char(t, *s++);
}

static void
put_number(struct text *t, uint64_t v)
{
	char digits[20];
	uint32_t n = 0;

	do {
		digits[n++] = (char)('0' + v % 10);
		v /= 10;
	} while (v != 0);
	while (n != 0)
		put_char(t, digits[--n]);
}

static void
put_bytes(struct text *t, const uint8_t *p, uint32_t n)
{
	static const char hex[] = "0123456789abcdef";

	for (; n != 0; n--, p++) {
		put_char(t, hex[*p >> 4]);
		put_char(t, hex[*p & 15]);
	}
}

/* Prints one line. */
static void
print_number(struct text *t, const char *prefix, const char *name, uint64_t v)
{
	put_string(t, prefix);
	put_string(t, name);
	put_char(t, ' ');
	put_number(t, v);
	put_char(t, '\n');
}

/* Prints the fields of the object at base, each behind prefix. x86-64 is little-endian. */
static void
print_fields(struct text *t, const char *prefix, const void *base, const struct field *f, size_t n)
{
	for (; n != 0; n--, f++) {
		const uint8_t *at = (const uint8_t *)base + f->offset;
		uint64_t v = 0;

		if (!f->bytes) {
			memcpy(&v, at, f->size);
			print_number(t, prefix, f->name, v);
			continue;
		}
		put_string(t, prefix);
		put_string(t, f->name);
		put_char(t, ' ');
		put_bytes(t, at, f->size);
		put_char(t, '\n');
	}
}

static void
print_bits(struct text *t, const struct qp_conn *conn)
{
	print_number(t, "", "snd.resend", conn->snd.resend);
	print_number(t, "", "snd.flushing", conn->snd.flushing);
	print_number(t, "", "snd.limited", conn->snd.limited);
	print_number(t, "", "snd.cc_active", conn->snd.cc_active);
	print_number(t, "", "snd.rd_lossy", conn->snd.rd_lossy);
	print_number(t, "", "snd.draining", conn->snd.draining);
	print_number(t, "", "snd.resending", conn->snd.resending);
	print_number(t, "", "snd.read_gap", conn->snd.read_gap);
	print_number(t, "", "rcv.naks_again", conn->rcv.naks_again);
	print_number(t, "", "rcv.sr_acks", conn->rcv.sr_acks);
	print_number(t, "", "rcv.nak_sent", conn->rcv.nak_sent);
	print_number(t, "", "rcv.comm_est", conn->rcv.comm_est);
	print_number(t, "", "rcv.ack_due", conn->rcv.ack_due);
	print_number(t, "", "rcv.nak_due", conn->rcv.nak_due);
	print_number(t, "", "rcv.key_pause", conn->rcv.key_pause);
	print_number(t, "", "rcv.fatal", conn->rcv.fatal);
	print_number(t, "", "rcv.holding", conn->rcv.holding);
	print_number(t, "", "rcv.sack_due", conn->rcv.sack_due);
}

static void
print_rd_ops(struct text *t, const char *array, const struct qp_rd_op *op, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++, op++) {
		char prefix[32];
		struct text p = {prefix, sizeof(prefix), 0};

		put_string(&p, array);
		put_char(&p, '[');
		put_number(&p, i);
		put_string(&p, "].");
		prefix[p.len] = '\0';
		print_fields(t, prefix, op, of_rd_op, RTE_DIM(of_rd_op));
		print_number(t, prefix, "msn", op->msn);
		print_number(t, prefix, "atomic", op->atomic);
		print_number(t, prefix, "replay", op->replay);
		print_number(t, prefix, "spare", op->spare);
	}
}

size_t
qp_conn_print(const struct qp_conn *conn, char *buf, size_t room)
{
	struct text t = {buf, room, 0};

	print_fields(&t, "", conn, before_rcv, RTE_DIM(before_rcv));
	print_fields(&t, "", conn, of_rcv, RTE_DIM(of_rcv));
	print_bits(&t, conn);
	print_rd_ops(&t, "rcv.rdq", conn->rcv.rdq, RTE_DIM(conn->rcv.rdq));
	print_rd_ops(&t, "rcv.hist", conn->rcv.hist, RTE_DIM(conn->rcv.hist));
	if (room != 0)
		buf[RTE_MIN(t.len, room - 1)] = '\0';
	return t.len;
}
