/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives: posted, and their completions checked. */
#ifndef PAIR_RECEIVE_H
#define PAIR_RECEIVE_H

#include "pair.h"

/* Posts up to max planned receives on side's own queue, as far as they fit, and rings. */
void pair_recv_post(struct pair_side *side, uint32_t max);
/* Fills the SRQ of n, if it has one. True if anything was posted. */
bool pair_srq_post(struct pair_node *n);

/* A completion of receive `index` of side's own queue, or of its node's SRQ. */
void pair_recv_reap(struct pair_side *side, uint32_t index, const struct uroce_cqe *cqe);
void pair_srq_reap(struct pair_side *side, uint32_t index, const struct uroce_cqe *cqe);

/* reap.c: data must be in the pieces now (as far as it goes), and nothing else. */
void pair_check_pieces(struct pair_side *side, const struct pair_seg *seg, uint32_t nseg,
		       const uint8_t *data, uint32_t len, const char *what, long index);
/* reap.c: bytes of a WRITE must be in the window now, unless a later one overwrote them. */
void pair_check_write(struct pair_side *side, const struct pair_op *op);
/* invariants.c: data may or may not be in the pieces, byte by byte. */
void pair_either_pieces(struct pair_node *n, const struct pair_seg *seg, uint32_t nseg,
			const uint8_t *data, uint32_t len);

#endif
