/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection manager as JSON: its ids, and its counters. */
#include "control/cm.h"
#include "control/cm_parts.h"
#include "show.h"

#define NS_PER_MS 1000000u

/* "10.9.0.1:7471" or "[fd00::1]:7471"; a wildcard in the notation of its family. */
static json_t *
address_text(const struct cma_addr *a)
{
	static const uint8_t zero[16];
	char text[64] = "0.0.0.0";

	if (a->family == CMA_NO_ADDR)
		return json_null();
	if (a->family != CMA_IPV4 || memcmp(a->gid, zero, 16) != 0)
		net_gid_to_text(a->gid, text, sizeof(text));
	return json_sprintf(strchr(text, ':') != NULL ? "[%s]:%u" : "%s:%u", text, a->port);
}

static const char *
space_name(uint16_t space)
{
	switch (space) {
	case WIRE_CM_PS_TCP:
		return "TCP";
	case WIRE_CM_PS_UDP:
		return "UDP";
	default:
		return "IB";
	}
}

static json_t *
device_text(const struct cm_service *svc, uint16_t port)
{
	const struct device *dev = port != CM_DEV_ANY ? daemon_device(svc->d, port) : NULL;

	return dev != NULL ? json_string(dev->name) : json_null();
}

static void
put_ece(json_t *o, const struct cm_ece *ece)
{
	show_set_int(o, "ece_vendor", ece->vendor_id);
	show_set_int(o, "ece_options", ece->options);
}

void
show_cm_ece(json_t *o, const struct session *s, uint32_t qpn)
{
	const struct cm_service *svc = s->d->ucma;
	struct cm_info c = {0};

	if (svc != NULL)
		cm_info_of_qpn(cma_cm(svc->cma), s->dev->port.id, qpn, &c);
	put_ece(o, &c.ece);
}

/* Adds the connection of an id. all: including the fields that only its user may see. */
static void
put_connection(json_t *o, const struct cm_service *svc, const struct cm_info *c, bool all)
{
	uint64_t now_ns = daemon_now_ns();

	show_set(o, "connection", json_string(cm_state_name[c->state]));
	show_set_int(o, "age_ms",
		     c->made_ns != 0 ? (int64_t)((now_ns - c->made_ns) / NS_PER_MS) : 0);
	show_set_int(o, "retries_left", c->retries_left);
	if (c->state == CM_LISTEN) {
		show_set_int(o, "backlog", c->backlog);
		show_set_int(o, "pending", c->pending);
	}
	if (!all)
		return;
	show_set_int(o, "comm_id", c->id);
	show_set_int(o, "remote_comm_id", c->remote_id);
	show_set_int(o, "qpn", c->local_qpn);
	show_set_int(o, "remote_qpn", c->remote_qpn);
	put_ece(o, &c->ece);
}

/* Another user's id is shown as ss(8) shows a socket: addresses and states. */
static void
put_id(json_t *out, const struct cm_service *svc, const struct cma_info *i,
       const struct session *to)
{
	const struct quota_user *user = i->payer;
	const struct ucma_channel *ch = i->user;
	bool all =
		(ch != NULL && quota_who(to->user, to->peer.uid) == quota_who(ch->user, ch->uid)) ||
		to->user->privileged;
	struct cm_info c = {0};
	json_t *o = json_object();

	json_array_append_new(out, o);
	if (all) {
		show_set_int(o, "id", i->id);
		show_set(o, "pid", ch != NULL ? json_integer(ch->pid) : json_null());
		show_set(o, "program", ch != NULL ? json_string(ch->comm) : json_null());
		show_set_int(o, "events", i->waiting);
	}
	show_set_int(o, "uid", ch != NULL ? ch->uid : user->uid);
	show_set(o, "device", device_text(svc, i->dev));
	show_set(o, "space", json_string(space_name(i->space)));
	show_set(o, "state", json_string(cma_state_name[i->state]));
	show_set(o, "local", address_text(&i->src));
	show_set(o, "remote", i->state == CMA_LISTEN ? json_null() : address_text(&i->dst));
	if (i->cm != 0 && cm_info_get(cma_cm(svc->cma), i->cm, &c) == 0)
		put_connection(o, svc, &c, all);
}

