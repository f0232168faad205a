/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <pcap/pcap.h>
#include "emit.h"
#include "wire/build.h"

#define MAX_PAYLOAD 64

static const struct wire_path path4 = {
	.smac = {0x02, 0, 0, 0, 0, 1},
	.dmac = {0x02, 0, 0, 0, 0, 2},
	.sgid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
	.dgid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2},
	.udp_sport = 0xc123,
	.tclass = 0x68,
	.hop_limit = 64,
};

static const struct wire_path path6 = {
	.smac = {0x02, 0, 0, 0, 0, 1},
	.dmac = {0x02, 0, 0, 0, 0, 2},
	.sgid = {0xfd, [15] = 1},
	.dgid = {0xfd, [15] = 2},
	.udp_sport = 0xfedc,
	.tclass = 0x69,
	.hop_limit = 1,
	.flow_label = 0xabcde,
};

/* Fields of the n-th frame: each differs from its neighbour's, high bits set here and there. */
static struct wire_fields
fields_for(uint8_t opcode, uint32_t n)
{
	return (struct wire_fields){
		.opcode = opcode,
		.solicited = n & 1,
		.ackreq = n & 2,
		.becn = opcode == WIRE_OPCODE_CNP,
		.psn = (0xfffff0 + n) & 0xffffff,
		.va = UINT64_C(0x8123456789abcd00) + n,
		.rkey = 0x9abc0000 + n,
		.dmalen = 0x10000 + n,
		.swap_add = UINT64_C(0xf0e0d0c0b0a09000) + n,
		.compare = UINT64_C(0xfedcba9876543000) + n,
		.orig = UINT64_C(0x8000000000000000) + n,
		.syndrome = WIRE_SYN_ACK | WIRE_SYN_NO_CREDITS,
		.msn = 0xff0000 + n,
		.qkey = 0x11110000 + n,
		.src_qpn = 0x880000 + n,
		.imm = rte_cpu_to_be_32(0x55aa0000 + n),
		.inv_rkey = 0x77770000 + n,
	};
}

static void
print_expected(const struct wire_fields *f, uint32_t qpn, uint32_t payload_len, bool is_v6,
	       uint32_t vlan)
{
	printf("{\"name\":\"%s\",\"opcode\":%u,\"qpn\":%" PRIu32 ",\"psn\":%" PRIu32
	       ",\"payload\":%" PRIu32 ",\"v6\":%d,\"vlan\":%" PRIu32 ",\"se\":%d,\"ackreq\":%d"
	       ",\"va\":%" PRIu64 ",\"rkey\":%" PRIu32 ",\"dmalen\":%" PRIu32
	       ",\"swap_add\":%" PRIu64 ",\"compare\":%" PRIu64 ",\"orig\":%" PRIu64
	       ",\"syndrome\":%u,\"msn\":%" PRIu32 ",\"qkey\":%" PRIu32 ",\"src_qpn\":%" PRIu32
	       ",\"imm\":%" PRIu32 ",\"inv_rkey\":%" PRIu32 "}\n",
	       wire_op_table[f->opcode].name, f->opcode, qpn, f->psn, payload_len, is_v6, vlan,
	       f->solicited, f->ackreq, f->va, f->rkey, f->dmalen, f->swap_add, f->compare, f->orig,
	       f->syndrome, f->msn, f->qkey, f->src_qpn, rte_be_to_cpu_32(f->imm), f->inv_rkey);
}

/* One frame of opcode: number n of the capture. */
static void
emit_frame(pcap_dumper_t *dump, uint8_t opcode, uint32_t n, const struct wire_path *path,
	   uint32_t payload_len)
{
	uint8_t frame[WIRE_MAX_OVERHEAD + MAX_PAYLOAD];
	struct wire_fields f = fields_for(opcode, n);
	bool is_v6 = path->sgid[0] == 0xfd;
	struct pcap_pkthdr hdr = {.ts.tv_sec = 1, .ts.tv_usec = n};
	uint32_t qpn = 0x800000 + n, hdr_len, i;
	struct wire_tmpl t;

	wire_tmpl_init(&t, path, qpn, WIRE_PKEY_DEFAULT);
	wire_tmpl_set_ip_id(&t, (uint16_t)(0xfff0 + n));
	hdr_len = wire_hdr_put(&t, &f, payload_len, frame);
	for (i = 0; i < payload_len; i++)
		frame[hdr_len + i] = (uint8_t)(0xa5 ^ i);
	hdr.len = wire_frame_finish(&t, frame, hdr_len, payload_len);
	hdr.caplen = hdr.len;
	pcap_dump((u_char *)dump, &hdr, frame);
	print_expected(&f, qpn, payload_len, is_v6, path->vlan_tci);
}

/* All variants of one opcode, the first being frame n. Returns the number of the next frame. */
static uint32_t
emit_opcode(pcap_dumper_t *dump, uint8_t opcode, uint32_t n)
{
	static const uint32_t lengths[] = {0, 1, 2, 3, 4, 5, MAX_PAYLOAD};
	bool has_payload = wire_op_table[opcode].flags & WIRE_F_PAYLOAD;
	uint32_t variant, i;

	for (variant = 0; variant < 4; variant++) {
		struct wire_path path = variant & 1 ? path6 : path4;

		path.vlan_tci = variant & 2 ? 0x6123 : 0;
		for (i = 0; i < (has_payload ? sizeof(lengths) / sizeof(lengths[0]) : 1); i++)
			emit_frame(dump, opcode, n++, &path, lengths[i]);
	}
	return n;
}

int
emit_capture(const char *path)
{
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, 65535);
	pcap_dumper_t *dump = pcap ? pcap_dump_open(pcap, path) : NULL;
	uint32_t opcode, n = 0;
	int rc;

	if (dump == NULL) {
		fprintf(stderr, "wire-check: %s: %s\n", path,
			pcap ? pcap_geterr(pcap) : "no memory");
		if (pcap)
			pcap_close(pcap);
		return -1;
	}
	for (opcode = 0; opcode < 256; opcode++)
		/* No other program knows a selective acknowledgement. */
		if ((wire_op_table[opcode].flags & WIRE_F_VALID) && opcode != WIRE_OPCODE_SACK)
			n = emit_opcode(dump, (uint8_t)opcode, n);
	rc = pcap_dump_flush(dump);
	if (rc != 0)
		fprintf(stderr, "wire-check: %s: write failed\n", path);
	pcap_dump_close(dump);
	pcap_close(pcap);
	return rc;
}
