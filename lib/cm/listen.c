/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners: selection of the one that gets a request, and limits on requests. */
#include <errno.h>
#include <string.h>
#include "cm/parts.h"

/* Part of max_ids that peers cannot take: it is reserved for calls of this side. */
#define OWN_SHARE 8 /* 1 / OWN_SHARE of the ids */

int
cm_act_listen(struct cm *cm, struct cm_id *id, const struct cm_listen *l)
{
	uint64_t num = l->service_id;
	const struct cm_id *other = cm_key_find(cm, CM_KEY_SERVICE, 0, NULL, num);

	if (l->backlog == 0)
		return -EINVAL;
	for (; other != NULL; other = cm_key_next_service(cm, other)) {
		const struct cm_listen *o = &other->listen;

		if (o->sidr == l->sidr && o->dev == l->dev && o->family == l->family &&
		    memcmp(o->gid, l->gid, 16) == 0)
			return -EADDRINUSE;
	}
	id->listen = *l;
	id->service_id = l->service_id;
	id->sidr = l->sidr;
	cm_key_add(cm, id, CM_KEY_SERVICE, num);
	return 0;
}

/* Returns how specific l is for a request to addr; 0: it does not accept the request. */
static uint32_t
listener_rank(const struct cm_listen *l, const struct cm_addr *addr, bool sidr)
{
	static const uint8_t any[16], v4[12] = {[10] = 0xff, [11] = 0xff};
	bool is_v4 = memcmp(addr->local, v4, sizeof(v4)) == 0;
	uint32_t rank = 1;

	if (l->sidr != sidr || (l->dev != CM_DEV_ANY && l->dev != addr->dev))
		return 0;
	if (l->family != CM_FAMILY_ANY && (l->family == CM_FAMILY_IPV4) != is_v4)
		return 0;
	if (memcmp(l->gid, any, 16) != 0) {
		if (memcmp(l->gid, addr->local, 16) != 0)
			return 0;
		rank += 4;
	}
	return rank + (l->family != CM_FAMILY_ANY ? 2 : 0) + (l->dev != CM_DEV_ANY ? 1 : 0);
}

struct cm_id *
cm_listener_find(const struct cm *cm, const struct cm_addr *addr, uint64_t service_id, bool sidr)
{
	struct cm_id *id = cm_key_find(cm, CM_KEY_SERVICE, 0, NULL, service_id), *best = NULL;
	uint32_t rank, best_rank = 0;

	for (; id != NULL; id = cm_key_next_service(cm, id)) {
		rank = listener_rank(&id->listen, addr, sidr);
		if (rank > best_rank) {
			best = id;
			best_rank = rank;
		}
	}
	return best;
}

/* Returns a new id for a request to l, or NULL if a limit is reached (CM-16). */
struct cm_id *
cm_request_new(struct cm *cm, struct cm_id *l, const struct cm_addr *addr)
{
	uint32_t max = cm->config.max_ids, listener = l->comm_id;
	struct cm_id *id;

	if (l->npending >= l->listen.backlog) {
		cm->counters.over_backlog++;
		return NULL;
	}
	if (cm_peer_pending(cm, addr) >= cm->config.max_peer_pending) {
		cm->counters.over_peer++;
		return NULL;
	}
	/* evict an id that only answers copies to make room for this one */
	if (cm->nremote >= max - max / OWN_SHARE)
		cm_evict(cm);
	id = cm->nremote < max - max / OWN_SHARE ? cm_new(cm) : NULL;
	if (id == NULL) {
		cm->counters.over_ids++;
		return NULL;
	}
	cm->nremote++;
	id->passive = true;
	id->listener = listener;
	id->addr = *addr;
	return id;
}
