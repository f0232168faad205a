/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BTH opcodes and the table of their properties (WIRE-01): service, place in a message, headers
 * that follow the BTH. All code classifies packets by this table.
 */
#ifndef WIRE_OPCODE_H
#define WIRE_OPCODE_H

#include <stdint.h>

/* Service: the opcode's upper three bits. */
enum wire_svc {
	WIRE_SVC_RC = 0x00,
	WIRE_SVC_UC = 0x20,
	WIRE_SVC_RD = 0x40, /* not supported */
	WIRE_SVC_UD = 0x60,
	WIRE_SVC_CNP = 0x80,
	WIRE_SVC_XRC = 0xa0,   /* not supported */
	WIRE_SVC_UROCE = 0xc0, /* of the range that is left to manufacturers */
	WIRE_SVC_MASK = 0xe0,
};

/* Operation: the opcode's lower five bits, equal in all services that have it. */
enum wire_op {
	WIRE_OP_SEND_FIRST = 0x00,
	WIRE_OP_SEND_MIDDLE = 0x01,
	WIRE_OP_SEND_LAST = 0x02,
	WIRE_OP_SEND_LAST_IMM = 0x03,
	WIRE_OP_SEND_ONLY = 0x04,
	WIRE_OP_SEND_ONLY_IMM = 0x05,
	WIRE_OP_WRITE_FIRST = 0x06,
	WIRE_OP_WRITE_MIDDLE = 0x07,
	WIRE_OP_WRITE_LAST = 0x08,
	WIRE_OP_WRITE_LAST_IMM = 0x09,
	WIRE_OP_WRITE_ONLY = 0x0a,
	WIRE_OP_WRITE_ONLY_IMM = 0x0b,
	WIRE_OP_READ_REQ = 0x0c,
	WIRE_OP_READ_RESP_FIRST = 0x0d,
	WIRE_OP_READ_RESP_MIDDLE = 0x0e,
	WIRE_OP_READ_RESP_LAST = 0x0f,
	WIRE_OP_READ_RESP_ONLY = 0x10,
	WIRE_OP_ACK = 0x11,
	WIRE_OP_ATOMIC_ACK = 0x12,
	WIRE_OP_CMP_SWAP = 0x13,
	WIRE_OP_FETCH_ADD = 0x14,
	WIRE_OP_SEND_LAST_INV = 0x16,
	WIRE_OP_SEND_ONLY_INV = 0x17,
	WIRE_OP_MASK = 0x1f,
};
#define WIRE_OPCODE_CNP 0x81u
/* Selective acknowledgement (wire/sack.h), sent only to a peer that has agreed to it. */
#define WIRE_OPCODE_SACK (WIRE_SVC_UROCE | WIRE_OP_ACK)

enum wire_op_flags {
	WIRE_F_VALID = 1 << 0, /* opcode of a service that uroce supports */
	WIRE_F_REQ = 1 << 1,   /* request, for the responder */
	WIRE_F_RESP = 1 << 2,  /* response, for the requester */
	WIRE_F_FIRST = 1 << 3, /* starts a message (FIRST or ONLY) */
	WIRE_F_LAST = 1 << 4,  /* ends a message (LAST or ONLY) */
	WIRE_F_SEND = 1 << 5,
	WIRE_F_WRITE = 1 << 6,
	WIRE_F_READ = 1 << 7, /* READ request or response */
	WIRE_F_ATOMIC = 1 << 8,
	WIRE_F_ACK = 1 << 9,      /* ACK or NAK without data */
	WIRE_F_PAYLOAD = 1 << 10, /* may carry payload */
	WIRE_F_DETH = 1 << 11,
	WIRE_F_RETH = 1 << 12,
	WIRE_F_AETH = 1 << 13,
	WIRE_F_ATOMICETH = 1 << 14,
	WIRE_F_ATOMICACKETH = 1 << 15,
	WIRE_F_IMM = 1 << 16,
	WIRE_F_IETH = 1 << 17,
	WIRE_F_CNP = 1 << 18, /* 16 reserved bytes follow the BTH */
	/* consumes a receive WQE on completion (any SEND, WRITE with immediate) */
	WIRE_F_RWQE = 1 << 19,
	WIRE_F_SACK = 1 << 20, /* struct wire_sack is the payload */
};

struct wire_op_info {
	const char *name; /* "RC_SEND_FIRST" */
	uint32_t flags;   /* enum wire_op_flags; 0 if the opcode is unknown */
	uint8_t hdr_len;  /* bytes of the BTH and the extended headers */
};

/* Indexed by BTH opcode, every row defined. Read only. */
extern const struct wire_op_info wire_op_table[256];

#endif
