/* SPDX-License-Identifier: BSD-3-Clause */
#include "impair_core.h"
#include <stdio.h>
#include <string.h>
#include <rte_common.h>
#include "wire/csum.h"
#include "wire/hdr.h"
#include "wire/icrc.h"
#include "wire/parse.h"
#include "wire/psn.h"

/* Next number of a random sequence (splitmix64); any state is valid. */
static inline uint64_t
impair_random(uint64_t *rng)
{
	uint64_t z = *rng += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* A random number below n > 0. */
static inline uint64_t
impair_random_below(uint64_t *rng, uint64_t n)
{
	return (uint64_t)((unsigned __int128)impair_random(rng) * n >> 64);
}

/* ---- changes of frames ---- */

#define ECN_CE 3

/*
 * Make the frame linear and exclusive: returns m or a copy of it. Returns NULL, with m unchanged,
 * if out of buffers.
 */
static struct rte_mbuf *
impair_frame_own(struct rte_mbuf *m)
{
	struct rte_mbuf *copy;

	if (m->nb_segs == 1 && RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1)
		return m;
	copy = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
	if (copy == NULL)
		return NULL;
	if (rte_pktmbuf_linearize(copy) != 0) {
		rte_pktmbuf_free(copy);
		return NULL;
	}
	rte_pktmbuf_free(m);
	return copy;
}

/* We own the frame and may change it; only wire_parse's pointers are const. */
static uint8_t *
bytes(const uint8_t *p)
{
	return (uint8_t *)(uintptr_t)p;
}

static uint8_t *
icrc_of(const struct wire_pkt *pkt)
{
	return bytes(pkt->payload) + pkt->payload_len + pkt->pad_len;
}

/* May routers change the byte at p, so that no end-to-end check covers it? */
static bool
is_variant(const struct wire_pkt *pkt, const uint8_t *p)
{
	uint32_t ip = (uint32_t)(p - pkt->ip);

	if (p == pkt->bth + 4) /* FECN, BECN, reserved */
		return true;
	if (p == pkt->bth - 1 || p == pkt->bth - 2) /* UDP checksum */
		return true;
	/* The checksum of IPv4 covers its whole header. */
	return pkt->is_v6 && (ip < 4 || ip == 7);
}

static void
flip(const struct wire_pkt *pkt, uint8_t *from, const uint8_t *to, uint32_t n, uint64_t *rng)
{
	uint64_t bit, all = (uint64_t)(to - from) * 8;
	uint64_t done[IMPAIR_MAX_BITS];
	uint32_t i, k = 0;

	while (k < n) {
		bit = impair_random_below(rng, all);
		/* Flipping a bit twice would undo it. */
		for (i = 0; i < k && done[i] != bit; i++)
			;
		if (i < k || is_variant(pkt, from + bit / 8))
			continue;
		from[bit / 8] ^= (uint8_t)(1u << bit % 8);
		done[k++] = bit;
	}
}

/*
 * Flip bits (1 .. IMPAIR_MAX_BITS) different bits between the IP header and the end of the ICRC,
 * excluding those that routers may change. Receivers always detect up to three.
 */
static void
impair_frame_corrupt(const struct wire_pkt *pkt, uint32_t n, uint64_t *rng)
{
	flip(pkt, bytes(pkt->ip), icrc_of(pkt) + WIRE_ICRC_LEN, n, rng);
}

/* Flip bits different bits between the BTH and the ICRC, and recompute the ICRC. */
static void
impair_frame_corrupt_fixed(const struct wire_pkt *pkt, uint32_t n, uint64_t *rng)
{
	uint8_t *end = icrc_of(pkt), *rest = bytes(pkt->bth) + WIRE_BTH_LEN;
	uint32_t icrc;

	flip(pkt, bytes(pkt->bth), end, n, rng);
	icrc = wire_icrc_start(pkt->ip, pkt->is_v6);
	icrc = wire_icrc_final(wire_icrc_update(icrc, rest, (uint32_t)(end - rest)));
	memcpy(end, &icrc, sizeof(icrc));
}

/* Set the CE mark, even if the sender does not support ECN, and update IPv4's checksum. */
static void
impair_frame_mark_ce(const struct wire_pkt *pkt)
{
	struct wire_ipv4 *ip = (struct wire_ipv4 *)bytes(pkt->ip);

	if (pkt->is_v6) {
		struct wire_ipv6 *ip6 = (struct wire_ipv6 *)ip;

		ip6->ver_tc_flow |= rte_cpu_to_be_32(ECN_CE << 20);
		return;
	}
	ip->tos |= ECN_CE;
	ip->csum = 0;
	ip->csum = (rte_be16_t)~wire_ipv4_sum(ip);
}

/* Offset of the IP header, and the Ethernet type behind at most one VLAN tag. */
static uint32_t
ip_offset(const uint8_t *frame, uint32_t len, rte_be16_t *type)
{
	const struct wire_eth *eth = (const struct wire_eth *)frame;
	const struct wire_vlan *vlan = (const struct wire_vlan *)(frame + WIRE_ETH_LEN);

	*type = 0;
	if (len < WIRE_ETH_LEN + WIRE_VLAN_LEN)
		return len;
	*type = eth->type;
	if (*type != rte_cpu_to_be_16(WIRE_ETHERTYPE_VLAN))
		return WIRE_ETH_LEN;
	*type = vlan->type;
	return WIRE_ETH_LEN + WIRE_VLAN_LEN;
}

/* The header may have options, so its checksum is updated instead of computed. */
static bool
mark_ect_v4(struct wire_ipv4 *ip)
{
	rte_be16_t before, after;

	if ((ip->tos & ECN_CE) == 0)
		return false;
	memcpy(&before, ip, sizeof(before));
	ip->tos |= ECN_CE;
	memcpy(&after, ip, sizeof(after));
	ip->csum = (rte_be16_t)~wire_sum_add((uint16_t)~ip->csum, (rte_be16_t)~before, after);
	return true;
}

/*
 * Sets the CE mark in a frame from impair_frame_own that holds an IPv4 or IPv6 packet, of any
 * protocol, whose sender supports ECN, and updates IPv4's checksum. Returns false, with the frame
 * unchanged, for other frames.
 */
static bool
impair_frame_mark_ect(struct rte_mbuf *m)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	rte_be16_t type;
	uint32_t at = ip_offset(frame, m->data_len, &type);
	struct wire_ipv6 *ip6 = (struct wire_ipv6 *)(frame + at);

	if (type == rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV4) && at + WIRE_IPV4_LEN <= m->data_len)
		return mark_ect_v4((struct wire_ipv4 *)(frame + at));
	if (type != rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV6) || at + WIRE_IPV6_LEN > m->data_len ||
	    (ip6->ver_tc_flow & rte_cpu_to_be_32(ECN_CE << 20)) == 0)
		return false;
	ip6->ver_tc_flow |= rte_cpu_to_be_32(ECN_CE << 20);
	return true;
}

