/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "net/frame.h"
#include "net/net.h"

#define MS              1000000ull
#define ASK_FIRST_NS    (100 * MS)
#define ASK_LONGEST_NS  (1600 * MS)
#define CHECK_NS        (30000 * MS)
#define CHECK_UNICASTS  3 /* unicast requests to a known neighbour before multicast ones */
#define DOUBT_MAX_ASKED 8 /* unanswered requests after a change, until the usual check */
#define EVICT_MIN_ASKED 3 /* unanswered requests after which an entry may be evicted */

/* The address of d, which others do not know, keeps them from choosing colliding addresses. */
static uint16_t
bucket_of(const struct net_dev *d, const uint8_t ip[16])
{
	uint64_t word[2], h = (uintptr_t)d;

	memcpy(word, ip, sizeof(word));
	for (unsigned i = 0; i < 2; i++) {
		h = (h ^ word[i]) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	return (uint16_t)(h & (NET_NEIGH_BUCKETS - 1));
}

/* Returns the index of the entry of ip; NET_MAX_NEIGH: none. A bucket may have free entries. */
static uint32_t
find_index(const struct net_dev *d, const uint8_t ip[16])
{
	uint32_t at = d->neigh_bucket[bucket_of(d, ip)];

	while (at != 0 && (d->neigh[at - 1].state == NET_NEIGH_FREE ||
			   memcmp(d->neigh[at - 1].ip, ip, 16) != 0))
		at = d->neigh[at - 1].next;
	return at != 0 ? at - 1 : NET_MAX_NEIGH;
}

static struct net_neigh *
find(struct net_dev *d, const uint8_t ip[16])
{
	uint32_t i = find_index(d, ip);

	return i < NET_MAX_NEIGH ? &d->neigh[i] : NULL;
}

/* Clears n, which is free or evicted, and makes it the entry of ip. */
static void
set_entry(struct net_dev *d, struct net_neigh *n, const uint8_t ip[16])
{
	uint16_t self = (uint16_t)(n - d->neigh + 1), *p;

	if (n->hashed) {
		p = &d->neigh_bucket[bucket_of(d, n->ip)];
		while (*p != self)
			p = &d->neigh[*p - 1].next;
		*p = n->next;
	}
	memset(n, 0, sizeof(*n));
	memcpy(n->ip, ip, 16);
	p = &d->neigh_bucket[bucket_of(d, ip)];
	n->hashed = true;
	n->next = *p;
	*p = self;
}

/* Number of entries per owner. */
struct shares {
	uint32_t n; /* owners */
	struct {
		uint32_t owner, entries;
	} of[NET_MAX_NEIGH];
};

static uint32_t
share(const struct shares *s, uint32_t owner)
{
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->of[i].owner == owner)
			return s->of[i].entries;
	}
	return 0;
}

/* Counts the entries of each owner. Returns the owner with the most and stores their number. */
static uint32_t
shares_count(struct shares *s, const struct net_dev *d, uint32_t *entries)
{
	uint32_t most = 0;

	s->n = 0;
	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++) {
		uint32_t at = 0;

		while (at < s->n && s->of[at].owner != d->neigh[i].owner)
			at++;
		if (at == s->n) {
			s->of[at].owner = d->neigh[i].owner;
			s->of[at].entries = 0;
			s->n++;
		}
		s->of[at].entries++;
		if (s->of[at].entries > s->of[most].entries)
			most = at;
	}
	*entries = s->of[most].entries;
	return s->of[most].owner;
}

/* Returns true if a should be evicted before b: unresolved entries first, then the stalest. */
static bool
worth_less(const struct net_neigh *a, const struct net_neigh *b)
{
	if (b == NULL || (a->state != b->state && b->state == NET_NEIGH_KNOWN))
		return true;
	return a->state == b->state && a->requests > b->requests;
}

/*
 * Chooses the entry of a full table to evict: the longest silent neighbour of an owner with at
 * least as many entries as this one. If there is none, and some owner has two more entries than
 * this one, evicts one of theirs. A QP or address handle whose path is complete needs its entry
 * only to learn of MAC changes. NULL: none.
 */
