/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: the mapping of the client's memory (map/mrmap.h) and its key. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "control/log.h"
#include "control/obj.h"
#include "map/mrfill.h"
#include "map/mrkept.h"
#include "map/mrmap.h"
#include "map/page.h"
#include "map/sigbus.h"

/* Rights that have an effect; the optional ones (such as relaxed ordering) are hints. */
#define ACCESS_KNOWN                                                                               \
	(MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_MW_BIND |  \
	 MEM_ZERO_BASED)
#define ACCESS_HUGETLB  (1u << 7) /* IBV_ACCESS_HUGETLB: the kind of pages does not matter */
#define ACCESS_OPTIONAL 0x3ff00000u

/* The provider wrote this description, so the program cannot mend an error in it. */
static void
log_malformed(const struct session *s, const struct uroce_reg_mr_req *q,
	      const struct mrmap_found *found)
{
	const struct uroce_mr_piece *p = &q->piece[0];

	LOG_LIMITED(NOTICE,
		    "client %u: %s (pid %d): cannot register %" PRIu64 " bytes at 0x%" PRIx64
		    ": malformed description of the memory, noticed when it was %s: %u pieces, "
		    "the first of kind %u at 0x%" PRIx64 ", %" PRIu64 " bytes, file %u, offset "
		    "0x%" PRIx64 "; keep %u; found %u ranges in %u files",
		    s->id, s->comm, s->peer.pid, q->length, q->addr,
		    found->err != 0 ? "looked up" : "mapped", q->npieces, p->kind, p->va, p->len,
		    p->fd_index, p->fd_off, q->keep, found->err != 0 ? 0 : found->nruns,
		    found->err != 0 ? 0 : found->nfds);
}

/*
 * Logs why the memory of q cannot be registered. found: of its look-up. rc: the positive errno of
 * the refusal. Only EFAULT, EPERM and EINVAL are logged, because they say too little to the
 * program.
 */
static void
mr_log_unusable(const struct session *s, const struct uroce_reg_mr_req *q,
		const struct mrmap_found *found, int rc)
{
	const char *why;

	if (rc == EINVAL)
		log_malformed(s, q, found);
	if (rc == EFAULT)
		why = "not mapped with the rights that the access flags need, or beyond the end of "
		      "its file";
	else if (rc == EPERM)
		why = "uroced may not read this process's memory: it has another user or "
		      "capabilities that uroced lacks, cannot be dumped (PR_SET_DUMPABLE, a "
		      "set-user-id program) or may not be traced (kernel.yama.ptrace_scope)";
	else
		return;
	LOG_LIMITED(NOTICE,
		    "client %u: %s (pid %d): cannot register %" PRIu64 " bytes at 0x%" PRIx64
		    ": %s",
		    s->id, s->comm, s->peer.pid, q->length, q->addr, why);
}

static int
check_access(uint32_t access, struct ctrl_rep *rp)
{
	uint32_t unknown = access & ~(ACCESS_KNOWN | ACCESS_HUGETLB | ACCESS_OPTIONAL);

	if (unknown)
		return ctrl_refuse(rp, EOPNOTSUPP, "access 0x%x: 0x%x is not supported", access,
				   unknown);
	if ((access & (MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)) && !(access & MEM_LOCAL_WRITE))
		return ctrl_refuse(rp, EINVAL,
				   "access 0x%x: remote write and atomics also need "
				   "IBV_ACCESS_LOCAL_WRITE",
				   access);
	return 0;
}

