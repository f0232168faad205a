/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of WQEs: cut from a region, described by SGEs; and slots of rings. */
#include <string.h>
#include "pieces.h"
#include "pair.h"

/* Takes n bytes in one piece from a region that is used as a FIFO. False: no space now. */
static bool
pieces_alloc(struct pair_area *a, uint32_t n, uint32_t *off)
{
	uint32_t at = a->head % a->len, head = a->head;

	if (at + n > a->len) {
		head += a->len - at;
		at = 0;
	}
	if (head + n - a->tail > a->len)
		return false;
	a->head = head + n;
	*off = a->off + at;
	return true;
}

bool
pair_pieces_cut(struct pair *s, struct pair_area *a, uint32_t len, uint32_t max,
		struct pair_seg *seg, uint8_t *nseg)
{
	uint32_t n = len == 0 ? sim_below(&s->cli, max + 1) : sim_between(&s->cli, 1, max), i,
		 strip;
	uint32_t was = a->head;

	for (i = 0; i < n; i++) {
		seg[i].len = i + 1 == n ? len : sim_below(&s->cli, len + 1);
		if (sim_chance(&s->cli, 100000) && i + 1 < n)
			seg[i].len = 0;
		len -= seg[i].len;
		if (!pieces_alloc(a, sim_below(&s->cli, 24), &strip) ||
		    !pieces_alloc(a, seg[i].len, &seg[i].off)) {
			a->head = was;
			return false;
		}
	}
	*nseg = (uint8_t)n;
	return true;
}

void
pair_pieces_sges(struct pair_side *side, struct pair_area *a, const struct pair_seg *seg,
		 uint32_t n, uint8_t fault, void *out)
{
	struct uroce_sge sge;
	uint32_t i;
	bool first = true;

	for (i = 0; i < n; i++) {
		sge.addr = a->mr.iova + (seg[i].off - a->off);
		sge.length = seg[i].len;
		sge.lkey = a->mr.key;
		if (seg[i].len != 0 && first) {
			first = false;
			if (fault == FAULT_LKEY)
				sge.lkey ^= 1u << sim_below(&side->pair->cli, SIM_KEY_LOW_BITS);
			if (fault == FAULT_LRANGE)
				sge.addr = a->mr.iova + a->mr.len - sge.length + 1;
			if (fault == FAULT_LPD) {
				sge.lkey = side->node->idle.mr.key;
				sge.addr = side->node->idle.mr.iova;
			}
			if (fault == FAULT_LACCESS) {
				sge.lkey = side->readonly.mr.key;
				sge.addr = side->readonly.mr.iova;
			}
		}
		memcpy((uint8_t *)out + i * sizeof(sge), &sge, sizeof(sge));
	}
}
