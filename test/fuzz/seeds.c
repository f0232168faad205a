/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a seed corpus: a talk with a good peer, and captures: seeds OUTDIR FILE.pcap.. Each capture
 * becomes an input. Its frames go to a live QP of their service, with valid PSNs, keys and
 * addresses, and pauses are kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pcap/pcap.h>
#include <uroce_abi/ring.h>
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

/*
 * What a good peer of the first QPs sends: responses to what client_start posts, and requests.
 * psn: of the message's kind, as the world starts.
 */
static const struct line {
	uint8_t q, op;
	uint32_t psn, len; /* len: of the payload */
	uint32_t all;      /* of the whole message, in RETH */
} talk[] = {
	{WORLD_RC, WIRE_OPCODE_CNP},
	{WORLD_RC, WIRE_OPCODE_SACK, 0xfffffa},
	{WORLD_RC, WIRE_OP_ACK, 0xfffffb},
	{WORLD_RC, WIRE_OP_READ_RESP_FIRST, 0xfffffc, 1024},
	{WORLD_RC, WIRE_OP_READ_RESP_MIDDLE, 0xfffffd, 1024},
	{WORLD_RC, WIRE_OP_READ_RESP_LAST, 0xfffffe, 952},
	{WORLD_RC, WIRE_OP_ATOMIC_ACK, 0xffffff},
	{WORLD_RC, WIRE_OP_READ_RESP_ONLY, 0, 600},
	{WORLD_RC, WIRE_OP_ACK, 1},
	{WORLD_RC, WIRE_OP_READ_RESP_FIRST, 2, 1024},
	{WORLD_RC, WIRE_OP_READ_RESP_MIDDLE, 3, 1024},
	{WORLD_RC, WIRE_OP_READ_RESP_LAST, 4, 352},
	{WORLD_RC, WIRE_OP_ACK, 5},
	{WORLD_RC, WIRE_OP_SEND_FIRST, 0xfffff8, 1024}, /* the second receive is too short for it */
	{WORLD_RC, WIRE_OP_SEND_LAST, 0xfffff9, 50},
	{WORLD_RC, WIRE_OP_SEND_ONLY, 0xfffffa, 100},
	{WORLD_RC, WIRE_OP_WRITE_FIRST, 0xfffffb, 1024, 2500},
	{WORLD_RC, WIRE_OP_WRITE_MIDDLE, 0xfffffc, 1024},
	{WORLD_RC, WIRE_OP_WRITE_LAST, 0xfffffd, 452},
	{WORLD_RC, WIRE_OP_READ_REQ, 0xfffffe, 0, 3000},
	{WORLD_RC, WIRE_OP_FETCH_ADD, 1},
	{WORLD_RC, WIRE_OP_WRITE_ONLY, 2, 300, 300},
	{WORLD_RC, WIRE_OP_CMP_SWAP, 3},
	{WORLD_RC, WIRE_OP_WRITE_ONLY_IMM, 4, 40, 40},
	{WORLD_RC, WIRE_OP_READ_REQ, 5, 0, 64},
	{WORLD_RC_SRQ, WIRE_OPCODE_SACK, 0x555000},
	{WORLD_RC_SRQ, WIRE_OP_READ_RESP_FIRST, 0x555000, 256},
	{WORLD_RC_SRQ, WIRE_OP_READ_RESP_MIDDLE, 0x555001, 256},
	{WORLD_RC_SRQ, WIRE_OP_READ_RESP_LAST, 0x555002, 188},
	{WORLD_RC_SRQ, WIRE_OP_ACK, 0x555003},
	{WORLD_RC_SRQ, WIRE_OP_ATOMIC_ACK, 0x555004},
	{WORLD_RC_SRQ, WIRE_OP_SEND_FIRST, 0x1000, 256},
	{WORLD_RC_SRQ, WIRE_OP_SEND_MIDDLE, 0x1001, 256},
	{WORLD_RC_SRQ, WIRE_OP_SEND_LAST_IMM, 0x1002, 10},
	{WORLD_RC_SRQ, WIRE_OP_WRITE_FIRST, 0x1003, 256, 600},
	{WORLD_RC_SRQ, WIRE_OP_WRITE_MIDDLE, 0x1004, 256},
	{WORLD_RC_SRQ, WIRE_OP_WRITE_LAST, 0x1005, 88},
	{WORLD_RC_SRQ, WIRE_OP_READ_REQ, 0x1006, 0, 700},
	{WORLD_UC, WIRE_OP_WRITE_FIRST, 0x2000, 256, 300},
	{WORLD_UC, WIRE_OP_WRITE_LAST, 0x2001, 44},
	{WORLD_UC, WIRE_OP_SEND_ONLY, 0x2002, 99},
	{WORLD_UD, WIRE_OP_SEND_ONLY, 0, 100},
	{WORLD_UD_V6, WIRE_OP_SEND_ONLY_IMM, 0, 100},
	{WORLD_GROUP, WIRE_OP_SEND_ONLY, 0, 100},
	{WORLD_CONSUMER, WIRE_OP_SEND_ONLY, 0, 256},
};
#define LINES (sizeof(talk) / sizeof(talk[0]))

