/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's state as JSON, for urocectl: an object with one key, the topic, whose value is an
 * array. Values that workers own are read while workers change them: each is valid, but they are
 * not all of the same instant.
 */
#include "show.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static json_t *
mac_text(const uint8_t m[6])
{
	return json_sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
}

/* "0250:56ff:fe00:0001" */
static json_t *
guid_text(uint64_t guid)
{
	const uint8_t *b = (const uint8_t *)&guid; /* in network order */

	return json_sprintf("%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4],
			    b[5], b[6], b[7]);
}

static json_t *
of_device(const struct device *dev)
{
	json_t *o = json_object();

	show_set(o, "device", json_string(dev->name));
	return o;
}

static void
show_device(const struct device *dev, json_t *out)
{
	json_t *o = of_device(dev);
	const struct session *s;
	int gids = 0, clients = 0;

	for (unsigned g = 0; g < UROCE_MAX_GIDS; g++)
		gids += dev->net.gid[g].used;
	TAILQ_FOREACH (s, &dev->d->sessions, link)
		clients += s->dev == dev;
	show_set(o, "node_guid", guid_text(device_guid(dev)));
	show_set(o, "port", json_string(dev->port.name));
	show_set(o, "mac", mac_text(dev->port.mac));
	show_set(o, "link", json_string(dev->port.link_up ? "up" : "down"));
	show_set_int(o, "path_mtu", 128 << dev->max_mtu);
	show_set_int(o, "vlan", dev->net.vlan_tci);
	show_set(o, "probe", json_string(dev->plain & QP_PLAIN_TIMERS ? "off" : "on"));
	show_set_int(o, "gids", gids);
	show_set_int(o, "clients", clients);
	json_array_append_new(out, o);
}

static json_t *
port_gids(const struct device *dev)
{
	json_t *gids = json_array();

	for (unsigned g = 0; g < UROCE_MAX_GIDS; g++) {
		const struct net_addr *a = &dev->net.gid[g];
		json_t *o;

		if (!a->used)
			continue;
		o = json_object();
		show_set_int(o, "index", g);
		show_set(o, "gid", show_gid_text(a->gid));
		show_set_int(o, "prefix", a->plen);
		json_array_append_new(gids, o);
	}
	return gids;
}

static json_t *
port_pkeys(const struct device *dev)
{
	json_t *pkeys = json_array();

	for (unsigned i = 0; i < UROCE_MAX_PKEYS; i++) {
		json_t *o;

		if (dev->pkey[i] == 0)
			continue;
		o = json_object();
		show_set_int(o, "index", i);
		show_set(o, "pkey", json_sprintf("0x%04x", dev->pkey[i]));
		show_set(o, "member", json_string(dev->pkey[i] & 0x8000 ? "full" : "limited"));
		json_array_append_new(pkeys, o);
	}
	return pkeys;
}

/* Names what wakes a sleeping worker when a frame arrives. */
static const char *
rx_wake(const struct port *p)
{
	if (p->rx_fd != 0)
		return "port";
	return p->inward ? "own" : "timer";
}

/* Returns what the receive buffer of a port's first socket holds, in the kernel's count. */
static int
rx_buffer(const struct port *p)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	if (getsockopt(port_rx_fd(p, 0), SOL_SOCKET, SO_RCVBUF, &bytes, &len) < 0)
		return 0;
	return bytes;
}

/* Returns the counters of a port on kernel sockets, in addition to the worker's. */
static json_t *
socket_stats(const struct port_udp_stats *s, const struct port *p)
{
	json_t *o = json_object();

	show_set_int(o, "tx_messages", s->tx_messages);
	show_set_int(o, "rx_messages", s->rx_messages);
	show_set_int(o, "tx_lost", s->tx_lost);
	show_set_int(o, "rx_copied", s->rx_copied);
	show_set_int(o, "rx_truncated", s->rx_truncated);
	show_set_int(o, "rx_too_long", s->rx_too_long);
	show_set_int(o, "rx_too_many", s->rx_too_many);
	show_set_int(o, "rx_malformed", s->rx_malformed);
	show_set_int(o, "rx_no_buffer", s->rx_no_buffer);
	show_set_int(o, "rx_errors", s->rx_errors);
	show_set_int(o, "rx_socket_full", s->rx_socket_full);
	show_set_int(o, "rx_buffer_bytes", rx_buffer(p));
	return o;
}

