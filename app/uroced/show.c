/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's state as JSON, for urocectl: an object with one key, the topic, whose value is an
 * array. The fields of the rows are those of fields.h. Values that workers own are read while
 * workers change them: each is valid, but they are not all of the same instant.
 */
#include "show.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include "control/cm.h"
#include "control/cm_parts.h"
#include "control/fault_log.h"
#include "control/qp_history.h"
#include "drivers/impair/impair.h"
#include "map/mrmap.h"
#include "options.h"
#include "port/port.h"
#include "privilege.h"
#include "qp/deadline.h"
#include "qp/migrate.h"
#include "sandbox.h"
#include "wire/timer.h"

#define NS_PER_MS        1000000
#define OPTION_TEXT      4096

#define TOPIC(name, ...) static json_t *row_##name(bool all, __VA_ARGS__);
#define GROUP            TOPIC
#include "fields.h"

/* --- values of fields. Texts are valid until the next one is made. */

static const char *__attribute__((format(printf, 1, 2))) text_of(const char *fmt, ...)
{
	static char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return text;
}

static const char *
mac_text(const uint8_t m[6])
{
	return text_of("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
}

/* "0250:56ff:fe00:0001" */
static const char *
guid_text(uint64_t guid)
{
	const uint8_t *b = (const uint8_t *)&guid; /* in network order */

	return text_of("%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5],
		       b[6], b[7]);
}

/* "10.9.0.1" or "fd00::1"; NULL: not an address. */
static const char *
gid_text(const uint8_t gid[16])
{
	char text[64];

	return net_gid_to_text(gid, text, sizeof(text)) < 0 ? NULL : text_of("%s", text);
}

/* "local_write,remote_read" */
static const char *
access_text(uint32_t access)
{
	return text_of("%s%s%s%s%s%s", "local_read", access & MEM_LOCAL_WRITE ? ",local_write" : "",
		       access & MEM_REMOTE_READ ? ",remote_read" : "",
		       access & MEM_REMOTE_WRITE ? ",remote_write" : "",
		       access & MEM_REMOTE_ATOMIC ? ",remote_atomic" : "",
		       access & MEM_MW_BIND ? ",mw_bind" : "");
}

/* The destination of a path. */
static const char *
path_kind(bool loopback, bool path_ok)
{
	return loopback ? "loopback" : path_ok ? "wire" : "unresolved";
}

static const char *const qp_type_name[] = {
	[QP_TYPE_RC] = "RC", [QP_TYPE_UC] = "UC", [QP_TYPE_UD] = "UD"};
static const char *const sr_state[] = {
	[QP_SR_OFF] = "off", [QP_SR_CAN] = "not agreed", [QP_SR_ON] = "on"};
static const char *const mr_path[] = {[UROCE_MR_PATH_COPY] = "copy",
				      [UROCE_MR_PATH_ADOPTED] = "adopted",
				      [UROCE_MR_PATH_SHARED] = "shared"};

static unsigned
count_gids(const struct device *dev)
{
	unsigned n = 0;

	for (unsigned g = 0; g < UROCE_MAX_GIDS; g++)
		n += dev->net.gid[g].used;
	return n;
}

static unsigned
count_clients(const struct device *dev)
{
	const struct session *s;
	unsigned n = 0;

	TAILQ_FOREACH (s, &dev->d->sessions, link)
		n += s->dev == dev;
	return n;
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

/* Returns the counters of a port of this kind, else NULL. */
static json_t *
socket_part(const struct port *p, enum port_kind kind)
{
	struct port_socket_stats s;

	return p->kind == kind && port_socket_stats(p, &s) ? row_socket(true, &s, p) : NULL;
}

static json_t *
port_gids(const struct device *dev)
{
	json_t *gids = json_array();

	for (unsigned i = 0; i < UROCE_MAX_GIDS; i++) {
		if (dev->net.gid[i].used)
			json_array_append_new(gids, row_port_gid(true, i, &dev->net.gid[i]));
	}
	return gids;
}

static json_t *
port_pkeys(const struct device *dev)
{
	json_t *pkeys = json_array();

	for (unsigned i = 0; i < UROCE_MAX_PKEYS; i++) {
		if (dev->pkey[i] != 0)
			json_array_append_new(pkeys, row_pkey(true, i, dev->pkey[i]));
	}
	return pkeys;
}

static const struct {
	uint64_t bits;
	const char *name;
} rss_types[] = {
	{RTE_ETH_RSS_IPV4, "ipv4"},
	{RTE_ETH_RSS_FRAG_IPV4, "ipv4-frag"},
	{RTE_ETH_RSS_NONFRAG_IPV4_TCP, "ipv4-tcp"},
	{RTE_ETH_RSS_NONFRAG_IPV4_UDP, "ipv4-udp"},
	{RTE_ETH_RSS_NONFRAG_IPV4_OTHER, "ipv4-other"},
	{RTE_ETH_RSS_IPV6, "ipv6"},
	{RTE_ETH_RSS_FRAG_IPV6, "ipv6-frag"},
	{RTE_ETH_RSS_NONFRAG_IPV6_TCP, "ipv6-tcp"},
	{RTE_ETH_RSS_NONFRAG_IPV6_UDP, "ipv6-udp"},
	{RTE_ETH_RSS_NONFRAG_IPV6_OTHER, "ipv6-other"},
	{RTE_ETH_RSS_L2_PAYLOAD, "l2-payload"},
	{RTE_ETH_RSS_VXLAN, "vxlan"},
	{RTE_ETH_RSS_C_VLAN, "c-vlan"},
	{RTE_ETH_RSS_S_VLAN, "s-vlan"},
};

static json_t *
offloads(uint64_t set, const char *(*name)(uint64_t))
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < 64; i++) {
		if (set >> i & 1)
			json_array_append_new(list, json_string(name(UINT64_C(1) << i)));
	}
	return list;
}