/* ---- decisions ---- */

/* One call of impair_core_burst. */
struct burst {
	struct impair_core *c;
	uint64_t now_ns;
	struct rte_mbuf **m;
	uint32_t out_n;
	uint32_t room; /* free slots of m: their frame was taken */
};

/* What to do with a frame. */
struct verdict {
	uint32_t faults; /* bits 1 << enum impair_counter */
	struct impair_params p;
	struct impair_fate fate; /* what was done so far, and the rules of all faults */
};
#define HAS(v, id) ((v)->faults & 1u << IMPAIR_##id)
/* Counts a fault and notes it in the frame's fate. */
#define DID(c, f, id) ((c)->ctr[IMPAIR_##id]++, (f)->faults |= (uint16_t)(1u << IMPAIR_##id))
_Static_assert(IMPAIR_NCOUNTERS <= 16, "a bit of impair_fate for each counter");

void
impair_core_config(struct impair_core *c, const struct impair_cfg *cfg, uint32_t stream)
{
	c->cfg = cfg;
	/* Neighbouring streams get unrelated sequences, not shifted copies of one. */
	c->rng = stream + 1;
	c->rng = impair_random(&c->rng) ^ cfg->seed;
	c->link_free_ns = 0;
	c->last_due_ns = 0;
	c->queue_peak = 0;
	memset(c->rule, 0, sizeof(c->rule));
}

static bool
before(const struct impair_held *a, const struct impair_held *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->seq < b->seq;
}

static void
heap_push(struct impair_core *c, struct rte_mbuf *m, uint64_t due_ns,
	  const struct impair_fate *fate)
{
	struct impair_held h = {.due_ns = due_ns, .seq = c->seq++, .m = m, .fate = *fate};
	uint32_t i = c->heap_n++;

	while (i > 0 && before(&h, &c->heap[(i - 1) / 2])) {
		c->heap[i] = c->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	c->heap[i] = h;
}

static struct impair_held
heap_pop(struct impair_core *c)
{
	struct impair_held first = c->heap[0];
	struct impair_held last = c->heap[--c->heap_n];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < c->heap_n) {
		if (child + 1 < c->heap_n && before(&c->heap[child + 1], &c->heap[child]))
			child++;
		if (!before(&c->heap[child], &last))
			break;
		c->heap[i] = c->heap[child];
		i = child;
	}
	c->heap[i] = last;
	return first;
}