/* Describes the kernel interface of a device (lib/hostif). */
static json_t *
hostif(const struct hostif *h)
{
	const struct hostif_stats *s = hostif_stats(h);
	json_t *o = json_object();

	show_set(o, "name", json_string(hostif_name(h)));
	show_set_int(o, "to_kernel", s->to_kernel);
	show_set_int(o, "to_kernel_lost", s->to_kernel_lost);
	show_set_int(o, "from_kernel", s->from_kernel);
	show_set_int(o, "from_kernel_lost", s->from_kernel_lost);
	show_set_int(o, "super_frames", s->super_frames);
	show_set_int(o, "merged", s->merged);
	return o;
}

static void
show_port(const struct device *dev, json_t *out)
{
	const struct port_udp_stats *packet = port_packet_stats(&dev->port);
	struct port_udp_stats udp;
	const struct port *p = &dev->port;
	json_t *o = of_device(dev);

	show_set(o, "port", json_string(p->name));
	show_set(o, "driver", json_string(p->driver));
	show_set(o, "netdev", json_string(p->netdev));
	show_set_int(o, "netdev_index", p->netdev[0] != '\0' ? if_nametoindex(p->netdev) : 0);
	show_set_int(o, "id", p->id);
	show_set(o, "link", json_string(p->link_up ? "up" : "down"));
	show_set(o, "mac", mac_text(p->mac));
	show_set_int(o, "link_mtu", p->link_mtu);
	show_set_int(o, "rx_queues", p->nrxq);
	show_set_int(o, "tx_queues", p->ntxq);
	show_set(o, "rx_wake", json_string(rx_wake(p)));
	if (p->caps.known)
		show_set(o, "capabilities", show_caps(&p->caps));
	if (port_udp_stats(p, &udp))
		show_set(o, "udp", socket_stats(&udp, p));
	if (packet != NULL)
		show_set(o, "packet", socket_stats(packet, p));
	if (dev->hostif != NULL)
		show_set(o, "hostif", hostif(dev->hostif));
	show_set(o, "gids", port_gids(dev));
	show_set(o, "pkeys", port_pkeys(dev));
	json_array_append_new(out, o);
}

static void
show_gid(const struct device *dev, json_t *out)
{
	for (unsigned g = 0; g < UROCE_MAX_GIDS; g++) {
		const struct net_addr *a = &dev->net.gid[g];
		json_t *o;

		if (!a->used)
			continue;
		o = of_device(dev);
		show_set_int(o, "index", g);
		show_set(o, "gid", show_gid_text(a->gid));
		show_set_int(o, "prefix", a->plen);
		show_set(o, "type", json_string("RoCEv2"));
		json_array_append_new(out, o);
	}
}

static void
show_neigh(const struct device *dev, json_t *out)
{
	for (unsigned n = 0; n < NET_MAX_NEIGH; n++) {
		const struct net_neigh *e = &dev->net.neigh[n];
		bool known = e->state == NET_NEIGH_KNOWN;
		json_t *o;

		if (e->state == NET_NEIGH_FREE)
			continue;
		o = of_device(dev);
		show_set(o, "address", show_gid_text(e->ip));
		show_set(o, "mac", known ? mac_text(e->mac) : json_string(""));
		show_set(o, "state", json_string(known ? "known" : "asking"));
		show_set_int(o, "asked", e->requests);
		json_array_append_new(out, o);
	}
}

/* Add the counters of one worker to the totals. */
static json_t *
counters_json(const uint64_t *value, const char *const *name, unsigned n, uint64_t *sum)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < n; i++) {
		uint64_t v = counters_read(&value[i]);

		show_set_int(o, name[i], (int64_t)v);
		if (sum != NULL)
			sum[i] += v;
	}
	return o;
}

