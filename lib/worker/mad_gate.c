/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/mad_gate.h"

#include <string.h>
#include "wire/mad.h"
#include "wire/parse.h"

/* Offsets in a MAD. */
#define AT_CLASS     1
#define AT_ATTRIBUTE 16

/* Folds and multiplies, from a secret start. The upper bits depend on all others. */
static uint32_t
place_of(const struct mad_gate *g, const uint8_t gid[16])
{
	uint64_t word[2], h = g->key;

	memcpy(word, gid, sizeof(word));
	for (uint32_t i = 0; i < 2; i++) {
		h ^= word[i];
		h = (h ^ h >> 32) * 0x9e3779b97f4a7c15ull;
	}
	return (uint32_t)(h >> 32) % MAD_GATE_PLACES;
}

static enum mad_kind
kind_of(const struct wire_pkt *pkt)
{
	uint32_t attr;

	if (pkt->payload_len != WIRE_MAD_LEN || pkt->payload[AT_CLASS] != WIRE_CM_CLASS)
		return MAD_OTHER;
	attr = (uint32_t)pkt->payload[AT_ATTRIBUTE] << 8 | pkt->payload[AT_ATTRIBUTE + 1];
	if (attr == WIRE_CM_REQ || attr == WIRE_CM_SIDR_REQ)
		return MAD_REQUEST;
	return WIRE_CM_INDEX(attr) < WIRE_CM_NATTRS ? MAD_CONNECTION : MAD_OTHER;
}

static uint64_t
debt(const uint64_t *paid_ns, uint64_t now_ns)
{
	uint64_t at = __atomic_load_n(paid_ns, __ATOMIC_RELAXED);

	return at > now_ns ? at - now_ns : 0;
}

static void
charge(uint64_t *paid_ns, uint64_t now_ns, uint64_t cost_ns)
{
	uint64_t old = __atomic_load_n(paid_ns, __ATOMIC_RELAXED), at;

	do
		at = (old > now_ns ? old : now_ns) + cost_ns;
	while (!__atomic_compare_exchange_n(paid_ns, &old, at, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
}

bool
mad_gate_admit(struct mad_gate *g, const struct wire_pkt *pkt, uint64_t now_ns, uint32_t *ticket,
	       bool *peer)
{
	enum mad_kind kind = kind_of(pkt);
	uint64_t *own, *all;
	uint32_t place;
	uint8_t gid[16];

	wire_src_gid(pkt, gid);
	place = place_of(g, gid);
	*peer = __atomic_load_n(&g->qps[place], __ATOMIC_RELAXED) != 0;
	*ticket = (place * MAD_KINDS + kind) * 2 + *peer;
	own = &g->own_ns[kind][place];
	all = &g->all_ns[*peer];
	if (debt(own, now_ns) + debt(all, now_ns) >= MAD_GATE_MAX_NS)
		return false;
	charge(own, now_ns, MAD_GATE_OWN_NS);
	charge(all, now_ns, MAD_GATE_ALL_NS);
	return true;
}

void
mad_gate_forgive(struct mad_gate *g, uint32_t ticket)
{
	uint32_t of = ticket / 2;

	__atomic_fetch_sub(&g->own_ns[of % MAD_KINDS][of / MAD_KINDS], MAD_GATE_OWN_NS,
			   __ATOMIC_RELAXED);
	__atomic_fetch_sub(&g->all_ns[ticket % 2], MAD_GATE_ALL_NS, __ATOMIC_RELAXED);
}

void
mad_gate_connected(struct mad_gate *g, const uint8_t gid[16], bool more)
{
	__atomic_fetch_add(&g->qps[place_of(g, gid)], more ? 1u : -1u, __ATOMIC_RELAXED);
}