/* Adds connections whose ids the programs have destroyed. They end by themselves. */
static void
put_orphan(json_t *out, const struct cm_service *svc, const struct cm_info *c,
	   const struct session *to)
{
	json_t *o = json_object();

	json_array_append_new(out, o);
	show_set(o, "device", device_text(svc, c->addr.dev));
	show_set(o, "state", json_string("destroyed"));
	show_set(o, "local", show_gid_text(c->addr.local));
	show_set(o, "remote", show_gid_text(c->addr.remote));
	put_connection(o, svc, c, to->user->privileged);
}

/* In a page, ids are client 1, and connections whose ids the programs have destroyed client 2. */
#define PAGE_IDS     1
#define PAGE_ORPHANS 2

void
show_cm(const struct session *to, struct show_page *page, json_t *out)
{
	const struct cm_service *svc = to->d->ucma;
	uint32_t pos = page->pos, at, id;
	struct cma_info i;
	struct cm_info c;

	if (svc == NULL)
		return;
	for (at = pos; page->client <= PAGE_IDS && cma_next(svc->cma, &pos, &i); at = pos) {
		if (!show_page_take(page, PAGE_IDS, at))
			return;
		put_id(out, svc, &i, to);
	}
	pos = page->client == PAGE_ORPHANS ? page->pos : 0;
	for (at = pos; (id = cm_next_id(cma_cm(svc->cma), &pos)) != 0; at = pos) {
		if (cm_info_get(cma_cm(svc->cma), id, &c) < 0 || !c.orphan)
			continue;
		if (!show_page_take(page, PAGE_ORPHANS, at))
			return;
		put_orphan(out, svc, &c, to);
	}
}

static void
put_named(json_t *o, const char *prefix, const char *name, uint64_t value)
{
	char key[64];

	snprintf(key, sizeof(key), "%s_%s", prefix, name);
	show_set_int(o, key, (int64_t)value);
}

/* Adds the counters as one row, as for a device. */
void
show_cm_stats(const struct session *to, json_t *out)
{
	const struct cm_service *svc = to->d->ucma;
	const struct cm_counters *n;
	json_t *row, *o;

	if (svc == NULL)
		return;
	n = cm_counters(cma_cm(svc->cma));
	row = json_object();
	o = json_object();
	json_array_append_new(out, row);
	show_set(row, "device", json_string("all"));
	show_set(row, "total", o);
	show_set_int(o, "ids", cm_nids(cma_cm(svc->cma)));
	for (unsigned i = 0; i < WIRE_CM_NATTRS; i++)
		put_named(o, "tx", wire_cm_attr_name[i], n->tx[i]);
	for (unsigned i = 0; i < WIRE_CM_NATTRS; i++)
		put_named(o, "rx", wire_cm_attr_name[i], n->rx[i]);
	for (unsigned i = 0; i < CM_NDROPS; i++)
		put_named(o, "drop", cm_drop_name[i], n->dropped[i]);
	for (unsigned i = 1; i < CM_NEVENTS; i++)
		put_named(o, "event", cm_event_name[i], n->events[i]);
	show_set_int(o, "duplicates", (int64_t)n->duplicates);
	show_set_int(o, "retries", (int64_t)n->retries);
	show_set_int(o, "no_listener", (int64_t)n->no_listener);
	show_set_int(o, "over_backlog", (int64_t)n->over_backlog);
	show_set_int(o, "over_peer", (int64_t)n->over_peer);
	show_set_int(o, "over_ids", (int64_t)n->over_ids);
	show_set_int(o, "evicted", (int64_t)n->evicted);
	show_set_int(o, "stale", (int64_t)n->stale);
	show_set_int(o, "tx_waited", (int64_t)svc->counters.held);
	show_set_int(o, "tx_after_wait", (int64_t)svc->counters.resent);
	show_set_int(o, "tx_unreachable", (int64_t)svc->counters.unreachable);
}
