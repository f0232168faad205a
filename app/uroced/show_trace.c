/* SPDX-License-Identifier: BSD-3-Clause */
/* Last faults and flight recorders of QPs as JSON: fields for programs and a sentence for users. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "control/fault_log.h"
#include "control/qp_history.h"
#include "show.h"
#include "wire/hdr.h"
#include "wire/opcode.h"
#include "wire/psn.h"
#include "wire/timer.h"

/* Offset from the daemon's clock to nanoseconds since 1970; read once for each reply. */
static int64_t epoch_diff_ns;

static void
epoch_set(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	epoch_diff_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)timer_now_ns();
}

static int64_t
epoch_ns(uint64_t at_ns)
{
	return (int64_t)at_ns + epoch_diff_ns;
}

static json_t *
word_or_null(uint32_t why)
{
	const char *word = uroce_error_word(why);

	return word != NULL ? json_string(word) : json_null();
}

static void
put_fault(json_t *o, const struct qp_fault *f)
{
	const char *sentence = uroce_error_sentence(f->reason);

	show_set(o, "last_error", word_or_null(f->reason));
	if (sentence == NULL)
		return;
	show_set_int(o, "last_error_code", f->reason);
	show_set(o, "last_error_text", json_string(sentence));
	show_set(o, "last_error_remedy", json_string(uroce_error_remedy(f->reason)));
	show_set(o, "last_error_effect", json_string(f->fatal ? "failed" : "refused"));
	show_set(o, "last_error_side", json_string(fault_side(f)));
	show_set(o, "last_error_operation", json_string(fault_opcode(f)));
	show_set_int(o, "last_error_psn", f->psn);
	show_set(o, "last_error_key", show_hex(f->key));
	show_set(o, "last_error_address", show_hex(f->addr));
	show_set_int(o, "last_error_length", f->length);
	show_set(o, "last_error_peer", show_gid_text(f->peer));
	show_set_int(o, "last_error_peer_qpn", f->peer_qpn);
	show_set_int(o, "last_error_time_ns", epoch_ns(f->at_ns));
	show_set_int(o, "last_error_ago_ms", (int64_t)(timer_now_ns() - f->at_ns) / 1000000);
}

void
show_fault(json_t *o, const struct qp_recorder *r, uint32_t why)
{
	static struct qp_recorder copy; /* large, and there is one control thread */

	epoch_set();
	qp_recorder_copy(&copy, r);
	show_set(o, "error", word_or_null(why));
	put_fault(o, &copy.fault);
}

/* --- records as sentences */

struct text {
	char buf[400];
	size_t len;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, sizeof(t->buf) - t->len, fmt, ap);
	va_end(ap);
	t->len = RTE_MIN(t->len + (size_t)n, sizeof(t->buf) - 1);
}

/* "PSN 5" or "PSN 5 .. 9". */
static void
add_psns(struct text *t, const struct qp_record *r)
{
	add(t, "PSN %u", r->psn);
	if (r->n > 1)
		add(t, " .. %u", psn_add(r->psn, r->n - 1));
}

static void
add_sent(struct text *t, const struct qp_record *r, const char *verb)
{
	uint32_t ops = r->arg | (uint32_t)r->arg2 << 8;
	const char *between = ": ";

	add(t, "%s %u PSN%s, ", verb, r->n, r->n == 1 ? "" : "s");
	add_psns(t, r);
	for (uint32_t op = 0; op < 16; op++) {
		if (!(ops & 1u << op))
			continue;
		add(t, "%s%s", between, fault_wr_name(op));
		between = ", ";
	}
}

static void
add_got(struct text *t, const struct qp_record *r)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} op[] = {{WIRE_F_SEND, "SEND"},
		  {WIRE_F_WRITE, "RDMA WRITE"},
		  {WIRE_F_READ, "RDMA READ"},
		  {WIRE_F_ATOMIC, "atomic"}};
	uint32_t ops = r->arg | (uint32_t)r->arg2 << 8;
	const char *between = ": ";

	add(t, "executed requests of %u PSN%s, ", r->n, r->n == 1 ? "" : "s");
	add_psns(t, r);
	for (uint32_t i = 0; i < RTE_DIM(op); i++) {
		if (!(ops & op[i].flag))
			continue;
		add(t, "%s%s", between, op[i].name);
		between = ", ";
	}
}

static void
add_nak(struct text *t, const struct qp_record *r, const char *verb)
{
	static const char *const name[] = {
		[WIRE_NAK_PSN_SEQ] = "NAK PSN sequence error",
		[WIRE_NAK_INV_REQ] = "NAK invalid request",
		[WIRE_NAK_REM_ACCESS] = "NAK remote access error",
		[WIRE_NAK_REM_OP] = "NAK remote operational error",
	};
	uint32_t value = r->arg & WIRE_SYN_VALUE;
	bool rnr = (r->arg & WIRE_SYN_KIND) == WIRE_SYN_RNR;

	if (rnr)
		add(t, "%s RNR NAK of PSN %u: wait %.2f ms", verb, r->psn,
		    (double)wire_rnr_timer_ns(value) / 1e6);
	else
		add(t, "%s %s of PSN %u", verb, value < RTE_DIM(name) ? name[value] : "NAK",
		    r->psn);
	if (r->kind == QP_RECORD_NAK_GOT && (rnr || value == WIRE_NAK_PSN_SEQ))
		add(t, ", %u retries left", r->n);
}

