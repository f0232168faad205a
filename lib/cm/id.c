/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids: memory, numbers and lookups. An id's number is its slot and a generation, encrypted by a
 * keyed permutation of 32 bits. It yields the slot without a table, repeats only after the slot has
 * been used 2^(32 - id_bits) times, and does not help peers to guess other ids.
 */
#include <string.h>
#include "cm/parts.h"

#define DEFAULT_PEER_PENDING 64
#define DEFAULT_MRA_REQ      22
#define DEFAULT_MRA_REP      20
#define DEFAULT_TIMEWAIT     22
#define PERM_ROUNDS          4

static uint64_t
mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t
cm_random(struct cm *cm)
{
	cm->rng += 0x9e3779b97f4a7c15u;
	return mix(cm->rng);
}

uint64_t
cm_mad_hash(const uint8_t mad[WIRE_MAD_LEN])
{
	uint64_t h = 0, w;

	for (uint32_t i = 0; i < WIRE_MAD_LEN; i += 8) {
		memcpy(&w, mad + i, 8);
		h = mix(h ^ w) + i;
	}
	return h;
}

static uint32_t
perm_round(uint32_t half, uint32_t key)
{
	return (uint32_t)mix((uint64_t)key << 32 | half) & 0xffff;
}

/* A Feistel network over two halves of 16 bits. */
static uint32_t
perm_forward(const struct cm *cm, uint32_t v)
{
	uint32_t l = v >> 16, r = v & 0xffff;

	for (uint32_t i = 0; i < PERM_ROUNDS; i++) {
		uint32_t t = l ^ perm_round(r, cm->perm_key[i]);

		l = r;
		r = t;
	}
	return l << 16 | r;
}

static uint32_t
perm_back(const struct cm *cm, uint32_t v)
{
	uint32_t l = v >> 16, r = v & 0xffff;

	for (uint32_t i = PERM_ROUNDS; i-- > 0;) {
		uint32_t t = r ^ perm_round(l, cm->perm_key[i]);

		r = l;
		l = t;
	}
	return l << 16 | r;
}

static bool
config_valid(const struct cm_config *c)
{
	return c->max_ids >= 1 && c->max_ids <= CM_MAX_IDS;
}

/* Returns the smallest power of two of buckets that is not less than the number of ids. */
static uint32_t
buckets(const struct cm_config *c)
{
	uint32_t n = 1;

	while (n < c->max_ids)
		n *= 2;
	return n;
}

size_t
cm_bytes(const struct cm_config *c)
{
	if (!config_valid(c))
		return 0;
	return sizeof(struct cm) + 64 +
	       c->max_ids *
		       (sizeof(struct cm_id) + sizeof(struct cm_peer) + sizeof(struct cm_timer *)) +
	       (CM_NKEYS + 1) * buckets(c) * sizeof(uint32_t);
}

/* Take bytes from the start of the block. */
static void *
take(uint8_t **at, size_t bytes)
{
	void *p = *at;

	*at += bytes;
	return p;
}

static void
lists_init(struct cm *cm)
{
	cm->free_first = cm->free_last = cm->free_peer = CM_NONE;
	cm->old_first = cm->old_last = CM_NONE;
	for (uint32_t i = 0; i <= cm->bucket_mask; i++) {
		for (uint32_t k = 0; k < CM_NKEYS; k++)
			cm->bucket[k][i] = CM_NONE;
		cm->peer_bucket[i] = CM_NONE;
	}
}

struct cm *
cm_init(void *mem, const struct cm_config *config, const struct cm_ops *ops, void *ctx)
{
	struct cm *cm = mem;
	uint8_t *at = (uint8_t *)mem + (sizeof(*cm) + 63) / 64 * 64;
	uint32_t i;

	memset(cm, 0, sizeof(*cm));
	cm->config = *config;
	if (cm->config.max_peer_pending == 0)
		cm->config.max_peer_pending = DEFAULT_PEER_PENDING;
	if (cm->config.mra_req_timeout == 0)
		cm->config.mra_req_timeout = DEFAULT_MRA_REQ;
	if (cm->config.mra_rep_timeout == 0)
		cm->config.mra_rep_timeout = DEFAULT_MRA_REP;
	if (cm->config.max_timewait == 0)
		cm->config.max_timewait = DEFAULT_TIMEWAIT;
	cm->ops = *ops;
	cm->ctx = ctx;
	cm->rng = config->seed;
	for (i = 0; i < 2; i++)
		cm->hash_key[i] = cm_random(cm);
	for (i = 0; i < PERM_ROUNDS; i++)
		cm->perm_key[i] = (uint32_t)cm_random(cm);
	cm->bucket_mask = buckets(config) - 1;
	cm->id_bits = (uint32_t)__builtin_popcount(cm->bucket_mask);
	cm->ids = take(&at, config->max_ids * sizeof(*cm->ids));
	cm->heap.timer = take(&at, config->max_ids * sizeof(*cm->heap.timer));
	cm->peers = take(&at, config->max_ids * sizeof(*cm->peers));
	for (i = 0; i < CM_NKEYS; i++)
		cm->bucket[i] = take(&at, (cm->bucket_mask + 1) * sizeof(uint32_t));
	cm->peer_bucket = take(&at, (cm->bucket_mask + 1) * sizeof(uint32_t));
	lists_init(cm);
	return cm;
}

struct cm_id *
cm_find(const struct cm *cm, uint32_t id)
{
	uint32_t slot = perm_back(cm, id) & cm->bucket_mask;

	if (id == 0 || slot >= cm->nids || cm->ids[slot].comm_id != id)
		return NULL;
	return &cm->ids[slot];
}