/* Ways in which the talk takes place. */
static const struct way {
	const char *name;
	bool selective, together;
	uint32_t late; /* every late'th line is behind the three that follow it; 0: none */
	enum world_region region;
	bool twice;      /* each line is repeated at once */
	bool slow;       /* its memory answers only after each line; the first lines are left out */
	uint8_t tune[2]; /* the first step: a setting and its value */
	uint8_t sends;   /* WRITEs behind the first line, of .. */
	uint8_t sender;
	uint8_t credits;   /* of ACKs; 0: they limit nothing */
	uint32_t deformed; /* every so many'th line is malformed; 0: none */
} ways[] = {
	{.name = "talk"},
	{.name = "talk_together", .together = true},
	{.name = "talk_copied", .together = true, .region = REGION_COPIED},
	{.name = "talk_copied_late", .selective = true, .late = 4, .region = REGION_COPIED},
	{.name = "talk_late", .late = 5},
	{.name = "talk_selective", .selective = true, .together = true},
	{.name = "talk_selective_late", .selective = true, .late = 5},
	{.name = "talk_selective_very_late", .selective = true, .late = 4, .together = true},
	{.name = "talk_twice", .twice = true},
	{.name = "talk_slow", .slow = true, .region = REGION_COPIED},
	{.name = "talk_slow_twice", .slow = true, .twice = true, .region = REGION_COPIED},
	{.name = "talk_slow_selective", .slow = true, .selective = true, .region = REGION_COPIED},
	{.name = "talk_zero_copy", .together = true, .tune = {TUNE_ZERO_COPY, 1}, .sends = 8},
	{.name = "talk_loop_zero_copy",
	 .tune = {TUNE_LOOP_ZERO_COPY, 1},
	 .sends = 8,
	 .sender = WORLD_LOOP},
	{.name = "talk_dcqcn", .tune = {TUNE_CONGESTION, 4 * WORLD_RC + 1}, .sends = 8},
	{.name = "talk_swift", .tune = {TUNE_CONGESTION, 4 * WORLD_RC + 2}, .sends = 8},
	{.name = "talk_timely", .tune = {TUNE_CONGESTION, 4 * WORLD_RC + 3}, .sends = 8},
	{.name = "talk_unknown_id", .tune = {TUNE_UNKNOWN_ID, 1}},
	{.name = "talk_paused", .tune = {TUNE_PAUSE, 1}},
	{.name = "talk_loop_waits",
	 .tune = {TUNE_LOOP_ZERO_COPY, 3},
	 .sends = 8,
	 .sender = WORLD_LOOP},
	{.name = "talk_sges", .tune = {TUNE_SGES, 1}, .together = true, .sends = 8},
	{.name = "talk_cq", .tune = {TUNE_CQ, 6}, .together = true, .sends = 8},
	{.name = "talk_credits", .credits = 3, .sends = 8},
	{.name = "talk_armed", .tune = {TUNE_ARM, 0x1a}},
	{.name = "talk_consumer", .tune = {TUNE_CONSUMER, 1}},
	{.name = "talk_host", .tune = {TUNE_HOST, 1}, .deformed = 1},
	{.name = "talk_peers", .tune = {TUNE_PEERS, 1}},
	{.name = "talk_deformed", .deformed = 3},
	{.name = "talk_moved", .tune = {TUNE_MOVE, WORLD_RC}},
};

static void
put_line(struct seed *s, const struct way *w, const struct line *l, bool deformed)
{
	enum world_region region = w->region;
	uint32_t len;

	uint8_t op = world_peer(l->q)->svc | l->op;
	uint32_t flags = wire_op_table[op].flags;
	uint8_t out[STEP_MAX_FRAME];
	static struct craft c;

	craft_new(&c, l->q, op, l->len, &s->rng);
	c.psn = l->psn;
	c.ackreq = true;
	c.migreq = true;
	if (flags & WIRE_F_RETH)
		*(struct wire_reth *)c.rest =
			(struct wire_reth){.va = rte_cpu_to_be_64(REGION_IOVA(region) + 64),
					   .rkey = rte_cpu_to_be_32(world_key(region)),
					   .dmalen = rte_cpu_to_be_32(l->all)};
	if (flags & WIRE_F_ATOMICETH) {
		((struct wire_atomiceth *)c.rest)->va = rte_cpu_to_be_64(REGION_IOVA(region) + 8);
		((struct wire_atomiceth *)c.rest)->rkey = rte_cpu_to_be_32(world_key(region));
	}
	if (flags & WIRE_F_AETH)
		c.rest[0] = WIRE_SYN_ACK | (w->credits != 0 ? w->credits : 31);
	len = craft_finish(&c, out);
	if (deformed && rng_one_in(&s->rng, 2))
		craft_spoil(out, len, &s->rng);
	else if (deformed)
		craft_deform(out, len, &s->rng);
	s->used += step_put(s->bytes + s->used, STEP_FRAME, w->together, out, (uint16_t)len);
}

