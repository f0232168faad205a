/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a seed corpus from captures: seeds OUTDIR FILE.pcap.. Each capture becomes an input. Its
 * frames go to a live QP of their service, with valid PSNs, keys and addresses, and pauses are
 * kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pcap/pcap.h>
#include "craft.h"
#include "wire/parse.h"
#include "wire/psn.h"

#define INPUT_MAX (1 << 18)

struct seed {
	uint8_t bytes[INPUT_MAX];
	size_t used;
	uint32_t steps;
	struct rng rng;
	/* Of each QP, how PSNs of the capture become its own; requests and responses apart. */
	uint32_t shift[WORLD_QPS][2];
	bool known[WORLD_QPS][2];
	uint64_t last_us;
};

/* Requests to one QP of the service and responses to another would meet no state: to the same. */
static uint32_t
qp_for(const struct wire_pkt *pkt)
{
	switch (pkt->opcode & WIRE_SVC_MASK) {
	case WIRE_SVC_RC:
		return pkt->is_v6 ? WORLD_RC_V6 : pkt->qpn % 2 ? WORLD_RC : WORLD_RC_SRQ;
	case WIRE_SVC_UC:
		return WORLD_UC;
	case WIRE_SVC_UD:
		return pkt->is_v6 ? WORLD_UD_V6 : WORLD_UD;
	default:
		return WORLD_QPS;
	}
}

static uint32_t
psn_for(struct seed *s, uint32_t q, const struct wire_pkt *pkt)
{
	bool resp = pkt->op->flags & WIRE_F_RESP;
	struct world_psns p = world_psns(q);

	if (!s->known[q][resp]) {
		s->known[q][resp] = true;
		s->shift[q][resp] = (resp ? p.una : p.epsn) - pkt->psn;
	}
	return psn_add(pkt->psn, s->shift[q][resp]);
}

static void
put_time(struct seed *s, const struct timeval *tv)
{
	uint64_t us = (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
	uint64_t ns = s->last_us == 0 || us < s->last_us ? 0 : (us - s->last_us) * 1000;
	uint8_t log2 = 0;

	s->last_us = us;
	/* The capture waited for a retry: so must the input. */
	if (ns < 1000000)
		return;
	while (log2 < 33 && 2ull << log2 <= ns)
		log2++;
	s->used += step_put(s->bytes + s->used, STEP_TIME, log2, NULL, 0);
	s->steps++;
}

static void
put_frame(struct seed *s, const uint8_t *frame, uint32_t len)
{
	static uint8_t out[STEP_MAX_FRAME];
	static struct craft c;
	struct wire_pkt pkt;
	uint32_t q;

	if (wire_parse(frame, len, &pkt) != WIRE_OK)
		return;
	q = qp_for(&pkt);
	if (q == WORLD_QPS)
		return;
	craft_take(&c, frame, len, &s->rng);
	c.q = q;
	c.psn = psn_for(s, q, &pkt);
	craft_aim(&c, &s->rng);
	/* Whole messages, not what the draw would make of them. */
	if (pkt.op->flags & WIRE_F_RETH)
		((struct wire_reth *)c.rest)->dmalen = rte_cpu_to_be_32(pkt.dmalen);
	s->used +=
		step_put(s->bytes + s->used, STEP_FRAME, 0, out, (uint16_t)craft_finish(&c, out));
	s->steps++;
}

static int
write_seed(const struct seed *s, const char *dir, const char *pcap)
{
	const char *name = strrchr(pcap, '/');
	char path[4096];
	FILE *f;
	int rc;

	snprintf(path, sizeof(path), "%s/%s", dir, name != NULL ? name + 1 : pcap);
	f = fopen(path, "wb");
	if (f == NULL) {
		perror(path);
		return -1;
	}
	rc = fwrite(s->bytes, 1, s->used, f) == s->used ? 0 : -1;
	if (fclose(f) != 0 || rc != 0) {
		perror(path);
		return -1;
	}
	return 0;
}

static int
make_seed(const char *dir, const char *pcap)
{
	static struct seed s;
	char err[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *h;
	const uint8_t *frame;
	pcap_t *p = pcap_open_offline(pcap, err);

	if (p == NULL) {
		fprintf(stderr, "seeds: %s\n", err);
		return -1;
	}
	memset(&s, 0, sizeof(s));
	while (pcap_next_ex(p, &h, &frame) == 1 && s.steps < STEP_MAX &&
	       s.used + 2 * STEP_MAX_FRAME < sizeof(s.bytes)) {
		put_time(&s, &h->ts);
		put_frame(&s, frame, h->caplen);
	}
	pcap_close(p);
	return write_seed(&s, dir, pcap);
}

int
main(int argc, char **argv)
{
	int i, rc = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: seeds OUTDIR FILE.pcap..\n");
		return 2;
	}
	world_init();
	world_run((const uint8_t *)"", 0);
	for (i = 2; i < argc && rc == 0; i++)
		rc = make_seed(argv[1], argv[i]);
	return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
