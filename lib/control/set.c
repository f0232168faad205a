/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of a device by an operator while programs use it: addresses, P_Keys, congestion policies
 * and probes, for urocectl. QPs keep their state. A QP that uses a removed address continues with
 * its copy of it, like on a NIC, which keeps a GID's entry until the last QP releases it. Until
 * then the index is not reused. No QP migrates to a removed address.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "cc/param.h"
#include "cli/cli.h"
#include "control/balance.h"
#include "control/cm.h"
#include "control/device.h"
#include "control/events.h"
#include "control/log.h"
#include "control/log_event.h"
#include "control/neigh.h"
#include "control/obj.h"
#include "qp/congestion.h"

/* Formats the reason and returns rc. */
static int __attribute__((format(printf, 3, 4)))
refuse(struct uroce_set_rep *rep, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(rep->error, sizeof(rep->error), fmt, ap);
	va_end(ap);
	return rc;
}

/* Returns the GID indices that a QP or an address handle was created with, empty slots included. */
uint64_t
set_slots_in_use(const struct device *dev)
{
	const struct session *s;
	const struct obj_qp *q;
	uint64_t slots = 0;

	TAILQ_FOREACH (q, &dev->qps, dev_link)
		slots |= q->gid_slots;
	TAILQ_FOREACH (s, &dev->d->sessions, link) {
		const struct obj_ah *o;
		uint32_t pos = 0;

		if (s->dev != dev)
			continue;
		while ((o = idtab_next(&s->ah_ids, &pos)) != NULL)
			slots |= 1ull << o->sgid_index;
	}
	return slots;
}

static int
refuse_addr(struct uroce_set_rep *rep, const struct device *dev, const char *addr, int rc)
{
	switch (-rc) {
	case EEXIST:
		return refuse(rep, rc, "%s: address '%s' already exists", dev->name, addr);
	case EADDRINUSE:
		return refuse(rep, rc, "%s: address '%s' is its gateway's", dev->name, addr);
	case ENOSPC:
		return refuse(rep, rc, "%s: no free GID entry: all %u are in use", dev->name,
			      UROCE_MAX_GIDS);
	case ENOENT:
		return refuse(rep, rc, "%s: address '%s' not found; see: urocectl show port",
			      dev->name, addr);
	case EPERM:
		return refuse(
			rep, rc,
			"%s: address '%s' is GID 0, derived from the MAC, and cannot be removed",
			dev->name, addr);
	case EINVAL:
		return refuse(rep, rc,
			      "'%s' is not a host address; legal: an address with "
			      "prefix length like 10.9.0.1/24 or fd00::1/64",
			      addr);
	default:
		return refuse(rep, rc, "%s: %s", dev->name, strerror(-rc));
	}
}

static int
addr_add(struct device *dev, const char *addr, struct uroce_set_rep *rep)
{
	int i, rc;

	dev->net.held = set_slots_in_use(dev);
	i = net_addr_add(&dev->net, addr);
	if (i < 0)
		return refuse_addr(rep, dev, addr, i);
	rc = device_hostif_addr(dev, &dev->net.gid[i], true);
	if (rc < 0) {
		memset(&dev->net.gid[i], 0, sizeof(dev->net.gid[i]));
		return refuse(rep, rc, "%s: the kernel refuses address '%s' for %s: %s", dev->name,
			      addr, hostif_name(dev->hostif), strerror(-rc));
	}
	rc = device_addrs_update(dev);
	if (rc < 0) {
		(void)device_hostif_addr(dev, &dev->net.gid[i], false);
		memset(&dev->net.gid[i], 0, sizeof(dev->net.gid[i]));
		return refuse_addr(rep, dev, addr, rc);
	}
	rep->index = (uint32_t)i;
	neigh_announce_one(dev, rep->index);
	events_port(dev, EVENTS_GID_CHANGE);
	return 0;
}

static int
addr_del(struct device *dev, const char *addr, struct uroce_set_rep *rep)
{
	struct net_addr before[UROCE_MAX_GIDS];
	int i;

	memcpy(before, dev->net.gid, sizeof(before));
	i = net_addr_del(&dev->net, addr);
	if (i < 0)
		return refuse_addr(rep, dev, addr, i);
	/* ignore a failure: the operator may have removed it there before */
	(void)device_hostif_addr(dev, &before[i], false);
	/* If memory is short, workers accept datagrams for it until the next change. */
	(void)device_addrs_update(dev);
	qp_gid_gone(dev, (uint32_t)i);
	ucma_address_gone(dev, before[i].gid);
	rep->index = (uint32_t)i;
	events_port(dev, EVENTS_GID_CHANGE);
	return 0;
}

