/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/opcode.h"
#include "wire/hdr.h"

/* Length of the BTH and of the headers named by flags. */
#define HDR_LEN(flags)                                                                             \
	(WIRE_BTH_LEN + ((flags)&WIRE_F_DETH ? sizeof(struct wire_deth) : 0) +                     \
	 ((flags)&WIRE_F_RETH ? sizeof(struct wire_reth) : 0) +                                    \
	 ((flags)&WIRE_F_AETH ? sizeof(struct wire_aeth) : 0) +                                    \
	 ((flags)&WIRE_F_ATOMICETH ? sizeof(struct wire_atomiceth) : 0) +                          \
	 ((flags)&WIRE_F_ATOMICACKETH ? sizeof(struct wire_atomicacketh) : 0) +                    \
	 ((flags)&WIRE_F_IMM ? sizeof(struct wire_immdt) : 0) +                                    \
	 ((flags)&WIRE_F_IETH ? sizeof(struct wire_ieth) : 0) +                                    \
	 ((flags)&WIRE_F_CNP ? WIRE_CNP_RESERVED_LEN : 0))

#define ROW(svc, op, f)                                                                            \
	[WIRE_SVC_##svc | WIRE_OP_##                                                               \
		op] = {.name = #svc "_" #op, .flags = WIRE_F_VALID | (f), .hdr_len = HDR_LEN(f)}

/* Short names, so that a row fits a line. */
#define FIRST   WIRE_F_FIRST
#define LAST    WIRE_F_LAST
#define ONLY    (FIRST | LAST)
#define SEND    (WIRE_F_REQ | WIRE_F_SEND | WIRE_F_PAYLOAD | WIRE_F_RWQE)
#define WRITE   (WIRE_F_REQ | WIRE_F_WRITE | WIRE_F_PAYLOAD)
#define RETH    WIRE_F_RETH
#define IMM     WIRE_F_IMM
#define WIMM    (WIRE_F_IMM | WIRE_F_RWQE)
#define IETH    WIRE_F_IETH
#define DETH    WIRE_F_DETH
#define AETH    WIRE_F_AETH
#define RD_RESP (WIRE_F_RESP | WIRE_F_READ | WIRE_F_PAYLOAD)
#define ATOMIC  (WIRE_F_REQ | WIRE_F_ATOMIC | WIRE_F_ATOMICETH)
#define AT_RESP (WIRE_F_RESP | WIRE_F_ATOMIC | WIRE_F_AETH | WIRE_F_ATOMICACKETH)

#define UNKNOWN                                                                                    \
	{                                                                                          \
		.name = "UNKNOWN", .flags = 0, .hdr_len = WIRE_BTH_LEN                             \
	}

/* IBTA table 38 (opcodes and their extended headers), annex A17.9 (CNP). */
const struct wire_op_info wire_op_table[256] = {
	/* clang-format off */
	ROW(RC, SEND_FIRST,       SEND | FIRST),
	ROW(RC, SEND_MIDDLE,      SEND),
	ROW(RC, SEND_LAST,        SEND | LAST),
	ROW(RC, SEND_LAST_IMM,    SEND | LAST | IMM),
	ROW(RC, SEND_ONLY,        SEND | ONLY),
	ROW(RC, SEND_ONLY_IMM,    SEND | ONLY | IMM),
	ROW(RC, WRITE_FIRST,      WRITE | FIRST | RETH),
	ROW(RC, WRITE_MIDDLE,     WRITE),
	ROW(RC, WRITE_LAST,       WRITE | LAST),
	ROW(RC, WRITE_LAST_IMM,   WRITE | LAST | WIMM),
	ROW(RC, WRITE_ONLY,       WRITE | ONLY | RETH),
	ROW(RC, WRITE_ONLY_IMM,   WRITE | ONLY | RETH | WIMM),
	ROW(RC, READ_REQ,         WIRE_F_REQ | WIRE_F_READ | ONLY | RETH),
	ROW(RC, READ_RESP_FIRST,  RD_RESP | FIRST | AETH),
	ROW(RC, READ_RESP_MIDDLE, RD_RESP),
	ROW(RC, READ_RESP_LAST,   RD_RESP | LAST | AETH),
	ROW(RC, READ_RESP_ONLY,   RD_RESP | ONLY | AETH),
	ROW(RC, ACK,              WIRE_F_RESP | WIRE_F_ACK | ONLY | AETH),
	ROW(RC, ATOMIC_ACK,       AT_RESP | ONLY),
	ROW(RC, CMP_SWAP,         ATOMIC | ONLY),
	ROW(RC, FETCH_ADD,        ATOMIC | ONLY),
	[0x15] = UNKNOWN,
	ROW(RC, SEND_LAST_INV,    SEND | LAST | IETH),
	ROW(RC, SEND_ONLY_INV,    SEND | ONLY | IETH),
	[0x18 ... 0x1f] = UNKNOWN,

	ROW(UC, SEND_FIRST,       SEND | FIRST),
	ROW(UC, SEND_MIDDLE,      SEND),
	ROW(UC, SEND_LAST,        SEND | LAST),
	ROW(UC, SEND_LAST_IMM,    SEND | LAST | IMM),
	ROW(UC, SEND_ONLY,        SEND | ONLY),
	ROW(UC, SEND_ONLY_IMM,    SEND | ONLY | IMM),
	ROW(UC, WRITE_FIRST,      WRITE | FIRST | RETH),
	ROW(UC, WRITE_MIDDLE,     WRITE),
	ROW(UC, WRITE_LAST,       WRITE | LAST),
	ROW(UC, WRITE_LAST_IMM,   WRITE | LAST | WIMM),
	ROW(UC, WRITE_ONLY,       WRITE | ONLY | RETH),
	ROW(UC, WRITE_ONLY_IMM,   WRITE | ONLY | RETH | WIMM),
	[0x2c ... 0x3f] = UNKNOWN,

	[0x40 ... 0x63] = UNKNOWN, /* RD; UD has single-packet messages only */
	ROW(UD, SEND_ONLY,        SEND | ONLY | DETH),
	ROW(UD, SEND_ONLY_IMM,    SEND | ONLY | DETH | IMM),
	[0x66 ... 0x80] = UNKNOWN,

	[WIRE_OPCODE_CNP] = {
		.name = "CNP",
		.flags = WIRE_F_VALID | WIRE_F_CNP,
		.hdr_len = HDR_LEN(WIRE_F_CNP),
	},
	[0x82 ... 0xd0] = UNKNOWN, /* XRC, reserved, manufacturer specific */
	ROW(UROCE, ACK, WIRE_F_RESP | WIRE_F_ACK | ONLY | AETH | WIRE_F_PAYLOAD | WIRE_F_SACK),
	[0xd2 ... 0xff] = UNKNOWN,
	/* clang-format on */
};