static struct net_neigh *
evict(struct net_dev *d, uint32_t owner)
{
	struct net_neigh *worst = NULL, *theirs = NULL;
	struct shares s;
	uint32_t most, top = shares_count(&s, d, &most), own = share(&s, owner);

	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++) {
		struct net_neigh *n = &d->neigh[i];

		if (n->requests >= EVICT_MIN_ASKED && share(&s, n->owner) >= own &&
		    (worst == NULL || n->requests > worst->requests))
			worst = n;
		if (n->owner == top && worth_less(n, theirs))
			theirs = n;
	}
	if (worst == NULL && most >= own + 2)
		worst = theirs;
	return worst;
}

static struct net_neigh *
take_entry(struct net_dev *d, uint32_t owner)
{
	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++) {
		if (d->neigh[i].state == NET_NEIGH_FREE)
			return &d->neigh[i];
	}
	return evict(d, owner);
}

/* Builds the next request for n and sets the time of the one after it. */
static void
ask(struct net_dev *d, struct net_neigh *n, uint64_t now_ns, struct net_frame *out)
{
	/* First ask a known neighbour by unicast: it may just have moved to another MAC. */
	bool unicast = n->state == NET_NEIGH_KNOWN && n->requests < CHECK_UNICASTS && !n->doubtful;
	uint64_t wait_ns = CHECK_NS;

	out->len = 0;
	if (net_gid_is_v4(n->ip))
		net_arp_request(d, n->ip, unicast ? n->mac : NULL, out);
	else
		net_nd_solicit(d, n->ip, unicast ? n->mac : NULL, out);
	if (n->state == NET_NEIGH_ASKING || (n->doubtful && n->requests < DOUBT_MAX_ASKED))
		wait_ns = n->requests < 4 ? ASK_FIRST_NS << n->requests : ASK_LONGEST_NS;
	if (n->requests < UINT8_MAX)
		n->requests++;
	n->next_ns = now_ns + wait_ns;
}

bool
net_neigh_ask(struct net_dev *d, const uint8_t ip[16], uint32_t owner, uint64_t now_ns,
	      struct net_frame *out)
{
	struct net_neigh *n = find(d, ip);

	out->len = 0;
	if (n != NULL)
		return true;
	n = take_entry(d, owner);
	if (n == NULL)
		return false;
	set_entry(d, n, ip);
	n->owner = owner;
	n->state = NET_NEIGH_ASKING;
	ask(d, n, now_ns, out);
	return true;
}

const uint8_t *
net_neigh_mac(const struct net_dev *d, const uint8_t ip[16])
{
	uint32_t i = find_index(d, ip);

	return i < NET_MAX_NEIGH && d->neigh[i].state == NET_NEIGH_KNOWN ? d->neigh[i].mac : NULL;
}

bool
net_neigh_learn(struct net_dev *d, const uint8_t ip[16], const uint8_t mac[6], bool override,
		uint64_t now_ns, const struct net_neigh **changed)
{
	struct net_neigh *n = find(d, ip);

	if (n == NULL || !net_mac_is_station(mac) || memcmp(mac, d->mac, 6) == 0)
		return false;
	if (n->state == NET_NEIGH_KNOWN) {
		bool same = memcmp(n->mac, mac, 6) == 0;

		if (!same && (!override || now_ns < n->hold_ns))
			return false;
		if (same && n->doubtful && n->requests == 0)
			return false; /* may be the claim of before, repeated */
		n->requests = 0;
		n->next_ns = now_ns + CHECK_NS;
		n->doubtful = !same;
		if (same)
			return false;
		n->next_ns = n->hold_ns = now_ns + NET_NEIGH_HOLD_NS;
		memcpy(n->mac, mac, 6);
		*changed = n;
		return true;
	}
	n->state = NET_NEIGH_KNOWN;
	n->requests = 0;
	n->next_ns = now_ns + CHECK_NS;
	memcpy(n->mac, mac, 6);
	*changed = n;
	return true;
}

