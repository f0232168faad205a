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

/* How each kind comes and goes (object.h); session_end.c has the order at the end of a session. */
extern const struct object_kind pd_kind, mr_kind, mw_kind, channel_kind, cq_kind, srq_kind, ah_kind,
	qp_kind;
/*
 * On the worker, which drops some QPs of s, all of which are hidden: a bounded number, because
 * other QPs' traffic waits meanwhile. True: it has none left.
 */
bool qp_forget_some(struct worker *w, struct session *s);
/* After the regions: the descriptors that the session keeps for them. */
void mr_kept_free(struct session *s);
/* The session's user is known: its memory may be copied. */
void mr_copies_open(struct session *s);
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
/*
 * set.c: GID indices that a QP or an address handle of dev was made with, a bit each, whether or
 * not they are empty by now.
 */
uint64_t set_slots_in_use(const struct device *dev);
/* The QP leaves every group. */
void mcast_leave(struct obj_qp *q);
/* The context's table of address handles. 0 or -ENOMEM. */
int ah_table_open(struct session *s);
/* All of them are freed. */
void ah_table_close(struct session *s);

/*
 * Unbind every window, of whatever session, that is bound to a region which is going or lost, in
 * two steps. Before the first, those regions were hidden and every worker was quiescent since: no
 * window becomes bound to one any more. mw_release_begin hides such windows; 0: there is none, and
 * the regions may be freed. Otherwise mw_release_end unbinds them, with the number that the first
 * step returned and after another grace period. A region is unmapped after that only.
 */
uint64_t mw_release_begin(struct daemon *d);
void mw_release_end(struct daemon *d, uint64_t release);

/* Give users back what they paid for regions that have been unmapped by now. */
void mr_debts_settle(void);

/* Regions whose memory failed under them (a file truncated) lose their keys and windows. */
void mr_sweep_lost(struct daemon *d);

#endif
