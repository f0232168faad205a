/* SPDX-License-Identifier: BSD-3-Clause */
/* The flight recorders of QPs: when and, as a sentence for users, what. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "control/fault_log.h"
#include "show.h"
#include "wire/hdr.h"
#include "wire/opcode.h"
#include "wire/psn.h"
#include "wire/timer.h"

/* Offset from the daemon's clock to nanoseconds since 1970; read once for each reply. */
static int64_t epoch_diff_ns;

void
trace_epoch_set(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	epoch_diff_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)timer_now_ns();
}

int64_t
trace_epoch_ns(uint64_t at_ns)
{
	return (int64_t)at_ns + epoch_diff_ns;
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

/* Its ticks have wrapped. */
uint64_t
trace_record_ns(const struct qp_record *r)
{
	uint64_t now = timer_now_ns() / QP_RECORD_TICK_NS;

	return (now - ((now - r->at) & ((1ull << 48) - 1))) * QP_RECORD_TICK_NS;
}

const char *
trace_kind(const struct qp_record *r)
{
	return r->kind < QP_RECORD_KINDS ? kind_name[r->kind] : "?";
}

const char *
trace_words(const struct qp_record *r)
{
	static struct text t;

	t.len = 0;
	t.buf[0] = '\0';
	record_words(&t, r);
	return t.buf;
}

uint32_t
trace_order(const struct qp_recorder *r, const struct qp_record *order[QP_RECORDS])
{
	uint32_t n = QP_RECORDER ? RTE_MIN(r->count, QP_RECORDS) : 0, i, k;

	for (i = 0; i < n; i++) {
		const struct qp_record *one = &r->record[(r->count - n + i) % QP_RECORDS];

		for (k = i; k > 0 && trace_record_ns(order[k - 1]) > trace_record_ns(one); k--)
			order[k] = order[k - 1];
		order[k] = one;
	}
	return n;
}