static void
show_counters(const struct device *dev, json_t *out, bool drops)
{
	const char *const *name = drops ? drop_reason_name : counter_name;
	unsigned n = drops ? DROP_NUM : COUNTER_NUM;
	uint64_t sum[COUNTER_NUM + DROP_NUM] = {0};
	const struct counter_block *control = worker_control_obs(dev->d->workers, dev->port.id);
	json_t *o = of_device(dev), *workers = json_array();

	for (uint32_t w = 0; w < dev->d->nworkers; w++) {
		const struct counter_block *b =
			worker_counters(worker_get(dev->d->workers, w), dev->port.id);

		json_array_append_new(workers,
				      counters_json(drops ? b->drop : b->ctr, name, n, sum));
	}
	for (unsigned i = 0; i < n; i++)
		sum[i] += drops ? control->drop[i] : control->ctr[i];
	show_set(o, "total", counters_json(sum, name, n, NULL));
	show_set(o, "workers", workers);
	json_array_append_new(out, o);
}

static void
show_stats(const struct device *dev, json_t *out)
{
	show_counters(dev, out, false);
}

static void
show_drops(const struct device *dev, json_t *out)
{
	show_counters(dev, out, true);
}

static json_t *
show_client(const struct session *s, bool all)
{
	json_t *o = json_object();

	show_set_int(o, "client", s->id);
	show_set_int(o, "uid", s->peer.uid);
	show_set(o, "device", json_string(s->dev->name));
	if (!all)
		return o;
	show_set(o, "program", json_string(s->comm));
	show_set_int(o, "pid", s->peer.pid);
	show_set_int(o, "own_pid", s->client_pid);
	show_set_int(o, "qps", s->qps.used);
	show_set_int(o, "cqs", s->cqs.used);
	show_set_int(o, "mrs", s->mrs.used);
	show_set_int(o, "pds", s->pds.used);
	show_set_int(o, "channels", s->channels.used);
	show_set_int(o, "ring_bytes", (int64_t)ipc_arena_bytes(s->arena));
	show_set(o, "huge", json_boolean(ipc_arena_huge(s->arena)));
	show_set_int(o, "events_lost", (int64_t)s->async.lost);
	show_set_int(o, "paused_ms",
		     (int64_t)(worker_paused_ns(s->d->workers, qp_user_place(s->user->id)) /
			       1000000));
	return o;
}

/* A topic has one of these functions; "trace" has none, because it takes an argument. */
struct topic {
	const char *what;
	void (*device)(const struct device *dev, json_t *out);
	void (*daemon)(const struct session *to, json_t *out);
	/* objects of clients: a row of each, and the offset of their table in the session */
	json_t *(*row)(const void *obj, bool all);
	size_t table;
	json_t *(*client)(const struct session *s, bool all); /* a row of each client */
	/* what `to` may see, from page on */
	void (*paged)(const struct session *to, struct show_page *page, json_t *out);
};
#define OBJECTS(name, fn, member)                                                                  \
	{                                                                                          \
		.what = name, .row = fn, .table = offsetof(struct session, member)                 \
	}
static const struct topic topics[] = {
	{"device", .device = show_device},
	{"port", .device = show_port},
	{"gid", .device = show_gid},
	{"neigh", .device = show_neigh},
	{"stats", .device = show_stats},
	{"drops", .device = show_drops},
	{"client", .client = show_client},
	OBJECTS("cq", show_cq, cqs),
	OBJECTS("mr", show_mr, mrs),
	OBJECTS("qp", show_qp, qps),
	OBJECTS("pd", show_pd, pds),
	OBJECTS("srq", show_srq, srqs),
	OBJECTS("mw", show_mw, mws),
	OBJECTS("ah", show_ah, ah_ids),
	{"quota", .daemon = show_quota},
	{"worker", .daemon = show_workers},
	{"daemon", .daemon = show_daemon},
	{"config", .daemon = show_config},
	{"cm", .paged = show_cm},
	{"cm_stats", .daemon = show_cm_stats},
	{"trace"},
};
#define NTOPICS (sizeof(topics) / sizeof(topics[0]))

static const struct topic *
topic_find(const char *what)
{
	for (size_t t = 0; t < NTOPICS; t++) {
		if (strcmp(topics[t].what, what) == 0)
			return &topics[t];
	}
	return NULL;
}

static bool
is_qp(const void *obj, int64_t qpn)
{
	return ((const struct obj_qp *)obj)->qp->conn.qpn == qpn;
}

/*
 * Adds the rows of a client's objects that fit. qpn: only that QP, which other users cannot look
 * up; -1: all.
 */
