/* SPDX-License-Identifier: BSD-3-Clause */
/* Transitions, attribute masks and values (QP-01 .. QP-05), every cell of the table. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "harness.h"

/*
 * Written from the requirements, with names as text, so that nothing is shared with the table in
 * lib/qp. Bits and states are those of verbs.
 */
static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

static const struct {
	const char *name;
	uint32_t bit;
} attr_names[] = {
	{"CUR_STATE", 1},
	{"EN_SQD_ASYNC_NOTIFY", 2},
	{"ACCESS_FLAGS", 3},
	{"PKEY_INDEX", 4},
	{"PORT", 5},
	{"QKEY", 6},
	{"AV", 7},
	{"PATH_MTU", 8},
	{"TIMEOUT", 9},
	{"RETRY_CNT", 10},
	{"RNR_RETRY", 11},
	{"RQ_PSN", 12},
	{"MAX_QP_RD_ATOMIC", 13},
	{"ALT_PATH", 14},
	{"MIN_RNR_TIMER", 15},
	{"SQ_PSN", 16},
	{"MAX_DEST_RD_ATOMIC", 17},
	{"PATH_MIG_STATE", 18},
	{"DEST_QPN", 20},
};

#define RC_SQD                                                                                     \
	"CUR_STATE PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC "       \
	"ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE"
#define UC_SQD "CUR_STATE AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE"
#define UD_SQD "CUR_STATE PKEY_INDEX QKEY"
#define RC_RTS "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"
#define UC_RTS "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"
#define UD_RTS "CUR_STATE QKEY"

struct rule {
	const char *transition;
	struct {
		const char *required, *optional; /* NULL: not legal for this type */
	} of[3];                                 /* RC, UC, UD */
};