static int
mr_check(const struct uroce_reg_mr_req *q, struct ctrl_rep *rp)
{
	if (q->npieces > UROCE_MR_MAX_PIECES || q->addr + q->length < q->addr ||
	    q->iova + q->length < q->iova)
		return ctrl_refuse(rp, EINVAL,
				   "address 0x%" PRIx64 ", iova 0x%" PRIx64 ", length %" PRIu64
				   ": the range wraps around",
				   q->addr, q->iova, q->length);
	if ((q->access & MEM_ZERO_BASED) && q->iova != 0)
		return ctrl_refuse(rp, EINVAL, "iova 0x%" PRIx64 " of a zero-based region is not 0",
				   q->iova);
	if ((q->access & MEM_REMOTE_ATOMIC) && !mr_carries_atomics(q->iova, q->addr))
		return ctrl_refuse(rp, EINVAL,
				   "address 0x%" PRIx64 " and iova 0x%" PRIx64
				   " differ modulo 8, which atomics do not allow",
				   q->addr, q->iova);
	return check_access(q->access, rp);
}

/* Fills in the region's description for workers. */
static void
mr_describe(struct obj_mr *m, const struct obj_pd *pd, const struct uroce_reg_mr_req *q)
{
	m->mr.iova = q->iova;
	m->mr.len = q->length;
	m->mr.host = mrmap_host(m->map);
	m->mr.va = q->addr;
	m->mr.ops = &mrmap_copy_ops;
	m->mr.ops_ctx = m->map;
	m->mr.pd = pd->id;
	m->mr.access = q->access & ACCESS_KNOWN;
}

/* Hides the region from workers. It keeps its key until it is freed. */
static void
mr_hide(struct obj_mr *m)
{
	mr_table_hide(&m->o.s->d->mrs, &m->mr);
}

/* Shows the region to workers again, unless its memory is lost. */
static void
mr_show(struct obj_mr *m)
{
	if (!m->lost)
		mr_table_show(&m->o.s->d->mrs, &m->mr);
}

/* Returns the bytes that a region counts: all pages it may cover, once per registration. */
static uint64_t
mr_bytes(const struct uroce_reg_mr_req *q)
{
	return page_span(q->addr, q->length, page_bytes());
}

static void
mr_cost_give(struct quota_user *u, const struct mr_cost *cost)
{
	quota_give(u, QUOTA_REG_MEM, cost->bytes);
	quota_give(u, QUOTA_FDS, cost->fds);
	quota_give(u, QUOTA_MAPS, cost->maps);
}

/* Quota that a user owes for a region that is still being unmapped. */
struct mr_debt {
	struct quota_user *user; /* a reference */
	struct mr_cost cost;
};

void
mr_debts_settle(void)
{
	struct mr_debt *debt;

	while ((debt = mrfill_unmapped()) != NULL) {
		mr_cost_give(debt->user, &debt->cost);
		debt->user->debts--;
		quota_user_put(debt->user);
		free(debt);
	}
}

static void
mr_unmap(struct session *s, struct mrmap *map, const struct mr_cost *cost)
{
	struct mr_debt *debt = map != NULL ? malloc(sizeof(*debt)) : NULL;

	if (debt != NULL) {
		*debt = (struct mr_debt){s->user, *cost};
		if (mrmap_destroy_slowly(map, debt)) {
			s->user->refs++;
			s->user->debts++;
			return;
		}
		free(debt);
	} else {
		mrmap_destroy(map);
	}
	mr_cost_give(s->user, cost);
}

/*
 * Logs a thread that still waits for the client's memory. The broker counts such threads, too
 * (copies_refused).
 */
static void
copier_stays(void *ctx)
{
	const struct session *s = ctx;

	LOG_LIMITED(NOTICE,
		    "client %u: %s (pid %d, uid %u): a thread still waits for its memory: a file "
		    "system does not answer, or the program holds its mmap_lock",
		    s->id, s->comm, s->peer.pid, s->peer.uid);
}