static void
add_objects(const struct session *s, const struct topic *t, bool all, int64_t qpn,
	    struct show_page *page, json_t *out)
{
	const struct idtab *table = (const void *)((const uint8_t *)s + t->table);
	uint32_t pos = s->id == page->client ? page->pos : 0;
	const void *obj;

	while ((obj = idtab_next(table, &pos)) != NULL) {
		if (qpn >= 0 && !(all && is_qp(obj, qpn)))
			continue;
		if (!show_page_take(page, s->id, pos - 1))
			return;
		json_array_append_new(out, t->row(obj, all));
	}
}

/* Adds the rows of clients, and of their objects, that fit. asker NULL: as root sees them. */
static void
add_clients(const struct daemon *d, const struct session *asker, const struct topic *t, int64_t qpn,
	    struct show_page *page, json_t *out)
{
	const struct session *s;

	TAILQ_FOREACH (s, &d->sessions, link) { /* in the order of their numbers */
		bool all = asker == NULL || session_may_see(asker, s);

		if (s->state != IPC_STATE_CONTEXT || s->id < page->client)
			continue;
		if (t->row != NULL)
			add_objects(s, t, all, qpn, page, out);
		else if (show_page_take(page, s->id, 0))
			json_array_append_new(out, t->client(s, all));
		if (page->full)
			return;
	}
}

/* Makes the JSON of a topic. Returns NULL if the topic does not exist. */
static json_t *
topic_json(const struct session *asker, const struct uroce_show_req *req, struct show_page *page)
{
	const struct topic *t = topic_find(req->what);
	int64_t arg = req->has_arg ? (int64_t)req->arg : -1;
	struct daemon *d = asker->d;
	json_t *out, *all;

	if (t == NULL)
		return NULL;
	all = json_object();
	out = json_array();
	show_set(all, req->what, out);
	if (t->daemon != NULL)
		t->daemon(asker, out);
	else if (t->paged != NULL)
		t->paged(asker, page, out);
	else if (t->row != NULL || t->client != NULL)
		add_clients(d, asker, t, arg, page, out);
	else if (t->device == NULL)
		show_traces(asker, arg, page, out);
	for (uint32_t i = 0; t->device != NULL && i < d->ndevs; i++)
		t->device(d->dev[i], out);
	return all;
}

json_t *
show_all(struct daemon *d, const char *what, int64_t arg)
{
	struct show_page page = {.left = UINT32_MAX};
	json_t *all = json_object(), *out = json_array();
	const struct topic *t = topic_find(what);

	show_set(all, what, out);
	for (uint32_t i = 0; t != NULL && t->device != NULL && i < d->ndevs; i++)
		t->device(d->dev[i], out);
	if (t != NULL && (t->row != NULL || t->client != NULL))
		add_clients(d, NULL, t, arg, &page, out);
	return all;
}

/* Returns a sealed memfd that holds text, or -errno. */
static int
text_fd(const char *text, size_t len)
{
	int fd = memfd_create("uroce-show", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int rc;

	if (fd < 0)
		return -errno;
	if (write(fd, text, len) == (ssize_t)len &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
		return fd;
	rc = errno != 0 ? -errno : -EIO;
	close(fd);
	return rc;
}

int
show_send(json_t *all, struct ctrl_rep *rep, uint64_t *bytes)
{
	char *text = json_dumps(all, JSON_COMPACT);
	int fd;

	json_decref(all);
	if (text == NULL)
		return ENOMEM;
	*bytes = strlen(text);
	fd = text_fd(text, *bytes);
	free(text);
	if (fd < 0)
		return -fd;
	ctrl_rep_fd(rep, fd, true);
	return 0;
}

int
show_request(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_show_req *q = req->body;
	struct show_page page = {q->from_client, q->from_pos, SHOW_ROWS};
	struct uroce_show_rep *rep = rp->body;
	json_t *all;

	if (memchr(q->what, '\0', sizeof(q->what)) == NULL)
		return EINVAL;
	all = topic_json(s, q, &page);
	if (page.full) {
		rep->next_client = page.client;
		rep->next_pos = page.pos;
	}
	return all == NULL ? ENOENT : show_send(all, rp, &rep->bytes);
}
