/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives: posted, and their completions checked. */
#ifndef SIM_RECEIVE_H
#define SIM_RECEIVE_H

#include "sim.h"

/* Post up to max receives of the plan of side's own queue, as far as there is room, and ring. */
void sim_recv_post(struct sim_side *side, uint32_t max);
/* Fill the SRQ of n, if it has one. True when anything was posted. */
bool sim_srq_post(struct sim_node *n);

/* A completion of receive `index` of side's own queue, or of its node's SRQ. */
void sim_recv_reap(struct sim_side *side, uint32_t index, const struct uroce_cqe *cqe);
void sim_srq_reap(struct sim_side *side, uint32_t index, const struct uroce_cqe *cqe);

/* reap.c: data has to be in the pieces now (as far as it goes), and nothing else. */
void sim_check_pieces(struct sim_side *side, const struct sim_seg *seg, uint32_t nseg,
		      const uint8_t *data, uint32_t len, const char *what, long index);
/* reap.c: bytes of a WRITE have to be in the window now, unless a later one went over them. */
void sim_check_write(struct sim_side *side, const struct sim_op *op);
/* invariants.c: data may or may not be in the pieces, byte by byte. */
void sim_either_pieces(struct sim_node *n, const struct sim_seg *seg, uint32_t nseg,
		       const uint8_t *data, uint32_t len);

#endif