bool
net_tick(struct net_dev *d, uint64_t now_ns, struct net_frame *out, uint64_t *next_ns)
{
	*next_ns = UINT64_MAX;
	out->len = 0;
	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++) {
		struct net_neigh *n = &d->neigh[i];

		if (n->state == NET_NEIGH_FREE)
			continue;
		if (n->next_ns > now_ns) {
			if (n->next_ns < *next_ns)
				*next_ns = n->next_ns;
			continue;
		}
		if (n->state == NET_NEIGH_ASKING && n->requests >= NET_NEIGH_GIVE_UP) {
			n->state = NET_NEIGH_FREE;
			continue;
		}
		ask(d, n, now_ns, out);
		*next_ns = now_ns;
		return true;
	}
	return false;
}

bool
net_announce(const struct net_dev *d, uint32_t index, struct net_frame *out)
{
	const struct net_addr *a;

	out->len = 0;
	if (d->host || index >= UROCE_MAX_GIDS || !d->gid[index].used)
		return false;
	a = &d->gid[index];
	if (a->v4)
		net_arp_announce(d, a->gid, out);
	else
		net_nd_announce(d, a->gid, out);
	return true;
}

/* ---- ARP ---- */

#define HTYPE_ETHERNET 1

/* Builds an ARP packet from our MAC and spa (4 bytes). tha NULL: unknown, sent as zero. */
static void
put_arp(const struct net_dev *d, struct net_frame *out, const uint8_t dmac[6], uint16_t op,
	const uint8_t *spa, const uint8_t *tha, const uint8_t *tpa)
{
	struct net_arp *arp;

	net_put_eth(out, d, dmac, NET_ETHERTYPE_ARP);
	arp = net_put(out, sizeof(*arp));
	arp->htype = rte_cpu_to_be_16(HTYPE_ETHERNET);
	arp->ptype = rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV4);
	arp->hlen = 6;
	arp->plen = 4;
	arp->op = rte_cpu_to_be_16(op);
	memcpy(arp->sha, d->mac, 6);
	memcpy(arp->spa, spa, 4);
	if (tha != NULL)
		memcpy(arp->tha, tha, 6);
	memcpy(arp->tpa, tpa, 4);
	net_put_pad(out);
}

void
net_arp_request(const struct net_dev *d, const uint8_t ip[16], const uint8_t *dmac,
		struct net_frame *out)
{
	static const uint8_t nobody[4];
	const uint8_t *src = net_source_for(d, ip);

	put_arp(d, out, dmac != NULL ? dmac : net_mac_broadcast, NET_ARP_REQUEST,
		src != NULL ? src + 12 : nobody, NULL, ip + 12);
}

void
net_arp_announce(const struct net_dev *d, const uint8_t ip[16], struct net_frame *out)
{
	put_arp(d, out, net_mac_broadcast, NET_ARP_REQUEST, ip + 12, NULL, ip + 12);
}

bool
net_arp_rx(const struct net_rx_ctx *rx, struct wire_cur c)
{
	const struct net_arp *arp = wire_cur_get(&c, struct net_arp);
	uint8_t sender[16], target[16];
	uint16_t op;

	if (arp == NULL || arp->htype != rte_cpu_to_be_16(HTYPE_ETHERNET) ||
	    arp->ptype != rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV4) || arp->hlen != 6 || arp->plen != 4)
		return false;
	op = rte_be_to_cpu_16(arp->op);
	if ((op != NET_ARP_REQUEST && op != NET_ARP_REPLY) || !net_mac_is_station(arp->sha) ||
	    memcmp(arp->sha, rx->d->mac, sizeof(arp->sha)) == 0)
		return false;
	net_gid_from_v4(sender, arp->spa);
	net_gid_from_v4(target, arp->tpa);
	if (net_gid_find(rx->d, sender) >= 0)
		return false; /* another station claims our address */
	if (op == NET_ARP_REQUEST && net_gid_find(rx->d, target) >= 0)
		put_arp(rx->d, rx->out, arp->sha, NET_ARP_REPLY, arp->tpa, arp->sha, arp->spa);
	return net_neigh_learn(rx->d, sender, arp->sha, true, rx->now_ns, rx->changed);
}
