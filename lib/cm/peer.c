/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the unanswered requests of each peer (CM-16). */
#include <string.h>
#include "cm/parts.h"

static uint32_t *
peer_head(const struct cm *cm, const struct cm_addr *addr)
{
	return &cm->peer_bucket[cm_key_bucket(cm, CM_KEY_REMOTE, addr->dev, addr->remote, 0)];
}

static uint32_t
peer_find(const struct cm *cm, const struct cm_addr *addr)
{
	uint32_t at = *peer_head(cm, addr);

	while (at != CM_NONE &&
	       (cm->peers[at].dev != addr->dev || memcmp(cm->peers[at].gid, addr->remote, 16) != 0))
		at = cm->peers[at].next;
	return at;
}

uint32_t
cm_peer_pending(const struct cm *cm, const struct cm_addr *addr)
{
	uint32_t at = peer_find(cm, addr);

	return at == CM_NONE ? 0 : cm->peers[at].pending;
}

void
cm_pending_begin(struct cm *cm, struct cm_id *id)
{
	struct cm_id *listener = cm_find(cm, id->listener);
	uint32_t at = peer_find(cm, &id->addr), *head;

	if (at == CM_NONE) {
		/* never exhausted: there are as many entries as ids */
		at = cm->free_peer;
		if (at == CM_NONE)
			at = cm->npeers++;
		else
			cm->free_peer = cm->peers[at].next;
		cm->peers[at].pending = 0;
		cm->peers[at].dev = id->addr.dev;
		memcpy(cm->peers[at].gid, id->addr.remote, 16);
		head = peer_head(cm, &id->addr);
		cm->peers[at].next = *head;
		*head = at;
	}
	cm->peers[at].pending++;
	id->peer = at;
	id->pending = true;
	if (listener != NULL)
		listener->npending++;
}

void
cm_pending_end(struct cm *cm, struct cm_id *id)
{
	struct cm_id *listener;
	uint32_t *link;

	if (!id->pending)
		return;
	id->pending = false;
	listener = cm_find(cm, id->listener);
	if (listener != NULL)
		listener->npending--;
	if (--cm->peers[id->peer].pending != 0)
		return;
	link = peer_head(cm, &id->addr);
	while (*link != id->peer)
		link = &cm->peers[*link].next;
	*link = cm->peers[id->peer].next;
	cm->peers[id->peer].next = cm->free_peer;
	cm->free_peer = id->peer;
}