static void
add_state(struct text *t, const struct qp_record *r)
{
	const char *why = uroce_error_word(r->psn);

	add(t, "state %s > %s", r->n < QP_NSTATES ? qp_state_name[r->n] : "?",
	    r->arg < QP_NSTATES ? qp_state_name[r->arg] : "?");
	if (why != NULL)
		add(t, ": %s", why);
}

static void
add_fault(struct text *t, const struct qp_record *r, const char *verb)
{
	const char *sentence = uroce_error_sentence(r->n);

	add(t, "%s as %s at PSN %u: %s (%s)", verb, fault_side(&(struct qp_fault){.side = r->arg}),
	    r->psn, sentence != NULL ? sentence : "?",
	    sentence != NULL ? uroce_error_word(r->n) : "?");
}

/* Kinds with a fixed sentence, in which one %u is the PSN. */
static const char *const plain[QP_RECORD_KINDS] = {
	[QP_RECORD_ANSWERED] = "acknowledged up to PSN %u",
	[QP_RECORD_READ_GAP] = "READ responses before PSN %u are missing: requested again",
	[QP_RECORD_SR_OFF] = "the peer ignores selective acknowledgements: none from PSN %u on",
	[QP_RECORD_EXCUSED] = "ACK timeout at PSN %u, costs no retry: a worker did not run",
	[QP_RECORD_PATH] = "migrated to the alternate path",
	[QP_RECORD_PATH_BAD] = "could not migrate: the alternate path is unusable",
	[QP_RECORD_NEIGHBOUR] = "the next hop's MAC is known",
	[QP_RECORD_NO_MAC] = "gave up waiting for the next hop's MAC",
	[QP_RECORD_DRAINED] = "send queue drained",
};

static void
record_words(struct text *t, const struct qp_record *r)
{
	switch (r->kind) {
	case QP_RECORD_STATE:
		add_state(t, r);
		break;
	case QP_RECORD_SENT:
		add_sent(t, r, "sent");
		break;
	case QP_RECORD_SENT_AGAIN:
		add_sent(t, r, "sent again");
		break;
	case QP_RECORD_GOT:
		add_got(t, r);
		break;
	case QP_RECORD_ACKED:
		add(t, "peer has acknowledged %u more, up to PSN %u", r->n, r->psn);
		break;
	case QP_RECORD_NAK_SENT:
		add_nak(t, r, "sent");
		break;
	case QP_RECORD_NAK_GOT:
		add_nak(t, r, "received");
		break;
	case QP_RECORD_DUPLICATE:
		add(t, "%u duplicate request%s, the first of PSN %u", r->n, r->n == 1 ? "" : "s",
		    r->psn);
		break;
	case QP_RECORD_EARLY:
		add(t, "%u request%s ahead of the expected PSN, the first of PSN %u", r->n,
		    r->n == 1 ? "" : "s", r->psn);
		break;
	case QP_RECORD_AGAIN:
		add(t, "%u packet%s retransmitted selectively, the first of PSN %u", r->n,
		    r->n == 1 ? "" : "s", r->psn);
		break;
	case QP_RECORD_PROBE:
		add(t, "no response for a while: probes with PSN %u%s", r->psn,
		    r->n == 1 ? "" : ", repeatedly");
		break;
	case QP_RECORD_TIMEOUT:
		add(t, "ACK timeout at PSN %u, %u retries left, window %u", r->psn, r->arg, r->n);
		break;
	case QP_RECORD_LATE:
		add(t, "memory for PSN %u is late, %u time%s", r->psn, r->n, r->n == 1 ? "" : "s");
		break;
	case QP_RECORD_MODIFIED:
		add(t, "attributes modified, mask 0x%x", r->n);
		break;
	case QP_RECORD_REFUSED:
		add_fault(t, r, "refused");
		break;
	case QP_RECORD_FAILED:
		add_fault(t, r, "failed");
		break;
	default:
		if (r->kind >= QP_RECORD_KINDS || plain[r->kind] == NULL)
			break;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		add(t, plain[r->kind], r->psn);
#pragma GCC diagnostic pop
		break;
	}
}

