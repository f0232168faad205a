/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files obj_*.c and set.c offer: handlers, and what others tell them of. Control thread
 * only.
 */
#ifndef CONTROL_OBJ_H
#define CONTROL_OBJ_H

#include "control/handler.h"
#include "control/session.h"

ctrl_handler pd_alloc;
ctrl_handler mr_reg, mr_rereg, mr_dereg;
ctrl_handler channel_create;
ctrl_handler mw_alloc;
ctrl_handler cq_create, cq_resize_obj;
ctrl_handler srq_create, srq_modify, srq_resize, srq_query;
ctrl_handler ah_create;
ctrl_handler mcast_attach, mcast_detach;
ctrl_handler qp_obj_create, qp_obj_modify, qp_obj_query;
ctrl_handler context_export, pd_import, mr_import;
ctrl_handler set_request;

/* A PD of s with the number of another, or with a new one if shared is NULL. 0 or ENOMEM. */
int pd_make(struct session *s, struct pd_id *shared, uint32_t *handle);

/* The worker that owns q. */
static inline struct worker *
obj_qp_worker(const struct obj_qp *q)
{
	return worker_get(q->o.s->d->workers, q->qp->bind.worker);
}

/*
 * How each kind comes and goes (object.h). At the end of a session QPs, MWs and MRs are hidden, QPs
 * leave their workers by qp_forget_all, and all workers pass a quiescent point before any is freed.
 */
extern const struct object_kind pd_kind, mr_kind, mw_kind, channel_kind, cq_kind, srq_kind, ah_kind,
	qp_kind;
/* Take the QPs of s, which are hidden, off their workers. */
void qp_forget_all(struct session *s);
/* After the regions: the descriptors that the session keeps for them. */
void mr_kept_free(struct session *s);
/* The session's user is known: its memory may be copied. */
void mr_copies_open(struct session *s);
/*
 * DEREG_MR of this region: hide it. Not 0: wait before it is freed, for the copy that is under way
 * in this address space.
 */
uint64_t mr_must_settle(struct session *s, uint32_t handle);

/* The CQ of an event failed: its QPs go to the error state (EVT-08). */
void cq_failed(struct obj_cq *cq);
/* The same of an SRQ (EVT-09). */
void srq_failed(struct obj_srq *srq);

/* The QP is gone, or as new: others may have its triples. */
void qp_triples_release(struct obj_qp *q);

/* Neighbour ip of dev has this MAC now: QPs that go through it are told. */
void qp_hop_resolved(struct device *dev, const uint8_t ip[16], const uint8_t mac[6]);

/* The same for address handles, and for UD QPs that wait for one. */
void ah_hop_resolved(struct device *dev, const uint8_t ip[16], const uint8_t mac[6]);
/* GID index of dev was taken away: no QP migrates to it (EVT-06). */
void qp_gid_gone(struct device *dev, uint32_t index);
/* The QP leaves every group. */
void mcast_leave(struct obj_qp *q);
/* The context's table of address handles. 0 or -ENOMEM. */
int ah_table_open(struct session *s);
/* All of them are freed. */
void ah_table_close(struct session *s);

/*
 * Unbind every window, of whatever session, that is bound to a region which is going or lost. Those
 * regions are hidden, and every worker was quiescent since: no window becomes bound to one any
 * more. Waits until workers have let go of the windows. A region is unmapped after this only.
 */
void mw_release(struct daemon *d);

/* Give users back what they paid for regions that have been unmapped by now. */
void mr_debts_settle(void);

/* Regions whose memory failed under them (a file truncated) lose their keys and windows. */
void mr_sweep_lost(struct daemon *d);

#endif