/* Keeps the descriptor if the client asks for it. Returns 0 or -errno. */
static int
mr_keep(struct session *s, const struct uroce_reg_mr_req *q, const struct ctrl_req *req)
{
	uint32_t slot = q->keep - 1;
	bool fresh;
	int rc;

	if (q->keep == 0)
		return 0;
	if (slot >= UROCE_MR_KEPT || req->found->keep_fd == 0)
		return -EINVAL;
	if (s->mrkept == NULL) {
		rc = quota_take(s->user, QUOTA_MAPS, MRKEPT_MAX_IDLE);
		if (rc != 0)
			return rc;
		s->mrkept = mrkept_create(qp_user_place(s->user->id));
		if (s->mrkept == NULL) {
			quota_give(s->user, QUOTA_MAPS, MRKEPT_MAX_IDLE);
			return -ENOMEM;
		}
	}
	fresh = mrkept_fd(s->mrkept, slot) < 0;
	rc = fresh ? quota_take(s->user, QUOTA_FDS, 1) : 0;
	if (rc != 0)
		return rc;
	rc = mrkept_keep(s->mrkept, slot, req->fds[req->found->keep_fd - 1]);
	if (rc != 0 && fresh)
		quota_give(s->user, QUOTA_FDS, 1);
	return rc;
}

void
mr_kept_free(struct session *s)
{
	for (uint32_t slot = 0; slot < UROCE_MR_KEPT; slot++) {
		if (mrkept_fd(s->mrkept, slot) >= 0)
			quota_give(s->user, QUOTA_FDS, 1);
	}
	if (s->mrkept != NULL)
		quota_give(s->user, QUOTA_MAPS, MRKEPT_MAX_IDLE);
	mrkept_destroy(s->mrkept);
	s->mrkept = NULL;
}

/*
 * Maps the client's memory within its user's quota. Returns 0 or a positive errno. EAGAIN: there
 * may be enough once the regions that the user deregistered, or those of ended sessions, are
 * unmapped.
 */
static int
mr_map(struct session *s, const struct uroce_reg_mr_req *q, const struct ctrl_req *req,
       struct mrmap **map, struct mr_cost *cost)
{
	int rc;

	mr_debts_settle();
	rc = quota_take(s->user, QUOTA_REG_MEM, mr_bytes(q));
	*cost = (struct mr_cost){.bytes = rc == 0 ? mr_bytes(q) : 0};
	*map = NULL;
	if (rc == 0)
		rc = req->found->err; /* a look-up that failed has not found the file to keep */
	if (rc == 0)
		rc = mr_keep(s, q, req);
	if (rc == 0)
		rc = mrmap_make(q, req->found, req->fds, s->mrkept, &s->copiers, map);
	/* counted afterwards: a region has only a few maps */
	if (rc == 0) {
		rc = quota_take(s->user, QUOTA_MAPS, mrmap_maps(*map));
		cost->maps = rc == 0 ? mrmap_maps(*map) : 0;
	}
	/* the client's /proc/PID/mem */
	if (rc == 0 && mrmap_path(*map) == UROCE_MR_PATH_COPY) {
		rc = quota_take(s->user, QUOTA_FDS, 1);
		cost->fds = rc == 0;
	}
	if (rc == 0)
		return 0;
	if (rc == -ENOMEM && (s->user->debts != 0 || !TAILQ_EMPTY(&s->d->ending)))
		rc = -EAGAIN;
	mr_unmap(s, *map, cost);
	*map = NULL;
	*cost = (struct mr_cost){0};
	return -rc;
}

/* Hides a region whose session ends. */
static void
mr_go(struct object *o)
{
	struct obj_mr *m = (struct obj_mr *)o;

	mr_hide(m);
	m->going = true;
}

/*
 * Frees the mapping. The region is hidden, no worker holds it from an earlier look-up, and no
 * window is bound to it, because a window has the address of its region and of its mapping.
 */
static void
mr_release(struct object *o)
{
	struct obj_mr *m = (struct obj_mr *)o;

	mr_table_del(&o->s->d->mrs, &m->mr);
	mr_unmap(o->s, m->map, &m->cost);
}

const struct object_kind mr_kind = {
	.table = offsetof(struct session, mrs),
	.quota = QUOTA_MRS,
	.hide = mr_go,
	.release = mr_release,
};