static bool
heap_has_due(const struct burst *b)
{
	return b->c->heap_n > 0 && b->c->heap[0].due_ns <= b->now_ns;
}

static void
tell(const struct impair_core *c, const struct rte_mbuf *m, const struct impair_fate *fate)
{
	if (c->tell != NULL && fate->faults != 0)
		c->tell(c->tell_arg, m, fate);
}

static void
lose(const struct impair_core *c, struct rte_mbuf *m, const struct impair_fate *fate)
{
	tell(c, m, fate);
	rte_pktmbuf_free(m);
}

static void
deliver(struct burst *b, struct rte_mbuf *m, const struct impair_fate *fate)
{
	tell(b->c, m, fate);
	b->m[b->out_n++] = m;
	b->c->ctr[IMPAIR_DELIVERED]++;
}

/* Delivers the next due frame. False: none is due, or there is no slot for it. */
static bool
deliver_due(struct burst *b)
{
	struct impair_held h;

	if (!heap_has_due(b) || b->out_n == b->room)
		return false;
	h = heap_pop(b->c);
	deliver(b, h.m, &h.fate);
	return true;
}

static void
wait_until(struct burst *b, struct rte_mbuf *m, uint64_t due_ns, struct impair_fate fate)
{
	struct impair_core *c = b->c;

	if (due_ns <= b->now_ns && !heap_has_due(b) && b->out_n < b->room) {
		deliver(b, m, &fate);
	} else if (c->heap_n < c->cfg->hold || deliver_due(b)) {
		heap_push(c, m, due_ns, &fate);
	} else {
		DID(c, &fate, OVERFLOW);
		lose(c, m, &fate);
	}
}

/* Releases reordered frames whose time is over or that enough frames have passed. */
static void
release_back(struct burst *b)
{
	struct impair_core *c = b->c;
	uint32_t i, n = 0;

	for (i = 0; i < c->back_n; i++) {
		struct impair_back *k = &c->back[i];

		if (k->left == 0 || k->until_ns <= b->now_ns)
			wait_until(b, k->m, k->due_ns, k->fate);
		else
			c->back[n++] = *k;
	}
	c->back_n = n;
}

/* A frame was forwarded: it has passed all frames that are held back. */
static void
pass_back(struct burst *b)
{
	uint32_t i;

	if (b->c->back_n == 0)
		return;
	for (i = 0; i < b->c->back_n; i++)
		b->c->back[i].left--;
	release_back(b);
}

static bool
hits(struct impair_core *c, uint32_t ppm)
{
	return ppm != 0 && impair_random_below(&c->rng, IMPAIR_PPM) < ppm;
}

static bool
rule_matches(const struct impair_rule *r, const struct wire_pkt *pkt)
{
	if (r->has_qpn && pkt->qpn != r->qpn)
		return false;
	if (r->has_opcode && pkt->opcode != r->opcode)
		return false;
	if (r->has_dst) {
		uint8_t dst[16];

		wire_dst_gid(pkt, dst);
		if (memcmp(dst, r->dst, 16) != 0)
			return false;
	}
	/* A signed distance would fail for ranges of more than half the PSN space. */
	return !r->has_psn || ((pkt->psn - r->psn_first) & WIRE_PSN_MASK) <=
				      ((r->psn_last - r->psn_first) & WIRE_PSN_MASK);
}

/* The action's own parameters replace those of the random fault. */
static void
add_action(struct verdict *v, const struct impair_rule *r, uint32_t number)
{
	v->faults |= 1u << r->action;
	v->fate.rule[r->action] = (uint8_t)number;
	if (r->action == IMPAIR_REORDER)
		v->p.reorder_by = r->p.reorder_by;
	if (r->action == IMPAIR_CORRUPT || r->action == IMPAIR_CORRUPT_FIXED)
		v->p.corrupt_bits = r->p.corrupt_bits;
	if (r->action == IMPAIR_DELAY) {
		v->p.delay_ns = r->p.delay_ns;
		v->p.jitter_ns = r->p.jitter_ns;
	}
}