static json_t *
rss_names(uint64_t set)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(rss_types) / sizeof(rss_types[0]); i++) {
		if (set & rss_types[i].bits)
			json_array_append_new(list, json_string(rss_types[i].name));
	}
	return list;
}

static const char *
flow_rule(const struct port_caps *c)
{
	if (c->flow_rule == 0)
		return "yes";
	if (c->flow_rule == -ENOSYS)
		return "no";
	return *c->flow_why ? c->flow_why : strerror(-c->flow_rule);
}

/* Returns how many WQEs of a queue the client has posted and the daemon has not retired. */
static int64_t
queue_depth(const struct qp_ring *ring, uint32_t tail)
{
	int64_t n = ring->hdr != NULL ? (uint32_t)(ring->hdr->prod - tail) : 0;

	return n <= (int64_t)ring->mask + 1 ? n : -1;
}

/* Returns the sum of a counter over the devices of worker i. */
static int64_t
sum_of(const struct daemon *d, unsigned i, enum counter c)
{
	struct worker *w = worker_get(d->workers, i);
	uint64_t sum = 0;

	for (uint32_t k = 0; k < d->ndevs; k++)
		sum += counters_read(&worker_counters(w, d->dev[k]->port.id)->ctr[c]);
	return (int64_t)sum;
}

/* Returns the names of a set of capabilities, joined by spaces. */
static const char *
capability_names(uint64_t caps)
{
	static char text[1024];

	text[0] = '\0';
	for (unsigned i = 0; privilege_name(i) != NULL; i++) {
		if (!(caps >> i & 1))
			continue;
		if (text[0] != '\0')
			strcat(text, " ");
		strcat(text, privilege_name(i));
	}
	return text;
}

static int64_t
limit_of(int resource)
{
	struct rlimit r;

	return getrlimit(resource, &r) == 0 && r.rlim_cur != RLIM_INFINITY ? (int64_t)r.rlim_cur
									   : -1;
}

/* "10.9.0.1:7471" or "[fd00::1]:7471"; a wildcard in the notation of its family. */
static const char *
address_text(const struct cma_addr *a)
{
	static const uint8_t zero[16];
	char text[64] = "0.0.0.0";

	if (a->family == CMA_NO_ADDR)
		return NULL;
	if (a->family != CMA_IPV4 || memcmp(a->gid, zero, 16) != 0)
		net_gid_to_text(a->gid, text, sizeof(text));
	return strchr(text, ':') != NULL ? text_of("[%s]:%u", text, a->port)
					 : text_of("%s:%u", text, a->port);
}

static const char *
space_name(uint16_t space)
{
	return space == WIRE_CM_PS_TCP ? "TCP" : space == WIRE_CM_PS_UDP ? "UDP" : "IB";
}

static const char *
device_name(const struct cm_service *svc, uint16_t port)
{
	const struct device *dev = port != CM_DEV_ANY ? daemon_device(svc->d, port) : NULL;

	return dev != NULL ? dev->name : NULL;
}

static json_t *
records_json(const struct qp_recorder *r)
{
	const struct qp_record *order[QP_RECORDS];
	uint32_t n = trace_order(r, order);
	json_t *out = json_array();

	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(out, row_record(true, order[i]));
	return out;
}

