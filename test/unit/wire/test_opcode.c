/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The opcode table against IBTA table 38, written here again in another form: by the headers after
 * the BTH in wire order, and by the position in the message.
 */
#include <string.h>
#include "wire/opcode.h"
#include "../../kit/unit.h"

struct row {
	uint8_t opcode;
	const char *name;
	const char *layout; /* headers after the BTH, by letter, see header_of; '+' payload */
	char place;         /* First Middle Last Only */
};

static const struct row rows[] = {
	{0x00, "RC_SEND_FIRST", "+", 'F'},       {0x01, "RC_SEND_MIDDLE", "+", 'M'},
	{0x02, "RC_SEND_LAST", "+", 'L'},        {0x03, "RC_SEND_LAST_IMM", "i+", 'L'},
	{0x04, "RC_SEND_ONLY", "+", 'O'},        {0x05, "RC_SEND_ONLY_IMM", "i+", 'O'},
	{0x06, "RC_WRITE_FIRST", "R+", 'F'},     {0x07, "RC_WRITE_MIDDLE", "+", 'M'},
	{0x08, "RC_WRITE_LAST", "+", 'L'},       {0x09, "RC_WRITE_LAST_IMM", "i+", 'L'},
	{0x0a, "RC_WRITE_ONLY", "R+", 'O'},      {0x0b, "RC_WRITE_ONLY_IMM", "Ri+", 'O'},
	{0x0c, "RC_READ_REQ", "R", 'O'},         {0x0d, "RC_READ_RESP_FIRST", "a+", 'F'},
	{0x0e, "RC_READ_RESP_MIDDLE", "+", 'M'}, {0x0f, "RC_READ_RESP_LAST", "a+", 'L'},
	{0x10, "RC_READ_RESP_ONLY", "a+", 'O'},  {0x11, "RC_ACK", "a", 'O'},
	{0x12, "RC_ATOMIC_ACK", "ao", 'O'},      {0x13, "RC_CMP_SWAP", "A", 'O'},
	{0x14, "RC_FETCH_ADD", "A", 'O'},        {0x16, "RC_SEND_LAST_INV", "k+", 'L'},
	{0x17, "RC_SEND_ONLY_INV", "k+", 'O'},   {0x20, "UC_SEND_FIRST", "+", 'F'},
	{0x21, "UC_SEND_MIDDLE", "+", 'M'},      {0x22, "UC_SEND_LAST", "+", 'L'},
	{0x23, "UC_SEND_LAST_IMM", "i+", 'L'},   {0x24, "UC_SEND_ONLY", "+", 'O'},
	{0x25, "UC_SEND_ONLY_IMM", "i+", 'O'},   {0x26, "UC_WRITE_FIRST", "R+", 'F'},
	{0x27, "UC_WRITE_MIDDLE", "+", 'M'},     {0x28, "UC_WRITE_LAST", "+", 'L'},
	{0x29, "UC_WRITE_LAST_IMM", "i+", 'L'},  {0x2a, "UC_WRITE_ONLY", "R+", 'O'},
	{0x2b, "UC_WRITE_ONLY_IMM", "Ri+", 'O'}, {0x64, "UD_SEND_ONLY", "D+", 'O'},
	{0x65, "UD_SEND_ONLY_IMM", "Di+", 'O'},  {0x81, "CNP", "c", 0},
	{0xd1, "UROCE_ACK", "a+", 'O'},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static uint32_t
header_of(char letter, unsigned *len)
{
	static const struct {
		char letter;
		uint32_t flag;
		unsigned len;
	} headers[] = {
		{'D', WIRE_F_DETH, 8}, {'R', WIRE_F_RETH, 16},        {'A', WIRE_F_ATOMICETH, 28},
		{'a', WIRE_F_AETH, 4}, {'o', WIRE_F_ATOMICACKETH, 8}, {'i', WIRE_F_IMM, 4},
		{'k', WIRE_F_IETH, 4}, {'c', WIRE_F_CNP, 16},         {'+', WIRE_F_PAYLOAD, 0},
	};
	unsigned i;

	for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		if (headers[i].letter != letter)
			continue;
		*len += headers[i].len;
		return headers[i].flag;
	}
	fail_msg("no header '%c'", letter);
	return 0;
}

/* The flags that a name implies, less those of layout and place. */
static uint32_t
kind_of(const char *name)
{
	uint32_t flags = WIRE_F_VALID;

	if (strcmp(name, "CNP") == 0)
		return flags;
	flags |= strstr(name, "SEND") ? WIRE_F_SEND | WIRE_F_RWQE : 0;
	flags |= strstr(name, "WRITE") ? WIRE_F_WRITE : 0;
	flags |= strstr(name, "WRITE") && strstr(name, "_IMM") ? WIRE_F_RWQE : 0;
	flags |= strstr(name, "READ") ? WIRE_F_READ : 0;
	flags |= strstr(name, "ATOMIC") || strstr(name, "SWAP") || strstr(name, "ADD")
			 ? WIRE_F_ATOMIC
			 : 0;
	flags |= strcmp(name, "RC_ACK") == 0 ? WIRE_F_ACK : 0;
	flags |= strcmp(name, "UROCE_ACK") == 0 ? WIRE_F_ACK | WIRE_F_SACK : 0;
	flags |= strstr(name, "RESP") || strstr(name, "ACK") ? WIRE_F_RESP : WIRE_F_REQ;
	return flags;
}

REQUIREMENT("WIRE-01")
UNIT_TEST(every_opcode_as_in_the_specification)
{
	unsigned i;

	for (i = 0; i < ROWS; i++) {
		const struct wire_op_info *op = &wire_op_table[rows[i].opcode];
		uint32_t flags = kind_of(rows[i].name);
		unsigned len = 12;
		const char *l;

		for (l = rows[i].layout; *l; l++)
			flags |= header_of(*l, &len);
		flags |= rows[i].place == 'F' || rows[i].place == 'O' ? WIRE_F_FIRST : 0;
		flags |= rows[i].place == 'L' || rows[i].place == 'O' ? WIRE_F_LAST : 0;
		assert_string_equal(op->name, rows[i].name);
		assert_int_equal(op->flags, flags);
		assert_int_equal(op->hdr_len, len);
	}
}

REQUIREMENT("WIRE-01")
UNIT_TEST(all_other_opcodes_are_unknown)
{
	unsigned opcode, i;

	for (opcode = 0; opcode < 256; opcode++) {
		for (i = 0; i < ROWS && rows[i].opcode != opcode; i++)
			;
		if (i < ROWS)
			continue;
		assert_non_null(wire_op_table[opcode].name);
		assert_int_equal(wire_op_table[opcode].flags, 0);
		assert_int_equal(wire_op_table[opcode].hdr_len, 12);
	}
}
