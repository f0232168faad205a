/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's rings, by the rules of uroce_abi/ring.h. */
#include "sim.h"

uint8_t *
sim_ring_slot(struct sim *s, struct sim_ring *r, const char *name, uint32_t id)
{
	uint32_t cons = __atomic_load_n(&r->hdr->cons, __ATOMIC_ACQUIRE);

	if (r->prod - cons >= r->entries)
		sim_fail(s, "REQ-01: %s %06x: slot is not given back, but its WQE is complete",
			 name, id);
	return r->slots + (size_t)(r->prod++ & (r->entries - 1)) * r->stride;
}

void
sim_ring_publish(struct sim_end *e, struct sim_ring *r)
{
	struct sim *s = e->home->sim;

	__atomic_store_n(&r->hdr->prod, r->prod, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&r->hdr->armed, 0, __ATOMIC_ACQ_REL) != 1 || e->bell_ns != 0)
		return;
	e->bell_ns = s->now_ns + sim_below(&s->cli, 2000);
	sim_at(s, e->bell_ns, SIM_EV_BELL, e->idx);
}
