/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Path migration (REQ-11, EVT-06): every QP has an alternate path. Some time after both ends of a
 * pair are armed the first path fails for good, and all work must complete over the alternate path.
 */
#include <string.h>
#include "apm.h"
#include "qp/migrate.h"

#define ALT_BIT 0x10 /* in the last byte of the addresses of an alternate path */

void
pair_apm_path(const struct pair_side *side, const struct qp_path *path, struct qp_path *alt)
{
	*alt = *path;
	alt->wire.sgid[15] |= ALT_BIT;
	alt->wire.dgid[15] |= ALT_BIT;
	alt->wire.udp_sport ^= 1;
	memcpy(alt->wire.dmac, side->peer->node->mac, 6);
	alt->path_ok = true;
}

uint32_t
pair_apm_attrs(struct pair_side *side, enum qp_state to)
{
	struct pair *s = side->pair;
	struct uroce_qp_attr *a = &side->attr;

	if (!s->cfg.apm)
		return 0;
	if (to == QP_RTR) {
		a->alt_ah = a->ah;
		a->alt_port_num = 1;
		a->alt_timeout = (uint8_t)s->cfg.timeout;
		return QP_ALT_PATH;
	}
	if (to != QP_RTS)
		return 0;
	a->path_mig_state = QP_MIG_REARM;
	side->rearmed = true;
	side->dark_ns = s->now_ns + sim_below(&s->netr, 300000);
	return QP_PATH_MIG_STATE;
}

/* The side that stores the state of the pair. */
static struct pair_side *
first_of(struct pair_side *side)
{
	return side->idx & 1 ? side->peer : side;
}

static bool
is_armed(const struct pair_side *side)
{
	return side->migrated || side->qp->conn.mig == QP_MIG_ARMED;
}

bool
pair_apm_lost(struct pair *s, const struct pair_view *v)
{
	struct pair_side *first;

	if (!s->cfg.apm || v->from == NULL || v->alt)
		return false;
	first = first_of(v->from);
	if (!first->dark && s->now_ns >= first->dark_ns && is_armed(first) &&
	    is_armed(first->peer)) {
		first->dark = true;
		sim_log(&s->sim, "the first path of qp %06x and %06x is cut", first->qpn,
			first->peer->qpn);
	}
	return first->dark;
}

void
pair_apm_event(struct pair_side *side)
{
	if (side->migrated || !side->pair->cfg.apm)
		sim_fail(&side->pair->sim, "EVT-06: qp %06x: migrated, and nothing to migrate from",
			 side->qpn);
	side->migrated = true;
	/* The retries start again (REQ-11), and so does the time limit for them. */
	side->pair->last_progress_ns = side->pair->now_ns;
}

void
pair_apm_built(struct pair_side *side, const struct wire_pkt *pkt, struct pair_view *v)
{
	const uint8_t *src = pkt->ip + (pkt->is_v6 ? 23 : 15);

	v->alt = (*src & ALT_BIT) != 0;
	if (v->alt != side->migrated)
		sim_fail(&side->pair->sim, "REQ-11: qp %06x: frame on the %s path", side->qpn,
			 v->alt ? "alternate" : "first");
	if (pkt->migreq != (side->migrated || !side->rearmed))
		sim_fail(&side->pair->sim, "REQ-11: qp %06x: frame with MigReq %u", side->qpn,
			 pkt->migreq);
}

bool
pair_apm_stranger(const struct pair_view *v)
{
	return !v->alt && v->to->migrated;
}

void
pair_apm_check(struct pair *s, const struct pair_side *side)
{
	/* A side that migrated has sent on the alternate path, and so its peer migrates, too. */
	if (side->migrated != side->peer->migrated)
		sim_fail(&s->sim, "REQ-11: qp %06x has migrated, and its peer has not",
			 side->migrated ? side->qpn : side->peer->qpn);
	s->more.migrations += side->migrated;
}