static void
refresh_on_worker(struct worker *w, void *arg)
{
	struct device *dev = arg;
	struct obj_qp *q;

	TAILQ_FOREACH (q, &dev->qps, dev_link) {
		if (qp_worker(q->qp) == worker_index(w))
			qp_pkey_refresh(q->qp);
	}
}

static int
pkey_set(struct device *dev, uint32_t index, uint32_t pkey, struct uroce_set_rep *rep)
{
	if (index >= UROCE_MAX_PKEYS)
		return refuse(rep, -EINVAL, "%s: P_Key index %u is not a number from 0 to %u",
			      dev->name, index, UROCE_MAX_PKEYS - 1);
	if (pkey > 0xffff || pkey == 0x8000)
		return refuse(rep, -EINVAL,
			      "%s: P_Key %#x is not a key from 0x0001 to 0xffff other than 0x8000",
			      dev->name, pkey);
	if (pkey == 0 && index == 0)
		return refuse(rep, -EINVAL, "%s: P_Key entry 0 must have a key", dev->name);
	rep->index = index;
	if (dev->pkey[index] == pkey)
		return 0;
	__atomic_store_n(&dev->pkey[index], (uint16_t)pkey, __ATOMIC_RELAXED);
	worker_call_qps(dev->d->workers, refresh_on_worker, dev);
	events_port(dev, EVENTS_PKEY_CHANGE);
	return 0;
}

static void
cc_on_worker(struct worker *w, void *arg)
{
	struct device *dev = arg;
	struct obj_qp *q;

	TAILQ_FOREACH (q, &dev->qps, dev_link) {
		if (qp_worker(q->qp) == worker_index(w))
			qp_cc_change(&worker_engine(w)->env, q->qp, &dev->cc);
	}
}

/* Sets the device's congestion policy. QPs in use change at once, including WQEs in flight. */
static int
cc_set(struct device *dev, const char *text, struct uroce_set_rep *rep)
{
	struct cc_param p;
	char err[200];

	if (!cc_param_parse(&p, text, err, sizeof(err)) || !cc_param_fill(&p, 0, err, sizeof(err)))
		return refuse(rep, -EINVAL, "%s: %s", dev->name, err);
	dev->cc = p;
	worker_call_qps(dev->d->workers, cc_on_worker, dev);
	return 0;
}

static struct obj_qp *
qp_find(const struct device *dev, uint32_t qpn)
{
	struct obj_qp *q;

	TAILQ_FOREACH (q, &dev->qps, dev_link) {
		if (q->qp->conn.qpn == qpn)
			return q;
	}
	return NULL;
}

struct cc_call {
	struct qp *qp;
	const struct cc_param *param;
};

static void
cc_of_qp_on_worker(struct worker *w, void *arg)
{
	const struct cc_call *c = arg;

	qp_cc_change(&worker_engine(w)->env, c->qp, c->param);
}

/* Sets the policy of one QP, until that of its device is set. */
static int
cc_set_qp(struct device *dev, uint32_t qpn, const char *text, struct uroce_set_rep *rep)
{
	struct obj_qp *q = qp_find(dev, qpn);
	struct cc_param p;
	struct cc_call c = {.param = &p};
	char err[200];

	if (q == NULL)
		return refuse(rep, -ENOENT, "%s: no QP has the number %u", dev->name, qpn);
	if (q->qp->conn.type == QP_TYPE_UD)
		return refuse(rep, -EINVAL,
			      "%s: QP %u is UD; only connected QPs (RC, UC) have a congestion "
			      "policy",
			      dev->name, qpn);
	if (!cc_param_parse(&p, text, err, sizeof(err)) || !cc_param_fill(&p, 0, err, sizeof(err)))
		return refuse(rep, -EINVAL, "%s: QP %u: %s", dev->name, qpn, err);
	c.qp = q->qp;
	worker_call_qp(dev->d->workers, q->qp, cc_of_qp_on_worker, &c);
	rep->index = qpn;
	return 0;
}

