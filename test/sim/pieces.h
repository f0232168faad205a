/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of WQEs: cut from a region, described by SGEs; and slots of rings. */
#ifndef SIM_PIECES_H
#define SIM_PIECES_H

#include "sim.h"

/*
 * Cut len bytes from a into at most max pieces, some of them empty, with strips between them.
 * False: a has no room now.
 */
bool sim_pieces_cut(struct sim *s, struct sim_area *a, uint32_t len, uint32_t max,
		    struct sim_seg *seg, uint8_t *nseg);
/* SGEs of n pieces in area a to out, wrong where fault says so. */
void sim_pieces_sges(struct sim_side *side, struct sim_area *a, const struct sim_seg *seg,
		     uint32_t n, uint8_t fault, void *out);
/* The next slot of ring, which has to be the client's again; moves ring->prod. */
uint8_t *sim_ring_slot(struct sim *s, struct sim_ring *ring, const char *name, uint32_t id);

#endif
