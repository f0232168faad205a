/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers of ids. */
#include "cm/parts.h"

void
cm_timer_set(struct cm *cm, struct cm_id *id, uint64_t deadline_ns)
{
	cm_heap_set(&cm->heap, &id->timer, deadline_ns);
}

uint64_t
cm_hurried_ns(const struct cm *cm, struct cm_id *id, uint64_t now_ns)
{
	id->retries_left = CM_DEFAULT_RETRIES;
	if (id->response_ns > cm->hurry_ns)
		id->response_ns = cm->hurry_ns;
	return now_ns + id->response_ns;
}

void
cm_hurry(struct cm *cm, uint64_t again_ns, uint64_t now_ns)
{
	cm->hurry_ns = again_ns;
	for (uint32_t i = 0; i < cm->nids; i++) {
		struct cm_id *id = &cm->ids[i];

		if (id->comm_id != 0 && id->state == CM_DREQ_SENT)
			cm_timer_set(cm, id, cm_hurried_ns(cm, id, now_ns));
	}
}

uint32_t
cm_disconnecting(const struct cm *cm)
{
	return cm->ndisconnecting;
}

uint64_t
cm_next_ns(const struct cm *cm)
{
	return cm_heap_next_ns(&cm->heap);
}