struct probe_call {
	struct device *dev;
	struct qp *qp; /* NULL: all of the device */
	uint8_t plain;
	bool dry; /* of a device: only find out whether its QPs can do it */
	int rc;
};

static void
probe_on_worker(struct worker *w, void *arg)
{
	struct probe_call *c = arg;
	struct qp_env *env = &worker_engine(w)->env;
	struct obj_qp *q;

	if (c->qp != NULL) {
		c->rc = qp_loss_set_plain(env, c->qp, c->plain);
		return;
	}
	TAILQ_FOREACH (q, &c->dev->qps, dev_link) {
		if (qp_worker(q->qp) != worker_index(w))
			continue;
		if (c->dry && q->qp->conn.sr.state == QP_SR_ON)
			c->rc = -EBUSY;
		else if (!c->dry)
			(void)qp_loss_set_plain(env, q->qp, c->plain);
	}
}

/*
 * Of a device. Selective repeat needs probes: probe=off ends it for QPs to come if it is sr=auto,
 * and is refused if it is in use.
 */
static int
probe_set_device(struct device *dev, struct probe_call *c, struct uroce_set_rep *rep)
{
	bool selective = dev->sr_mode != DEVSPEC_SR_OFF && c->plain == 0;

	if (c->plain != 0 && dev->sr_mode == DEVSPEC_SR_ON)
		return refuse(
			rep, -EBUSY,
			"%s: sr=on, and selective repeat needs probes; set them of one QP, or "
			"start with sr=off",
			dev->name);
	if (c->plain != 0 && dev->sr.on) {
		c->dry = true;
		worker_call_qps(dev->d->workers, probe_on_worker, c);
		if (c->rc != 0)
			return refuse(rep, c->rc,
				      "%s: QPs of it use selective repeat, which needs probes; end "
				      "them first, or start with sr=off",
				      dev->name);
		c->dry = false;
	}
	dev->sr.on = selective;
	dev->plain = c->plain;
	worker_call_qps(dev->d->workers, probe_on_worker, c);
	return 0;
}

/* Switches probes on or off, of a device and all of its QPs, or of one QP until that is set. */
static int
probe_set(struct device *dev, uint32_t qpn, const char *text, struct uroce_set_rep *rep)
{
	struct probe_call c = {.dev = dev};
	struct obj_qp *q = NULL;

	if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
		return refuse(rep, -EINVAL, "%s: '%s' is not on or off", dev->name, text);
	c.plain = text[1] == 'f' ? QP_PLAIN_LETTER : 0;
	rep->index = qpn;
	if (qpn == 0)
		return probe_set_device(dev, &c, rep);
	q = qp_find(dev, qpn);
	if (q == NULL)
		return refuse(rep, -ENOENT, "%s: no QP has the number %u", dev->name, qpn);
	if (q->qp->conn.type != QP_TYPE_RC)
		return refuse(rep, -EINVAL, "%s: QP %u is not RC; only RC probes", dev->name, qpn);
	c.qp = q->qp;
	worker_call_qp(dev->d->workers, q->qp, probe_on_worker, &c);
	if (c.rc != 0)
		return refuse(rep, c.rc, "%s: QP %u uses selective repeat, which needs probes",
			      dev->name, qpn);
	return 0;
}

/* Moves a QP to a worker, where it stays, or lets it follow its packets. */
static int
worker_set(struct device *dev, uint32_t qpn, const char *text, struct uroce_set_rep *rep)
{
	struct obj_qp *q = qpn != 0 ? qp_find(dev, qpn) : NULL;
	bool follows = strcmp(text, "auto") == 0, pinned;
	uint64_t i = 0;
	const char *why;

	rep->index = qpn;
	if (q == NULL)
		return refuse(rep, -ENOENT, "%s: no QP has the number %u", dev->name, qpn);
	if (!follows && !cli_number(text, 0, dev->d->nworkers - 1, &i))
		return refuse(rep, -EINVAL,
			      "%s: worker '%.32s' is not auto or a number from 0 to %u", dev->name,
			      text, dev->d->nworkers - 1);
	pinned = q->qp->bind.pinned;
	__atomic_store_n(&q->qp->bind.pinned, !follows, __ATOMIC_RELAXED);
	why = follows ? NULL : worker_move_qp(dev->d->workers, q->qp, (unsigned)i);
	if (why == NULL) {
		q->balance.pinned = false;
		return 0;
	}
	__atomic_store_n(&q->qp->bind.pinned, pinned, __ATOMIC_RELAXED);
	return refuse(rep, -EBUSY, "%s: QP %u stays on worker %u: %s", dev->name, qpn,
		      qp_worker(q->qp), why);
}

