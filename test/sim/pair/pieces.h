/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of WQEs: cut from a region, described by SGEs; and slots of rings. */
#ifndef PAIR_PIECES_H
#define PAIR_PIECES_H

#include "pair.h"

/*
 * Cuts len bytes from a into at most max pieces, some of them empty, with strips between them.
 * False: a has no space now.
 */
bool pair_pieces_cut(struct pair *s, struct pair_area *a, uint32_t len, uint32_t max,
		     struct pair_seg *seg, uint8_t *nseg);
/* Writes SGEs of n pieces in area a to out, wrong if fault says so. */
void pair_pieces_sges(struct pair_side *side, struct pair_area *a, const struct pair_seg *seg,
		      uint32_t n, uint8_t fault, void *out);
#endif
