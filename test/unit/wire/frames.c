/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "frames.h"

#define GUARD_PAGE 4096u

struct wire_path
frame_path(unsigned kind)
{
	struct wire_path path = {
		.smac = {0x02, 1, 2, 3, 4, 5},
		.dmac = {0x02, 6, 7, 8, 9, 10},
		.sgid = {[10] = 0xff, [11] = 0xff, [12] = 192, 0, 2, 1},
		.dgid = {[10] = 0xff, [11] = 0xff, [12] = 192, 0, 2, 99},
		.udp_sport = 0xd17a,
		.tclass = 0xb9,
		.hop_limit = 17,
		.flow_label = 0xfabcd,
	};

	if (kind & FRAME_V6) {
		memcpy(path.sgid, (uint8_t[16]){0x20, 1, 0xd, 0xb8, [15] = 1}, 16);
		memcpy(path.dgid, (uint8_t[16]){0x20, 1, 0xd, 0xb8, [14] = 0xab, 2}, 16);
	}
	if (kind & FRAME_VLAN)
		path.vlan_tci = 0xa123;
	return path;
}

struct wire_fields
frame_fields(uint8_t opcode)
{
	return (struct wire_fields){
		.opcode = opcode,
		.solicited = true,
		.ackreq = true,
		.psn = 0xfedcba,
		.va = UINT64_C(0xfedcba9876543210),
		.rkey = 0xcafe0123,
		.dmalen = 0x80000000,
		.swap_add = UINT64_C(0x8877665544332211),
		.compare = UINT64_C(0x99aabbccddeeff00),
		.orig = UINT64_C(0xf123456789abcdef),
		.syndrome = 0x65,
		.msn = 0xabcdef,
		.qkey = 0x80010000,
		.src_qpn = 0x987654,
		.imm = rte_cpu_to_be_32(0xa1b2c3d4),
		.inv_rkey = 0xdeadbeef,
	};
}

struct frame
frame_make(uint8_t opcode, unsigned kind, uint32_t payload_len)
{
	struct wire_path path = frame_path(kind);
	struct wire_fields fields = frame_fields(opcode);
	struct wire_tmpl t;
	struct frame f;
	uint32_t hdr_len, i;

	wire_tmpl_init(&t, &path, 0x8ace13, 0x7fff);
	wire_tmpl_set_ip_id(&t, 0xbeef);
	/* Bytes that the builder does not write must differ from those it should write. */
	memset(f.bytes, 0xee, sizeof(f.bytes));
	hdr_len = wire_hdr_put(&t, &fields, payload_len, f.bytes);
	for (i = 0; i < payload_len; i++)
		f.bytes[hdr_len + i] = (uint8_t)(0xa5 - i);
	f.len = wire_frame_finish(&t, f.bytes, hdr_len, payload_len);
	f.ip_off = WIRE_ETH_LEN + (kind & FRAME_VLAN ? WIRE_VLAN_LEN : 0);
	f.bth_off = f.ip_off + (kind & FRAME_V6 ? WIRE_IPV6_LEN : WIRE_IPV4_LEN) + WIRE_UDP_LEN;
	return f;
}

void
frame_fix_csum(struct frame *f)
{
	uint8_t *ip = f->bytes + f->ip_off;
	uint32_t sum = 0, i;

	if (f->bth_off - f->ip_off != WIRE_IPV4_LEN + WIRE_UDP_LEN)
		return;
	ip[10] = 0;
	ip[11] = 0;
	for (i = 0; i < WIRE_IPV4_LEN; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	ip[10] = (uint8_t)(~sum >> 8);
	ip[11] = (uint8_t)~sum;
}

uint32_t
frame_next_opcode(uint32_t opcode)
{
	while (opcode < 256 && !(wire_op_table[opcode].flags & WIRE_F_VALID))
		opcode++;
	return opcode;
}

void
frame_shorten(struct frame *f, uint32_t n)
{
	uint32_t udp_len, ip_len;

	f->len -= n;
	udp_len = f->len - f->bth_off + WIRE_UDP_LEN;
	ip_len = f->bth_off - f->ip_off == WIRE_IPV4_LEN + WIRE_UDP_LEN ? udp_len + 20 : 0;
	f->bytes[f->bth_off - 4] = (uint8_t)(udp_len >> 8);
	f->bytes[f->bth_off - 3] = (uint8_t)udp_len;
	if (ip_len) {
		f->bytes[f->ip_off + 2] = (uint8_t)(ip_len >> 8);
		f->bytes[f->ip_off + 3] = (uint8_t)ip_len;
		frame_fix_csum(f);
	} else {
		f->bytes[f->ip_off + 4] = (uint8_t)(udp_len >> 8);
		f->bytes[f->ip_off + 5] = (uint8_t)udp_len;
	}
}

const uint8_t *
frame_guarded(const uint8_t *bytes, uint32_t len)
{
	static uint8_t *page;

	if (page == NULL) {
		page = mmap(NULL, 2 * GUARD_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED || mprotect(page + GUARD_PAGE, GUARD_PAGE, PROT_NONE) != 0)
			abort();
	}
	if (len > 0)
		memcpy(page + GUARD_PAGE - len, bytes, len);
	return page + GUARD_PAGE - len;
}