/* Assigns handle and key. On success the region is in use. */
static int
mr_publish(struct session *s, struct obj_pd *pd, struct obj_mr *m)
{
	if (object_add(&mr_kind, &m->o, s, pd) < 0)
		return ENOMEM;
	if (daemon_mr_add(s->d, &m->mr) < 0) {
		object_drop(&mr_kind, &m->o);
		return ENOMEM;
	}
	return 0;
}

int
mr_reg(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_reg_mr_req *q = req->body;
	struct uroce_reg_mr_rep *rep = rp->body;
	struct obj_pd *pd = idtab_get(&s->pds, q->pd);
	struct obj_mr *m;
	int rc = mr_check(q, rp);

	if (rc != 0)
		return rc;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return ENOMEM;
	if (pd == NULL) {
		rc = ENOENT;
		goto fail;
	}
	rc = mr_map(s, q, req, &m->map, &m->cost);
	if (rc != 0) {
		mr_log_unusable(s, q, req->found, rc);
		goto fail;
	}
	mr_describe(m, pd, q);
	rc = mr_publish(s, pd, m);
	if (rc != 0)
		goto fail;
	rep->handle = m->o.handle;
	rep->lkey = rep->rkey = m->mr.key;
	rep->path = (uint32_t)mrmap_path(m->map);
	return 0;

fail:
	mr_unmap(s, m->map, &m->cost);
	free(m);
	return rc;
}

#define REREG_TRANSLATION 1 /* enum ibv_rereg_mr_flags */
#define REREG_PD          2
#define REREG_ACCESS      4

/*
 * Changes a region that is out of the table and puts it back (MEM-04). It keeps its key, because
 * peers have it.
 */
static void
mr_change(struct obj_mr *m, struct obj_pd *pd, const struct uroce_reg_mr_req *q, struct mrmap *map,
	  const struct mr_cost *cost)
{
	m->o.pd->o.refs--;
	pd->o.refs++;
	m->o.pd = pd;
	m->mr.pd = pd->id;
	if (map != NULL) {
		mr_unmap(m->o.s, m->map, &m->cost);
		m->map = map;
		m->cost = *cost;
		mr_describe(m, pd, q);
		m->lost = false;
	}
	mr_show(m);
}

/*
 * Changes translation, PD or access. A change of translation or access also describes the memory,
 * because access rights decide how it is mapped. A failed request changes nothing.
 */
int
mr_rereg(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_rereg_mr_req *q = req->body;
	struct uroce_reg_mr_rep *rep = rp->body;
	struct obj_mr *m = idtab_get(&s->mrs, q->handle);
	struct obj_pd *pd = m != NULL ? m->o.pd : NULL;
	struct mrmap *map = NULL;
	struct mr_cost cost = {0};
	int rc = 0;

	if (m == NULL)
		return ENOENT;
	if (q->flags == 0 || (q->flags & ~(REREG_TRANSLATION | REREG_PD | REREG_ACCESS)))
		return ctrl_refuse(rp, EINVAL, "flags 0x%x: none, or unknown ones", q->flags);
	if (q->flags & REREG_PD) {
		pd = idtab_get(&s->pds, q->reg.pd);
		if (pd == NULL)
			return ENOENT;
	}
	if (q->flags & (REREG_TRANSLATION | REREG_ACCESS)) {
		rc = mr_check(&q->reg, rp);
		if (rc != 0)
			return rc;
		rc = mr_map(s, &q->reg, req, &map, &cost);
		if (rc != 0) {
			mr_log_unusable(s, &q->reg, req->found, rc);
			return rc;
		}
	}
	mr_hide(m);
	worker_wait_readers(s->d->workers);
	if (__atomic_load_n(&m->mr.windows, __ATOMIC_RELAXED) != 0 ||
	    mrmap_unsettled(m->map) != 0) {
		mr_show(m);
		mr_unmap(s, map, &cost);
		return EBUSY;
	}
	mr_change(m, pd, &q->reg, map, &cost);
	rep->handle = m->o.handle;
	rep->lkey = rep->rkey = m->mr.key;
	rep->path = (uint32_t)mrmap_path(m->map);
	return 0;
}

