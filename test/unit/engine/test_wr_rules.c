/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of legal work requests against what the engine does with each opcode. */

#include <uroce_abi/wr.h>
#include "requester/requester_parts.h"
#include "wire/opcode.h"
#include "../../kit/unit.h"

static struct qp_sq_entry entry; /* a WQE of one packet */

static const struct uroce_wr_rule *
rule_of(uint32_t opcode)
{
	entry.wqe.opcode = (uint8_t)opcode;
	entry.npkts = 1;
	return uroce_wr_rule_get(opcode);
}

UNIT_TEST(rows_are_in_order_and_unknown_opcodes_are_legal_nowhere)
{
	for (uint32_t opcode = 0; opcode < 256; opcode++) {
		const struct uroce_wr_rule *rule = rule_of(opcode);

		if (opcode < UROCE_WR_OPCODES) {
			assert_int_equal(rule->opcode, opcode);
			assert_true(uroce_wr_is_legal(rule, QP_TYPE_RC));
			assert_int_equal(rule->flags & UROCE_WQE_ANY_FLAGS, UROCE_WQE_ANY_FLAGS);
			assert_int_equal(rule->flags & ~(UROCE_WQE_ANY_FLAGS | UROCE_WQE_INLINE),
					 0);
			continue;
		}
		for (uint32_t type = 0; type < 32; type++)
			assert_false(uroce_wr_is_legal(rule, type));
		assert_int_equal(rule->flags | rule->traits, 0);
	}
	assert_int_equal(uroce_wr_rule_get(UINT32_MAX)->qp_types, 0);
	assert_false(uroce_wr_is_legal(uroce_wr_rule_get(UROCE_WR_SEND), 31));
}

UNIT_TEST(the_fast_path_s_functions_agree_with_the_table)
{
	for (uint32_t opcode = 0; opcode < UROCE_WR_OPCODES; opcode++) {
		const uint8_t traits = rule_of(opcode)->traits;

		assert_int_equal(req_sends(&entry), (traits & UROCE_WRT_SENDS) != 0);
		assert_int_equal(req_fetches(&entry), (traits & UROCE_WRT_FETCHES) != 0);
		assert_int_equal(req_is_local(&entry), (traits & UROCE_WRT_LOCAL) != 0);
		assert_int_equal(req_takes_recv(&entry), (traits & UROCE_WRT_TAKES_RECV) != 0);
		/* each does one of the three */
		assert_int_equal(req_sends(&entry) + req_fetches(&entry) + req_is_local(&entry), 1);
		assert_int_equal(req_fetches(&entry) && opcode != UROCE_WR_RDMA_READ,
				 (traits & UROCE_WRT_EIGHT) != 0);
		/* inline data can only be sent */
		assert_int_equal((rule_of(opcode)->flags & UROCE_WQE_INLINE) != 0,
				 (traits & UROCE_WRT_SENDS) != 0);
	}
}

UNIT_TEST(headers_of_the_packets_agree_with_the_table)
{
	for (uint32_t opcode = 0; opcode < UROCE_WR_OPCODES; opcode++) {
		const uint8_t traits = rule_of(opcode)->traits;
		uint32_t flags;

		if (!req_sends(&entry))
			continue;
		flags = wire_op_table[req_opcode(&entry, 0)].flags;
		assert_int_equal((flags & WIRE_F_IMM) != 0, (traits & UROCE_WRT_IMM) != 0);
		assert_int_equal((flags & WIRE_F_IETH) != 0, (traits & UROCE_WRT_INV) != 0);
		assert_int_equal((flags & WIRE_F_RETH) != 0, (traits & UROCE_WRT_REMOTE) != 0);
		assert_int_equal((flags & WIRE_F_RWQE) != 0, (traits & UROCE_WRT_TAKES_RECV) != 0);
		for (uint32_t type = QP_TYPE_RC; type <= QP_TYPE_UD; type++) {
			static const uint8_t svc[] = {[QP_TYPE_RC] = WIRE_SVC_RC,
						      [QP_TYPE_UC] = WIRE_SVC_UC,
						      [QP_TYPE_UD] = WIRE_SVC_UD};

			flags = wire_op_table[svc[type] | req_opcode(&entry, 0)].flags;
			assert_int_equal(uroce_wr_is_legal(rule_of(opcode), type),
					 (flags & WIRE_F_VALID) != 0);
		}
	}
}
