/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface of the files obj_*.c and set.c: handlers and notifications. Control thread only. */
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
ctrl_handler context_segment; /* ring.c */
ctrl_handler set_request;

/* Creates a PD of s with shared's id, or with a new one if NULL. Returns 0 or ENOMEM. */
int pd_make(struct session *s, struct pd_id *shared, uint32_t *handle);

/* Returns the worker that owns q. */
static inline struct worker *
obj_qp_worker(const struct obj_qp *q)
{
	return worker_get(q->o.s->d->workers, qp_worker(q->qp));
}

/*
 * Calls workers for many QPs: each worker once for up to QP_BATCH_MAX of its QPs, because a call
 * for each QP would take too long for thousands. run gets a struct qp_batch_part. The caller sets
 * run and arg, zeroes the rest, adds the QPs, and ends the batch.
 */
#define QP_BATCH_MAX 64
struct qp_batch_part {
	struct obj_qp *q[QP_BATCH_MAX];
	unsigned n;
	const void *arg;
};
struct qp_batch {
	void (*run)(struct worker *w, void *part);
	const void *arg;
	bool begun; /* no QP moves until the end */
	struct qp_batch_part part[UROCE_MAX_WORKERS];
};
void qp_batch_add(struct qp_batch *b, struct obj_qp *q);
void qp_batch_end(struct qp_batch *b, struct daemon *d);

/* Functions of each kind (object.h); session_end.c has their order at the end of a session. */
extern const struct object_kind pd_kind, mr_kind, mw_kind, channel_kind, cq_kind, srq_kind, ah_kind,
	qp_kind;
/*
 * Called on the worker. Drops some QPs of s, all of which are hidden. The number is bounded,
 * because other QPs' traffic waits. Returns true if none is left.
 */
bool qp_forget_some(struct worker *w, struct session *s);
/* Frees the descriptors that the session keeps for regions. Called after the regions are freed. */
void mr_kept_free(struct session *s);
/* Prepares copies of the session's memory. Called once its user is known. */
void mr_copies_open(struct session *s);
/* Moves the QPs of a failed CQ to the error state (EVT-08). */
void cq_failed(struct obj_cq *cq);
/* Moves the QPs of a failed SRQ to the error state (EVT-09). */
void srq_failed(struct obj_srq *srq);

/* Releases the keys of a QP that is destroyed or reset. */
void qp_conn_keys_unref(struct obj_qp *q);

/* Publishes the MAC of neighbour ip to the QPs of dev whose paths use it. */
void qp_hop_resolved(struct device *dev, const uint8_t ip[16], const uint8_t mac[6]);

/* Publishes it to address handles, and to UD QPs that wait for one. */
void ah_hop_resolved(struct device *dev, const uint8_t ip[16], const uint8_t mac[6]);
/* Stops QPs of dev from migrating to GID index, which was removed (EVT-06). */
void qp_gid_gone(struct device *dev, uint32_t index);
/*
 * set.c: returns a bit for each GID index that a QP or an address handle of dev was created with,
 * whether or not the slot is empty now.
 */
uint64_t set_slots_in_use(const struct device *dev);
/* Removes the QP from all its groups. */
void mcast_leave(struct obj_qp *q);
/* Creates the context's table of address handles. Returns 0 or -ENOMEM. */
int ah_table_open(struct session *s);
/* Frees the table. All handles are freed. */
void ah_table_close(struct session *s);

/*
 * Unbind the windows, of all sessions, that are bound to regions which are ending or lost: windows
 * of the PDs of s, because a window has the PD of its region. Before that, the caller hides those
 * regions and waits until every worker was quiescent: no window becomes bound to one any more. Then
 * it begins a walk and calls
 *
 *   mw_hide_some    until it returns true: such windows are hidden
 *   mw_walk_again   false: there is none, and the regions may be freed; true: it waits until every
 *                   worker was quiescent again
 *   mw_unbind_some  until it returns true: they are unbound, and visible to their owners again.
 *                   Only then may a region be unmapped.
 *
 * The walk is done in slices, as object_hide_some. PDs of s stay until its end.
 */
void mw_walk_begin(struct daemon *d, struct mw_walk *walk);
bool mw_hide_some(struct session *s, struct mw_walk *walk, int *steps);
bool mw_walk_again(struct daemon *d, struct mw_walk *walk);
bool mw_unbind_some(struct session *s, struct mw_walk *walk, int *steps);
/* The same for all windows of one PD, not in slices. mw_hide_of returns true if it hid any. */
bool mw_hide_of(struct pd_id *pd);
void mw_unbind_of(struct pd_id *pd, uint64_t hidden);

/* Drops a reference (users) to the PD's id, and frees it with the last one. */
void pd_id_drop(struct daemon *d, struct pd_id *shared);

/* Gives users back the quota of regions that have been unmapped since the last call. */
void mr_debts_settle(void);

/* Removes keys and windows of regions whose memory failed (a truncated file). */
void mr_sweep_lost(struct daemon *d);

#endif