static int
change(struct device *dev, const struct uroce_set_req *q, struct uroce_set_rep *rep)
{
	if (q->what == UROCE_SET_CC)
		return q->index == 0 ? cc_set(dev, q->addr, rep)
				     : cc_set_qp(dev, q->index, q->addr, rep);
	if (q->what == UROCE_SET_PROBE)
		return probe_set(dev, q->index, q->addr, rep);
	if (q->what == UROCE_SET_WORKER)
		return worker_set(dev, q->index, q->addr, rep);
	if (dev->net.host && q->what != UROCE_SET_PKEY)
		return refuse(rep, -EPERM,
			      "%s: its addresses are those of %s: `ip addr` changes them, and the "
			      "device follows",
			      dev->name, dev->port.netdev);
	switch (q->what) {
	case UROCE_SET_ADDR_ADD:
		return addr_add(dev, q->addr, rep);
	case UROCE_SET_ADDR_DEL:
		return addr_del(dev, q->addr, rep);
	default:
		return pkey_set(dev, q->index, q->pkey, rep);
	}
}

static const char *const log_levels[] = {"error", "warning", "notice", "info", "debug"};
#define NLOG_LEVELS (sizeof(log_levels) / sizeof(log_levels[0]))

/* Sets the log level. It also limits DPDK's log types, but does not raise their levels. */
static int
log_level_set(const char *name, struct uroce_set_rep *rep)
{
	uint32_t level = RTE_LOG_ERR;

	while (level - RTE_LOG_ERR < NLOG_LEVELS &&
	       strcmp(name, log_levels[level - RTE_LOG_ERR]) != 0)
		level++;
	if (level - RTE_LOG_ERR == NLOG_LEVELS)
		return refuse(rep, -EINVAL,
			      "log level '%s' is unknown; legal: error, warning, notice, info, "
			      "debug",
			      name);
	rte_log_set_global_level(level);
	rte_log_set_level(daemon_logtype, level > RTE_LOG_NOTICE ? level : RTE_LOG_NOTICE);
	return 0;
}

static int
balance_set(struct daemon *d, const char *text, struct uroce_set_rep *rep)
{
	int rc;

	if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
		return refuse(rep, -EINVAL, "balance '%.32s' is unknown; legal: on, off", text);
	if (text[1] == 'f') {
		balance_stop(d);
		return 0;
	}
	if (d->nworkers == 1)
		return refuse(rep, -EINVAL,
			      "balance needs several workers: start uroced with --workers");
	rc = balance_start(d);
	return rc == 0 ? 0 : refuse(rep, rc, "balance: %s", strerror(-rc));
}

static int
refuse_resource(struct uroce_set_rep *rep, const char *name)
{
	size_t len;

	refuse(rep, -EINVAL, "resource '%.32s' is unknown; legal:", name);
	for (unsigned k = 0; k < QUOTA_NKINDS; k++) {
		len = strlen(rep->error);
		snprintf(rep->error + len, sizeof(rep->error) - len, " %s", quota_name(k));
	}
	return -EINVAL;
}

static int
uid_quota_set(struct quota *q, const char *name, uint32_t limit, struct uroce_set_rep *rep)
{
	unsigned k = 0;

	while (k < QUOTA_NKINDS && strcmp(name, quota_name(k)) != 0)
		k++;
	if (k == QUOTA_NKINDS)
		return refuse_resource(rep, name);
	if (quota_set(q, k, limit) < 0)
		return refuse(rep, -EINVAL, "limit %u of %s is not a number from 1 to %llu%s",
			      limit, name, (unsigned long long)(q->limit[k].all / quota_unit(k)),
			      quota_unit(k) > 1 ? " MiB" : "");
	return 0;
}