/* pkt: NULL if the frame is not RoCEv2; no rule applies then. */
static struct verdict
judge(struct impair_core *c, const struct wire_pkt *pkt)
{
	const struct impair_cfg *cfg = c->cfg;
	struct verdict v = {.p = cfg->p};
	uint32_t i;

	for (i = 0; i < IMPAIR_NFAULTS; i++) {
		if (hits(c, cfg->ppm[i]))
			v.faults |= 1u << i;
	}
	for (i = 0; pkt != NULL && i < cfg->nrules; i++) {
		const struct impair_rule *r = &cfg->rule[i];
		struct impair_rule_stats *s = &c->rule[i];

		if (!rule_matches(r, pkt) || ++s->matched < r->nth ||
		    (r->count != 0 && s->acted == r->count) || !hits(c, r->ppm))
			continue;
		s->acted++;
		add_action(&v, r, i + 1);
	}
	return v;
}

static void
change_bytes(struct impair_core *c, const struct wire_pkt *pkt, struct verdict *v)
{
	if (HAS(v, CE)) {
		impair_frame_mark_ce(pkt);
		DID(c, &v->fate, CE);
	}
	if (HAS(v, CORRUPT_FIXED)) {
		impair_frame_corrupt_fixed(pkt, v->p.corrupt_bits, &c->rng);
		DID(c, &v->fate, CORRUPT_FIXED);
	}
	if (HAS(v, CORRUPT)) {
		impair_frame_corrupt(pkt, v->p.corrupt_bits, &c->rng);
		DID(c, &v->fate, CORRUPT);
	}
}

/* Does the queue of this length mark a frame (IMPAIR_PPM: always)? */
static uint32_t
mark_ppm(const struct impair_cfg *cfg, uint64_t queue)
{
	if (cfg->kmax_bytes == 0 || queue <= cfg->kmin_bytes)
		return 0;
	if (queue >= cfg->kmax_bytes)
		return IMPAIR_PPM;
	return (uint32_t)(cfg->pmax_ppm * (queue - cfg->kmin_bytes) /
			  (cfg->kmax_bytes - cfg->kmin_bytes));
}

/*
 * The link's queue takes the frame, with a mark or without; false: it is full. *m may become a
 * copy.
 */
static bool
enter_queue(struct burst *b, struct rte_mbuf **m, struct impair_fate *fate)
{
	struct impair_core *c = b->c;
	const struct impair_cfg *cfg = c->cfg;
	uint64_t queue = impair_queue_bytes(cfg->rate_bps, c->link_free_ns, b->now_ns);
	struct rte_mbuf *own;

	if (cfg->rate_bps == 0)
		return true;
	if (cfg->queue_bytes != 0 && queue + (*m)->pkt_len > cfg->queue_bytes) {
		DID(c, fate, QUEUE_DROP);
		return false;
	}
	c->queue_peak = RTE_MAX(c->queue_peak, queue + (*m)->pkt_len);
	if (!hits(c, mark_ppm(cfg, queue)))
		return true;
	own = impair_frame_own(*m);
	if (own == NULL) {
		c->ctr[IMPAIR_NO_MBUF]++;
		return true;
	}
	*m = own;
	if (impair_frame_mark_ect(own))
		DID(c, fate, QUEUE_MARK);
	return true;
}

/* Time when the frame is due: serialised at the link's rate, plus its delay. */
static uint64_t
due_ns(struct burst *b, uint32_t len, struct verdict *v)
{
	struct impair_core *c = b->c;
	uint64_t due = b->now_ns;

	if (c->cfg->rate_bps != 0) {
		if (c->link_free_ns > due) {
			due = c->link_free_ns;
			DID(c, &v->fate, RATE);
		}
		due += (uint64_t)len * 8 * 1000000000 / c->cfg->rate_bps;
		c->link_free_ns = due;
	}
	if (HAS(v, DELAY)) {
		due += v->p.delay_ns - v->p.jitter_ns;
		due += impair_random_below(&c->rng, 2 * v->p.jitter_ns + 1);
		DID(c, &v->fate, DELAY);
	}
	if (c->cfg->ordered)
		due = c->last_due_ns = RTE_MAX(due, c->last_due_ns);
	return due;
}

static void
duplicate(struct burst *b, struct rte_mbuf *m, uint64_t due, struct impair_fate *fate)
{
	struct impair_fate of_copy;
	struct rte_mbuf *copy = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);

	if (copy == NULL) {
		b->c->ctr[IMPAIR_NO_MBUF]++;
		return;
	}
	DID(b->c, fate, DUP);
	of_copy = *fate;
	of_copy.copy = true;
	wait_until(b, copy, due, of_copy);
}