static json_t *
impair_rules(const struct impair_show *s, bool on)
{
	json_t *rules = json_array();

	for (uint32_t i = 0; on && i < s->nrules; i++)
		json_array_append_new(rules, row_rule(true, s->rule[i].matched, s->rule[i].acted));
	return rules;
}

/* --- the rows: a function for each topic and part */

static void
set(json_t *o, const char *name, json_t *value)
{
	json_object_set_new(o, name, value);
}

#define TOPIC(name, ...)                                                                           \
	static json_t *row_##name(bool all, __VA_ARGS__)                                           \
	{                                                                                          \
		json_t *o = json_object();
#define GROUP TOPIC
#define END                                                                                        \
	return o;                                                                                  \
	}
#define ALL
#define OWN                              if (all)
#define IF(cond)                         if (cond) {
#define FI                               }
#define UINT(name, who, unit, doc, ...)  who set(o, name, json_integer((json_int_t)(__VA_ARGS__)));
#define INT                              UINT
#define REAL(name, who, unit, doc, ...)  who set(o, name, json_real(__VA_ARGS__));
#define BOOL(name, who, doc, ...)        who set(o, name, json_boolean(__VA_ARGS__));
#define TEXT(name, who, doc, ...)        who set(o, name, json_string(__VA_ARGS__));
#define WORD(name, who, words, doc, ...) TEXT(name, who, doc, __VA_ARGS__)
#define HEX(name, who, doc, ...)         who set(o, name, json_sprintf(__VA_ARGS__));
#define TEXTS(name, who, doc, ...)       who set(o, name, __VA_ARGS__);
#define LIST(name, who, group, doc, ...) TEXTS(name, who, doc, __VA_ARGS__)
#define PART(name, who, group, doc, ...) LIST(name, who, group, doc, __VA_ARGS__) /* NULL: none */
#define HEX_NULL(name, who, doc, cond, ...)                                                        \
	who set(o, name, cond ? json_sprintf(__VA_ARGS__) : json_null());
#define UINT_NULL(name, who, unit, doc, ...)  who set(o, name, uint_or_null(__VA_ARGS__));
#define TEXT_NULL(name, who, doc, ...)        who set(o, name, text_or_null(__VA_ARGS__));
#define WORD_NULL(name, who, words, doc, ...) TEXT_NULL(name, who, doc, __VA_ARGS__)

static json_t *
uint_or_null(int64_t v)
{
	return v >= 0 ? json_integer(v) : json_null();
}

static json_t *
text_or_null(const char *text)
{
	return text != NULL ? json_string(text) : json_null();
}

_Static_assert(WIRE_CM_NATTRS == 11 && CM_NDROPS == 12 && CM_NEVENTS == 12,
	       "fields.h has a row for each of them");
#include "fields.h"
#undef ALL
#undef OWN

/* --- topics */

static void
show_device(const struct device *dev, json_t *out)
{
	json_array_append_new(out, row_device(true, dev));
}

static void
show_port(const struct device *dev, json_t *out)
{
	json_array_append_new(out, row_port(true, dev, &dev->port));
}

static void
show_gid(const struct device *dev, json_t *out)
{
	for (unsigned i = 0; i < UROCE_MAX_GIDS; i++) {
		if (dev->net.gid[i].used)
			json_array_append_new(out, row_gid(true, dev, i, &dev->net.gid[i]));
	}
}

static void
show_neigh(const struct device *dev, json_t *out)
{
	for (unsigned n = 0; n < NET_MAX_NEIGH; n++) {
		if (dev->net.neigh[n].state != NET_NEIGH_FREE)
			json_array_append_new(out, row_neigh(true, dev, &dev->net.neigh[n]));
	}
}

