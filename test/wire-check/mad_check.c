/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mad-check FILE...: every CM MAD of a capture parses and is built again byte for byte. Prints one
 * line of JSON for each: its fields by the names of wire_cm_fields, and "rebuilt". Exit status: 0
 * all equal, 1 something differs, 2 a file could not be read.
 * mad-check --emit FILE: writes a capture of MADs with random fields, COPIES of each attribute, and
 * prints the same lines.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <pcap/pcap.h>
#include "wire/build.h"
#include "wire/mad.h"
#include "wire/opcode.h"
#include "wire/parse.h"

#define COPIES 20

static const struct wire_path path = {
	.smac = {0x02, 0, 0, 0, 0, 1},
	.dmac = {0x02, 0, 0, 0, 0, 2},
	.sgid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
	.dgid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2},
	.udp_sport = 0xc123,
	.hop_limit = 64,
};

static uint64_t
random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void
print_field(const struct wire_cm *m, const struct wire_cm_field *f)
{
	const uint8_t *p = (const uint8_t *)m + f->at;
	uint64_t v = 0;

	printf(", \"%s\": ", f->name);
	if (f->size != 0) {
		memcpy(&v, p, f->size); /* little endian */
		printf("%" PRIu64, v);
		return;
	}
	printf("\"");
	for (uint32_t i = 0; i < f->bits / 8u; i++)
		printf("%02x", p[i]);
	printf("\"");
}

/* Print what mad says; true when it is built again as it was. */
static bool
print_mad(const uint8_t *mad, const struct wire_cm *m)
{
	uint8_t again[WIRE_MAD_LEN];
	bool same;
	uint32_t n;
	const struct wire_cm_field *f = wire_cm_fields(m->attr, &n);

	wire_cm_build(m, again);
	same = memcmp(mad, again, sizeof(again)) == 0;
	printf("{\"message\": \"%s\", \"tid\": %" PRIu64 ", \"modifier\": %" PRIu32
	       ", \"rebuilt\": %s",
	       wire_cm_attr_name[WIRE_CM_INDEX(m->attr)], m->tid, m->modifier,
	       same ? "true" : "false");
	for (; n > 0; f++, n--)
		print_field(m, f);
	printf("}\n");
	return same;
}

static bool
check_frame(const uint8_t *frame, uint32_t len)
{
	struct wire_pkt pkt;
	struct wire_cm m;

	if (wire_parse(frame, len, &pkt) != WIRE_OK ||
	    pkt.opcode != (WIRE_SVC_UD | WIRE_OP_SEND_ONLY) || pkt.qpn != WIRE_GSI_QPN ||
	    pkt.qkey != WIRE_GSI_QKEY)
		return true;
	return wire_cm_parse(pkt.payload, pkt.payload_len, &m) == WIRE_CM_OK &&
	       print_mad(pkt.payload, &m);
}

static int
check_file(const char *file)
{
	char err[PCAP_ERRBUF_SIZE];
	pcap_t *pcap = pcap_open_offline(file, err);
	struct pcap_pkthdr *hdr;
	const u_char *frame;
	int rc, worst = 0;

	if (pcap == NULL) {
		fprintf(stderr, "mad-check: %s\n", err);
		return 2;
	}
	while ((rc = pcap_next_ex(pcap, &hdr, &frame)) == 1)
		if (!check_frame(frame, hdr->caplen))
			worst = 1;
	pcap_close(pcap);
	return rc == PCAP_ERROR ? 2 : worst;
}

/* Random values in all fields of a message. */
static void
fill(struct wire_cm *m, uint32_t attr, uint64_t *rng)
{
	uint32_t n;
	const struct wire_cm_field *f = wire_cm_fields(attr, &n);

	memset(m, 0, sizeof(*m));
	m->attr = (uint8_t)attr;
	m->tid = random_next(rng);
	m->modifier = (uint32_t)random_next(rng);
	for (; n > 0; f++, n--) {
		uint8_t *p = (uint8_t *)m + f->at;
		uint64_t v = random_next(rng) >> (f->size != 0 ? 64 - f->bits : 0);

		if (f->size != 0)
			memcpy(p, &v, f->size);
		for (uint32_t i = 0; f->size == 0 && i < f->bits / 8u; i++)
			p[i] = (uint8_t)random_next(rng);
	}
}

static void
emit_mad(pcap_dumper_t *dump, const struct wire_cm *m)
{
	uint8_t frame[WIRE_MAX_OVERHEAD + WIRE_MAD_LEN];
	struct wire_fields f = {.opcode = (WIRE_SVC_UD | WIRE_OP_SEND_ONLY),
				.qkey = WIRE_GSI_QKEY,
				.src_qpn = WIRE_GSI_QPN};
	struct pcap_pkthdr hdr = {.ts.tv_sec = 1};
	struct wire_tmpl t;
	uint32_t at;

	wire_tmpl_init(&t, &path, WIRE_GSI_QPN, WIRE_PKEY_DEFAULT);
	at = wire_hdr_put(&t, &f, WIRE_MAD_LEN, frame);
	wire_cm_build(m, frame + at);
	hdr.len = hdr.caplen = wire_frame_finish(&t, frame, at, WIRE_MAD_LEN);
	pcap_dump((u_char *)dump, &hdr, frame);
	print_mad(frame + at, m);
}

static int
emit_file(const char *file)
{
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, 65535);
	pcap_dumper_t *dump = pcap != NULL ? pcap_dump_open(pcap, file) : NULL;
	uint64_t rng = 1;
	struct wire_cm m;
	int rc;

	if (dump == NULL) {
		fprintf(stderr, "mad-check: %s: cannot be written\n", file);
		return 2;
	}
	for (uint32_t i = 0; i < COPIES * WIRE_CM_NATTRS; i++) {
		fill(&m, WIRE_CM_REQ + i % WIRE_CM_NATTRS, &rng);
		emit_mad(dump, &m);
	}
	rc = pcap_dump_flush(dump) == 0 ? 0 : 2;
	pcap_dump_close(dump);
	pcap_close(pcap);
	return rc;
}

int
main(int argc, char **argv)
{
	int i, rc, worst = 0;

	if (argc == 3 && strcmp(argv[1], "--emit") == 0)
		return emit_file(argv[2]);
	if (argc < 2 || argv[1][0] == '-') {
		fprintf(stderr, "usage: mad-check FILE.pcap... | --emit FILE.pcap\n");
		return 2;
	}
	for (i = 1; i < argc; i++) {
		rc = check_file(argv[i]);
		worst = rc > worst ? rc : worst;
	}
	return worst;
}