static const struct rule rules[] = {
	{"RESET>INIT",
	 {{"PKEY_INDEX PORT ACCESS_FLAGS", ""},
	  {"PKEY_INDEX PORT ACCESS_FLAGS", ""},
	  {"PKEY_INDEX PORT QKEY", ""}}},
	{"INIT>INIT",
	 {{"", "PKEY_INDEX PORT ACCESS_FLAGS"},
	  {"", "PKEY_INDEX PORT ACCESS_FLAGS"},
	  {"", "PKEY_INDEX PORT QKEY"}}},
	{"INIT>RTR",
	 {{"AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
	   "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
	  {"AV PATH_MTU DEST_QPN RQ_PSN", "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
	  {"", "PKEY_INDEX QKEY"}}},
	{"RTR>RTS",
	 {{"SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC", RC_RTS},
	  {"SQ_PSN", UC_RTS},
	  {"SQ_PSN", UD_RTS}}},
	{"RTS>RTS", {{"", RC_RTS}, {"", UC_RTS}, {"", UD_RTS}}},
	{"RTS>SQD",
	 {{"", "EN_SQD_ASYNC_NOTIFY"}, {"", "EN_SQD_ASYNC_NOTIFY"}, {"", "EN_SQD_ASYNC_NOTIFY"}}},
	{"SQD>SQD", {{"", RC_SQD}, {"", UC_SQD}, {"", UD_SQD}}},
	{"SQD>RTS", {{"", RC_SQD}, {"", UC_SQD}, {"", UD_SQD}}},
	{"SQE>RTS", {{NULL, NULL}, {"", "CUR_STATE ACCESS_FLAGS"}, {"", "CUR_STATE QKEY"}}},
};

static const enum qp_type types[] = {QP_TYPE_RC, QP_TYPE_UC, QP_TYPE_UD};
static const struct qp_limits limits = {.max_mtu = 3, .npkeys = 2, .ngids = 5, .gid_valid = 0x15};

static uint32_t
bits_of(const char *text)
{
	uint32_t i, bits = 0;
	char padded[256], word[64];

	snprintf(padded, sizeof(padded), " %s ", text);
	for (i = 0; i < sizeof(attr_names) / sizeof(attr_names[0]); i++) {
		snprintf(word, sizeof(word), " %s ", attr_names[i].name);
		if (strstr(padded, word) != NULL)
			bits |= 1u << attr_names[i].bit;
	}
	return bits;
}

/* Is from>to legal for types[t], and with which bits? */
static bool
expected(uint32_t t, uint32_t from, uint32_t to, uint32_t *required, uint32_t *optional)
{
	char name[32];
	uint32_t i;

	*required = *optional = 0;
	if (to == 0 || to == 6) /* any>RESET, any>ERR */
		return true;
	snprintf(name, sizeof(name), "%s>%s", state_names[from], state_names[to]);
	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (strcmp(rules[i].transition, name) != 0)
			continue;
		if (rules[i].of[t].required == NULL)
			return false;
		*required = bits_of(rules[i].of[t].required);
		*optional = bits_of(rules[i].of[t].optional);
		return true;
	}
	return false;
}

static struct uroce_qp_attr
good_attr(uint32_t from, uint32_t to)
{
	return (struct uroce_qp_attr){
		.qp_state = to,
		.cur_qp_state = from,
		.path_mtu = 3,
		.port_num = 1,
		.ah = {.is_global = 1, .port_num = 1},
		.alt_port_num = 1,
		.alt_ah = {.is_global = 1, .port_num = 1},
	};
}

/* The verdict of a mask on a QP of this type and state, which must stay as it was. */
static int
verdict(enum qp_type type, uint32_t from, uint32_t mask, const struct uroce_qp_attr *attr)
{
	static const uint16_t pkeys[UROCE_MAX_PKEYS] = {0xffff, 0x8001, 0x8002};
	static struct qp qp, was;
	int rc;

	memset(&qp, 0, sizeof(qp));
	qp.conn.type = type;
	qp.conn.state = (uint8_t)from;
	qp.bind.pkeys = pkeys; /* of which the limits allow two */
	was = qp;
	rc = qp_modify_check(&qp, mask, attr, &limits, NULL);
	assert_memory_equal(&qp, &was, sizeof(qp));
	return rc;
}

/* One cell of the table: the correct mask, each required bit missing, each extra bit. */
static void
check_cell(uint32_t t, uint32_t from, uint32_t to)
{
	uint32_t required, optional, bit;
	bool legal = expected(t, from, to, &required, &optional);
	struct uroce_qp_attr a = good_attr(from, to);

	assert_int_equal(verdict(types[t], from, 1 | required, &a), legal ? 0 : EINVAL);
	for (bit = 1; bit < 32; bit++) {
		uint32_t b = 1u << bit, mask = 1 | (required ^ b);
		int want = legal && (optional & b) ? 0 : EINVAL;

		if (verdict(types[t], from, mask, &a) != want)
			fail_msg("type %u %s>%s mask %#x: %d, not %d", types[t], state_names[from],
				 state_names[to], mask, verdict(types[t], from, mask, &a), want);
	}
	if (!legal) {
		assert_int_equal(verdict(types[t], from, 0x1fffff, &a), EINVAL);
	} else {
		/* All that is allowed, at once. */
		assert_int_equal(verdict(types[t], from, 1 | required | optional, &a), 0);
	}
}

REQUIREMENT("QP-01")
UNIT_TEST(every_pair_of_states_is_legal_as_specified)
{
	uint32_t t, from, to, required, optional, legal = 0;

	for (t = 0; t < 3; t++) {
		for (from = 0; from < 7; from++) {
			for (to = 0; to < 7; to++) {
				struct uroce_qp_attr a = good_attr(from, to);
				bool ok = expected(t, from, to, &required, &optional);

				legal += ok;
				assert_int_equal(verdict(types[t], from, 1 | required, &a),
						 ok ? 0 : EINVAL);
			}
		}
	}
	/* 14 pairs to RESET and ERR, 8 others, and SQE>RTS for two types. */
	assert_int_equal(legal, 3 * (14 + 8) + 2);
}

REQUIREMENT("QP-01")
UNIT_TEST(unknown_state_is_refused)
{
	struct uroce_qp_attr a = good_attr(0, 7);
	uint32_t from;

	for (from = 0; from < 7; from++) {
		a.qp_state = 7;
		assert_int_equal(verdict(QP_TYPE_RC, from, 1, &a), EINVAL);
		a.qp_state = UINT32_MAX;
		assert_int_equal(verdict(QP_TYPE_RC, from, 1, &a), EINVAL);
	}
}

REQUIREMENT("QP-02")
UNIT_TEST(every_attribute_bit_of_every_pair_is_checked)
{
	uint32_t t, from, to;

	for (t = 0; t < 3; t++) {
		for (from = 0; from < 7; from++) {
			for (to = 0; to < 7; to++)
				check_cell(t, from, to);
		}
	}
}

/* Without QP_STATE a modify is one from a state to itself. */
REQUIREMENT("QP-02")
UNIT_TEST(modify_without_state_is_checked_as_state_to_itself)
{
	uint32_t t, from, bit, required, optional;

	for (t = 0; t < 3; t++) {
		for (from = 1; from < 6; from++) {
			struct uroce_qp_attr a = good_attr(from, 0);
			bool legal = expected(t, from, from, &required, &optional);

			for (bit = 1; bit < 32; bit++) {
				uint32_t b = 1u << bit;
				int want = legal && (optional & b) ? 0 : EINVAL;

				assert_int_equal(verdict(types[t], from, b, &a), want);
			}
		}
	}
}

REQUIREMENT("QP-03")
UNIT_TEST(cur_state_must_equal_the_current_state)
{
	uint32_t t, cur;

	for (t = 0; t < 3; t++) {
		for (cur = 0; cur < 8; cur++) {
			struct uroce_qp_attr a = good_attr(3, 3);

			a.cur_qp_state = cur;
			assert_int_equal(verdict(types[t], 3, 1 | 1 << 1, &a),
					 cur == 3 ? 0 : EINVAL);
		}
	}
}

struct value {
	uint32_t from, to, mask; /* an RC transition that takes the attribute */
	struct uroce_qp_attr bad, good;
};

#define ALT_OF(...) .alt_ah = {.is_global = 1, .port_num = 1, __VA_ARGS__}
#define AH_OF(...)  .ah = {.is_global = 1, .port_num = 1, __VA_ARGS__}
#define RTR_VALUE(b, g)                                                                            \
	{                                                                                          \
		1, 2, 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20, b, g            \
	}
#define RTS_VALUE(b, g)                                                                            \
	{                                                                                          \
		2, 3, 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16, b, g                     \
	}
#define INIT_VALUE(b, g)                                                                           \
	{                                                                                          \
		0, 1, 1 | 1 << 3 | 1 << 4 | 1 << 5, b, g                                           \
	}
#define A(...)                                                                                     \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

REQUIREMENT("QP-04")
UNIT_TEST(values_out_of_range_are_refused)
{
	static const struct value values[] = {
		INIT_VALUE(A(.port_num = 0), A(.port_num = 1)),
		INIT_VALUE(A(.port_num = 2), A(.port_num = 1)),
		INIT_VALUE(A(.port_num = 1, .pkey_index = 2), A(.port_num = 1, .pkey_index = 1)),
		INIT_VALUE(A(.port_num = 1, .qp_access_flags = 1 << 10),
			   A(.port_num = 1, .qp_access_flags = 0x1f)),
		INIT_VALUE(A(.port_num = 1, .qp_access_flags = 1u << 31), A(.port_num = 1)),
		RTR_VALUE(A(.path_mtu = 0, AH_OF()), A(.path_mtu = 1, AH_OF())),
		RTR_VALUE(A(.path_mtu = 4, AH_OF()), A(.path_mtu = 3, AH_OF())),
		RTR_VALUE(A(.path_mtu = 6, AH_OF()), A(.path_mtu = 2, AH_OF())),
		RTR_VALUE(A(.path_mtu = 3, .rq_psn = 0x1000000, AH_OF()),
			  A(.path_mtu = 3, .rq_psn = 0xffffff, AH_OF())),
		RTR_VALUE(A(.path_mtu = 3, .dest_qp_num = 0x1000000, AH_OF()),
			  A(.path_mtu = 3, .dest_qp_num = 0xffffff, AH_OF())),
		RTR_VALUE(A(.path_mtu = 3, .max_dest_rd_atomic = 17, AH_OF()),
			  A(.path_mtu = 3, .max_dest_rd_atomic = 16, AH_OF())),
		RTR_VALUE(A(.path_mtu = 3, .min_rnr_timer = 32, AH_OF()),
			  A(.path_mtu = 3, .min_rnr_timer = 31, AH_OF())),
		/* GID indices 0, 2 and 4 are there. */
		RTR_VALUE(A(.path_mtu = 3, AH_OF(.sgid_index = 1)),
			  A(.path_mtu = 3, AH_OF(.sgid_index = 2))),
		RTR_VALUE(A(.path_mtu = 3, AH_OF(.sgid_index = 5)),
			  A(.path_mtu = 3, AH_OF(.sgid_index = 4))),
		RTR_VALUE(A(.path_mtu = 3, AH_OF(.sgid_index = 255)), A(.path_mtu = 3, AH_OF())),
		RTR_VALUE(A(.path_mtu = 3, .ah = {.is_global = 0, .port_num = 1}),
			  A(.path_mtu = 3, AH_OF())),
		RTR_VALUE(A(.path_mtu = 3, .ah = {.is_global = 1, .port_num = 2}),
			  A(.path_mtu = 3, AH_OF())),
		RTS_VALUE(A(.timeout = 32), A(.timeout = 31)),
		RTS_VALUE(A(.retry_cnt = 8), A(.retry_cnt = 7)),
		RTS_VALUE(A(.rnr_retry = 8), A(.rnr_retry = 7)),
		RTS_VALUE(A(.max_rd_atomic = 17), A(.max_rd_atomic = 16)),
		RTS_VALUE(A(.sq_psn = 0x1000000), A(.sq_psn = 0xffffff)),
	};
	uint32_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct value v = values[i];

		v.bad.qp_state = v.good.qp_state = v.to;
		if (verdict(QP_TYPE_RC, v.from, v.mask, &v.bad) != EINVAL ||
		    verdict(QP_TYPE_RC, v.from, v.mask, &v.good) != 0)
			fail_msg("value %u", i);
	}
}

