/* SPDX-License-Identifier: BSD-3-Clause */
/* Between net.c and noise.c. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "sim.h"

/* m is on its way over link. Takes one of the s->pkt: there must be a free one. */
void sim_net_launch(struct sim *s, struct sim_link *link, struct rte_mbuf *m,
		    const struct sim_view *v);
/* A frame of its own from the net's pool, with the bytes of m. NULL: none left. */
struct rte_mbuf *sim_net_copy(struct sim *s, const struct rte_mbuf *m);

/* Frames that nobody should heed, in front of m on the wire link. */
void sim_noise(struct sim *s, struct sim_link *link, const struct rte_mbuf *m,
	       const struct sim_view *v);

#endif
