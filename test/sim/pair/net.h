/* SPDX-License-Identifier: BSD-3-Clause */
/* Between net.c and noise.c. */
#ifndef PAIR_NET_H
#define PAIR_NET_H

#include "pair.h"

/* m is on its way over link. Takes one of the s->pkt: there must be a free one. */
void pair_net_launch(struct pair *s, struct pair_link *link, struct rte_mbuf *m,
		     const struct pair_view *v);
/* A linear frame from the net's pool, with the bytes of m. NULL: none left. */
struct rte_mbuf *pair_net_copy(struct pair *s, const struct rte_mbuf *m);

/* Frames that nobody should heed, in front of m on the wire link. */
void pair_noise(struct pair *s, struct pair_link *link, const struct rte_mbuf *m,
		const struct pair_view *v);

#endif