#define SLOW_FROM 13u /* talk's first request of the peer */
#define SLOW_TO   25u

static void
put_tune(struct seed *s, uint8_t what, uint8_t value)
{
	s->used += step_put(s->bytes + s->used, STEP_TUNE, what, &value, 1);
}

static void
put_send(struct seed *s, uint8_t q, uint8_t sges)
{
	const uint8_t body[] = {UROCE_WR_RDMA_WRITE, 0, sges, 32, 600 & 0xff, 600 >> 8};

	s->used += step_put(s->bytes + s->used, STEP_SEND, q, body, sizeof(body));
}

static void
put_lines(struct seed *s, const struct way *w, uint32_t i)
{
	const struct line *l = &talk[i];
	bool deformed = w->deformed != 0 && i % w->deformed == w->deformed - 1;

	if (w->slow)
		put_tune(s, TUNE_LATE, 1);
	/* in front of the line, whose PSN it takes */
	if (w->twice || deformed)
		put_line(s, w, l, deformed);
	put_line(s, w, l, false);
	if (!w->slow)
		return;
	put_tune(s, TUNE_LATE, 0);
	s->used += step_put(s->bytes + s->used, STEP_TIME, 18, NULL, 0);
}

static int
make_talk(const char *dir, const struct way *w)
{
	uint32_t from = w->slow ? SLOW_FROM : 0, to = w->slow ? SLOW_TO : LINES;
	static struct seed s;

	memset(&s, 0, sizeof(s));
	for (uint8_t q = WORLD_RC; w->selective && q <= WORLD_RC_SRQ; q++)
		s.used += step_put(s.bytes + s.used, STEP_SELECTIVE, (uint8_t)(2 * q + 1), NULL, 0);
	put_tune(&s, w->tune[0], w->tune[1]);
	for (uint32_t i = from; i < to; i++) {
		if (w->late == 0 || i % w->late != 0)
			put_lines(&s, w, i);
		if (w->late != 0 && i >= 3 && (i - 3) % w->late == 0)
			put_lines(&s, w, i - 3);
		for (uint32_t k = 0; i == from && k < w->sends; k++)
			put_send(&s, w->sender, k % 2 ? 1 : 6);
	}
	s.used += step_put(s.bytes + s.used, STEP_TIME, 30, NULL, 0);
	return write_seed(&s, dir, w->name);
}

/*
 * Messages that arrive together and are stored together: SENDs into copied memory, behind those
 * that take the receives of client_start, and WRITEs. slow: the memory answers at the end only.
 */
static int
make_run(const char *dir, const char *name, bool slow)
{
	static const uint8_t receive[] = {1, 2, 600 & 0xff, 600 >> 8};
	static const struct way w = {.together = true, .region = REGION_COPIED};
	static struct seed s;
	uint32_t psn = 0xfffff8;

	memset(&s, 0, sizeof(s));
	put_tune(&s, TUNE_SGES, 1);
	put_tune(&s, TUNE_CQ, 7);
	for (uint32_t i = 0; i < 11; i++)
		s.used += step_put(s.bytes + s.used, STEP_RECV, WORLD_RC, receive, sizeof(receive));
	for (uint32_t i = 0; i < 24; i++, psn = psn_add(psn, 1)) {
		bool write = i >= 14 && i < 19;
		struct line l = {.op = write ? WIRE_OP_WRITE_ONLY : WIRE_OP_SEND_ONLY,
				 .psn = psn,
				 .len = 100,
				 .all = 100};

		if (slow && i == 8)
			put_tune(&s, TUNE_LATE, 1);
		put_line(&s, &w, &l, false);
	}
	put_tune(&s, TUNE_LATE, 0);
	s.used += step_put(s.bytes + s.used, STEP_TIME, 18, NULL, 0);
	return write_seed(&s, dir, name);
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
	for (uint32_t k = 0; k < sizeof(ways) / sizeof(ways[0]) && rc == 0; k++)
		rc = make_talk(argv[1], &ways[k]);
	rc = rc == 0 ? make_run(argv[1], "run", false) : rc;
	rc = rc == 0 ? make_run(argv[1], "run_slow", true) : rc;
	return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
