/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire-check FILE...: every RoCEv2 frame of a capture (pcap or pcapng, Ethernet) parses, is built
 * again byte for byte from its parsed fields, and has a right ICRC. Prints for each file
 *
 *   FILE: frames N parsed N rebuilt N icrc N
 *
 * Errors in a frame are printed to stderr. A frame that uroce refuses for nothing but its
 * transport version still counts as parsed: the tool is about layout. Exit status: 0 all equal,
 * 1 something differs, 2 a file could not be read.
 * wire-check --emit FILE: writes a capture of lib/wire's own frames, see emit.h.
 */
#include <stdio.h>
#include <string.h>
#include <pcap/pcap.h>
#include "emit.h"
#include "rebuild.h"
#include "wire/icrc.h"

#define MAX_FRAME 65535

struct counts {
	unsigned frames, parsed, rebuilt, icrc;
};

static void
complain(const char *file, unsigned long nr, const char *what)
{
	fprintf(stderr, "%s: frame %lu: %s\n", file, nr, what);
}

/*
 * True when the frame that pkt was parsed from is what the builder makes of pkt. Where its ICRC is
 * wrong, that is not the builder's fault: then all but the ICRC is compared. Ethernet padding
 * behind the IP packet is not part of it.
 */
static bool
rebuilds(const struct wire_pkt *pkt, bool icrc_ok)
{
	static uint8_t out[MAX_FRAME + 2 * WIRE_MAX_OVERHEAD];
	const uint8_t *end = pkt->payload + pkt->payload_len + pkt->pad_len + WIRE_ICRC_LEN;
	uint32_t len = rebuild_frame(pkt, out);

	if (len != end - pkt->l2)
		return false;
	return memcmp(out, pkt->l2, icrc_ok ? len : len - WIRE_ICRC_LEN) == 0;
}

static void
check_frame(const char *file, unsigned long nr, const uint8_t *frame, uint32_t len,
	    struct counts *n)
{
	struct wire_pkt pkt = {0};
	enum wire_verdict v = wire_parse(frame, len, &pkt);
	bool icrc_ok;

	if (wire_not_roce(v))
		return;
	n->frames++;
	if (v != WIRE_OK)
		complain(file, nr, wire_verdict_name[v]);
	if (v != WIRE_OK && v != WIRE_BAD_TVER)
		return;
	n->parsed++;
	icrc_ok = wire_icrc_check(&pkt);
	if (icrc_ok)
		n->icrc++;
	else
		complain(file, nr, wire_verdict_name[WIRE_BAD_ICRC]);
	if (rebuilds(&pkt, icrc_ok))
		n->rebuilt++;
	else
		complain(file, nr, "rebuilt frame differs");
}

/* Returns 0, 1 or 2 as the exit status. */
static int
check_file(const char *file)
{
	char err[PCAP_ERRBUF_SIZE];
	pcap_t *pcap = pcap_open_offline(file, err);
	struct counts n = {0};
	struct pcap_pkthdr *hdr;
	const u_char *frame;
	unsigned long nr = 0;
	int rc = 0;

	if (pcap == NULL) {
		fprintf(stderr, "wire-check: %s\n", err);
		return 2;
	}
	if (pcap_datalink(pcap) != DLT_EN10MB) {
		fprintf(stderr, "%s: not an Ethernet capture\n", file);
		pcap_close(pcap);
		return 2;
	}
	while ((rc = pcap_next_ex(pcap, &hdr, &frame)) == 1)
		check_frame(file, ++nr, frame, hdr->caplen, &n);
	if (rc == PCAP_ERROR)
		fprintf(stderr, "%s: %s\n", file, pcap_geterr(pcap));
	pcap_close(pcap);
	printf("%s: frames %u parsed %u rebuilt %u icrc %u\n", file, n.frames, n.parsed, n.rebuilt,
	       n.icrc);
	if (rc == PCAP_ERROR)
		return 2;
	return n.parsed == n.frames && n.rebuilt == n.frames && n.icrc == n.frames ? 0 : 1;
}

int
main(int argc, char **argv)
{
	int i, rc, worst = 0;

	if (argc == 3 && strcmp(argv[1], "--emit") == 0)
		return emit_capture(argv[2]) == 0 ? 0 : 2;
	if (argc < 2 || argv[1][0] == '-') {
		fprintf(stderr, "usage: wire-check FILE.pcap... | --emit FILE.pcap\n");
		return 2;
	}
	for (i = 1; i < argc; i++) {
		rc = check_file(argv[i]);
		worst = rc > worst ? rc : worst;
	}
	return worst;
}