/* Changes settings of the daemon. */
static int
change_daemon(struct session *s, const struct uroce_set_req *q, struct uroce_set_rep *rep)
{
	struct log_fields f = {0};

	if (!session_may_change(s))
		return EPERM;
	if (q->what == UROCE_SET_LOG_LEVEL)
		rep->done = log_level_set(q->addr, rep) == 0;
	else if (q->what == UROCE_SET_BALANCE)
		rep->done = balance_set(s->d, q->addr, rep) == 0;
	else
		rep->done = uid_quota_set(&s->d->quota, q->addr, q->pkey, rep) == 0;
	if (!rep->done)
		return 0;
	log_field_client(&f, s);
	if (q->what != UROCE_SET_QUOTA)
		log_event(RTE_LOG_NOTICE, LOG_EVENT_CHANGED, &f, "%s: %s (%s, pid %d, uid %u)",
			  q->what == UROCE_SET_BALANCE ? "balance" : "log level", q->addr, s->comm,
			  s->peer.pid, s->peer.uid);
	else
		log_event(RTE_LOG_NOTICE, LOG_EVENT_CHANGED, &f,
			  "limit of each uid: %u %s (%s, pid %d, uid %u)", q->pkey, q->addr,
			  s->comm, s->peer.pid, s->peer.uid);
	return 0;
}

static void
log_change(const struct session *s, const struct device *dev, const struct uroce_set_req *q,
	   uint32_t index)
{
	struct log_fields f = {0};
	char text[128];

	if (q->what == UROCE_SET_CC && q->index != 0)
		snprintf(text, sizeof(text), "congestion policy of QP %u: %s", q->index, q->addr);
	else if (q->what == UROCE_SET_CC)
		snprintf(text, sizeof(text), "congestion policy %s", q->addr);
	else if (q->what == UROCE_SET_PROBE && q->index != 0)
		snprintf(text, sizeof(text), "probes of QP %u: %s", q->index, q->addr);
	else if (q->what == UROCE_SET_WORKER)
		snprintf(text, sizeof(text), "worker of QP %u: %s", q->index, q->addr);
	else if (q->what == UROCE_SET_PROBE)
		snprintf(text, sizeof(text), "probes %s", q->addr);
	else if (q->what == UROCE_SET_PKEY)
		snprintf(text, sizeof(text), "P_Key entry %u: %#06x", index, q->pkey);
	else
		snprintf(text, sizeof(text), "GID %u: address %s %s", index, q->addr,
			 q->what == UROCE_SET_ADDR_ADD ? "added" : "removed");
	log_field(&f, "UROCE_DEVICE", "%s", dev->name);
	log_field_client(&f, s);
	log_event(RTE_LOG_NOTICE, LOG_EVENT_CHANGED, &f, "%s: %s (%s, pid %d, uid %u)", dev->name,
		  text, s->comm, s->peer.pid, s->peer.uid);
}

/* Returns true if a client sets the policy of a QP that it has created itself. */
static bool
is_own_qp(const struct session *s, const struct uroce_set_req *q)
{
	const struct obj_qp *own;

	if (q->what != UROCE_SET_CC || q->index == 0 || s->dev == NULL)
		return false;
	own = qp_find(s->dev, q->index);
	return own != NULL && own->o.s == s;
}

int
set_request(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_set_req *q = req->body;
	struct uroce_set_rep *rep = rp->body;
	struct device *dev;

	if (memchr(q->device, '\0', sizeof(q->device)) == NULL ||
	    memchr(q->addr, '\0', sizeof(q->addr)) == NULL)
		return EINVAL;
	if (q->what >= UROCE_SET_LOG_LEVEL && q->what <= UROCE_SET_BALANCE)
		return change_daemon(s, q, rep);
	if (q->what < UROCE_SET_ADDR_ADD || q->what > UROCE_SET_WORKER)
		return EINVAL;
	if (is_own_qp(s, q)) {
		/* Not logged: a client may do it for each connection. */
		rep->done = cc_set_qp(s->dev, q->index, q->addr, rep) == 0;
		return 0;
	}
	dev = daemon_device_named(s->d, q->device);
	if (dev == NULL)
		return ENODEV;
	if (!session_may_change(s))
		return EPERM;
	rep->done = change(dev, q, rep) == 0;
	if (rep->done)
		log_change(s, dev, q, rep->index);
	return 0;
}