/* Forwards a frame that is not dropped, at once or held back. */
static void
forward(struct burst *b, struct rte_mbuf *m, struct verdict *v)
{
	struct impair_core *c = b->c;
	uint64_t due;

	if (!enter_queue(b, &m, &v->fate)) {
		lose(c, m, &v->fate);
		return;
	}
	due = due_ns(b, m->pkt_len, v);
	if (HAS(v, DUP))
		duplicate(b, m, due, &v->fate);
	if (HAS(v, REORDER) && c->back_n < IMPAIR_MAX_BACK) {
		DID(c, &v->fate, REORDER);
		c->back[c->back_n++] = (struct impair_back){.m = m,
							    .fate = v->fate,
							    .left = v->p.reorder_by,
							    .until_ns = due + IMPAIR_BACK_NS,
							    .due_ns = due};
		return;
	}
	wait_until(b, m, due, v->fate);
	pass_back(b);
}

/* Parses the frame; NULL: not RoCEv2, or out of buffers. *m may become a copy. */
static const struct wire_pkt *
look_into(struct impair_core *c, struct rte_mbuf **m, struct wire_pkt *pkt)
{
	const uint32_t *ppm = c->cfg->ppm;
	struct rte_mbuf *own;

	if (c->cfg->nrules == 0 && ppm[IMPAIR_CE] == 0 && ppm[IMPAIR_CORRUPT] == 0 &&
	    ppm[IMPAIR_CORRUPT_FIXED] == 0)
		return NULL;
	own = impair_frame_own(*m);
	if (own == NULL) {
		c->ctr[IMPAIR_NO_MBUF]++;
		return NULL;
	}
	*m = own;
	if (wire_parse(rte_pktmbuf_mtod(own, const uint8_t *), own->data_len, pkt) != WIRE_OK)
		return NULL;
	return pkt;
}

static void
take(struct burst *b, struct rte_mbuf *m)
{
	struct impair_core *c = b->c;
	struct wire_pkt parsed;
	const struct wire_pkt *pkt = look_into(c, &m, &parsed);
	struct verdict v = judge(c, pkt);

	c->ctr[IMPAIR_RECEIVED]++;
	if (HAS(&v, DROP)) {
		DID(c, &v.fate, DROP);
		lose(c, m, &v.fate);
		return;
	}
	if (pkt != NULL)
		change_bytes(c, pkt, &v);
	forward(b, m, &v);
}

uint32_t
impair_core_burst(struct impair_core *c, uint64_t now_ns, struct rte_mbuf **m, uint32_t n,
		  uint32_t cap)
{
	struct burst b = {.c = c, .now_ns = now_ns, .m = m};
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct rte_mbuf *in = m[i];

		b.room = i + 1;
		if (i == 0)
			release_back(&b);
		take(&b, in);
	}
	b.room = cap;
	if (n == 0)
		release_back(&b);
	while (deliver_due(&b))
		;
	return b.out_n;
}

void
impair_core_drain(struct impair_core *c)
{
	while (c->heap_n > 0)
		rte_pktmbuf_free(c->heap[--c->heap_n].m);
	while (c->back_n > 0)
		rte_pktmbuf_free(c->back[--c->back_n].m);
}

/* ---- words ---- */

/* In the order in which the injector acts. */
static const struct {
	uint32_t bit;
	const char *text;
} words[] = {
	{IMPAIR_DROP, "dropped"},
	{IMPAIR_CE, "marked CE"},
	{IMPAIR_CORRUPT_FIXED, "corrupted with a right ICRC"},
	{IMPAIR_CORRUPT, "corrupted"},
	{IMPAIR_QUEUE_DROP, "dropped by the full queue of the link"},
	{IMPAIR_QUEUE_MARK, "marked CE by the queue of the link"},
	{IMPAIR_RATE, "waited for the link"},
	{IMPAIR_DELAY, "delayed"},
	{IMPAIR_DUP, "duplicated"},
	{IMPAIR_REORDER, "reordered"},
	{IMPAIR_OVERFLOW, "dropped because too many frames were delayed"},
};

void
impair_fate_text(const struct impair_fate *fate, char *text, size_t len)
{
	size_t at = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < RTE_DIM(words) && at < len; i++) {
		uint32_t bit = words[i].bit;
		const char *word = words[i].text;

		if ((fate->faults & 1u << bit) == 0)
			continue;
		if (bit == IMPAIR_DUP && fate->copy)
			word = "the copy of a duplicated frame";
		at += (size_t)snprintf(text + at, len - at, "%s%s", at != 0 ? ", " : "", word);
		if (at < len && bit < IMPAIR_NFAULTS && fate->rule[bit] != 0)
			at += (size_t)snprintf(text + at, len - at, " (rule %u)", fate->rule[bit]);
	}
}
