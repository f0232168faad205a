/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares what was seen with what is expected; each difference is one line of output. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "errmatrix.h"

#define MAX_PROBLEMS 16
#define LIST_CHARS   320

struct problems {
	uint32_t n;
	char text[MAX_PROBLEMS][2 * LIST_CHARS + 64];
};

static const char *
name_of(uint32_t value, const char *const *names, uint32_t n)
{
	return value < n && names[value] ? names[value] : "?";
}

static const char *
status_name(uint32_t status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "SUCCESS",
		[IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
		[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
		[IBV_WC_LOC_EEC_OP_ERR] = "LOC_EEC_OP_ERR",
		[IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
		[IBV_WC_WR_FLUSH_ERR] = "FLUSH",
		[IBV_WC_MW_BIND_ERR] = "MW_BIND_ERR",
		[IBV_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
		[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
		[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
		[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
		[IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
		[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
		[IBV_WC_REM_ABORT_ERR] = "REM_ABORT_ERR",
		[IBV_WC_FATAL_ERR] = "FATAL_ERR",
		[IBV_WC_RESP_TIMEOUT_ERR] = "RESP_TIMEOUT_ERR",
		[IBV_WC_GENERAL_ERR] = "GENERAL_ERR",
	};

	return name_of(status, names, sizeof(names) / sizeof(names[0]));
}

static const char *
event_name(uint32_t event)
{
	static const char *const names[] = {
		[IBV_EVENT_QP_FATAL] = "QP_FATAL",
		[IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
		[IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
		[IBV_EVENT_COMM_EST] = "COMM_EST",
		[IBV_EVENT_SQ_DRAINED] = "SQ_DRAINED",
		[IBV_EVENT_PATH_MIG] = "PATH_MIG",
		[IBV_EVENT_PATH_MIG_ERR] = "PATH_MIG_ERR",
		[IBV_EVENT_QP_LAST_WQE_REACHED] = "QP_LAST_WQE_REACHED",
	};

	return name_of(event, names, sizeof(names) / sizeof(names[0]));
}

const char *
qp_state_name(uint32_t state)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",     [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return name_of(state, names, sizeof(names) / sizeof(names[0]));
}

const char *const cause_name[] = {
	[CAUSE_NONE] = "CAUSE_NONE",
	[RECV_SHORT] = "RECV_SHORT",
	[RECV_LKEY] = "RECV_LKEY",
	[RECV_READONLY] = "RECV_READONLY",
	[RECV_OTHER_PD] = "RECV_OTHER_PD",
	[RECV_RANGE] = "RECV_RANGE",
	[RECV_DEREG] = "RECV_DEREG",
	[RECV_NONE] = "RECV_NONE",
	[RKEY_BAD] = "RKEY_BAD",
	[RKEY_OTHER_PD] = "RKEY_OTHER_PD",
	[RKEY_DEREG] = "RKEY_DEREG",
	[RKEY_NO_RIGHT] = "RKEY_NO_RIGHT",
	[RKEY_PAST_END] = "RKEY_PAST_END",
	[RKEY_BEFORE] = "RKEY_BEFORE",
	[RKEY_WRAP] = "RKEY_WRAP",
	[MISALIGNED] = "MISALIGNED",
	[MW_INVALIDATED] = "MW_INVALIDATED",
	[MW_FREED] = "MW_FREED",
	[MW_OTHER_QP] = "MW_OTHER_QP",
	[MW_RANGE] = "MW_RANGE",
	[MW_NO_RIGHT] = "MW_NO_RIGHT",
	[INV_BAD] = "INV_BAD",
	[INV_REGION] = "INV_REGION",
	[INV_OTHER_QP] = "INV_OTHER_QP",
	[QP_NO_RIGHT] = "QP_NO_RIGHT",
	[DEPTH_ZERO] = "DEPTH_ZERO",
	[DEPTH_OVERRUN] = "DEPTH_OVERRUN",
	[RKEY_BAD_RECV_NONE] = "RKEY_BAD_RECV_NONE",
	[LKEY_BAD] = "LKEY_BAD",
	[LKEY_OTHER_PD] = "LKEY_OTHER_PD",
	[LKEY_DEREG] = "LKEY_DEREG",
	[LKEY_READONLY] = "LKEY_READONLY",
	[LKEY_RANGE] = "LKEY_RANGE",
	[TOO_LONG] = "TOO_LONG",
	[ATOMIC_LENGTH] = "ATOMIC_LENGTH",
	[NO_CREDIT] = "NO_CREDIT",
	[BAD_OPCODE] = "BAD_OPCODE",
	[BIND_LKEY] = "BIND_LKEY",
	[BIND_OTHER_PD] = "BIND_OTHER_PD",
	[BIND_NO_RIGHT] = "BIND_NO_RIGHT",
	[BIND_READONLY] = "BIND_READONLY",
	[BIND_RANGE] = "BIND_RANGE",
	[BIND_TWICE] = "BIND_TWICE",
	[BIND_EMPTY] = "BIND_EMPTY",
	[BIND_STALE] = "BIND_STALE",
	[BIND_WINDOW_PD] = "BIND_WINDOW_PD",
	[INVALIDATE_BAD] = "INVALIDATE_BAD",
	[INVALIDATE_REGION] = "INVALIDATE_REGION",
	[INVALIDATE_UNBOUND] = "INVALIDATE_UNBOUND",
	[INVALIDATE_OTHER_QP] = "INVALIDATE_OTHER_QP",
	[PEER_NONE] = "PEER_NONE",
	[PEER_DESTROYED] = "PEER_DESTROYED",
	[PEER_ERR] = "PEER_ERR",
	[PEER_RESET] = "PEER_RESET",
	[QKEY_WRONG] = "QKEY_WRONG",
	[AH_OTHER_PD] = "AH_OTHER_PD",
	[BY_HAND] = "BY_HAND",
};

static void __attribute__((format(printf, 2, 3))) problem(struct problems *p, const char *fmt, ...)
{
	va_list ap;

	if (p->n == MAX_PROBLEMS)
		return;
	va_start(ap, fmt);
	vsnprintf(p->text[p->n++], sizeof(p->text[0]), fmt, ap);
	va_end(ap);
}

/* Appends a word to a list in a buffer of LIST_CHARS. */
static void
word(char *list, const char *text)
{
	size_t n = strlen(list);

	snprintf(list + n, LIST_CHARS - n, "%s%s", n ? " " : "", text);
}

/*
 * A lost NAK is not retransmitted: the requester gets no other response. Only this outcome is also
 * valid if packets are lost.
 */
static bool
nak_lost(const struct run *r, uint32_t want, uint32_t seen)
{
	return r->plan->lossy && seen == IBV_WC_RETRY_EXC_ERR &&
	       (want == IBV_WC_REM_INV_REQ_ERR || want == IBV_WC_REM_ACCESS_ERR ||
		want == IBV_WC_REM_OP_ERR);
}

static void
judge_queue(const struct run *r, struct problems *p, const char *queue, const struct report *rep,
	    const struct seen_wc *seen, uint32_t n, const struct want_wc *want, uint32_t nwant)
{
	char is[LIST_CHARS] = "", should[LIST_CHARS] = "";
	bool same = n == nwant, order = true, own = true;

	for (uint32_t i = 0; i < nwant; i++)
		word(should, status_name(want[i].status));
	for (uint32_t i = 0; i < n; i++) {
		word(is, status_name(seen[i].status));
		own &= seen[i].qp_num == rep->qp_num;
		if (i >= nwant)
			continue;
		order &= seen[i].wr_id == ((uint64_t)r->plan->row << 32 | want[i].id);
		same &= seen[i].status == want[i].status ||
			nak_lost(r, want[i].status, seen[i].status);
	}
	if (!same)
		problem(p, "%s: %s, not %s", queue, n ? is : "nothing", nwant ? should : "nothing");
	else if (!order)
		problem(p, "%s: wr_ids differ from those posted, or their order does", queue);
	if (!own)
		problem(p, "%s: a wrong qp_num", queue);
}

static void
judge_events(struct problems *p, const char *side, const struct report *rep, uint32_t want)
{
	char is[LIST_CHARS] = "";

	if (rep->no_events)
		want = 0;
	for (uint32_t i = 0; i < rep->nevents; i++)
		word(is, event_name(rep->event[i]));
	if (rep->nevents != (want ? 1 : 0) || (want && rep->event[0] != want))
		problem(p, "%s events: %s, not %s", side, rep->nevents ? is : "none",
			want ? event_name(want) : "none");
}

static void
judge_side(const struct run *r, struct problems *p, bool requester, const struct report *rep)
{
	const char *side = requester ? "requester" : "responder";
	char queue[24];
	struct want w;

	if (rep->failed[0]) {
		problem(p, "%s: %s", side, rep->failed);
		return;
	}
	if (requester)
		want_requester(r->row, &w);
	else
		want_responder(r->row, &w);
	snprintf(queue, sizeof(queue), "%s sends", side);
	judge_queue(r, p, queue, rep, rep->send, rep->nsend, w.send, w.nsend);
	snprintf(queue, sizeof(queue), "%s receives", side);
	judge_queue(r, p, queue, rep, rep->recv, rep->nrecv, w.recv, w.nrecv);
	judge_events(p, side, rep, w.event);
	if (rep->state != (int32_t)w.state)
		problem(p, "%s state: %s, not %s", side, qp_state_name(rep->state),
			qp_state_name(w.state));
	if (rep->left_sqe)
		problem(p, "%s: SQE > RTS: errno %d", side, rep->left_sqe);
	if (rep->memory >= 0)
		problem(p, "%s memory: differs from the expected content", side);
}

static void
judge_post(const struct run *r, struct problems *p)
{
	struct want w;
	struct chain c;

	if (r->rep.failed[0])
		return;
	want_requester(r->row, &w);
	chain_build(r->row, &c);
	if (r->rep.post_error != w.post_error)
		problem(p, "requester post: errno %d, not %d", r->rep.post_error, w.post_error);
	else if (w.post_error && r->rep.bad_wr != (int32_t)c.errant)
		problem(p, "requester post: bad_wr %d, not %u", r->rep.bad_wr, c.errant);
}

/* --- output -------------------------------------------------------------------------------------
 */

static void
json_queue(const char *name, const struct seen_wc *seen, uint32_t n)
{
	printf("\"%s\":[", name);
	for (uint32_t i = 0; i < n; i++)
		printf("%s[\"%#x\",\"%s\"]", i ? "," : "", (unsigned int)(uint32_t)seen[i].wr_id,
		       status_name(seen[i].status));
	printf("],");
}

static void
json_side(const char *name, const struct report *rep)
{
	printf(",\"%s\":{", name);
	json_queue("sends", rep->send, rep->nsend);
	json_queue("receives", rep->recv, rep->nrecv);
	printf("\"vendor\":[");
	for (uint32_t i = 0; i < rep->nsend + rep->nrecv; i++)
		printf("%s%u", i ? "," : "",
		       i < rep->nsend ? rep->send[i].vendor_err
				      : rep->recv[i - rep->nsend].vendor_err);
	printf("],\"events\":[");
	for (uint32_t i = 0; i < rep->nevents; i++)
		printf("%s\"%s\"", i ? "," : "", event_name(rep->event[i]));
	printf("],\"state\":\"%s\",\"post_errno\":%d,\"memory\":%lld}", qp_state_name(rep->state),
	       rep->post_error, (long long)rep->memory);
}

static void
json_print(const struct run *r, const struct report *rsp, const struct problems *p)
{
	printf("{\"row\":\"%s\",\"cause\":\"%s\",\"ok\":%s,\"problems\":[", r->row->name,
	       cause_name[r->row->cause], p->n ? "false" : "true");
	for (uint32_t i = 0; i < p->n; i++) /* none of them contains a quote or a backslash */
		printf("%s\"%s\"", i ? "," : "", p->text[i]);
	printf("]");
	json_side("requester", &r->rep);
	json_side("responder", rsp);
	printf("}\n");
}

bool
row_judge(const struct run *r, const struct report *rsp, uint32_t nr)
{
	struct problems p = {0};

	judge_post(r, &p);
	judge_side(r, &p, true, &r->rep);
	judge_side(r, &p, false, rsp);
	if (r->s->opt->json) {
		json_print(r, rsp, &p);
	} else {
		printf("%s %u - %s\n", p.n ? "not ok" : "ok", nr, r->row->name);
		for (uint32_t i = 0; i < p.n; i++)
			printf("# %s\n", p.text[i]);
	}
	fflush(stdout);
	return p.n == 0;
}