/* Of the alternate path as of the other one: nothing is kept of a bad one, but a good one is. */
REQUIREMENT("QP-04", "REQ-11")
UNIT_TEST(alternate_path_is_checked)
{
	static const struct uroce_qp_attr bad[] = {
		{.alt_port_num = 0, ALT_OF()},
		{.alt_port_num = 2, ALT_OF()},
		{.alt_port_num = 1, .alt_ah = {.port_num = 1}},
		{.alt_port_num = 1, .alt_ah = {.is_global = 1, .port_num = 2}},
		{.alt_port_num = 1, .alt_ah = {.is_global = 1}},
		{.alt_port_num = 1, ALT_OF(.sgid_index = 1)},
		{.alt_port_num = 1, ALT_OF(.sgid_index = 5)},
		{.alt_port_num = 1, .alt_timeout = 32, ALT_OF()},
		{.alt_port_num = 1, .alt_pkey_index = 2, ALT_OF()},
		{.alt_port_num = 1, .alt_pkey_index = 15, ALT_OF()},
	};
	struct uroce_qp_attr good = {.alt_port_num = 1,
				     .alt_timeout = 31,
				     .alt_pkey_index = 1,
				     ALT_OF(.sgid_index = 4)};
	uint32_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (verdict(QP_TYPE_RC, 3, 1 << 14, &bad[i]) != EINVAL ||
		    verdict(QP_TYPE_UC, 4, 1 << 14, &bad[i]) != EINVAL)
			fail_msg("alternate %u", i);
	}
	assert_int_equal(verdict(QP_TYPE_RC, 3, 1 << 14, &good), 0);
	assert_int_equal(verdict(QP_TYPE_UC, 4, 1 << 14, &good), 0);
	assert_int_equal(verdict(QP_TYPE_UD, 3, 1 << 14, &good), EINVAL);
}

