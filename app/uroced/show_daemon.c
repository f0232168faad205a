/* SPDX-License-Identifier: BSD-3-Clause */
/* State of the daemon itself as JSON: limits of users, workers, options. */
#include "show.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <rte_log.h>
#include "options.h"
#include "privilege.h"
#include "sandbox.h"

#define OPTION_TEXT 4096

static const struct options *options;

static void
put_quota(const struct quota_user *u, enum quota_kind k, json_t *out)
{
	const struct quota *q = u->quota;
	json_t *o = json_object();

	show_set_int(o, "uid", u->uid);
	show_set(o, "resource", json_string(quota_name(k)));
	show_set(o, "unit", json_string(quota_unit(k) == 1 ? "objects" : "bytes"));
	show_set_int(o, "used", (int64_t)u->used[k]);
	show_set_int(o, "limit", (int64_t)quota_max(u, k));
	show_set_int(o, "all_used", (int64_t)q->used_all[k]);
	show_set_int(o, "all_limit", (int64_t)q->limit[k].all);
	show_set(o, "option", json_string(quota_option(k)));
	json_array_append_new(out, o);
}

void
show_quota(const struct session *to, json_t *out)
{
	const struct quota_user *u = NULL;

	while ((u = quota_user_next(&to->d->quota, u)) != NULL) {
		if (u != to->user && !to->user->privileged)
			continue;
		for (unsigned k = 0; k < QUOTA_NKINDS; k++)
			put_quota(u, k, out);
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
			qps[q->qp->bind.worker]++;
	}
}

/* Returns the sum of a counter over the devices of a worker. */
static int64_t
sum_of(const struct daemon *d, struct worker *w, enum counter c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < d->ndevs; i++)
		sum += counters_read(&worker_counters(w, d->dev[i]->port.id)->ctr[c]);
	return (int64_t)sum;
}

void
show_workers(const struct session *to, json_t *out)
{
	const struct daemon *d = to->d;
	int64_t qps[UROCE_MAX_WORKERS] = {0};

	count_qps(d, qps);
	for (uint32_t i = 0; i < d->nworkers; i++) {
		struct worker *w = worker_get(d->workers, i);
		struct worker_usage u;
		json_t *o = json_object();

		worker_usage_get(w, &u);
		show_set_int(o, "worker", i);
		show_set_int(o, "lcore", u.lcore);
		show_set(o, "state", json_string(u.asleep ? "asleep" : "running"));
		show_set_int(o, "busy_ns", (int64_t)u.busy_ns);
		show_set_int(o, "idle_ns", (int64_t)u.idle_ns);
		show_set_int(o, "qps", qps[i]);
		show_set_int(o, "rx_frames", sum_of(d, w, COUNTER_RX_FRAMES));
		show_set_int(o, "rx_bytes", sum_of(d, w, COUNTER_RX_BYTES));
		show_set_int(o, "tx_frames", sum_of(d, w, COUNTER_TX_FRAMES));
		show_set_int(o, "tx_bytes", sum_of(d, w, COUNTER_TX_BYTES));
		show_set_int(o, "doorbells", sum_of(d, w, COUNTER_DOORBELLS));
		json_array_append_new(out, o);
	}
}

/* Returns the names of a set of capabilities, joined by spaces. */
static json_t *
names_of(uint64_t caps)
{
	char text[1024] = "";

	for (unsigned i = 0; privilege_name(i) != NULL; i++) {
		if (!(caps >> i & 1))
			continue;
		if (text[0] != '\0')
			strcat(text, " ");
		strcat(text, privilege_name(i));
	}
	return json_string(text);
}

static int64_t
limit_of(int resource)
{
	struct rlimit r;

	return getrlimit(resource, &r) == 0 && r.rlim_cur != RLIM_INFINITY ? (int64_t)r.rlim_cur
									   : -1;
}

void
show_daemon(const struct session *to, json_t *out)
{
	uint64_t effective, permitted, broker = privilege_of_process(to->d->broker.pid);
	json_t *o = json_object();

	privilege_get(&effective, &permitted);

	show_set(o, "version", json_string(UROCE_VERSION));
	show_set_int(o, "pid", getpid());
	show_set_int(o, "uid", geteuid());
	show_set_int(o, "broker_pid", to->d->broker.pid);
	show_set(o, "pages", json_string(to->d->huge ? "huge" : "ordinary"));
	show_set(o, "reads_any_user", json_boolean(broker >> CAP_SYS_PTRACE & 1));
	show_set(o, "maps_any_file",
		 json_boolean((broker >> CAP_SYS_ADMIN | broker >> CAP_CHECKPOINT_RESTORE) & 1));
	show_set(o, "capabilities", names_of(effective));
	show_set(o, "broker_capabilities", names_of(broker & privilege_of_broker()));
	show_set(o, "sandbox", json_string(sandbox_mode()));
	show_set_int(o, "refused_calls", (int64_t)sandbox_refused());
	show_set_int(o, "open_files", limit_of(RLIMIT_NOFILE));
	show_set_int(o, "memlock_bytes", limit_of(RLIMIT_MEMLOCK));
	json_array_append_new(out, o);
}

void
show_config_of(const struct options *o)
{
	options = o;
}

void
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
	for (unsigned i = 0; options_get(&now, i, &name, &def, value, sizeof(value)); i++) {
		json_t *o = json_object();

		show_set(o, "option", json_string(name));
		show_set(o, "value", json_string(value));
		show_set(o, "default", def != NULL ? json_string(def) : json_null());
		json_array_append_new(out, o);
	}
}
