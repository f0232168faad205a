/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions whose memory is gone because their client has truncated or unmapped it (MEM-04). */
#include "map/mrmap.h"
#include "map/sigbus.h"
#include "control/log.h"
#include "control/obj.h"

static void
pd_lost(struct daemon *d, struct pd_id *pd)
{
	if (pd->lost)
		return;
	pd->lost = true;
	pd->users++;
	SLIST_INSERT_HEAD(&d->lost_pds, pd, lost_link);
}

/* Hides the lost regions of s. Returns true if there are any. */
static bool
session_sweep_lost(struct session *s)
{
	struct obj_mr *m;
	uint32_t pos = 0;
	bool any = false;

	while ((m = idtab_next(&s->mrs, &pos)) != NULL) {
		if (m->lost || !mrmap_failed(m->map))
			continue;
		mr_table_hide(&s->d->mrs, &m->mr);
		m->lost = true;
		pd_lost(s->d, m->o.pd->shared);
		any = true;
		LOG_LIMITED(NOTICE,
			    "client %u: the memory of region 0x%x is gone; its key fails from now "
			    "on",
			    s->id, m->mr.key);
	}
	return any;
}

static void
on_lost_unbound(struct defer *df)
{
	struct daemon *d = WATCH_OF(df, struct daemon, lost);
	struct pd_id *pd;

	while ((pd = SLIST_FIRST(&d->lost_pds)) != NULL) {
		SLIST_REMOVE_HEAD(&d->lost_pds, lost_link);
		pd->lost = false;
		mw_unbind_of(pd, d->lost_hidden);
		pd_id_drop(d, pd);
	}
}

/* Continues when no worker finds lost regions any more: hides their windows. */
static void
on_lost_hidden(struct defer *df)
{
	struct daemon *d = WATCH_OF(df, struct daemon, lost);
	struct pd_id *pd;
	bool any = false;

	SLIST_FOREACH(pd, &d->lost_pds, lost_link)
	any |= mw_hide_of(pd);
	d->lost_hidden = any ? d->mw_hidden : 0;
	df->then = on_lost_unbound;
	if (!any || defer_begin(d, df))
		on_lost_unbound(df);
}

void
mr_sweep_lost(struct daemon *d)
{
	uint64_t failures = sigbus_guard_failures();
	struct session *s;
	bool any = false;

	mr_debts_settle();
	/* regions found while a sweep runs belong to the next one */
	if (failures == d->mr_failures || d->lost.waiting)
		return;
	d->mr_failures = failures;
	sigbus_guard_refill();
	TAILQ_FOREACH (s, &d->sessions, link) {
		if (s->state == IPC_STATE_CONTEXT)
			any |= session_sweep_lost(s);
	}
	if (!any)
		return;
	d->lost = (struct defer){.then = on_lost_hidden};
	if (defer_begin(d, &d->lost))
		on_lost_hidden(&d->lost);
}