/*
 * Puts a region back into use when no copy is outstanding in its address space, or the client gets
 * an error.
 */
static int
mr_keep_in_use(struct obj_mr *m, int rc)
{
	m->settled = false;
	mr_show(m);
	return rc;
}

/*
 * Has the broker wait for an abandoned copy that may still store into m's address space (MEM-03).
 * The request then returns to mr_dereg. Returns false if there is no such copy.
 */
static bool
mr_settle(struct obj_mr *m)
{
	static struct ipc_msg msg; /* too large for a stack; there is only one control thread */
	uint64_t mem = mrmap_path(m->map) == UROCE_MR_PATH_COPY ? mrmap_unsettled(m->map) : 0;
	const struct uroce_handle h = {.handle = m->o.handle};

	if (mem == 0)
		return false;
	msg.hdr = m->o.s->later.hdr;
	memcpy(msg.body, &h, sizeof(h));
	m->settled = broker_settle(m->o.s, &msg, mem) == 0;
	return m->settled;
}

/* Continues when the region is hidden and no worker holds it from an earlier look-up. */
static int
mr_dereg_end(struct obj_mr *m)
{
	/* A bind that was in progress on a worker has completed by now. */
	if (__atomic_load_n(&m->mr.windows, __ATOMIC_RELAXED) != 0)
		return mr_keep_in_use(m, EBUSY);
	if (mr_settle(m))
		return CTRL_LATER;
	object_free(&mr_kind, &m->o);
	return 0;
}

static void
on_mr_unused(struct defer *df)
{
	struct obj_mr *m = WATCH_OF(df, struct obj_mr, o.defer);
	struct session *s = m->o.s;
	int rc = mr_dereg_end(m);

	if (rc != CTRL_LATER)
		session_answer_later(s, rc, NULL);
	else
		s->later.defer = NULL; /* the broker continues the request */
}

int
mr_dereg(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct obj_mr *m = idtab_get(&s->mrs, h->handle);

	if (m == NULL)
		return ENOENT;
	if (m->settled && req->found->err != 0)
		return mr_keep_in_use(m, -req->found->err);
	if (m->settled) {
		object_free(&mr_kind, &m->o);
		return 0;
	}
	if (__atomic_load_n(&m->mr.windows, __ATOMIC_RELAXED) != 0)
		return EBUSY;
	mr_hide(m);
	m->o.defer = (struct defer){.then = on_mr_unused};
	if (!defer_begin(s->d, &m->o.defer)) {
		s->later.defer = &m->o.defer;
		return CTRL_LATER;
	}
	return mr_dereg_end(m);
}

void
mr_copies_open(struct session *s)
{
	s->copiers = (struct mrmap_copiers){.credit = &s->user->copies,
					    .owner = qp_user_place(s->user->id),
					    .serve = broker_copy,
					    .stays = copier_stays,
					    .ctx = s};
}

/* Regions whose memory is gone because their client has truncated or unmapped it (MEM-04). */

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

/* Ends a context whose rings the client no longer shares; nothing in it would work again. */
static void
end_without_rings(struct session *s)
{
	if (!ipc_segment_failed(&s->doorbells) && !ipc_arena_failed(s->arena))
		return;
	LOG_LIMITED(NOTICE, "client %u: the memory of its rings is gone; its context ends", s->id);
	shutdown(s->w.fd, SHUT_RDWR); /* the loop notices */
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
		if (s->state != IPC_STATE_CONTEXT)
			continue;
		end_without_rings(s);
		any |= session_sweep_lost(s);
	}
	if (!any)
		return;
	d->lost = (struct defer){.then = on_lost_hidden};
	if (defer_begin(d, &d->lost))
		on_lost_hidden(&d->lost);
}
