/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of a client other than QPs, CQs and regions, as JSON. */
#include "show.h"

json_t *
show_pd(const void *obj, bool all)
{
	const struct obj_pd *p = obj;
	json_t *o = show_owned_by(p->o.s, all);

	if (!all)
		return o;
	show_set_int(o, "pd", p->id);
	show_set_int(o, "users", p->o.refs);
	show_set_int(o, "contexts", p->shared->users);
	return o;
}

json_t *
show_srq(const void *obj, bool all)
{
	uint32_t head, prod;
	const struct obj_srq *q = obj;
	json_t *o = show_owned_by(q->o.s, all);

	if (!all)
		return o;
	head = __atomic_load_n(&q->srq.head, __ATOMIC_RELAXED);
	prod = __atomic_load_n(&q->srq.rq.hdr->prod, __ATOMIC_RELAXED);
	show_set_int(o, "srq", q->o.handle);
	show_set_int(o, "pd", q->srq.pd);
	show_set_int(o, "worker", q->srq.worker);
	show_set_int(o, "entries", q->srq.rq.mask + 1);
	show_set(o, "waiting",
		 prod - head <= q->srq.rq.mask + 1 ? json_integer(prod - head) : json_null());
	show_set_int(o, "limit", __atomic_load_n(&q->srq.limit, __ATOMIC_RELAXED));
	show_set_int(o, "queues", q->o.refs);
	show_set(o, "error", json_boolean(__atomic_load_n(&q->srq.dead, __ATOMIC_RELAXED)));
	return o;
}

json_t *
show_mw(const void *obj, bool all)
{
	const struct obj_mw *m = obj;
	json_t *o = show_owned_by(m->o.s, all);
	bool bound;

	if (!all)
		return o;
	/* A worker may be binding it: the values may be from different moments. */
	bound = __atomic_load_n(&m->mr.parent, __ATOMIC_RELAXED) != NULL;
	show_set(o, "key", show_hex(__atomic_load_n(&m->mr.key, __ATOMIC_RELAXED)));
	show_set_int(o, "type", m->mr.kind == MR_WINDOW_1 ? 1 : 2);
	show_set_int(o, "pd", m->mr.pd);
	show_set(o, "bound", json_boolean(bound));
	show_set(o, "qpn",
		 bound && m->mr.kind == MR_WINDOW_2
			 ? json_integer(__atomic_load_n(&m->mr.qpn, __ATOMIC_RELAXED))
			 : json_null());
	show_set(o, "iova",
		 bound ? show_hex(__atomic_load_n(&m->mr.iova, __ATOMIC_RELAXED)) : json_null());
	show_set(o, "length",
		 bound ? json_integer((json_int_t)__atomic_load_n(&m->mr.len, __ATOMIC_RELAXED))
		       : json_null());
	show_set(o, "access",
		 bound ? show_access(__atomic_load_n(&m->mr.access, __ATOMIC_RELAXED))
		       : json_null());
	return o;
}

json_t *
show_ah(const void *obj, bool all)
{
	const struct obj_ah *h = obj;
	json_t *o = show_owned_by(h->o.s, all);

	if (!all)
		return o;
	show_set_int(o, "ah", h->o.handle);
	show_set_int(o, "pd", h->ah->pd);
	show_set_int(o, "gid_index", h->sgid_index);
	show_set(o, "local", show_gid_text(h->ah->path.sgid));
	show_set(o, "remote", show_gid_text(h->ah->path.dgid));
	show_set(o, "path",
		 json_string(h->ah->multicast  ? "multicast"
			     : h->ah->loopback ? "loopback"
			     : h->ah->path_ok  ? "wire"
					       : "unresolved"));
	return o;
}
