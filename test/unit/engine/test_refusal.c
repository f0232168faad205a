/* SPDX-License-Identifier: BSD-3-Clause */
/* The reason of a refused modify names the wrong attribute and its legal values (QP-01 .. QP-04).
 */
#include <errno.h>
#include <string.h>
#include "qp/qp.h"
#include "qp/refusal.h"
#include "qp/state.h"
#include "../../kit/unit.h"

#define CONN_INIT (QP_STATE | QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS)
#define UC_RTR    (QP_STATE | QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN)

static const struct qp_limits limits = {.max_mtu = 3, .npkeys = 2, .ngids = 4, .gid_valid = 2};

/* A modify with one mistake, and the reason that it gets. */
struct refused {
	enum qp_type type;
	enum qp_state from, to;
	uint32_t mask;
	struct uroce_qp_attr attr;
	const char *says;
};

static const struct refused cases[] = {
	{QP_TYPE_RC, QP_RESET, 9, QP_STATE, {0}, "qp_state 9 is none: 0 .. 6"},
	{QP_TYPE_RC,
	 QP_RESET,
	 QP_RTS,
	 QP_STATE,
	 {0},
	 "no transition from RESET to RTS: from there an RC QP goes to INIT, RESET or ERR"},
	{QP_TYPE_RC,
	 QP_SQE,
	 QP_RTS,
	 QP_STATE,
	 {0},
	 "no transition from SQE to RTS: from there an RC QP goes to RESET or ERR"},
	{QP_TYPE_UC,
	 QP_RESET,
	 QP_INIT,
	 CONN_INIT | QP_CUR_STATE,
	 {.cur_qp_state = QP_INIT},
	 "cur_qp_state is 1, but the QP is in RESET (0)"},
	{QP_TYPE_RC,
	 QP_RESET,
	 QP_INIT,
	 QP_STATE | QP_PORT,
	 {.port_num = 1},
	 "RESET to INIT of an RC QP also needs IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX"},
	{QP_TYPE_UC,
	 QP_RESET,
	 QP_INIT,
	 CONN_INIT | QP_QKEY | 1u << 30,
	 {.port_num = 1},
	 "RESET to INIT of a UC QP does not take IBV_QP_QKEY, bit 30"},
	{QP_TYPE_RC, QP_RESET, QP_INIT, CONN_INIT, {.port_num = 2}, "port_num is 2, not in 1 .. 1"},
	{QP_TYPE_RC,
	 QP_RESET,
	 QP_INIT,
	 CONN_INIT,
	 {.port_num = 1, .pkey_index = 7},
	 "pkey_index is 7: no P_Key at this index"},
	{QP_TYPE_RC,
	 QP_RESET,
	 QP_INIT,
	 CONN_INIT,
	 {.port_num = 1, .qp_access_flags = 0x10010},
	 "qp_access_flags has unknown flags: 0x10000"},
	{QP_TYPE_UC,
	 QP_INIT,
	 QP_RTR,
	 UC_RTR,
	 {.path_mtu = 5, .ah = {.port_num = 1}},
	 "path_mtu is 4096 bytes (5), and the port allows 1024 (3): raise the interface's MTU to "
	 "4200, "
	 "and restart uroced"},
	{QP_TYPE_UC,
	 QP_INIT,
	 QP_RTR,
	 UC_RTR,
	 {.path_mtu = 6, .ah = {.port_num = 1}},
	 "path_mtu is 6, not in 1 .. 3"},
	{QP_TYPE_UC,
	 QP_INIT,
	 QP_RTR,
	 UC_RTR,
	 {.path_mtu = 3, .ah = {.port_num = 1}},
	 "ah_attr has no GRH or an empty GID index"},
	{QP_TYPE_UC,
	 QP_INIT,
	 QP_RTR,
	 UC_RTR,
	 {.path_mtu = 3, .dest_qp_num = 1u << 24, .ah = {.port_num = 1}},
	 "dest_qp_num is 16777216, not in 0 .. 16777215"},
};

static struct qp *
qp_in(enum qp_type type, enum qp_state state)
{
	static struct qp qp;

	memset(&qp, 0, sizeof(qp));
	qp.conn.type = type;
	qp.conn.state = (uint8_t)state;
	return &qp;
}

UNIT_TEST(every_reason_names_the_attribute)
{
	char text[200];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct refused *c = &cases[i];
		struct uroce_qp_attr a = c->attr;
		struct qp_refusal why;

		a.qp_state = c->to;
		assert_int_equal(qp_modify_check(qp_in(c->type, c->from), c->mask, &a, &limits,
						 &why),
				 EINVAL);
		qp_refusal_print(&why, text, sizeof(text));
		assert_string_equal(text, c->says);
	}
}

/* A QP in SQD whose send queue drains, and a path migration state that only packets lead to. */
UNIT_TEST(a_state_of_the_qp_can_be_the_reason)
{
	struct uroce_qp_attr a = {.qp_state = QP_RTS, .path_mig_state = 2};
	struct qp_refusal why;
	struct qp *qp;
	char text[200];

	qp = qp_in(QP_TYPE_RC, QP_SQD);
	qp->conn.snd.draining = true;
	assert_int_equal(qp_modify_check(qp, QP_STATE, &a, &limits, &why), EINVAL);
	qp_refusal_print(&why, text, sizeof(text));
	assert_string_equal(text, "the send queue still drains: wait for IBV_EVENT_SQ_DRAINED");
	qp->conn.snd.draining = false;
	assert_int_equal(qp_modify_check(qp, QP_STATE | QP_PATH_MIG_STATE, &a, &limits, &why),
			 EINVAL);
	qp_refusal_print(&why, text, sizeof(text));
	assert_non_null(strstr(text, "path_mig_state 2 is not legal now"));
}

/* Every flag that verbs.h has for regions is legal for QPs, too: the kernel accepts them. */
UNIT_TEST(access_flags_of_regions_are_accepted)
{
	static const uint32_t flags[] = {0x1f, 1 << 5, 1 << 6, 1 << 7, 1 << 20, 0x3ff000ff};

	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct uroce_qp_attr a = {.qp_state = QP_INIT,
					  .port_num = 1,
					  .qp_access_flags = flags[i]};

		assert_int_equal(qp_modify_check(qp_in(QP_TYPE_RC, QP_RESET), CONN_INIT, &a,
						 &limits, NULL),
				 0);
	}
}

/* A sentence that does not fit is cut off. */
UNIT_TEST(a_long_sentence_is_cut_off)
{
	struct qp_refusal why = {QP_REFUSED_MISSING, .type = QP_TYPE_RC, .bits = ~0u};
	char text[64];

	memset(text, 'x', sizeof(text));
	qp_refusal_print(&why, text, 40);
	assert_int_equal(strlen(text), 39);
	assert_int_equal(text[40], 'x');
	qp_refusal_print(&why, text, 1);
	assert_string_equal(text, "");
}