/* Add the counters of one worker to the totals. */
static json_t *
counters_json(const uint64_t *value, const char *const *name, unsigned n, uint64_t *sum)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < n; i++) {
		uint64_t v = counters_read(&value[i]);

		set(o, name[i], json_integer((json_int_t)v));
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
	json_t *o = json_object(), *workers = json_array();

	for (uint32_t w = 0; w < dev->d->nworkers; w++) {
		const struct counter_block *b =
			worker_counters(worker_get(dev->d->workers, w), dev->port.id);

		json_array_append_new(workers,
				      counters_json(drops ? b->drop : b->ctr, name, n, sum));
	}
	for (unsigned i = 0; i < n; i++)
		sum[i] += drops ? control->drop[i] : control->ctr[i];
	set(o, "device", json_string(dev->name));
	set(o, "total", counters_json(sum, name, n, NULL));
	set(o, "workers", workers);
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

#define OBJECT_ROW(name)                                                                           \
	static json_t *show_##name(const void *obj, bool all)                                      \
	{                                                                                          \
		return row_##name(all, obj);                                                       \
	}
OBJECT_ROW(cq)
OBJECT_ROW(mr)
OBJECT_ROW(pd)
OBJECT_ROW(srq)
OBJECT_ROW(ah)

static json_t *
show_mw(const void *obj, bool all)
{
	const struct obj_mw *m = obj;

	return row_mw(all, m, __atomic_load_n(&m->mr.parent, __ATOMIC_RELAXED) != NULL);
}

static json_t *
show_qp(const void *obj, bool all)
{
	/* large, and there is one control thread */
	static struct qp copy;
	static struct qp_recorder recorder;
	const struct obj_qp *q = obj;
	const struct cm_service *svc = q->o.s->d->ucma;
	const struct cc_ops *ops;
	struct cc_view view = {0};
	struct cm_info c = {0};

	qp_history_copy(&copy, q->qp);
	if (all) {
		trace_epoch_set();
		qp_recorder_copy(&recorder, q->qp->bind.recorder);
		ops = cc_policies[copy.conn.cc_flow.param.policy];
		if (ops->view != NULL)
			ops->view(&copy.conn.snd.cc, &copy.conn.cc_flow, &view);
		if (svc != NULL)
			cm_info_of_qpn(cma_cm(svc->cma), q->o.s->dev->port.id, copy.conn.qpn, &c);
	}
	return row_qp(all, q, &copy, &view, &c.ece, &recorder.fault);
}

static void
show_quota(const struct session *to, json_t *out)
{
	const struct quota_user *u = NULL;

	while ((u = quota_user_next(&to->d->quota, u)) != NULL) {
		if (u != to->user && !to->user->privileged)
			continue;
		for (unsigned k = 0; k < QUOTA_NKINDS; k++)
			json_array_append_new(out, row_quota(true, u, k));
	}
}

/* Counts the QPs of each worker. */
static void
count_qps(const struct daemon *d, int64_t qps[UROCE_MAX_WORKERS])
{
	const struct session *s;
	const struct obj_qp *q;
	uint32_t pos;

	TAILQ_FOREACH (s, &d->sessions, link) {
		if (s->state != IPC_STATE_CONTEXT)
			continue;
		for (pos = 0; (q = idtab_next(&s->qps, &pos)) != NULL;)
			qps[qp_worker(q->qp)]++;
	}
}

static void
show_workers(const struct session *to, json_t *out)
{
	const struct daemon *d = to->d;
	int64_t qps[UROCE_MAX_WORKERS] = {0};
	struct worker_usage u;

	count_qps(d, qps);
	for (uint32_t i = 0; i < d->nworkers; i++) {
		worker_usage_get(worker_get(d->workers, i), &u);
		json_array_append_new(out, row_worker(true, d, i, &u, qps[i]));
	}
}

static void
show_daemon(const struct session *to, json_t *out)
{
	uint64_t effective, permitted;

	privilege_get(&effective, &permitted);
	json_array_append_new(out, row_daemon(true, to->d, effective,
					      privilege_of_process(to->d->broker.pid)));
}

static const struct options *options;

void
show_config_of(const struct options *o)
{
	options = o;
}

static void
show_config(const struct session *to, json_t *out)
{
	static char value[OPTION_TEXT]; /* large, and there is one control thread */
	const char *name, *def;
	struct options now;

	if (options == NULL)
		return;
	now = *options;
	/* urocectl set log-level changes it */
	now.log_level = rte_log_get_global_level();
	now.control.socket = to->d->cfg->socket;
	for (unsigned i = 0; options_get(&now, i, &name, &def, value, sizeof(value)); i++)
		json_array_append_new(out, row_config(true, name, def, value));
}

/* In a page, ids are client 1, and connections whose ids the programs have destroyed client 2. */
#define PAGE_IDS     1
#define PAGE_ORPHANS 2

/* Another user's id is shown as ss(8) shows a socket: addresses and states. */
static void
show_cm(const struct session *to, struct show_page *page, json_t *out)
{
	const struct cm_service *svc = to->d->ucma;
	uint32_t pos = page->pos, at, id;
	struct cma_info i;
	struct cm_info c;

	if (svc == NULL)
		return;
	for (at = pos; page->client <= PAGE_IDS && cma_next(svc->cma, &pos, &i); at = pos) {
		const struct ucma_channel *ch = i.user;
		bool all = (ch != NULL &&
			    quota_who(to->user, to->peer.uid) == quota_who(ch->user, ch->uid)) ||
			   to->user->privileged;
		bool connection = i.cm != 0 && cm_info_get(cma_cm(svc->cma), i.cm, &c) == 0;

		if (!show_page_take(page, PAGE_IDS, at))
			return;
		json_array_append_new(out, row_cm(all, svc, &i, ch, connection ? &c : NULL));
	}
	pos = page->client == PAGE_ORPHANS ? page->pos : 0;
	for (at = pos; (id = cm_next_id(cma_cm(svc->cma), &pos)) != 0; at = pos) {
		if (cm_info_get(cma_cm(svc->cma), id, &c) < 0 || !c.orphan)
			continue;
		if (!show_page_take(page, PAGE_ORPHANS, at))
			return;
		json_array_append_new(out, row_cm(to->user->privileged, svc, NULL, NULL, &c));
	}
}

/* Adds the counters as one row, as for a device. */
static void
show_cm_stats(const struct session *to, json_t *out)
{
	const struct cm_service *svc = to->d->ucma;
	json_t *o;

	if (svc == NULL)
		return;
	o = json_object();
	set(o, "device", json_string("all"));
	set(o, "total", row_cm_stats_counters(true, svc, cm_counters(cma_cm(svc->cma))));
	json_array_append_new(out, o);
}

/*
 * The QPs that asker may see, including destroyed ones. qpn: a QP's number for that QP with its
 * recorder; -1 for all QPs, each with its owner and last fault only.
 */
static void
show_traces(const struct session *asker, int64_t qpn, struct show_page *page, json_t *out)
{
	static struct past_qp now; /* large, and there is one control thread */
	const struct past_qp *old;
	const struct obj_qp *q;
	const struct session *s;
	uint32_t pos = 0;

	trace_epoch_set();
	/* The first page has all of these, however many they are: at most QP_HISTORY. */
	while (page->client == 0 && (old = qp_history_next(&asker->d->kept, &pos)) != NULL) {
		if ((qpn < 0 || old->qpn == qpn) &&
		    (old->who == quota_who(asker->user, asker->peer.uid) ||
		     asker->user->privileged))
			json_array_append_new(out, row_trace(true, old, qpn >= 0));
	}
	TAILQ_FOREACH (s, &asker->d->sessions, link) {
		if (s->state != IPC_STATE_CONTEXT || s->id < page->client ||
		    !session_may_see(asker, s))
			continue;
		pos = s->id == page->client ? page->pos : 0;
		while ((q = idtab_next(&s->qps, &pos)) != NULL) {
			if (qpn >= 0 && q->qp->conn.qpn != qpn)
				continue;
			if (!show_page_take(page, s->id, pos - 1))
				return;
			qp_history_look(q, &now);
			json_array_append_new(out, row_trace(true, &now, qpn >= 0));
		}
	}
}

json_t *
show_impair(const struct device *dev)
{
	struct impair_show s;
	bool on = impair_show(dev->port.id, &s) == 0;

	return json_pack("{s:[o]}", "impair", row_impair(true, dev->name, &s, on));
}

/* A topic has one of these functions; "trace" has none, because it takes an argument. */
struct topic {
	const char *what;
	void (*device)(const struct device *dev, json_t *out);
	void (*daemon)(const struct session *to, json_t *out);
	/* objects of clients: a row of each, and the offset of their table in the session */
	json_t *(*row)(const void *obj, bool all);
	size_t table;
	bool clients; /* a row of each client */
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
	{"client", .clients = true},
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

/* Is obj, of this topic, the QP with this number? No object of another topic is. */
static bool
is_qp(const struct topic *t, const void *obj, int64_t qpn)
{
	return t->row == show_qp && ((const struct obj_qp *)obj)->qp->conn.qpn == qpn;
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
		if (qpn >= 0 && !(all && is_qp(t, obj, qpn)))
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
			json_array_append_new(out, row_client(all, s));
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
	set(all, req->what, out);
	if (t->daemon != NULL)
		t->daemon(asker, out);
	else if (t->paged != NULL)
		t->paged(asker, page, out);
	else if (t->row != NULL || t->clients)
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

	set(all, what, out);
	for (uint32_t i = 0; t != NULL && t->device != NULL && i < d->ndevs; i++)
		t->device(d->dev[i], out);
	if (t != NULL && (t->row != NULL || t->clients))
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