static const char *const kind_name[QP_RECORD_KINDS] = {
	[QP_RECORD_NONE] = "none",
	[QP_RECORD_STATE] = "state",
	[QP_RECORD_SENT] = "sent",
	[QP_RECORD_SENT_AGAIN] = "sent_again",
	[QP_RECORD_ACKED] = "acked",
	[QP_RECORD_GOT] = "executed",
	[QP_RECORD_ANSWERED] = "ack_sent",
	[QP_RECORD_NAK_SENT] = "nak_sent",
	[QP_RECORD_NAK_GOT] = "nak_received",
	[QP_RECORD_DUPLICATE] = "duplicate",
	[QP_RECORD_EARLY] = "early",
	[QP_RECORD_AGAIN] = "sent_again_alone",
	[QP_RECORD_SR_OFF] = "selective_repeat_off",
	[QP_RECORD_READ_GAP] = "read_gap",
	[QP_RECORD_PROBE] = "probe",
	[QP_RECORD_TIMEOUT] = "timeout",
	[QP_RECORD_EXCUSED] = "excused_timeout",
	[QP_RECORD_LATE] = "memory_late",
	[QP_RECORD_PATH] = "migrated",
	[QP_RECORD_PATH_BAD] = "migration_failed",
	[QP_RECORD_NEIGHBOUR] = "neighbour",
	[QP_RECORD_NO_MAC] = "no_neighbour",
	[QP_RECORD_MODIFIED] = "modified",
	[QP_RECORD_DRAINED] = "drained",
	[QP_RECORD_REFUSED] = "refused",
	[QP_RECORD_FAILED] = "failed",
};

/* Time of a record, whose ticks have wrapped. */
static uint64_t
record_ns(const struct qp_record *r)
{
	uint64_t now = timer_now_ns() / QP_RECORD_TICK_NS;

	return (now - ((now - r->at) & ((1ull << 48) - 1))) * QP_RECORD_TICK_NS;
}

static json_t *
record_json(const struct qp_record *r)
{
	struct text t = {.len = 0};
	json_t *o = json_object();

	record_words(&t, r);
	show_set_int(o, "time_ns", epoch_ns(record_ns(r)));
	show_set(o, "what", json_string(r->kind < QP_RECORD_KINDS ? kind_name[r->kind] : "?"));
	show_set_int(o, "psn", r->psn);
	show_set_int(o, "count", r->n);
	show_set_int(o, "arg", r->arg | r->arg2 << 8);
	show_set(o, "text", json_string(t.buf));
	return o;
}

/* Appends the records in order of time. The time of a run is that of its first packet. */
static json_t *
records_json(const struct qp_recorder *r)
{
	uint32_t n = QP_RECORDER ? RTE_MIN(r->count, QP_RECORDS) : 0, i, k;
	const struct qp_record *order[QP_RECORDS];
	json_t *out = json_array();

	for (i = 0; i < n; i++) {
		const struct qp_record *one = &r->record[(r->count - n + i) % QP_RECORDS];

		for (k = i; k > 0 && record_ns(order[k - 1]) > record_ns(one); k--)
			order[k] = order[k - 1];
		order[k] = one;
	}
	for (i = 0; i < n; i++)
		json_array_append_new(out, record_json(order[i]));
	return out;
}

static void
show_kept(const struct past_qp *q, bool records, json_t *out)
{
	static const char *const type[] = {
		[QP_TYPE_RC] = "RC", [QP_TYPE_UC] = "UC", [QP_TYPE_UD] = "UD"};
	json_t *o = json_object();

	show_set_int(o, "qpn", q->qpn);
	show_set(o, "type", json_string(type[q->type]));
	show_set(o, "state", json_string(qp_state_name[q->state]));
	show_set(o, "device", json_string(q->dev));
	show_set_int(o, "uid", q->uid);
	show_set_int(o, "pid", q->pid);
	show_set(o, "program", json_string(q->comm));
	show_set(o, "local", show_gid_text(q->sgid));
	show_set(o, "remote", show_gid_text(q->dgid));
	show_set_int(o, "dest_qpn", q->dest_qpn);
	show_set(o, "destroyed", json_boolean(q->end_ns != 0));
	show_set(o, "destroyed_time_ns",
		 q->end_ns != 0 ? json_integer(epoch_ns(q->end_ns)) : json_null());
	show_set_int(o, "events", q->recorder.count);
	show_set(o, "error", word_or_null(q->why));
	put_fault(o, &q->recorder.fault);
	if (records)
		show_set(o, "records", records_json(&q->recorder));
	json_array_append_new(out, o);
}

void
show_traces(const struct session *asker, int64_t qpn, struct show_page *page, json_t *out)
{
	static struct past_qp now; /* large, and there is one control thread */
	const struct past_qp *old;
	const struct obj_qp *q;
	const struct session *s;
	uint32_t pos = 0;

	epoch_set();
	/* The first page has all of these, however many they are: at most QP_HISTORY. */
	while (page->client == 0 && (old = qp_history_next(&asker->d->kept, &pos)) != NULL) {
		if ((qpn < 0 || old->qpn == qpn) &&
		    (old->who == quota_who(asker->user, asker->peer.uid) ||
		     asker->user->privileged))
			show_kept(old, qpn >= 0, out);
	}
	TAILQ_FOREACH (s, &asker->d->sessions, link) {
		if (s->state != IPC_STATE_CONTEXT || s->id < page->client ||
		    !session_may_see(asker, s))
			continue;
		pos = s->id == page->client ? page->pos : 0;
		while ((q = idtab_next(&s->qps, &pos)) != NULL) {
			if (qpn >= 0 && q->qp->conn.qpn != qpn)
				continue;
			if (!show_page_take(page, s->id, pos - 1))
				return;
			qp_history_look(q, &now);
			show_kept(&now, qpn >= 0, out);
		}
	}
}
