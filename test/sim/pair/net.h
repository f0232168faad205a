/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by net.c and noise.c. */
#ifndef PAIR_NET_H
#define PAIR_NET_H

#include "pair.h"

/* Sends m over link. Uses one of the s->pkt: one must be free. */
void pair_net_launch(struct pair *s, struct pair_link *link, struct rte_mbuf *m,
		     const struct pair_view *v);
/* A linear frame from the net's pool, with the bytes of m. NULL: none left. */
struct rte_mbuf *pair_net_copy(struct pair *s, const struct rte_mbuf *m);

/* Sends frames that must be ignored, in front of m on the wire link. */
void pair_noise(struct pair *s, struct pair_link *link, const struct rte_mbuf *m,
		const struct pair_view *v);

#endif