REQUIREMENT("QP-05")
BENCH_TEST(query_returns_what_was_set)
{
	struct uroce_qp_attr q;
	struct conn *c = conn_open(*state, CONN(cfg.max_rd_atomic = 5, cfg.max_dest_rd_atomic = 6,
						cfg.retry_cnt = 7, cfg.rnr_retry = 2,
						cfg.access = MEM_REMOTE_READ | MEM_LOCAL_WRITE));

	memset(&q, 0xee, sizeof(q));
	qp_query(c->qp, &q);
	assert_int_equal(q.qp_state, QP_RTS);
	assert_int_equal(q.cur_qp_state, QP_RTS);
	assert_int_equal(q.path_mtu, 3);
	assert_int_equal(q.rq_psn, 0x555000);
	assert_int_equal(q.sq_psn, 0x001000);
	assert_int_equal(q.dest_qp_num, PEER_QPN);
	assert_int_equal(q.qp_access_flags, MEM_REMOTE_READ | MEM_LOCAL_WRITE);
	assert_int_equal(q.max_rd_atomic, 5);
	assert_int_equal(q.max_dest_rd_atomic, 6);
	assert_int_equal(q.min_rnr_timer, 12);
	assert_int_equal(q.timeout, 14);
	assert_int_equal(q.retry_cnt, 7);
	assert_int_equal(q.rnr_retry, 2);
	assert_int_equal(q.port_num, 1);
	assert_int_equal(q.ah.is_global, 1);
	assert_int_equal(q.cap.max_send_wr, 64);
	assert_int_equal(q.sq_draining, 0);
}

/* query also shows changes that no modify made. */
REQUIREMENT("QP-05")
BENCH_TEST(query_returns_automatic_changes)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct uroce_qp_attr q;

	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 1});
	peer_nak(c, 0x1000, NAK_SYN(REM_OP));
	bench_run(c->b);
	qp_query(c->qp, &q);
	assert_int_equal(q.qp_state, QP_ERR);
	assert_int_equal(q.cur_qp_state, QP_ERR);
}

REQUIREMENT("QP-05")
BENCH_TEST(reset_clears_all_attributes)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct uroce_qp_attr q, zero = {.cap = c->qp->conn.cap};

	assert_int_equal(conn_to(c, QP_RESET), 0);
	qp_query(c->qp, &q);
	assert_memory_equal(&q, &zero, sizeof(q));
}

/* The client must find the doorbell ring of the QP's worker when it uses the QP again. */
BENCH_TEST(reset_keeps_the_worker_of_doorbells)
{
	struct conn *c = conn_open(*state, conn_rc);

	c->qp->bind.worker = c->qp->bind.sq.hdr->worker = 3;
	assert_int_equal(conn_to(c, QP_RESET), 0);
	assert_int_equal(c->qp->bind.sq.hdr->worker, 3);
	assert_int_equal(c->qp->bind.sq.hdr->cons, 0);
}