void
cm_evict(struct cm *cm)
{
	if (cm->old_first == CM_NONE)
		return;
	cm->counters.evicted++;
	cm_free(cm, &cm->ids[cm->old_first]);
}

struct cm_id *
cm_new(struct cm *cm)
{
	uint32_t slot, gen = 0;
	struct cm_id *id;

	if (cm->nids < cm->config.max_ids) {
		slot = cm->nids++;
		id = &cm->ids[slot];
	} else {
		if (cm->free_first == CM_NONE)
			cm_evict(cm);
		slot = cm->free_first;
		if (slot == CM_NONE)
			return NULL;
		id = &cm->ids[slot];
		cm->free_first = id->next[0];
		if (cm->free_first == CM_NONE)
			cm->free_last = CM_NONE;
		gen = id->gen;
	}
	memset(id, 0, sizeof(*id));
	do
		id->comm_id = perm_forward(cm, ++gen << cm->id_bits | slot);
	while (id->comm_id == 0);
	id->gen = gen;
	id->timer = CM_TIMER_NONE;
	cm->nused++;
	return id;
}

void
cm_free(struct cm *cm, struct cm_id *id)
{
	uint32_t slot = cm_slot(cm, id);

	for (enum cm_key k = 0; k < CM_NKEYS; k++)
		cm_key_del(cm, id, k);
	cm_timer_set(cm, id, CM_NEVER);
	cm_pending_end(cm, id);
	cm_evictable_set(cm, id, false);
	if (id->passive)
		cm->nremote--;
	cm->ndisconnecting -= id->state == CM_DREQ_SENT;
	id->comm_id = 0;
	id->next[0] = CM_NONE;
	if (cm->free_last == CM_NONE)
		cm->free_first = slot;
	else
		cm->ids[cm->free_last].next[0] = slot;
	cm->free_last = slot;
	cm->nused--;
}

uint32_t
cm_key_bucket(const struct cm *cm, enum cm_key key, uint16_t dev, const uint8_t *gid, uint64_t num)
{
	uint64_t h = mix(cm->hash_key[0] ^ num ^ (uint64_t)key << 56), w[2];

	if (key != CM_KEY_SERVICE)
		h = mix(h + dev);
	if (key == CM_KEY_REMOTE || key == CM_KEY_REMOTE_QPN) {
		memcpy(w, gid, 16);
		h = mix(mix(h ^ w[0]) ^ w[1] ^ cm->hash_key[1]);
	}
	return (uint32_t)h & cm->bucket_mask;
}

static bool
key_matches(const struct cm_id *id, enum cm_key key, uint16_t dev, const uint8_t *gid, uint64_t num)
{
	if (id->num[key] != num)
		return false;
	if (key == CM_KEY_SERVICE)
		return true;
	if (id->addr.dev != dev)
		return false;
	return key == CM_KEY_LOCAL_QPN || memcmp(id->addr.remote, gid, 16) == 0;
}

static struct cm_id *
chain_find(const struct cm *cm, uint32_t slot, enum cm_key key, uint16_t dev, const uint8_t *gid,
	   uint64_t num)
{
	while (slot != CM_NONE && !key_matches(&cm->ids[slot], key, dev, gid, num))
		slot = cm->ids[slot].next[key];
	return slot == CM_NONE ? NULL : &cm->ids[slot];
}

struct cm_id *
cm_key_find(const struct cm *cm, enum cm_key key, uint16_t dev, const uint8_t *gid, uint64_t num)
{
	return chain_find(cm, cm->bucket[key][cm_key_bucket(cm, key, dev, gid, num)], key, dev, gid,
			  num);
}

struct cm_id *
cm_key_next_service(const struct cm *cm, const struct cm_id *id)
{
	return chain_find(cm, id->next[CM_KEY_SERVICE], CM_KEY_SERVICE, 0, NULL,
			  id->num[CM_KEY_SERVICE]);
}

static uint32_t *
key_head(struct cm *cm, const struct cm_id *id, enum cm_key key)
{
	return &cm->bucket[key]
			  [cm_key_bucket(cm, key, id->addr.dev, id->addr.remote, id->num[key])];
}

void
cm_key_add(struct cm *cm, struct cm_id *id, enum cm_key key, uint64_t num)
{
	uint32_t *head;

	id->num[key] = num;
	head = key_head(cm, id, key);
	id->next[key] = *head;
	*head = cm_slot(cm, id);
	id->keys |= (uint8_t)(1 << key);
}

void
cm_key_del(struct cm *cm, struct cm_id *id, enum cm_key key)
{
	uint32_t *link, slot = cm_slot(cm, id);

	if (!(id->keys & 1 << key))
		return;
	link = key_head(cm, id, key);
	while (*link != slot)
		link = &cm->ids[*link].next[key];
	*link = id->next[key];
	id->keys &= (uint8_t) ~(1 << key);
}

void
cm_evictable_set(struct cm *cm, struct cm_id *id, bool evictable)
{
	uint32_t slot = cm_slot(cm, id);

	if (id->evictable == evictable)
		return;
	id->evictable = evictable;
	if (evictable) {
		id->old_prev = cm->old_last;
		id->old_next = CM_NONE;
		if (cm->old_last != CM_NONE)
			cm->ids[cm->old_last].old_next = slot;
		else
			cm->old_first = slot;
		cm->old_last = slot;
		return;
	}
	if (id->old_prev != CM_NONE)
		cm->ids[id->old_prev].old_next = id->old_next;
	else
		cm->old_first = id->old_next;
	if (id->old_next != CM_NONE)
		cm->ids[id->old_next].old_prev = id->old_prev;
	else
		cm->old_last = id->old_prev;
}
