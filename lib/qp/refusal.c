/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/refusal.h"

#include <stdarg.h>
#include <stdio.h>
#include "qp/state.h"

#define HEADERS 104u /* bytes of an IP packet that are not payload, at most, rounded up */

/* Bits of enum ibv_qp_attr_mask, without IBV_QP_. */
static const char *const attr_name[32] = {
	"STATE",
	"CUR_STATE",
	"EN_SQD_ASYNC_NOTIFY",
	"ACCESS_FLAGS",
	"PKEY_INDEX",
	"PORT",
	"QKEY",
	"AV",
	"PATH_MTU",
	"TIMEOUT",
	"RETRY_CNT",
	"RNR_RETRY",
	"RQ_PSN",
	"MAX_QP_RD_ATOMIC",
	"ALT_PATH",
	"MIN_RNR_TIMER",
	"SQ_PSN",
	"MAX_DEST_RD_ATOMIC",
	"PATH_MIG_STATE",
	"CAP",
	"DEST_QPN",
	[25] = "RATE_LIMIT",
};

static const char *
kind_name(uint8_t type)
{
	return type == QP_TYPE_RC ? "an RC QP" : type == QP_TYPE_UC ? "a UC QP" : "a UD QP";
}

/* A text that grows up to its limit; what does not fit is cut off. */
struct text {
	char *to;
	size_t len, used;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->to + t->used, t->len - t->used, format, args);
	va_end(args);
	if (n > 0)
		t->used += (size_t)n < t->len - t->used ? (size_t)n : t->len - t->used - 1;
}

static void
add_attrs(struct text *t, uint32_t bits)
{
	const char *between = " ";

	for (uint32_t i = 0; i < 32; i++) {
		if (!(bits >> i & 1))
			continue;
		if (attr_name[i] != NULL)
			add(t, "%sIBV_QP_%s", between, attr_name[i]);
		else
			add(t, "%sbit %u", between, i);
		between = ", ";
	}
}

/* The states that a modify may lead to, but for RESET and ERR, which are always legal. */
static void
add_states(struct text *t, const struct qp_refusal *r)
{
	for (uint32_t to = 0; to < QP_NSTATES; to++) {
		if (to != QP_RESET && to != QP_ERR &&
		    qp_transition_get(r->type, r->from, to)->legal)
			add(t, "%s, ", qp_state_name[to]);
	}
	add(t, "RESET or ERR");
}

void
qp_refusal_print(const struct qp_refusal *r, char *to, size_t len)
{
	struct text t = {.to = to, .len = len};
	const char *from = qp_state_name[r->from];

	to[0] = '\0';
	switch (r->why) {
	case QP_REFUSED_NOT:
		break;
	case QP_REFUSED_STATE:
		add(&t, "qp_state %u is none: 0 .. %u", r->value, QP_NSTATES - 1);
		break;
	case QP_REFUSED_CUR_STATE:
		add(&t, "cur_qp_state is %u, but the QP is in %s (%u)", r->value, from, r->from);
		break;
	case QP_REFUSED_TRANSITION:
		add(&t, "no transition from %s to %s: from there %s goes to ", from,
		    qp_state_name[r->to], kind_name(r->type));
		add_states(&t, r);
		break;
	case QP_REFUSED_MISSING:
		add(&t, "%s to %s of %s also needs", from, qp_state_name[r->to],
		    kind_name(r->type));
		add_attrs(&t, r->bits);
		break;
	case QP_REFUSED_EXTRA:
		add(&t, "%s to %s of %s does not take", from, qp_state_name[r->to],
		    kind_name(r->type));
		add_attrs(&t, r->bits);
		break;
	case QP_REFUSED_DRAINING:
		add(&t, "the send queue still drains: wait for IBV_EVENT_SQ_DRAINED");
		break;
	case QP_REFUSED_VALUE:
		add(&t, "%s is %u, not in %u .. %u", r->field, r->value, r->min, r->max);
		break;
	case QP_REFUSED_MTU:
		add(&t,
		    "path_mtu is %u bytes (%u), and the port allows %u (%u): raise the interface's "
		    "MTU to %u, and restart uroced",
		    128u << r->value, r->value, 128u << r->max, r->max,
		    (128u << r->value) + HEADERS);
		break;
	case QP_REFUSED_FLAGS:
		add(&t, "%s has unknown flags: 0x%x", r->field, r->bits);
		break;
	case QP_REFUSED_PKEY:
		add(&t, "%s is %u: no P_Key at this index", r->field, r->value);
		break;
	case QP_REFUSED_PATH:
		add(&t, "%s has no GRH or an empty GID index", r->field);
		break;
	case QP_REFUSED_MIGRATION:
		add(&t,
		    "path_mig_state %u is not legal now: only packets lead to ARMED, MIGRATED "
		    "needs ARMED, REARM needs RTS and an alternate path",
		    r->value);
		break;
	}
}
